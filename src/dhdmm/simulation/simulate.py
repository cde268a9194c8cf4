"""One round, simulated: real sessions of all parties, deterministic from one seed but for the
measured times. For simulation only: whoever knows the seed knows every participant's secrets."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from dhdmm.aggregation.modulus import Vector
from dhdmm.cohort.drive import Silent, drive
from dhdmm.cohort.members import Cohort, Invitation, permissive, pinned
from dhdmm.cohort.usage import Usage, own_usage
from dhdmm.errors import DataError
from dhdmm.participant.measure import measure
from dhdmm.participant.policy import review
from dhdmm.planning.draft import plan as make_plan
from dhdmm.planning.plan import Plan
from dhdmm.privacy.removable import SEED_BYTES
from dhdmm.release.release import Release
from dhdmm.session.coordinator import CoordinatorSession
from dhdmm.simulation.engines import Engine, cohorts_on
from dhdmm.simulation.joining import joining_bytes, receipt_bytes
from dhdmm.simulation.model import fill_from_model, put_modelled_seconds
from dhdmm.simulation.network import Network, Stragglers
from dhdmm.simulation.population import Dropout, Population, population_for, silent_ones
from dhdmm.simulation.recorder import Progress, TraceRecorder
from dhdmm.simulation.result import Effort, Simulation
from dhdmm.simulation.trace import Trace
from dhdmm.study.histogram import Histogram
from dhdmm.study.spec import Study


def simulate(
    plan: Plan | Study,
    *,
    participants: int | None = None,
    threat_model: str | None = None,
    dropout: Dropout = 0.0,
    records_per_participant: int = 1,
    data: Histogram | None = None,
    network: Network = Network(),  # noqa: B008 - a frozen value
    stragglers: Stragglers | None = None,
    seed: int = 0,
    engine: Engine = "processes",
    workers: int | None = None,
    compute_model: bool = False,
    progress: Progress = lambda _done, _of: None,
) -> Simulation:
    """Execute a round of a plan once, and time it on a model of a network.

    Args:
        plan: A plan; or a study, which is planned first.
        participants: How many take part; by default as many as the plan has.
        threat_model: "malicious" or "semi-honest"; by default the study's.
        dropout: Which participants stop answering: a share, or shares by phase.
        records_per_participant: How many records each participant has.
        data: Records are disjoint random subsets of this histogram; by default they are uniform
            over the schema.
        network: The links between participants and coordinator.
        stragglers: Participants that are slower than the others.
        seed: Decides everything random; whoever knows it knows all secrets of the simulation.
        engine: Where participants run: "processes", "local" (this one) or "ray"; "coordinator"
            executes the coordinator alone, counts the participants' operations and releases
            nothing; "model" executes no cryptography and computes bytes and times from counted
            operations.
        workers: How many processes to use; by default one per processor.
        compute_model: Count operations at fixed unit costs instead of measuring times, so that the
            result is a function of the arguments.
        progress: Called with how many steps are done, and of how many.

    Returns:
        The release and what the round took, in time and traffic.

    Raises:
        DataError: The arguments do not fit the plan.
        PrivacyError: The study cannot be planned.
        RoundAborted: Too many participants dropped out.

    Example:
        >>> simulate(plan, dropout=0.05, compute_model=True)  # doctest: +SKIP
    """
    wall, cpu = time.perf_counter(), time.process_time()
    with threadpool_limits(1):  # the coordinator's processor is modelled as one, so it is one
        final, optimisation = _planned(plan, participants, threat_model)
        trace = Trace.empty(final.method.phases, final.participants)
        trace.optimisation_seconds = optimisation
        silent = silent_ones(dropout, final, seed)
        if engine == "model":
            final = fill_from_model(trace, final, silent, seed)
            ended = Ended(None, None, Usage(0.0, 0))
        else:
            population = population_for(final, records_per_participant, data, seed)
            final = population.plan
            counting = compute_model or engine == "coordinator"
            counted = final.method.counted(final.round(population.round_id)) if counting else None
            recorder = TraceRecorder(trace, progress, counted)
            ended = execute(population, recorder, silent, engine, workers)
            if counted is not None:
                put_modelled_seconds(trace, counted, final.strategy.rows, coordinator=compute_model)
    spent = own_usage()
    effort = Effort(
        wall_s=time.perf_counter() - wall,
        cpu_s=spent.cpu_seconds - cpu + ended.elsewhere.cpu_seconds,
        peak_bytes=spent.peak_bytes + ended.elsewhere.peak_bytes,
    )
    return Simulation(final, trace, network, stragglers, ended.release, ended.sum_correct, effort)


def _planned(
    plan: Plan | Study, participants: int | None, threat_model: str | None
) -> tuple[Plan, float]:
    """The plan, and the seconds it took if it was not given."""
    if isinstance(plan, Plan):
        if (participants or plan.participants) != plan.participants:
            raise DataError(f"the plan is for {plan.participants} participants, not {participants}")
        if (threat_model or plan.threat_model) != plan.threat_model:
            raise DataError(f"the plan is {plan.threat_model}, not {threat_model}")
        return plan, 0.0
    asked = {"threat_model": threat_model, "participants": participants}
    changes = {key: value for key, value in asked.items() if value is not None}
    study = plan.with_aggregation(**changes) if changes else plan
    started = time.thread_time()
    made = make_plan(study, participants)
    return made, time.thread_time() - started


class Ended(NamedTuple):
    """What a round came to; nothing where none was executed."""

    release: Release | None
    sum_correct: bool | None
    elsewhere: Usage  # of the worker processes


def execute(
    population: Population,
    recorder: TraceRecorder,
    silent: Silent,
    engine: Engine,
    workers: int | None,
) -> Ended:
    """The round itself, with the plan's check before it and the release after it."""
    plan, roster, trace = population.plan, population.roster, recorder.trace
    policy = pinned(permissive(plan), roster)
    invitation = Invitation(plan.to_bytes(), population.round_id, roster, policy)
    trace.plan_bytes = len(invitation.plan)
    trace.joining_bytes[:] = joining_bytes(plan, roster)
    trace.plan_check_seconds = _check_seconds(invitation, population)
    # without a clock: a simulated round has no date, and is the same whenever it is repeated
    coordinator = CoordinatorSession(
        plan,
        population.round_id,
        roster,
        population.randomness(),
        helper=population.helper(),
    )
    with cohorts_on(engine, invitation, population, silent, workers) as cohorts:
        # what is prepared once a plan is counted with the check, not for whoever comes first
        _ideal_total(plan, cohorts, population.people.positions()[: len(cohorts)])
        drive(coordinator, cohorts, silent, recorder)
        started = time.thread_time()
        release = coordinator.release()
        trace.release_seconds = time.thread_time() - started
        trace.ending_bytes[trace.survivors] = receipt_bytes(
            release, np.flatnonzero(trace.survivors)
        )
        ideal = _ideal_total(plan, cohorts, coordinator.survivors)
        if plan.removable is not None:
            ideal = plan.modulus.reduce(ideal + _excess_left(population, coordinator))
        used = [cohort.usage() for cohort in cohorts]
    elsewhere = Usage(sum(u.cpu_seconds for u in used), sum(u.peak_bytes for u in used))
    noiseless = engine == "coordinator"
    return Ended(None if noiseless else release, coordinator.adds_up_to(ideal), elsewhere)


def _check_seconds(invitation: Invitation, population: Population) -> float:
    """What one participant takes to check the plan and to prepare for measuring by it.

    The check is the median of three: one collection of garbage would multiply it.
    """
    times = [time.thread_time()]
    for _ in range(3):
        reviewed = review(invitation.plan, invitation.policy, invitation.roster)
        times.append(time.thread_time())
    checked = float(np.median(np.diff(times)))
    times = [time.thread_time()]
    for _ in range(2):
        measure(reviewed.plan, population.people.seat(0).histogram, population.people.noise(0))
        times.append(time.thread_time())
    once, again = np.diff(times)
    return checked + float(max(0.0, once - again))


def _excess_left(population: Population, coordinator: CoordinatorSession) -> Vector:
    """What is in the sum of the noise that could be removed: its seeds were drawn first of all."""
    plan, result = population.plan, coordinator.machine.result
    divided, total = plan.removable, plan.modulus.zeros(plan.strategy.rows)
    assert divided is not None
    assert result is not None
    removed = divided.removed(divided.level(len(result.survivors)))
    for i in result.survivors.members():
        seeds = population.people.first_drawn(i, SEED_BYTES * divided.parts)
        for part in range(divided.parts):
            if part not in removed or i in result.unremoved:
                seed = seeds[SEED_BYTES * part : SEED_BYTES * (part + 1)]
                drawn = divided.expand(part, seed, plan.strategy.rows)
                plan.modulus.add(total, plan.modulus.residues(drawn))
    return total


def _ideal_total(plan: Plan, cohorts: Sequence[Cohort], survivors: Sequence[int]) -> Vector:
    """What a trusted party would have found: the survivors' inputs, added up in the open."""
    homes = len(cohorts)
    parts = [
        cohort.total([i for i in survivors if i % homes == home])
        for home, cohort in enumerate(cohorts)
    ]
    total = plan.modulus.zeros(plan.strategy.rows)
    for part in parts:
        plan.modulus.add(total, part())
    return plan.modulus.reduce(total)
