"""The participant's budget survives restarts, crashes, rivals, full disks and tampering."""

import multiprocessing
import os
import resource
import shutil
import signal
import sqlite3
import stat
import tempfile
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dhdmm.errors import Refused
from dhdmm.privacy.chain import Kind
from dhdmm.privacy.ledger import Checkpoint, Ledger
from dhdmm.privacy.protection import NOT_RECORDED, Protection

START = datetime(2030, 1, 1, tzinfo=UTC)
PLAN, OTHER_PLAN = sha256(b"plan").digest(), sha256(b"other plan").digest()
BYTES, OTHER_BYTES = sha256(b"masked input").digest(), sha256(b"another").digest()
TENTH = Fraction(1, 10)
RECORD = Protection("record", "zero-out", "", 1, 1)


def clock():
    return START


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.sqlite"


@pytest.fixture
def ledger(path):
    return Ledger.create(path, Fraction(1), clock)


def test_reservation_then_debit(ledger):
    ledger.reserve(PLAN, b"r1", TENTH, RECORD)
    assert (ledger.spent(), ledger.reserved(), ledger.remaining()) == (0, TENTH, 1 - TENTH)
    ledger.debit(b"r1", BYTES)
    assert (ledger.spent(), ledger.reserved(), ledger.remaining()) == (TENTH, 0, 1 - TENTH)
    assert [entry.kind for entry in ledger.entries()] == ["open", "reserve", "debit"]


def test_budgets_are_exact_rationals(path):
    ledger = Ledger.create(path, Fraction(1), clock)
    for number in range(3):
        ledger.reserve(PLAN, bytes([number]), Fraction(1, 3), RECORD)
        ledger.debit(bytes([number]), BYTES)
    assert ledger.remaining() == 0
    with pytest.raises(Refused, match=r"has 0 .* left"):
        ledger.reserve(PLAN, b"one more", Fraction(1, 10**30), RECORD)


@pytest.mark.fault(33)
def test_exhausted_budget_names_what_is_left_and_records_nothing(ledger):
    ledger.reserve(PLAN, b"r1", Fraction(3, 4), RECORD)
    before = ledger.entries()
    with pytest.raises(Refused, match=r"has 1/4 \(about 0.25\) left and the round asks .* 1/3"):
        ledger.reserve(PLAN, b"r2", Fraction(1, 3), RECORD)
    assert ledger.entries() == before


def test_settling_gives_back_what_was_not_spent_and_names_what_was_paid_for(ledger):
    for round_id in (b"r1", b"r2"):
        ledger.reserve(PLAN, round_id, TENTH, RECORD)
    ledger.debit(b"r2", BYTES)
    assert ledger.settle(b"never joined") is None
    assert ledger.settle(b"r1") is None
    assert ledger.settle(b"r2") == ledger.settle(b"r2") == BYTES
    assert (ledger.spent(), ledger.reserved()) == (TENTH, 0)


def test_cancelled_reservation_comes_back_and_its_round_is_over(ledger):
    ledger.reserve(PLAN, b"r1", TENTH, RECORD)
    ledger.cancel(b"r1")
    ledger.cancel(b"r1")
    assert ledger.remaining() == 1
    with pytest.raises(Refused, match="was cancelled"):
        ledger.debit(b"r1", BYTES)
    with pytest.raises(Refused, match="was cancelled"):
        ledger.reserve(PLAN, b"r1", TENTH, RECORD)


@pytest.mark.fault(35)
def test_debit_is_never_refunded(ledger):
    ledger.reserve(PLAN, b"r1", TENTH, RECORD)
    ledger.debit(b"r1", BYTES)
    with pytest.raises(Refused, match="never refunded"):
        ledger.cancel(b"r1")
    assert ledger.spent() == TENTH


def test_repeated_steps_change_nothing_and_other_bytes_are_refused(ledger):
    ledger.reserve(PLAN, b"r1", TENTH, RECORD)
    ledger.reserve(PLAN, b"r1", TENTH, RECORD)
    ledger.debit(b"r1", BYTES)
    ledger.debit(b"r1", BYTES)
    ledger.reserve(PLAN, b"r1", TENTH, RECORD)
    assert len(ledger.entries()) == 3
    with pytest.raises(Refused, match="other bytes"):
        ledger.debit(b"r1", OTHER_BYTES)
    for plan, rho in ((OTHER_PLAN, TENTH), (PLAN, TENTH / 2)):
        with pytest.raises(Refused, match="another plan or rho"):
            ledger.reserve(plan, b"r1", rho, RECORD)


@pytest.mark.parametrize("step", [lambda x: x.debit(b"r9", BYTES), lambda x: x.cancel(b"r9")])
def test_unreserved_round_is_refused(ledger, step):
    with pytest.raises(Refused, match="never reserved"):
        step(ledger)


@pytest.mark.parametrize("bad", [Fraction(0), Fraction(-1), 0.1, 1])
def test_budget_is_a_positive_fraction(ledger, path, bad):
    with pytest.raises(Refused, match="positive exact fraction"):
        ledger.reserve(PLAN, b"r1", bad, RECORD)
    with pytest.raises(Refused, match="positive exact fraction"):
        Ledger.create(path.with_name("second"), bad, clock)


@pytest.mark.parametrize(
    ("name", "protection"),
    [
        (b"", RECORD),
        (b"r1", NOT_RECORDED),
        (b"r1", Protection("record", "zero-out", "", 2, 1)),
        (b"r1", Protection("person", "zero-out", "", 2, 1)),
        (b"r1", Protection("person", "zero-out", "id", 2**63, 1)),
    ],
)
def test_a_reservation_says_for_which_round_and_for_whom(ledger, name, protection):
    with pytest.raises(Refused, match="no round is named"):
        ledger.reserve(PLAN, name, TENTH, protection)
    ledger.reserve(PLAN, b"r2", TENTH, Protection("person", "zero-out", "id", 2**63 - 1, 1))
    assert ledger.reserved() == TENTH


def test_a_price_too_long_to_be_written_is_refused(ledger):
    for digits in (1001, 5000):
        with pytest.raises(Refused, match="too many digits"):
            ledger.reserve(PLAN, b"r1", Fraction(1, 10**digits), RECORD)
    assert ledger.remaining() == 1


def test_digests_have_their_length(ledger):
    with pytest.raises(Refused, match="32 bytes"):
        ledger.reserve(b"short", b"r1", TENTH, RECORD)
    ledger.reserve(PLAN, b"r1", TENTH, RECORD)
    with pytest.raises(Refused, match="32 bytes"):
        ledger.debit(b"r1", b"short")


def test_entries_carry_the_time_that_the_clock_gives(path):
    times = iter(START + timedelta(days=day) for day in range(9))
    ledger = Ledger.create(path, Fraction(1), lambda: next(times))
    ledger.reserve(PLAN, b"r1", TENTH, RECORD)
    assert [entry.time[:10] for entry in ledger.entries()] == ["2030-01-01", "2030-01-02"]


# Files.


def test_files_are_the_owners_alone(ledger, path):
    ledger.reserve(PLAN, b"r1", TENTH, RECORD)
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    path.chmod(0o640)
    with pytest.raises(Refused, match="open to other users"):
        ledger.remaining()


def test_a_missing_ledger_is_refused(path):
    with pytest.raises(Refused, match="cannot be used"):
        Ledger(path, clock)


def spend(ledger, *rounds):
    for name in rounds:
        ledger.reserve(PLAN, name, TENTH, RECORD)
        ledger.debit(name, BYTES)


def edit(path, statement):
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET rho = '1/1000' WHERE sequence = 3",
        "UPDATE entries SET rho = '100' WHERE sequence = 1",
        "UPDATE entries SET kind = 'cancel' WHERE sequence = 3",
        "UPDATE entries SET kind = 'refund' WHERE sequence = 3",
        "UPDATE entries SET input_digest = '' WHERE sequence = 3",
        "UPDATE entries SET time = '' WHERE sequence = 2",
        "DELETE FROM entries WHERE sequence = 3",
        "DELETE FROM entries WHERE sequence > 3",
        "DELETE FROM entries",
        "DROP TABLE entries",
        "ALTER TABLE entries DROP COLUMN rho",
    ],
)
def test_altered_ledger_refuses_everything(ledger, path, statement):
    spend(ledger, b"r1", b"r2")
    edit(path, statement)
    for step in (
        ledger.remaining,
        lambda: ledger.debit(b"r2", BYTES),
        lambda: ledger.reserve(PLAN, b"r3", TENTH, RECORD),
        lambda: Ledger(path, clock),
    ):
        with pytest.raises(Refused):
            step()


def rewritten(path, drop):
    """A consistent chain without the entries of one round, as a careful forger would make it."""
    forged = path.with_name("forged")
    copy = Ledger.create(forged, Fraction(1), clock)
    for entry in Ledger(path, clock).entries()[1:]:
        name = bytes.fromhex(entry.round_id)
        if name == drop:
            continue
        if entry.kind == Kind.RESERVE:
            copy.reserve(bytes.fromhex(entry.plan_digest), name, Fraction(entry.rho), RECORD)
        else:
            copy.debit(name, bytes.fromhex(entry.input_digest))
    return forged


def test_rewritten_chain_does_not_match_its_anchor(ledger, path):
    spend(ledger, b"r1", b"r2")
    forged = rewritten(path, drop=b"r1")
    forged.replace(path)
    with pytest.raises(Refused, match="behind entry 5"):
        ledger.remaining()


@pytest.mark.fault(34)
def test_rolled_back_ledger_is_refused(ledger, path):
    spend(ledger, b"r1")
    older = path.with_name("older")
    shutil.copy(path, older)
    spend(ledger, b"r2")
    older.replace(path)
    path.chmod(0o600)
    with pytest.raises(Refused, match="behind entry 5, which it has shown before"):
        Ledger(path, clock)


@pytest.mark.parametrize("content", ["", "5", "x y", "5 abc", "-1 abc"])
def test_damaged_anchor_is_refused(ledger, path, content):
    spend(ledger, b"r1", b"r2")
    path.with_name(path.name + ".anchor").write_text(content)
    with pytest.raises(Refused):
        ledger.remaining()


@pytest.mark.fault(34)
def test_restoring_both_files_is_caught_by_a_checkpoint_kept_elsewhere_only(ledger, path):
    anchor = path.with_name(path.name + ".anchor")
    spend(ledger, b"r1")
    saved = {file: file.read_bytes() for file in (path, anchor)}
    spend(ledger, b"r2")
    kept = ledger.checkpoint()
    for file, content in saved.items():
        file.write_bytes(content)
    assert Ledger(path, clock).spent() == TENTH  # the documented limit
    with pytest.raises(Refused, match="behind entry 5"):
        Ledger(path, clock, shown=kept)
    with pytest.raises(Refused, match="behind entry 3"):
        Ledger(path, clock, shown=Checkpoint(3, "0" * 64))


@pytest.mark.fault(7)
@pytest.mark.parametrize("keep", [0, 10, 1000, 4096])
def test_torn_file_is_refused(ledger, path, keep):
    spend(ledger, b"r1", b"r2")
    content = path.read_bytes()
    path.write_bytes(content[:keep])
    with pytest.raises(Refused):
        ledger.remaining()


# Other processes.

fork = multiprocessing.get_context("fork")


def in_child(target, *arguments):
    child = fork.Process(target=target, args=arguments)
    child.start()
    child.join(60)
    return child.exitcode


def crash_after(path, steps):
    ledger = Ledger(path, clock)
    for step in steps:
        step(ledger)
    os._exit(9)


@pytest.mark.slow
def test_crash_between_reservation_and_debit_leaves_the_reservation(ledger, path):
    reserve = [lambda x: x.reserve(PLAN, b"r1", TENTH, RECORD)]
    assert in_child(crash_after, path, reserve) == 9
    assert (ledger.reserved(), ledger.spent()) == (TENTH, 0)
    ledger.debit(b"r1", BYTES)
    assert ledger.spent() == TENTH


@pytest.mark.slow
@pytest.mark.fault(35)
def test_crash_after_debit_leaves_it_debited_for_the_same_bytes(ledger, path):
    steps = [lambda x: x.reserve(PLAN, b"r1", TENTH, RECORD), lambda x: x.debit(b"r1", BYTES)]
    assert in_child(crash_after, path, steps) == 9
    assert ledger.spent() == TENTH
    ledger.debit(b"r1", BYTES)
    with pytest.raises(Refused, match="other bytes"):
        ledger.debit(b"r1", OTHER_BYTES)


@pytest.mark.slow
def test_crash_before_the_anchor_moves_loses_nothing(ledger, path, monkeypatch):
    ledger.reserve(PLAN, b"r1", TENTH, RECORD)
    monkeypatch.setattr(Ledger, "_advance_anchor", lambda self: os._exit(9))
    assert in_child(crash_after, path, [lambda x: x.debit(b"r1", BYTES)]) == 9
    monkeypatch.undo()
    assert Ledger(path, clock).spent() == TENTH


def grab(path, name, won):
    ledger = Ledger(path, clock)
    for number in range(5):
        try:
            ledger.reserve(PLAN, bytes([name, number]), TENTH, RECORD)
            ledger.debit(bytes([name, number]), BYTES)
        except Refused as refusal:
            if "left and the round asks" not in str(refusal):
                raise
        else:
            won.release()


@pytest.mark.slow
@pytest.mark.fault(33)
def test_rival_processes_never_overspend(ledger, path):
    won = fork.Semaphore(0)
    rivals = [fork.Process(target=grab, args=(path, name, won)) for name in range(4)]
    for rival in rivals:
        rival.start()
    for rival in rivals:
        rival.join(60)
    assert [rival.exitcode for rival in rivals] == [0] * 4
    assert won.get_value() == 10
    assert (ledger.remaining(), ledger.spent()) == (0, 1)
    assert ledger.checkpoint() == Checkpoint(21, ledger.entries()[-1].digest)


def spend_on_a_full_disk(path):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    ledger = Ledger(path, clock)
    size = path.stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    for number in range(1000):
        try:
            ledger.reserve(PLAN, b"full" + number.to_bytes(2), Fraction(1, 10**6), RECORD)
        except Refused:
            os._exit(7)
    os._exit(0)


@pytest.mark.slow
@pytest.mark.fault(7)
def test_full_disk_refuses_and_leaves_the_ledger_whole(ledger, path):
    spend(ledger, b"r1")
    assert in_child(spend_on_a_full_disk, path) == 7
    assert ledger.spent() == TENTH
    spend(ledger, b"r2")
    assert ledger.spent() == 2 * TENTH


def test_debit_whose_anchor_cannot_be_written_refuses_and_can_be_repeated(ledger, path):
    ledger.reserve(PLAN, b"r1", TENTH, RECORD)
    blocked = path.with_name(path.name + ".anchor.new")
    blocked.mkdir()
    with pytest.raises(Refused, match="cannot be used"):
        ledger.debit(b"r1", BYTES)
    blocked.rmdir()
    assert ledger.spent() == TENTH
    ledger.debit(b"r1", BYTES)
    assert ledger.entries()[-1].kind == Kind.DEBIT


# Any sequence of steps, against a model.


class AnyOrder(RuleBasedStateMachine):
    rounds = st.binary(min_size=1, max_size=1).filter(lambda b: b < b"\x06")
    amounts = st.integers(1, 4).map(lambda i: Fraction(i, 7))

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "budget.sqlite"
        self.ledger = Ledger.create(self.path, Fraction(1), clock)
        self.model = {}

    def left(self):
        return 1 - sum(rho for rho, kind in self.model.values() if kind != "cancel")

    def attempt(self, allowed, step):
        if allowed:
            step()
        else:
            with pytest.raises(Refused):
                step()
        return allowed

    @rule(name=rounds, rho=amounts)
    def reserve(self, name, rho):
        known = self.model.get(name)
        allowed = known[0] == rho and known[1] != "cancel" if known else rho <= self.left()
        if (
            self.attempt(allowed, lambda: self.ledger.reserve(PLAN, name, rho, RECORD))
            and not known
        ):
            self.model[name] = (rho, "reserve")

    @rule(name=rounds)
    def cancel(self, name):
        known = self.model.get(name)
        allowed = known is not None and known[1] != "debit"
        if self.attempt(allowed, lambda: self.ledger.cancel(name)):
            self.model[name] = (known[0], "cancel")

    @rule(name=rounds)
    def debit(self, name):
        known = self.model.get(name)
        allowed = known is not None and known[1] != "cancel"
        if self.attempt(allowed, lambda: self.ledger.debit(name, BYTES)):
            self.model[name] = (known[0], "debit")

    @rule()
    def restart(self):
        self.ledger = Ledger(self.path, clock, shown=self.ledger.checkpoint())

    @invariant()
    def books_agree(self):
        spent = sum(rho for rho, kind in self.model.values() if kind == "debit")
        assert self.ledger.spent() == spent
        assert self.ledger.remaining() == self.left() >= 0

    def teardown(self):
        self.folder.cleanup()


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(
    max_examples=6, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
)
