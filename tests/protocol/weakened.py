"""Parties with exactly one safeguard taken away, so that an attack has something to succeed on.

Each is a subclass that leaves one check out, or a context in which one derivation is weaker. They
show that the tests of the real machines can fail; nothing of this is reachable from the package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR

from dhdmm.aggregation import group, merkle
from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.errors import AbortReason, RemoteProtocolError
from dhdmm.aggregation.group import Element
from dhdmm.aggregation.identity import signature_holds
from dhdmm.aggregation.journal import MemoryJournal
from dhdmm.aggregation.method import Reply
from dhdmm.aggregation.modulus import Modulus, packed_size, unpack
from dhdmm.secagg import acceptance, keys, machine, unmasking
from dhdmm.secagg import coordinator as coordinator_module
from dhdmm.secagg import messages as m
from dhdmm.secagg import participant as participant_module
from dhdmm.secagg.channels import Channels
from dhdmm.secagg.collected import record_name
from dhdmm.secagg.coordinator import Coordinator
from dhdmm.secagg.keys import Endpoint, KeyPair, Label
from dhdmm.secagg.messages import Direction, ShareKind
from dhdmm.secagg.participant import Participant
from dhdmm.secagg.round import RoundParameters
from dhdmm.secagg.states import ParticipantState
from tests.protocol import adversary_knowledge

# Participants


class WithoutOwnMask(Participant):
    """y_i lacks F(b_i)."""

    def _masked(self, element: Element) -> Element:
        seed = keys.self_mask_seed(self._memory.seed, self._session, self.position)
        masked = super()._masked(element)
        self.parameters.group.add_masks(masked, [(seed, -1)])
        return masked


class WithoutFloor(Participant):
    """Reveals shares for however few survivors."""

    def __init__(self, parameters: RoundParameters, *others: object) -> None:
        super().__init__(replace(parameters, minimum_survivors=2), *others)


class WithLowerThreshold(Participant):
    """Shares its secrets so that two holders suffice."""

    def __init__(self, parameters: RoundParameters, *others: object) -> None:
        super().__init__(replace(parameters, threshold=2), *others)


class CredulousChannels(Channels):
    """Believes every "included"."""

    def evidence_holds(self, label: Label, sender, tag: bytes, bitmap_hash: bytes = b"") -> bool:
        return label is Label.INCLUDED or super().evidence_holds(label, sender, tag, bitmap_hash)


class WithoutIncludedEvidence(Participant):
    """Does not ask whether its alive neighbours have masked with it."""

    @property
    def _channels(self) -> Channels:
        return CredulousChannels(self._session, self.position, self._channel_keys)


class BelievesInPhantoms(WithoutIncludedEvidence):
    """Step 5 without its rule on alive neighbours: in M_i, and in evidence."""

    def _require_plausible(self, alive: Bitmap) -> None:
        try:
            super()._require_plausible(alive)
        except RemoteProtocolError as error:
            if error.reason is not AbortReason.PHANTOM_SURVIVOR:
                raise


class ForgetsAbsentNeighbours(Participant):
    """Of the neighbours it chose, it remembers those that the coordinator confirmed."""

    def _require_plausible(self, alive: Bitmap) -> None:
        told = tuple(j.position for j in self._memory.neighbours)
        chosen, self._memory.out_neighbours = self._memory.out_neighbours, told
        super()._require_plausible(alive)
        self._memory.out_neighbours = chosen


class WithoutAckThreshold(Participant):
    """Reveals shares whoever else has accepted the bitmap."""

    def _on_relayed_acks(self, message: m.RelayedAcks) -> m.Message:
        return self._reveal(self._memory.alive)


class TakesPlainSurvivors(Participant):
    """Its table lists the semi-honest model's last message in the malicious model, too."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        waiting = ParticipantState.AWAITING_SURVIVORS
        accepted = {**self._table[waiting], m.Survivors: ParticipantState.DONE}
        self._table = {**self._table, waiting: accepted}


class RevealsAgain(Participant):
    """Forgets that it has revealed, and keeps what it should have erased."""

    def _forget(self) -> None:
        pass

    def receive(self, data: bytes) -> bytes | None:
        if self.state is ParticipantState.DONE:
            _rewind(self, ParticipantState.AWAITING_SURVIVORS, m.Survivors)
        return super().receive(data)


class TakesAnotherRoot(Participant):
    """Chooses its neighbours anew for every root it is shown."""

    def receive(self, data: bytes) -> bytes | None:
        waiting = self.state is ParticipantState.AWAITING_NEIGHBOURS
        if waiting and isinstance(m.decode(data), m.Root):
            _rewind(self, ParticipantState.AWAITING_ROOT, m.Root)
        return super().receive(data)


class TakesNeighboursAsGiven(Participant):
    """Lets the coordinator say whom it chose."""

    def _on_proven_neighbours(self, message: m.ProvenNeighbours) -> m.Message:
        said = [j.position for j in message.neighbours if j.direction & Direction.OUT]
        self._memory.out_neighbours = tuple(said)
        return super()._on_proven_neighbours(message)


class TakesAnyRoster(Participant):
    """Begins whatever the roster."""

    def _require_own_seat(self) -> None:
        pass


class JournalRestoredFromBackup(MemoryJournal):
    """Keeps nothing that is written after the masked input."""

    def write(self, state: bytes, outgoing: bytes) -> None:
        if not isinstance(m.decode(outgoing), m.Acks | m.Unmask):
            super().write(state, outgoing)


def _rewind(participant: Participant, state: ParticipantState, before: type[m.Message]) -> None:
    memory = participant._memory
    memory.state = state
    memory.seen = tuple(seen for seen in memory.seen if seen.type < before.TYPE)


# Coordinators


class CountsEveryCopy(Coordinator):
    """Does not recognise a message of which it already has one."""

    def receive(self, position: int, data: bytes) -> Reply:
        self._store.pop(record_name(type(m.decode(data)), position), None)
        return super().receive(position, data)


class AddsLateInputs(Coordinator):
    """Adds a masked input that comes after the survivors are fixed."""

    def receive(self, position: int, data: bytes) -> Reply:
        message = m.decode(data)
        if isinstance(message, m.MaskedInput) and self.survivors is not None:
            self._add(message)
            return Reply.ACCEPTED
        return super().receive(position, data)


# Derivations and checks shared by all


@contextmanager
def patched(*replacements: tuple[object, str, object]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for where, name, weaker in replacements:
            patch.setattr(where, name, weaker)
        yield


def session_of_roster_alone():
    """Neither plan nor round is bound into the session."""

    def session(parameters: RoundParameters) -> bytes:
        return sha256(b"some session" + parameters.roster_digest).digest()

    return patched((RoundParameters, "session", property(session)))


def session_without_root():
    """session' = session. (The adversary of the tests, who computes it too, is told.)"""

    def unbound(session: bytes, root: bytes) -> bytes:
        return session

    return patched(
        (machine, "session_under_root", unbound),
        (adversary_knowledge, "session_under_root", unbound),
    )


def session_without_plan_or_root():
    """Constant masks: what a participant draws twice, it uses twice."""

    @contextmanager
    def both() -> Iterator[None]:
        with session_of_roster_alone(), session_without_root():
            yield

    return both()


def unsigned_keys():
    """Any signature will do."""
    return _with_signatures_checked_by(lambda public, message, signature: True)


def unproven_keys():
    """No key tree is looked at."""
    return patched((merkle, "verify_multiproof", lambda *_: None))


def undirected_channels():
    """The same is derived, and stated, for both directions of a channel."""
    statement, info = keys.statement, keys._info

    def undirected_statement(label, session, sender, receiver):
        return statement(label, session, min(sender, receiver), max(sender, receiver))

    def undirected_info(label, session, sender: Endpoint, receiver: Endpoint) -> bytes:
        return info(label, session, min(sender, receiver), max(sender, receiver))

    return patched((keys, "statement", undirected_statement), (keys, "_info", undirected_info))


def any_number_of_neighbours():
    return patched((participant_module, "NEIGHBOUR_LIMIT", 1000))


def points_of_low_order():
    """X25519 as the bare function: an all-zero secret is a secret like any other."""

    def agree(own: KeyPair, peer_public: bytes) -> bytes:
        try:
            private = X25519PrivateKey.from_private_bytes(own.secret)
            shared = private.exchange(X25519PublicKey.from_public_bytes(peer_public))
        except ValueError:
            shared = bytes(32)
        return keys.hkdf_extract(shared)

    return patched((KeyPair, "agree", agree), (keys, "check_public_key", lambda public: None))


def shares_without_authentication():
    """AES-GCM without its tag: CTR mode from the second block on."""

    def unseal(key: bytes, session: bytes, sender: int, receiver: int, ciphertext: bytes) -> bytes:
        counter = bytes(12) + (2).to_bytes(4, "big")
        decryptor = Cipher(AES256(key), CTR(counter)).decryptor()
        return decryptor.update(ciphertext[: -keys.SEAL_OVERHEAD])

    return patched((keys, "unseal", unseal))


def vectors_of_any_shape():
    """Missing values are zero, surplus ones are cut off, and padding is not looked at."""

    def lenient(modulus: Modulus, length: int, packed: bytes) -> np.ndarray:
        size, plane = packed_size(modulus, length), -(-length // 8)
        octets = bytearray(packed[:size].ljust(size, b"\0"))
        for high_bit in range(modulus.bits % 8 if length % 8 else 0):
            octets[size - 1 - high_bit * plane] &= (1 << length % 8) - 1
        return unpack(modulus, length, bytes(octets))

    divided = group.Group._divided

    def cut(self: group.Group, packed: bytes):
        return divided(self, packed[: self.packed_size].ljust(self.packed_size, b"\0"))

    return patched((group, "unpack", lenient), (group.Group, "_divided", cut))


def unrecognised_seeds():
    """A reconstructed seed is not compared with its commitment."""

    def seeds(collected, revealed, survivors):
        return unmasking._reconstruct(collected, revealed, survivors, ShareKind.SEED)

    return patched((unmasking, "_seeds", seeds))


def masks_of_dropouts_forgotten():
    return patched((unmasking, "_masked_with_dropped", lambda collected: {}))


def seeds_of_the_silent_forgotten():
    """Only who answers to the end counts as a survivor."""
    unmask: Callable = unmasking.unmask

    def of_revealers(collected, total):
        collected.inputs &= collected.reveals
        return unmask(collected, total)

    return patched((coordinator_module, "unmask", of_revealers))


def malleable_signatures():
    """Ed25519 as first described, without asking that S be below the group's order."""
    order = 2**252 + 27742317777372353535851937790883648493
    strict = signature_holds

    def lenient(public: bytes, message: bytes, signature: bytes) -> bool:
        reduced = int.from_bytes(signature[32:], "little") % order
        return strict(public, message, signature[:32] + reduced.to_bytes(32, "little"))

    return _with_signatures_checked_by(lenient)


def _with_signatures_checked_by(check):
    checking = acceptance, participant_module
    return patched(*((module, "signature_holds", check) for module in checking))
