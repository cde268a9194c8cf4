"""Strategy equivocation: the same round with one strategy for the victim and A = 0 for the others.

Against the published algorithm it isolates one client. Here every plan has a digest that keys all
masks, channels and signatures, and the real machines of both threat models end without a sum.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from hashlib import sha256
from unittest.mock import patch

import numpy as np
import pytest
from scipy.stats import chisquare

from dhdmm.aggregation.errors import AbortReason
from dhdmm.aggregation.journal import Journal, MemoryJournal
from dhdmm.aggregation.method import Reply, ThreatModel
from dhdmm.aggregation.modulus import unpack
from dhdmm.privacy.keystream import KeyStream
from dhdmm.secagg import acceptance
from dhdmm.secagg import messages as m
from dhdmm.secagg.coordinator import Coordinator
from dhdmm.secagg.participant import Participant
from dhdmm.secagg.round import RoundParameters, session_under_root
from dhdmm.secagg.states import CoordinatorState
from tests.privacy.audit import audit
from tests.privacy.paper_model import PaperProtocol
from tests.protocol.network import (
    MALICIOUS,
    SEMI_HONEST,
    Network,
    Setting,
    Stream,
    identity,
    setting,
)

CELLS = 6
VICTIM, N = 0, 5


def test_paper_equivocation_isolates_one_client():
    """A = 0 sent to all others: they add nothing, not even noise. ρ is n times what is claimed."""
    protocol = PaperProtocol(clients=1000, rho=0.1, gamma=1000.0)
    A, nothing = np.eye(CELLS), np.zeros((CELLS, CELLS))
    stream, rounds = KeyStream.from_key_for_tests(bytes(32)), 4000

    def view(victim: np.ndarray) -> np.ndarray:
        total = protocol.encode(A, victim, rounds, stream)
        total += 999 * protocol.encode(nothing, np.eye(CELLS)[1], rounds, stream)
        return (protocol.decode(total) * protocol.gamma).round().astype(np.int64)

    verdict = audit(view(np.eye(CELLS)[0]), view(np.zeros(CELLS)), protocol.rho, np.inf, 1e-6)
    assert verdict.rho == pytest.approx(100, rel=0.1)
    assert "rho" in verdict.violations


@dataclass(frozen=True)
class Equivocation(Setting):
    """The victim holds one plan, everybody else another; only the victim contributes."""

    victims: RoundParameters

    def participant(self, position: int, randomness: Stream, journal: Journal) -> Participant:
        parameters = self.victims if position == VICTIM else self.parameters
        return Participant(
            parameters, self.roster, identity(position), position, randomness, journal
        )

    def unit_vector(self, position: int) -> np.ndarray:
        return np.full(self.parameters.length, 1000 if position == VICTIM else 0)


class Gullible(Coordinator):
    """Passes on keys without looking at their signatures."""

    def receive(self, position: int, data: bytes) -> Reply:
        with patch.object(acceptance, "signature_holds", return_value=True):
            return super().receive(position, data)


@dataclass
class Bridge(Network):
    """A coordinator that shows each side the session it expects, and keeps what it is sent."""

    masked: dict[int, np.ndarray] = field(default_factory=dict)
    sessions: dict[bytes, bytes] = field(default_factory=dict)
    """The victim's session ids with what the others have in their place."""

    def __post_init__(self) -> None:
        victims, others = self.setting.victims.session, self.setting.parameters.session
        self.sessions[victims] = others
        self.to_coordinator, self.to_participant = self.from_victim, self.to_victim

    def from_victim(self, _state: CoordinatorState, position: int, data: bytes) -> bytes:
        message, parameters = m.decode(data), self.setting.parameters
        if isinstance(message, m.MaskedInput):
            self.masked[position] = unpack(parameters.modulus, parameters.length, message.vector)
        if position == VICTIM:
            data = data.replace(message.session, self.sessions[message.session])
        return data

    def to_victim(self, _state: CoordinatorState, position: int, data: bytes) -> bytes:
        root = getattr(m.decode(data), "root", None)
        if root is not None:
            victims, others = (
                session_under_root(s, root) for s in next(iter(self.sessions.items()))
            )
            self.sessions[victims] = others
        for victims, others in self.sessions.items():
            data = data.replace(others, victims) if position == VICTIM else data
        return data


def equivocate(threat_model: ThreatModel, victims_plan: bytes, length: int = N) -> Bridge:
    common = setting(N, threat_model, minimum_survivors=3)
    parameters = replace(common.parameters, length=length)
    victims = replace(parameters, plan_digest=victims_plan)
    split = Equivocation(parameters, common.roster, victims)
    coordinator = Gullible(parameters, common.roster, Stream("bridge"), {})
    participants = {i: split.participant(i, Stream(i), MemoryJournal()) for i in range(N)}
    bridge = Bridge(split, coordinator, participants)
    bridge.run()
    return bridge


ONE_PLAN, ANOTHER = setting(N).parameters.plan_digest, sha256(b"the victim's plan").digest()


@pytest.mark.parametrize("threat_model", [SEMI_HONEST, MALICIOUS])
def test_equivocation_would_succeed_if_digests_did_not_differ(threat_model):
    """The weakened variant: two strategies under one digest, and the victim stands alone."""
    bridge = equivocate(threat_model, ONE_PLAN)
    assert bridge.coordinator.result.total.tolist() == [1000] * N


def test_equivocation_in_the_malicious_model_ends_before_any_input():
    bridge = equivocate(MALICIOUS, ANOTHER)
    assert bridge.coordinator.departed == dict.fromkeys(range(N), AbortReason.BAD_SIGNATURE)
    assert not bridge.masked
    assert bridge.coordinator.result is None


def test_equivocation_in_the_semi_honest_model_leaves_uniform_masks():
    """No share of the victim's opens, and its masks are not those of its neighbours.

    What the coordinator can add up is tested for uniformity: χ² over 16 bins, false alarm 10⁻⁶.
    """
    bridge = equivocate(SEMI_HONEST, ANOTHER, length=4096)
    assert bridge.coordinator.result is None
    modulus = bridge.setting.parameters.modulus
    seen = modulus.zeros(4096)
    for vector in bridge.masked.values():
        modulus.add(seen, vector)
    for vector in (modulus.reduce(seen), bridge.masked[VICTIM]):
        bins = np.bincount(vector >> (modulus.bits - 4), minlength=16)
        assert chisquare(bins).pvalue > 1e-6
