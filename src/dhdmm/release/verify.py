"""Re-deriving a release from its round's transcript, believing nothing that can be recomputed.

After the chain and the signature comes what the transcript says: the plan, as a participant would
review it, the session, the sets, the measurement; and from a full transcript the sum, by driving a
real coordinator with the recorded messages. What no transcript can prove is in docs/transcripts.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dhdmm.aggregation.errors import AggregationError
from dhdmm.aggregation.method import (
    Aggregate,
    Checked,
    CoordinatorMachine,
    Method,
    PublishedSum,
    Reply,
    RoundParameters,
    input_phase,
)
from dhdmm.aggregation.randomness import Randomness
from dhdmm.errors import PolicyRefusal, VerificationError
from dhdmm.participant.limits import permissive
from dhdmm.participant.policy import review
from dhdmm.planning.plan import Plan
from dhdmm.release.decode import decode
from dhdmm.release.made import formats_of
from dhdmm.release.release import Release
from dhdmm.release.transcript import Account, Recording, Transcript


@dataclass(frozen=True)
class Verified:
    """The result of `verify`.

    Attributes:
        release: The release, derived from the transcript.
        checks: What was checked, in words.
        unproven: What nobody can see from this transcript, in words.
    """

    release: Release
    checks: tuple[str, ...]
    unproven: tuple[str, ...] = ()


def verify(transcript: Transcript, key: bytes | None = None, *, proofs: bool = False) -> Verified:
    """Derive a release from its round's transcript, checking everything that can be checked.

    Args:
        transcript: The transcript, read with `Transcript.from_bytes`.
        key: The coordinator's public key, from a source other than the transcript. Without it,
            anybody may have signed.
        proofs: Refuse a transcript from which the proofs of the inputs cannot be checked. If it
            has them, they are checked in any case.

    Returns:
        The release and the list of checks.

    Raises:
        VerificationError: Something does not hold; the error says what.
    """
    transcript.check()
    account = transcript.account
    if key is not None and key != transcript.key:
        raise VerificationError(
            f"signed with the key {transcript.key.hex()}, not with the one given",
            hint="compare keys with whoever published the release",
        )
    plan = _plan(account)
    if proofs:
        level = plan.study.aggregation.validation
        _require(level == "bounded", f"inputs were not proved: the study says validation: {level}")
        _require(transcript.full, "a short transcript has no proofs: ask for the full one")
    parameters = _parameters(account, plan)
    _check_sets(account, plan.method, parameters)
    release = _release(account, plan, transcript)
    derived = "noise and modulus" if plan.method.has_helper else "noise, graph and modulus"
    checks = [
        f"{len(transcript.entries)} entries linked by hash and signed",
        f"plan {plan.digest.hex()}: {derived} keep its promise",
        f"session of this plan, round and roster of {plan.participants:,} participants",
        f"{release.survivors:,} survivors, at least {parameters.minimum_survivors:,} needed;"
        " each phase's senders are among those before",
        f"{plan.study.workload.queries:,} answers and standard errors derived anew",
    ]
    replayed = None
    if transcript.recording is not None:
        replayed = _replayed(account, transcript.recording, plan.method, parameters)
        _check_replay(account, plan, replayed)
        checks.append(f"the sum recomputed from {_count(transcript.recording):,} messages")
    inputs = _inputs(account, plan, parameters, transcript.full)
    _require(
        replayed is None or replayed.unremoved == inputs.unremoved,
        "others removed noise than the account says",
    )
    release = replace(release, unremoved=len(inputs.unremoved))
    return Verified(release, (*checks, *inputs.holds), tuple(inputs.open))


def _plan(account: Account) -> Plan:
    """The plan, reviewed as by a participant whose policy accepts whatever is correct."""
    policy = permissive(
        rosters=[account.roster.digest.hex()],
        max_epsilon=sys.float_info.max,
        max_honest_floor=max(len(account.roster), 1),
        max_rows=sys.maxsize,
    )
    try:
        return review(account.plan, policy, account.roster).plan
    except PolicyRefusal as refusal:
        raise VerificationError(
            f"no participant may accept this plan: {refusal.what}", where="plan"
        ) from None


def _parameters(account: Account, plan: Plan) -> RoundParameters:
    """The round that was agreed on; its session is in every key, so there is only one."""
    parameters = plan.round(account.round_id)
    _require(account.protocol == plan.method.version, "another version of the protocol")
    _require(
        account.session == parameters.session,
        "the session is not that of this plan, round and roster",
    )
    _require(
        (account.root is not None) == plan.method.announces_root,
        "a Merkle root belongs to the malicious model, and only to it",
    )
    return parameters


def _check_sets(account: Account, method: Method, parameters: RoundParameters) -> None:
    """Keys ⊇ G ⊇ A1 ⊇ A2 ⊇ acks ⊇ reveals, none smaller than the protocol allows."""
    _require(
        [phase.state for phase in account.phases] == [phase.name for phase in method.phases],
        "the phases are not those of the plan's threat model",
    )
    invited = np.ones(parameters.participants, dtype=np.bool_)
    for phase, known in zip(account.phases, method.phases, strict=True):
        senders, where = phase.senders.array(), phase.state
        _require(not (senders & ~invited).any(), "a sender that was not invited", where)
        fewest = method.fewest_senders(parameters, known)
        _require(
            len(phase.senders) >= fewest,
            f"{len(phase.senders)} senders, the protocol needs {fewest}",
            where,
        )
        invited = senders


def _release(account: Account, plan: Plan, transcript: Transcript) -> Release:
    measurement, half = account.measurement, plan.modulus.value // 2
    _require(len(measurement) == plan.strategy.rows, "not one number per row of the strategy")
    _require(plan.strategy.contains(plan.study.workload), "the strategy does not answer the study")
    _require(
        bool(((measurement >= -half) & (measurement <= half)).all()),
        "the measurement has a number that the modulus cannot hold",
    )
    survivors = len(_survivors(account, plan))
    found = formats_of(plan) | {"transcript": account.version}
    _require(account.made.formats == found, "the formats are not those that it is in")
    release = Release(plan, account.round_id, survivors, measurement, transcript, account.made)
    derived = np.concatenate([release.answers, release.standard_errors])
    _require(bool(np.isfinite(derived).all()), "the measurement leads to no answers")
    return release


def _survivors(account: Account, plan: Plan) -> tuple[int, ...]:
    return account.senders(input_phase(plan.method).name).senders.members()


def _inputs(account: Account, plan: Plan, parameters: RoundParameters, replayed: bool) -> Checked:
    """What the survivors' commitments say of the sum, if they have made any."""
    survivors = account.senders(input_phase(plan.method).name).senders
    said = PublishedSum(survivors, account.measurement.tolist(), account.inputs, replayed)
    try:
        checked: Checked = plan.method.check_account(parameters, account.roster, said)
        return checked
    except AggregationError as error:
        raise VerificationError(str(error), where="inputs") from None


# ---- full transcripts ---------------------------------------------------------------------------


def _count(recording: Recording) -> int:
    return sum(map(len, recording.messages))


def _replayed(
    account: Account, recording: Recording, method: Method, parameters: RoundParameters
) -> Aggregate:
    """What a real coordinator makes of the recorded messages.

    Any order within a phase does: evidence is complete either way among those that counted.
    """
    try:
        drawn = _again(recording.coins)
        coordinator = method.coordinator(parameters, account.roster, drawn, {})
        recorded = method.has_helper
        helper = method.recorded_helper(parameters, account.inputs) if recorded else None
        for phase, said in zip(account.phases, recording.messages, strict=True):
            sent = list(zip(phase.senders.members(), said, strict=True))
            coordinator.prepare(sent)
            for position, message in sent:
                reply = coordinator.receive(position, message)
                taken = reply in (Reply.ACCEPTED, Reply.WAITING)
                _require(taken, f"a message is {reply}", phase.state)
            _ask_helper(coordinator, helper)
            coordinator.close_phase()
            _require(
                coordinator.announced in (None, account.root),
                "the Merkle root is not of the recorded keys",
            )
    except AggregationError as error:
        raise VerificationError(
            f"the recorded messages are not a round: {error}", where="recording"
        ) from None
    result: Aggregate | None = coordinator.result
    if result is None:
        raise VerificationError(
            f"the recorded messages lead to no sum: {coordinator.abort_reason}", where="recording"
        )
    return result


def _ask_helper(coordinator: CoordinatorMachine, helper: Callable[[bytes], bytes] | None) -> None:
    """What the helper of the recorded round said, once more."""
    while helper is not None and (request := coordinator.to_helper()) is not None:
        coordinator.from_helper(request, helper(request))


def _check_replay(account: Account, plan: Plan, aggregate: Aggregate) -> None:
    _require(
        aggregate.survivors.members() == _survivors(account, plan), "other survivors were added up"
    )
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
