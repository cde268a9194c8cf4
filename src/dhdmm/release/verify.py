"""Re-deriving a release from its round's transcript, believing nothing that can be recomputed.

After the chain and the signature comes what the transcript says: the plan, as a participant would
review it, the session, the sets, the measurement; and from a full transcript the sum, by driving a
real coordinator with the recorded messages. What no transcript can prove is in docs/transcripts.md.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

import numpy as np

from dhdmm.participant.limits import Policy, PolicyRefusal
from dhdmm.participant.policy import review
from dhdmm.planning.plan import Plan
from dhdmm.release.decode import decode
from dhdmm.release.made import formats_of
from dhdmm.release.release import Release
from dhdmm.release.transcript import (
    Account,
    Recording,
    Transcript,
    announced_root,
    collecting_states,
)
from dhdmm.release.transcript_format import VerificationError
from dhdmm.secagg import messages
from dhdmm.secagg.coordinator import Aggregate, Coordinator, Reply
from dhdmm.secagg.errors import SecaggError
from dhdmm.secagg.randomness import Randomness
from dhdmm.secagg.round import RoundParameters
from dhdmm.secagg.states import CoordinatorState

UNMASKING = (CoordinatorState.COLLECTING_ACKS, CoordinatorState.COLLECTING_REVEALS)
"""Here as many as the threshold are enough; in the phases before, u_min are needed."""


@dataclass(frozen=True)
class Verified:
    """A release re-derived from a transcript, and what was checked on the way, in words."""

    release: Release
    checks: tuple[str, ...]


def verify(transcript: Transcript, key: bytes | None = None) -> Verified:
    """The release that the transcript leads to; `VerificationError` with what does not hold.

    `key` is the coordinator's public key as known from elsewhere. Without it, anybody may have
    signed.
    """
    transcript.check()
    account = transcript.account
    if key is not None and key != transcript.key:
        raise VerificationError(
            f"signed with the key {transcript.key.hex()}, not with the one given",
            hint="compare keys with whoever published the release",
        )
    plan = _plan(account)
    parameters = _parameters(account, plan)
    _check_sets(account, parameters)
    release = _release(account, plan, transcript)
    checks = [
        f"{len(transcript.entries)} entries linked by hash and signed",
        f"plan {plan.digest.hex()}: noise, graph and modulus keep its promise",
        f"session of this plan, round and roster of {plan.participants:,} participants",
        f"{release.survivors:,} survivors, at least {parameters.minimum_survivors:,} needed;"
        " each phase's senders are among those before",
        f"{plan.study.workload.queries:,} answers and standard errors derived anew",
    ]
    if transcript.recording is not None:
        total = _replayed(account, transcript.recording, parameters)
        _check_replay(account, plan, total)
        checks.append(f"the sum recomputed from {_count(transcript.recording):,} messages")
    return Verified(release, tuple(checks))


def _plan(account: Account) -> Plan:
    """The plan, reviewed as by a participant that leaves all questions of taste to others."""
    policy = Policy(
        threat_models=["malicious", "semi-honest"],
        rosters=[account.roster.digest.hex()],
        max_epsilon=sys.float_info.max,
        min_participants=3,
        max_honest_floor=max(len(account.roster), 1),
        min_corrupt_fraction=0.0,
        max_rows=sys.maxsize,
        person_columns="any",
    )
    try:
        return review(account.plan, policy, account.roster).plan
    except PolicyRefusal as refusal:
        raise VerificationError(
            f"no participant may accept this plan: {refusal.what}", where="plan"
        ) from None


def _parameters(account: Account, plan: Plan) -> RoundParameters:
    """The round that was agreed on; its session is in every key, so there is only one."""
    parameters = replace(plan.round(account.round_id), evidence=account.evidence)
    _require(account.protocol == messages.VERSION, "another version of the protocol")
    _require(
        account.session == parameters.session,
        "the session is not that of this plan, round and roster",
    )
    _require(
        (account.root is not None) == parameters.malicious,
        "a Merkle root belongs to the malicious model, and only to it",
    )
    return parameters


def _check_sets(account: Account, parameters: RoundParameters) -> None:
    """Keys ⊇ G ⊇ A1 ⊇ A2 ⊇ acks ⊇ reveals, none smaller than the protocol allows."""
    _require(
        [phase.state for phase in account.phases] == collecting_states(parameters.threat_model),
        f"the phases are not those of the {parameters.threat_model} model",
    )
    invited = np.ones(parameters.participants, dtype=np.bool_)
    for phase in account.phases:
        senders, where = phase.senders.array(), str(phase.state)
        _require(not (senders & ~invited).any(), "a sender that was not invited", where)
        unmasking = phase.state in UNMASKING
        fewest = parameters.threshold if unmasking else parameters.minimum_survivors
        _require(
            len(phase.senders) >= fewest,
            f"{len(phase.senders)} senders, the protocol needs {fewest}",
            where,
        )
        invited = senders


def _release(account: Account, plan: Plan, transcript: Transcript) -> Release:
    measurement, half = account.measurement, plan.modulus.value // 2
    _require(len(measurement) == plan.strategy.rows, "not one number a row of the strategy")
    _require(plan.strategy.contains(plan.study.workload), "the strategy does not answer the study")
    _require(
        bool(((measurement >= -half) & (measurement <= half)).all()),
        "the measurement has a number that the modulus cannot hold",
    )
    survivors = len(_survivors(account))
    found = formats_of(plan) | {"transcript": account.version}
    _require(account.made.formats == found, "the formats are not those that it is in")
    release = Release(plan, account.round_id, survivors, measurement, transcript, account.made)
    derived = np.concatenate([release.answers, release.standard_errors])
    _require(bool(np.isfinite(derived).all()), "the measurement leads to no answers")
    return release


def _survivors(account: Account) -> tuple[int, ...]:
    """A2."""
    inputs = CoordinatorState.COLLECTING_INPUTS
    return next(phase.senders.members() for phase in account.phases if phase.state is inputs)


# ---- full transcripts ---------------------------------------------------------------------------


def _count(recording: Recording) -> int:
    return sum(map(len, recording.messages))


def _replayed(account: Account, recording: Recording, parameters: RoundParameters) -> Aggregate:
    """What a real coordinator makes of the recorded messages.

    Any order within a phase does: evidence is complete either way among those that counted.
    """
    try:
        coordinator = Coordinator(parameters, account.roster, _again(recording.coins))
        for phase, said in zip(account.phases, recording.messages, strict=True):
            for position, message in zip(phase.senders.members(), said, strict=True):
                reply = coordinator.receive(position, message)
                _require(reply is Reply.ACCEPTED, f"a message is {reply}", str(phase.state))
            coordinator.close_phase()
            root = announced_root(coordinator)
            _require(root in (None, account.root), "the Merkle root is not of the recorded keys")
    except SecaggError as error:
        raise VerificationError(
            f"the recorded messages are not a round: {error}", where="recording"
        ) from None
    if coordinator.result is None:
        raise VerificationError(
            f"the recorded messages lead to no sum: {coordinator.abort_reason}", where="recording"
        )
    return coordinator.result


def _check_replay(account: Account, plan: Plan, aggregate: Aggregate) -> None:
    _require(aggregate.survivors.members() == _survivors(account), "other survivors were added up")
    _require(
        np.array_equal(decode(plan, aggregate.total), account.measurement),
        "the recorded messages add up to another measurement",
    )


def _again(coins: bytes) -> Randomness:
    """The recorded coins, once more in their order."""
    left = memoryview(coins)

    def draw(size: int) -> bytes:
        nonlocal left
        drawn, left = bytes(left[:size]), left[size:]
        return drawn

    return draw


def _require(holds: bool, otherwise: str, where: str = "transcript") -> None:
    if not holds:
        raise VerificationError(otherwise, where=where)
