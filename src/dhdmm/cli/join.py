"""`dhdmm join`: take part in a round, from a table to a verified release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from dhdmm.cli import coordinator, extras, options, output
from dhdmm.cli.places import opened, require_free, tables_given
from dhdmm.cli.servers import key_given
from dhdmm.errors import DataError, Refused, RoundAborted

if TYPE_CHECKING:
    from rich.console import Console

    from dhdmm.client.ending import Participation
    from dhdmm.client.http import CoordinatorClient
    from dhdmm.client.join import Watch
    from dhdmm.client.seat import Member
    from dhdmm.network.roster import Pin
    from dhdmm.network.status import Status
    from dhdmm.participant.address import TableAddress
    from dhdmm.participant.report import Report
    from dhdmm.participant.tabulate import Tabulation
    from dhdmm.study.histogram import Histogram
    from dhdmm.study.spec import Study
    from dhdmm.web.consent import ConsentPage


def join(
    data: Annotated[str, "Your table: CSV, TSV, Parquet, or its address in a warehouse."],
    at: coordinator.Coordinator,
    who: coordinator.Participant,
    registrar: Annotated[
        str | None, "Who vouches for the roster: a key, or a file with a public identity."
    ] = None,
    roster_fingerprint: Annotated[
        str | None, "The fingerprint of the roster, as you compared it with the others."
    ] = None,
    page: Annotated[bool, "Review and consent in your browser, on this machine."] = False,
    reading: options.Tables = options.Tables(),  # noqa: B008 - frozen
    out: options.ReleaseOut = None,
    as_json: output.Json = False,
) -> None:
    """Take part in a round that you have reviewed. After a crash, the same command continues.

    Without --round, it continues a round that you are in; `dhdmm rounds` lists those.

    Records stay here; what leaves is masked, noisy, and paid for from your ledger beforehand.
    """
    extras.require("join")
    if page:
        extras.require("serve")
    from dhdmm.client.counted import CountedTables

    if out is not None:
        require_free(out)
    (table, *more) = tables_given(data, who.state)
    if more:
        raise DataError("a participant has one table", where=data)
    home = who.home
    limits = home.policy(who.policy)
    reports: dict[str, Report] = {}

    def count(study: Study) -> Histogram:
        found = counted_for(study, table, reading)
        reports[study.digest.hex()] = found.report
        return found.histogram

    counted = CountedTables(count)
    counted.prepare(home.studies())  # before the coordinator hears of us
    from dhdmm.client.seat import Member  # only now: counting has freed its memory
    from dhdmm.network import identity as identities

    named = identities.load(who.identity or home.identity)
    with at.connect(named.identity, token=who.token) as client:
        trusted = _pin(registrar, roster_fingerprint)
        known = Member(named, limits, who.ledger_for(data, limits), home, trusted)
        status = _the_round(client, at, who.round_id, known)
        from dhdmm.client.join import join as take_part

        chosen = bytes.fromhex(status.round)
        with _page(client, status, known, who.yes) if page else nullcontext() as shown:
            if who.yes:
                _consent(client, chosen, known)
            outcome = take_part(
                client,
                chosen,
                known,
                counted,
                token=who.token,
                watch=_changes(shown),
                whole=out is not None,
            )
            if outcome.verified is not None and out is not None:
                outcome.verified.release.save(out)
            document = _document(status, outcome, out, reports)
            if shown is not None:
                shown.end(document)
    output.emit(document, as_json, lambda screen: _draw(screen, document))
    _require_released(outcome)


def _the_round(
    client: CoordinatorClient, at: coordinator.Coordinator, wanted: str | None, member: Member
) -> Status:
    """The round that was named; or one that we are in still; or the only one that is going on."""
    from dhdmm.client.joined import unfinished
    from dhdmm.network.trust import Address

    named = wanted is not None or Address.parse(at.url).round_id is not None
    resumed = None if named else unfinished(client, member, coordinator.note)
    return resumed or at.round(client, wanted)


def _pin(registrar: str | None, fingerprint: str | None) -> Pin:
    from dhdmm.network.roster import Pin
    from dhdmm.network.trust import parse_digest

    key = None if registrar is None else key_given(registrar, "a registrar's key")
    digest = None if fingerprint is None else parse_digest(fingerprint, "a roster's fingerprint")
    return Pin(key, digest)


def _consent(client: CoordinatorClient, round_id: bytes, member: Member) -> None:
    """`--yes`: to whatever the policy allows."""
    from dhdmm.participant.policy import review_preview
    from dhdmm.planning.draft import Draft

    reviewed = review_preview(client.preview(round_id), member.policy, member.home.checked)
    member.home.consent_to(Draft.of(reviewed.plan))


@contextmanager
def _page(
    client: CoordinatorClient, status: Status, member: Member, yes: bool
) -> Iterator[ConsentPage]:
    """The review as a page; goes on when somebody has consented there to just what it shows."""
    from dhdmm.client.consent import figures, parties_of
    from dhdmm.participant.policy import review_preview
    from dhdmm.planning.draft import Draft
    from dhdmm.web.consent import ConsentPage

    reviewed = review_preview(
        client.preview(bytes.fromhex(status.round)), member.policy, member.home.checked
    )
    draft = Draft.of(reviewed.plan)
    parties = parties_of(client, status)
    document = figures(reviewed, member.policy, member.ledger, status, parties)
    shown = ConsentPage(document, member.home.consented(draft))
    if yes:
        shown.agree()
    with shown.served() as address:
        coordinator.note(f"review, consent and watch at {address}")
        shown.require_consent()
        member.home.consent_to(draft)
        yield shown


def counted_for(study: Study, table: Path | TableAddress, reading: options.Tables) -> Tabulation:
    """The table, counted as a round will; says what is left out, and refuses too much of it."""
    from dhdmm.participant.tabulate import count_for

    counted = count_for(
        study, opened(table), accept_loss=reading.accepted, **reading.reading(study)
    )
    for line in counted.report.words():
        coordinator.note(line)
    unit = study.privacy.person
    warning = None if unit is None else counted.report.identifier_warning(unit)
    if warning is not None:
        coordinator.note(f"warning: {warning}")
    return counted


def _changes(shown: ConsentPage | None) -> Watch:
    """Says what happens, once, here and on the page."""
    last = ""

    def watch(words: str) -> None:
        nonlocal last
        if words != last:
            coordinator.note(words)
        if shown is not None:
            shown.watch(words)
        last = words

    return watch


def _document(
    status: Status, outcome: Participation, out: Path | None, reports: Mapping[str, Report]
) -> dict[str, Any]:
    report = reports.get(status.study_digest)
    return {
        "round": status.round,
        "ending": outcome.ending.value,
        "reason": outcome.reason,
        "paid": outcome.paid,
        "survivors": outcome.survivors,
        "checks": list(outcome.checks),
        "release_digest": outcome.fingerprint,
        "release": str(out) if out and outcome.verified else None,
        "warnings": list(outcome.warnings),
        "table_rows": report.figures() if report else None,
    }


def _draw(screen: Console, document: dict[str, Any]) -> None:
    for check in document["checks"]:
        screen.print(f"✓ {check}", soft_wrap=True)
    if document["release_digest"]:
        screen.print(f"release {document['release_digest']}", soft_wrap=True)
    for warning in document["warnings"]:
        screen.print(f"[bold]Warning:[/bold] {warning}")
    if document["release"]:
        screen.print(f"release written to {document['release']}", soft_wrap=True, markup=False)


def _require_released(outcome: Participation) -> None:
    """Every other ending is an error with its own words."""
    from dhdmm.client.ending import Ending

    spent = "the input had left, so the ledger keeps its cost" if outcome.paid else "nothing spent"
    if outcome.ending is Ending.WITHDREW:
        raise Refused(
            f"the coordinator broke the protocol ({outcome.reason}); this participant left",
            hint=f"{spent}; tell the other participants",
        )
    if outcome.ending is Ending.LEFT_BEHIND:
        raise RoundAborted(f"the round went on without us ({outcome.reason})", hint=spent)
    if outcome.ending is Ending.ABORTED:
        raise RoundAborted(f"the round ended without a release: {outcome.reason}", hint=spent)
