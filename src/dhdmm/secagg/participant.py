"""A participant of one round, as a state machine that receives and answers messages.

The methods follow the steps of docs/secure-aggregation.md. Nothing leaves before it is journalled.
Letters: i is the participant itself, j a neighbour; b_i its seed, sk¹ and sk² its secret keys,
M_i the neighbours it masks with, y_i its masked input.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from dhdmm.aggregation.errors import AbortReason, LocalProtocolError, RemoteProtocolError
from dhdmm.aggregation.identity import KEY_BYTES, signature_holds
from dhdmm.secagg import messages as m
from dhdmm.secagg.channels import Neighbour, keys_statement
from dhdmm.secagg.graph import sample_out_neighbours
from dhdmm.secagg.keys import Label
from dhdmm.secagg.messages import Direction
from dhdmm.secagg.states import Local
from dhdmm.secagg.steps import IN, OUT, Steps, bitmap_hash

NEIGHBOUR_LIMIT = 4  # times the degree: more than any honest graph has (E6 of docs/parameters.md)


class Participant(Steps):
    """One participant, one session, once.

    `begin` gives the first message; `receive` takes the coordinator's and gives the answers;
    when `state` is READY_FOR_INPUT the caller pays for the input and hands it to `give_input`.
    An answer may be an `Aborted` message; then `abort_reason` says why. A message that is not of
    this session or phase raises `RemoteProtocolError` and changes nothing.
    """

    def computed(self) -> bytes:
        """The keys of the channels, in the neighbourhood's order: secrets, for `reuse`."""
        memory = self._memory
        return b"".join(self._channels.agreed(memory.neighbours)) if memory.channel_secret else b""

    def reuse(self, computed: bytes) -> None:
        """Take these keys, after a resumption, instead of agreeing again."""
        memory, starts = self._memory, range(0, len(computed), KEY_BYTES)
        if memory.mask_secret:
            self._mask_keys  # noqa: B018 - cached from now on
        if memory.channel_secret and computed:
            agreed = [computed[start : start + KEY_BYTES] for start in starts]
            self._channels.reuse(memory.neighbours, agreed)

    # Events

    def begin(self) -> bytes:
        """Step 1 or 2: fresh keys. They are signed in the malicious model."""
        following = self._state_after(Local.BEGIN)
        if self._journal.read() is not None:
            raise LocalProtocolError("this session has begun before: resume it")
        memory = self._memory
        memory.mask_secret = self._randomness(KEY_BYTES)
        memory.channel_secret = self._randomness(KEY_BYTES)
        session, i = self.parameters.session, self.position
        public = self._mask_keys.public, self._channel_keys.public
        if self._identity is None or not self.parameters.malicious:
            return self._send(m.Keys(session, i, *public), following)
        memory.signature = self._identity.sign(keys_statement(session, i, *public))
        return self._send(m.SignedKeys(session, i, *public, memory.signature), following)

    def give_input(self, vector: NDArray[Any], scalar: int = 0) -> bytes:
        """Step 4: the input, residues in Z_m, leaves as y_i. It must be paid for beforehand."""
        following = self._state_after(Local.INPUT)
        group, i = self.parameters.group, self.position
        masked = group.pack(self._masked(group.element(vector, scalar)))
        self._forget_masks()
        if not self.parameters.malicious:
            return self._send(m.MaskedInput(self._session, i, masked), following)
        included = self._memory.included
        evidence = tuple(
            [self._channels.evidence_for(Label.INCLUDED, j) for j in self._where(included)]
        )
        message = m.EvidencedInput(self._session, i, masked, included, evidence)
        return self._send(message, following)

    def _act(self, message: m.Message) -> m.Message | None:
        match message:
            case m.Root():
                return self._on_root(message)
            case m.Neighbours():
                return self._on_neighbours(message)
            case m.ProvenNeighbours():
                return self._on_proven_neighbours(message)
            case m.RelayedShares():
                self._on_relayed_shares(message)
                return None
            case m.EvidencedSurvivors():
                return self._on_evidenced_survivors(message)
            case m.Survivors():
                return self._on_survivors(message)
            case m.RelayedAcks():
                return self._on_relayed_acks(message)
        raise LocalProtocolError(f"the table has a step for {message!r}, this machine has none")

    # The semi-honest protocol

    def _on_neighbours(self, message: m.Neighbours) -> m.Message:
        """Step 3: draw b_i, share it and sk¹_i among the neighbours."""
        told, both = tuple(message.neighbours), int(Direction.BOTH)
        self._require_neighbours(told, limit=self.parameters.degree)
        self._memory.neighbours = tuple(
            [Neighbour(j, both, mask_key, channel_key) for j, mask_key, channel_key in told]
        )
        positions = [j.position for j in told]
        if len(positions) < self.parameters.threshold:
            raise RemoteProtocolError(AbortReason.TOO_FEW_PARTICIPANTS, "among the neighbours")
        return self._share(positions)

    def _on_survivors(self, message: m.Survivors) -> m.Message:
        """Step 6: check u_min, reveal one share of each neighbour."""
        self._require_plausible(message.alive)
        return self._reveal(message.alive)

    # The malicious protocol

    def _on_root(self, message: m.Root) -> m.Message:
        """Step 2: only now, with the keys committed to, choose the out-neighbours."""
        self._memory.root = message.root
        parameters = self.parameters
        chosen = sample_out_neighbours(
            self.position, parameters.participants, parameters.degree, self._randomness
        )
        self._memory.out_neighbours = tuple(chosen.tolist())
        return m.Choice(self._session, self.position, self._memory.out_neighbours)

    def _on_proven_neighbours(self, message: m.ProvenNeighbours) -> m.Message:
        """Step 2 ends, step 3: all keys are committed to, and those of the chosen are signed.

        Who only chose us needs no signature: under one root its own check of its leaf vouches for
        its keys, and under another it gets nothing from us (step 1 of docs/proofs.md).
        """
        neighbours, memory = tuple(message.neighbours), self._memory
        self._require_neighbours(neighbours, limit=NEIGHBOUR_LIMIT * self.parameters.degree)
        chosen = set(memory.out_neighbours)
        if any((j.position in chosen) != bool(j.direction & OUT) for j in neighbours):
            raise RemoteProtocolError(AbortReason.MALFORMED, "out-neighbours we did not choose")
        self._require_committed(neighbours, message.proof)
        for j in [j for j in neighbours if j.direction & OUT]:
            said = keys_statement(self.parameters.session, j.position, j.mask_key, j.channel_key)
            if not signature_holds(self._roster.identity(j.position), said, j.signature):
                raise RemoteProtocolError(AbortReason.BAD_SIGNATURE, f"of keys of {j.position}")
        memory.neighbours = tuple([Neighbour(*j[:4]) for j in neighbours])
        return self._share(memory.out_neighbours)

    def _on_evidenced_survivors(self, message: m.EvidencedSurvivors) -> m.Message:
        """Step 5: every alive neighbour must be in M_i and have said that i is in its own."""
        memory, alive = self._memory, message.alive
        self._require_plausible(alive)
        alive_neighbours = [j for j in memory.neighbours if j.position in alive]
        if len(message.evidence) != len(alive_neighbours):
            raise RemoteProtocolError(AbortReason.BAD_EVIDENCE, "not one for each alive neighbour")
        for j, tag in zip(alive_neighbours, message.evidence, strict=True):
            if not self._channels.evidence_holds(Label.INCLUDED, j, tag):
                raise RemoteProtocolError(AbortReason.BAD_EVIDENCE, f"of {j.position}")
        memory.alive = alive
        agreed = bitmap_hash(alive, self._beside_survivors)
        holders_of = [j for j in alive_neighbours if j.direction & IN]
        acks = tuple([self._channels.evidence_for(Label.ACK, j, agreed) for j in holders_of])
        return m.Acks(self._session, self.position, acks)

    def _on_relayed_acks(self, message: m.RelayedAcks) -> m.Message:
        """Step 6: at least t out-neighbours accepted the bitmap that i accepted."""
        agreed = bitmap_hash(self._memory.alive, self._beside_survivors)
        acking = self._where(message.acked)
        if len(acking) != len(message.evidence):
            raise RemoteProtocolError(AbortReason.BAD_EVIDENCE, "not one for each ack")
        valid = [
            self._channels.evidence_holds(Label.ACK, j, tag, agreed)
            for j, tag in zip(acking, message.evidence, strict=True)
            if j.direction & OUT
        ]
        if sum(valid) < self.parameters.threshold:
            raise RemoteProtocolError(AbortReason.TOO_FEW_ACKS, f"{sum(valid)} are valid")
        return self._reveal(self._memory.alive)
