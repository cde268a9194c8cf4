"""A simplified participant, for measuring a coordinator: without what a coordinator cannot see.

Its keys, choices and secrets are those of the real participant with the same randomness, and so are
the sizes of its messages. But it sends shares in the clear, its evidence is zero, it checks
nothing, and it masks only with those who will fall silent: the coordinator removes these masks and
its own, and all others would cancel. Nobody's data may go through it. Letters as in participant.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhdmm.aggregation.group import Element
from dhdmm.aggregation.identity import KEY_BYTES, Identity
from dhdmm.aggregation.lists import RecordTable, Slots, dtype_of
from dhdmm.aggregation.masks import Sign
from dhdmm.aggregation.modulus import Vector
from dhdmm.aggregation.randomness import Randomness
from dhdmm.secagg import keys, shamir
from dhdmm.secagg import messages as m
from dhdmm.secagg.channels import keys_statement
from dhdmm.secagg.graph import sample_out_neighbours
from dhdmm.secagg.keys import EVIDENCE_BYTES, SEAL_OVERHEAD, Endpoint, KeyPair
from dhdmm.secagg.messages import Direction, ShareKind
from dhdmm.secagg.round import RoundParameters, session_under_root


class SimplifiedParticipant:
    """`begin`, then `answer` every message; `gone` are those who will send no input."""

    def __init__(
        self,
        parameters: RoundParameters,
        identity: Identity,
        position: int,
        randomness: Randomness,
        gone: Collection[int],
    ) -> None:
        self._parameters, self._identity, self._position = parameters, identity, position
        self._randomness, self._gone = randomness, gone
        self._session, self._chosen = parameters.session, list[int]()

    def begin(self) -> bytes:
        self._masking = KeyPair.from_secret(self._randomness(KEY_BYTES))
        channel = KeyPair.from_secret(self._randomness(KEY_BYTES))
        session, i, public = self._session, self._position, (self._masking.public, channel.public)
        if not self._parameters.malicious:
            return m.Keys(session, i, *public).encode()
        signature = self._identity.sign(keys_statement(session, i, *public))
        return m.SignedKeys(session, i, *public, signature).encode()

    def answer(self, data: bytes, vector: Callable[[], Vector]) -> bytes:
        """To the coordinator's message; the input, residues in Z_m, is asked for when it is due."""
        message = m.decode(data)
        match message:
            case m.Root():
                answer = self._choose(message.root)
            case m.Neighbours() | m.ProvenNeighbours():
                assert isinstance(message.neighbours, RecordTable)
                answer = self._share(message.neighbours.columns)
            case m.RelayedShares():
                answer = self._mask(message, vector())
            case m.EvidencedSurvivors():
                self._alive = message.alive.array()[self._senders]
                acks = int(np.count_nonzero(self._alive))
                answer = m.Acks(self._session, self._position, _zeros(acks))
            case m.Survivors():
                self._alive = message.alive.array()[self._senders]
                answer = self._reveal()
            case _:
                answer = self._reveal()
        return answer.encode()

    def _choose(self, root: bytes) -> m.Message:
        self._session = session_under_root(self._session, root)
        n, k, i = self._parameters.participants, self._parameters.degree, self._position
        self._chosen = sample_out_neighbours(i, n, k, self._randomness).tolist()
        return m.Choice(self._session, i, tuple(self._chosen))

    def _share(self, told: NDArray[Any]) -> m.Message:
        """Step 3, in the clear."""
        signed, both = self._parameters.malicious, np.full(len(told), Direction.BOTH)
        ways, mask_keys = (told["f1"], told["f2"]) if signed else (both, told["f1"])
        self._neighbours = told["f0"].astype(np.int64)
        self._inward = (ways & Direction.IN) != 0
        self._mask_keys = {
            j: key.tobytes()
            for j, key in zip(self._neighbours.tolist(), mask_keys, strict=True)
            if j in self._gone
        }
        holders = self._chosen or self._neighbours.tolist()
        self._seed = self._randomness(shamir.SECRET_BYTES)
        secrets, t = [self._seed, self._masking.secret], self._parameters.threshold
        shares = shamir.split(secrets, t, holders, self._randomness)
        pairs = dict(zip(holders, map(bytes.__add__, *shares), strict=True))
        out = self._neighbours[(ways & Direction.OUT) != 0].tolist()
        sent = b"".join([pairs[j] + bytes(SEAL_OVERHEAD) for j in out])
        commitment = keys.seed_commitment(self._seed, self._session, self._position)
        return m.Shares(self._session, self._position, commitment, Slots(sent, m.CIPHERTEXT_BYTES))

    def _mask(self, message: m.RelayedShares, vector: Vector) -> m.Message:
        """Step 4, with the masks that will not cancel."""
        shared, session, i = message.shared.array(), self._session, self._position
        assert isinstance(message.ciphertexts, Slots)
        self._senders, self._held = self._neighbours[shared & self._inward], message.ciphertexts
        own = Endpoint(i, self._masking.public)
        leaving = [j for j in self._neighbours[shared].tolist() if j in self._mask_keys]
        seeds: list[tuple[bytes, Sign]] = [(keys.self_mask_seed(self._seed, session, i), 1)]
        for j in leaving:
            other = Endpoint(j, self._mask_keys[j])
            agreed = self._masking.agree(other.public)
            seed = keys.pairwise_mask_seed(agreed, session, own, other)
            seeds.append((seed, 1 if j > i else -1))
        group, element = self._parameters.group, Element(vector)
        group.add_masks(element, seeds)
        packed = group.pack(element)
        if not self._parameters.malicious:
            return m.MaskedInput(session, i, packed)
        evidence = _zeros(int(np.count_nonzero(shared)))
        return m.EvidencedInput(session, i, packed, message.shared, evidence)

    def _reveal(self) -> m.Message:
        """Step 6: of what was sent in the clear, one half."""
        reveals = np.zeros(len(self._senders), dtype_of(m.REVEALS.layout.format))
        half = np.dtype(f"V{shamir.SHARE_BYTES}")
        held = np.frombuffer(
            self._held.data,
            np.dtype([("seed", half), ("key", half), ("seal", f"V{SEAL_OVERHEAD}")]),
        )
        reveals["f0"] = self._senders
        reveals["f1"] = np.where(self._alive, ShareKind.SEED, ShareKind.MASK_KEY)
        reveals["f2"] = np.where(self._alive, held["seed"], held["key"])
        return m.Unmask(self._session, self._position, m.REVEALS.table(reveals.tobytes()))


def _zeros(count: int) -> Slots:
    """Evidence that no participant would accept; a coordinator cannot verify it."""
    return Slots(bytes(EVIDENCE_BYTES * count), EVIDENCE_BYTES)
