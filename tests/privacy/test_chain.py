"""A history is accepted if and only if the ledger could have written it, whoever can hash."""

import tempfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhdmm.errors import Refused
from dhdmm.privacy.chain import Kind, conclusion, first_entry, replay, reservation
from dhdmm.privacy.ledger import Ledger
from dhdmm.privacy.protection import NOT_RECORDED, Protection
from tests.amounts import examples

START = datetime(2030, 1, 1, tzinfo=UTC)
PLAN, BYTES = sha256(b"plan").digest(), sha256(b"masked input").digest()
RECORD = Protection("record", "zero-out", "", 1, 1)
PATIENT = Protection("person", "replace", "patient", 3, 2)
WARD = Protection("participant", "zero-out", "", 500, 1)


def history(*steps, budget=Fraction(1)):
    """The entries of some steps: (kind, round) or, for reservations, (kind, round, ρ, whom)."""
    entries = [first_entry(budget, START)]
    for day, (kind, name, *terms) in enumerate(steps, start=1):
        state, now = replay(entries), START + timedelta(days=day)
        if kind == Kind.RESERVE:
            entry = reservation(state, now, name, PLAN, *terms)
        else:
            paid = BYTES.hex() if kind == Kind.DEBIT else ""
            entry = conclusion(state, now, kind, state.latest[name.hex()], paid)
        entries.append(entry)
    return entries


def rehashed(entries):
    """What a forger makes of altered entries: every link and digest is right again."""
    linked, previous = [], ""
    for entry in entries:
        open_ended = replace(entry, previous=previous)
        linked.append(replace(open_ended, digest=open_ended.expected_digest()))
        previous = linked[-1].digest
    return linked


def altered(entries, position, field, value):
    changed = list(entries)
    entry = changed[position]
    if field in RECORD.__slots__:
        changed[position] = replace(entry, protection=replace(entry.protection, **{field: value}))
    else:
        changed[position] = replace(entry, **{field: value})
    return rehashed(changed)


USUAL = history(
    ("reserve", b"r1", Fraction(9, 10), PATIENT),
    ("debit", b"r1"),
    ("reserve", b"r2", Fraction(1, 20), RECORD),
    ("cancel", b"r2"),
    ("reserve", b"r3", Fraction(1, 10), WARD),
)
OPEN, RESERVE, DEBIT, SECOND, CANCEL, LAST = range(6)


def test_the_usual_history_is_accepted_as_it_is():
    assert rehashed(USUAL) == USUAL
    state = replay(USUAL)
    assert (state.budget, state.remaining) == (1, 0)
    assert state.amounts(Kind.DEBIT) == [(PATIENT, Fraction(9, 10))]
    assert state.amounts(Kind.RESERVE) == [(WARD, Fraction(1, 10))]


@pytest.mark.parametrize(
    ("position", "field", "value"),
    [
        (LAST, "rho", "-5"),  # a negative reservation would add to the budget
        (LAST, "rho", "0"),
        (LAST, "rho", "1/0"),
        (LAST, "rho", "2/20"),
        (LAST, "rho", "0.1"),
        (LAST, "rho", "1e-1"),
        (LAST, "rho", " 1/10"),
        (LAST, "rho", "1/10\n"),
        (LAST, "rho", "9" * 5000),
        (LAST, "rho", "1/9"),  # more than is left
        (DEBIT, "rho", "1/1000"),  # less than was reserved
        (DEBIT, "rho", "0"),
        (CANCEL, "rho", "1"),  # gives back more than was reserved
        (OPEN, "rho", "0"),
        (OPEN, "rho", "9/10"),  # what was reserved later exceeds it
        (SECOND, "kind", "open"),
        (LAST, "kind", "open"),
        (OPEN, "kind", "reserve"),
        (LAST, "kind", "debit"),
        (LAST, "kind", "refund"),
        (DEBIT, "input_digest", ""),
        (DEBIT, "input_digest", BYTES.hex().upper()),
        (DEBIT, "input_digest", BYTES.hex()[:-2]),
        (CANCEL, "input_digest", BYTES.hex()),
        (LAST, "input_digest", BYTES.hex()),
        (OPEN, "input_digest", BYTES.hex()),
        (LAST, "time", ""),
        (LAST, "time", "yesterday"),
        (LAST, "time", "2030-01-01"),
        (LAST, "time", "2030-02-30T00:00:00+00:00"),
        (LAST, "round_id", ""),
        (LAST, "round_id", "7233zz"),
        (LAST, "round_id", "723"),
        (LAST, "round_id", "AB"),
        (LAST, "round_id", b"r3".hex() + "\n"),
        (LAST, "round_id", b"r1".hex()),  # debited already
        (DEBIT, "round_id", b"r2".hex()),
        (OPEN, "round_id", b"r1".hex()),
        (LAST, "plan_digest", ""),
        (LAST, "plan_digest", "plan"),
        (DEBIT, "plan_digest", BYTES.hex()),
        (OPEN, "plan_digest", PLAN.hex()),
        (LAST, "sequence", 7),
        (LAST, "sequence", 5),
        (LAST, "format", 1),  # never back
        (LAST, "format", 3),
        (LAST, "unit", ""),
        (LAST, "unit", "household"),
        (LAST, "unit", "person"),  # by no identifier
        (LAST, "relation", ""),
        (LAST, "relation", "add-remove"),
        (LAST, "identifier", "patient"),
        (LAST, "max_records", 0),
        (LAST, "max_records", "500"),
        (LAST, "max_participants", 2),
        (SECOND, "max_records", 2),
        (DEBIT, "unit", "participant"),  # not what was reserved
        (DEBIT, "relation", "zero-out"),
        (DEBIT, "max_records", 2),
        (CANCEL, "relation", "replace"),
        (OPEN, "unit", "record"),
    ],
)
def test_a_forger_who_can_hash_cannot_make_an_impossible_entry(position, field, value):
    with pytest.raises(Refused, match=rf"chain is broken at entry [{position + 1}-6]: "):
        replay(altered(USUAL, position, field, value))


@pytest.mark.parametrize(("field", "value"), [("rho", b"1/10"), ("format", "2"), ("time", 2030)])
def test_a_field_of_another_type_is_refused(field, value):
    """SQLite keeps a value of any type in any column."""
    with pytest.raises(Refused, match="entry 6: a field has the wrong type"):
        replay([*USUAL[:LAST], replace(USUAL[LAST], **{field: value})])


def test_digests_are_of_what_the_documentation_lists():
    entry = USUAL[DEBIT]
    fields = [3, "debit", b"r1".hex(), PLAN.hex(), "9/10", BYTES.hex()]
    fields += ["2030-01-03T00:00:00+00:00", USUAL[RESERVE].digest]
    whom = ["person", "replace", "patient", 3, 2]
    for each, listed in (
        (entry, ["dhdmm ledger 2", *fields, *whom]),
        (*old_format([entry]), ["dhdmm ledger 1", *fields]),
    ):
        text = "[" + ",".join(f'"{x}"' if isinstance(x, str) else str(x) for x in listed) + "]"
        assert each.expected_digest() == sha256(text.encode()).hexdigest()


def test_whom_a_round_protects_is_covered_by_the_digest():
    with pytest.raises(Refused, match="entry 6: its digest is of another content"):
        replay([*USUAL[:LAST], replace(USUAL[LAST], protection=RECORD)])


def test_steps_of_one_round_come_in_their_order():
    reserve, debit = USUAL[RESERVE], USUAL[DEBIT]
    for steps in ([debit], [reserve, reserve], [reserve, debit, debit], [reserve, USUAL[OPEN]]):
        numbered = [
            replace(entry, sequence=number)
            for number, entry in enumerate([USUAL[OPEN], *steps], start=1)
        ]
        with pytest.raises(Refused, match="out of turn"):
            replay(rehashed(numbered))


def test_no_entries_are_no_ledger():
    with pytest.raises(Refused, match="empty"):
        replay([])


def test_a_consistent_other_history_is_accepted():
    """The documented limit: nothing in the chain is secret."""
    assert replay(altered(USUAL, OPEN, "rho", "100")).budget == 100


def old_format(entries):
    return [replace(entry, format=1, protection=NOT_RECORDED) for entry in entries]


@pytest.mark.parametrize("old", range(1, 6))
def test_format_1_may_be_continued_in_format_2(old):
    """With the promise that the reservation had, which in format 1 is none."""
    begun = rehashed(old_format(USUAL[:old]))
    state = replay(begun)
    for entry in USUAL[old:]:
        name, day = bytes.fromhex(entry.round_id), datetime.fromisoformat(entry.time)
        if entry.kind == Kind.RESERVE:
            terms = PLAN, Fraction(entry.rho), entry.protection
            begun.append(reservation(state, day, name, *terms))
        else:
            kind, paid = Kind(entry.kind), entry.input_digest
            begun.append(conclusion(state, day, kind, state.latest[entry.round_id], paid))
        state = replay(begun)
    assert [entry.format for entry in state.entries] == [1] * old + [2] * (6 - old)
    assert state.remaining == 0


def test_format_2_is_not_continued_in_format_1():
    with pytest.raises(Refused, match="entry 6: it goes back to an older format"):
        replay(rehashed([*USUAL[:LAST], *old_format(USUAL[LAST:])]))


@pytest.mark.parametrize("position", [OPEN, RESERVE, DEBIT, CANCEL, LAST])
def test_format_1_says_nothing_of_protection(position):
    """Its digest does not cover these fields."""
    with pytest.raises(Refused, match="chain is broken"):
        replay(altered(rehashed(old_format(USUAL)), position, "unit", "participant"))


# Any history, any change of one field.

ROUNDS = st.sampled_from([b"r1", b"r2", b"r3"])
AMOUNTS = st.integers(1, 4).map(lambda i: Fraction(i, 7))
WHOM = st.sampled_from([RECORD, PATIENT, WARD])
CALLS = st.lists(st.tuples(st.sampled_from(list(Kind)[1:]), ROUNDS, AMOUNTS, WHOM), max_size=8)
TEXTS = ["", "0", "-5", "1/7", "2/7", "2/14", "1", "5", "r1", "7231", "7232", "7239", "AB"]
TEXTS += [*Kind, "record", "person", "participant", "zero-out", "replace", "patient", "clinic"]
TEXTS += [PLAN.hex(), BYTES.hex(), BYTES.hex().upper(), "2031-01-01T00:00:00+00:00", "2031-01-01"]
CHANGES = st.one_of(
    st.tuples(
        st.sampled_from(["kind", "round_id", "plan_digest", "rho", "input_digest", "time"]),
        st.sampled_from(TEXTS),
    ),
    st.tuples(st.sampled_from(["unit", "relation", "identifier"]), st.sampled_from(TEXTS)),
    st.tuples(st.sampled_from(["max_records", "max_participants"]), st.integers(-1, 4)),
)


def made_by(calls):
    """The history of those calls that the ledger allows."""
    steps: list[tuple] = []
    for kind, name, rho, whom in calls:
        step = (kind, name, rho, whom) if kind == Kind.RESERVE else (kind, name)
        try:
            replay(history(*steps, step))
        except (Refused, KeyError):
            continue
        steps.append(step)
    return history(*steps)


def written_again(entries):
    """What a ledger writes when it is asked for the same steps; None if it refuses one."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            times = iter([datetime.fromisoformat(entry.time) for entry in entries])
            path, budget = Path(folder) / "ledger", Fraction(entries[0].rho)
            ledger = Ledger.create(path, budget, lambda: next(times))
            for entry in entries[1:]:
                name, plan = bytes.fromhex(entry.round_id), bytes.fromhex(entry.plan_digest)
                if entry.kind == Kind.RESERVE:
                    ledger.reserve(plan, name, Fraction(entry.rho), entry.protection)
                elif entry.kind == Kind.CANCEL:
                    ledger.cancel(name)
                elif entry.kind == Kind.DEBIT:
                    ledger.debit(name, bytes.fromhex(entry.input_digest))
        except (Refused, ValueError):
            return None
        return list(ledger.entries())


@pytest.mark.slow
@settings(max_examples=15, deadline=None, derandomize=True, database=None)
@given(calls=CALLS)
def test_every_history_that_a_ledger_writes_is_replayed(calls):
    entries = made_by(calls)
    assert written_again(entries) == entries
    state = replay(entries)
    held = state.total(Kind.RESERVE) + state.total(Kind.DEBIT)
    assert state.remaining == state.budget - held >= 0


@pytest.mark.slow
@settings(max_examples=examples(25, 600), deadline=None, derandomize=True, database=None)
@given(calls=CALLS, position=st.integers(0, 8), change=CHANGES)
def test_a_changed_history_is_accepted_only_if_a_ledger_would_write_it(calls, position, change):
    entries = made_by(calls)
    forged = altered(entries, position % len(entries), *change)
    try:
        accepted = bool(replay(forged))
    except Refused:
        accepted = False
    assert accepted == (written_again(forged) == forged)
