"""What strangers without credentials try, and what members notice of it: nothing."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from dhdmm.aggregation.identity import Identity
from dhdmm.errors import DhdmmError
from dhdmm.network import signing
from dhdmm.server.connections import ConnectionCounts, Slot, trusted
from dhdmm.server.guard import Guard, Recogniser
from dhdmm.server.limits import KIB, MIB, AtOnce, BodyMemory, Limits, MemoryExceeded, Rate
from dhdmm.server.metrics import Metrics
from tests.service.coordinators import AS_OPERATOR
from tests.service.server.rounds import identity_of
from tests.service.walls.servers import (
    PATIENCE,
    QUICK,
    Toy,
    ask,
    certificate,
    connect,
    read_all,
    read_response,
    running,
    running_plain_uvicorn,
    status,
    until,
)
from tests.service.walls.strangers import PATIENT, besieged, head, upload

pytestmark = pytest.mark.slow

NOWHERE = f"/v1/rounds/{'0' * 32}/message"
MESSAGE = b"no message of the protocol"  # 422: it was read and looked at
TIGHT = replace(
    PATIENT, body_bytes=64 * KIB, memory_bytes=256 * KIB, memory_bytes_per_identity=64 * KIB,
    memory_seconds=0.5,
)  # fmt: skip


async def believing(scope) -> tuple[str | None, int | None]:
    """A recognise that takes the claim of a key for its owner."""
    return dict(scope["headers"]).get(b"dhdmm-key", b"").decode() or None, None


# ---- bodies -------------------------------------------------------------------------------------


@pytest.mark.fault(54)
def test_announced_bodies_of_strangers_stop_no_upload(tmp_path: Path) -> None:
    """Sixteen sockets announce all the memory there is, to a round that does not exist."""
    with besieged(tmp_path) as here, contextlib.ExitStack() as held:
        for number in range(16):
            client = held.enter_context(connect(here.server, source=f"127.0.0.{2 + number % 2}"))
            client.sendall(head("POST", NOWHERE, {"content-length": str(16 * MIB)}))
        assert [here.post(MESSAGE, member) for member in range(4)] == [422] * 4


@pytest.mark.fault(54)
@pytest.mark.parametrize(("recognise", "expected"), [(None, 422), (believing, 503)])
def test_bodies_under_made_up_keys_fill_no_memory(
    tmp_path: Path, recognise: Recogniser | None, expected: int
) -> None:
    """All but the last byte is sent. Only where a claimed key is believed does it take effect."""
    with besieged(tmp_path, TIGHT, recognise=recognise) as here, contextlib.ExitStack() as held:
        for number in range(8):
            client = held.enter_context(connect(here.server, source="127.0.0.2"))
            key = {"dhdmm-key": sha256(bytes([number])).hexdigest(), "content-length": "65536"}
            client.sendall(head("POST", f"{here.base}/message", key))
            with contextlib.suppress(OSError):
                client.sendall(bytes(64 * KIB - 1))
        if recognise is not None:
            until(lambda: b"dhdmm_body_bytes 0.0" not in here.metrics.text())
        assert here.post(MESSAGE, 0) == expected


@pytest.mark.fault(54)
def test_what_cannot_be_of_use_is_refused_before_any_of_it_is_read(tmp_path: Path) -> None:
    """The answer comes while not a byte of the body has been sent."""
    with besieged(tmp_path) as here:
        mine = upload(here.base, MESSAGE, 0)
        signed = mine[: -len(MESSAGE)]
        elsewhere = upload(f"/v1/rounds/{'0' * 32}", MESSAGE, 0)[: -len(MESSAGE)]
        large = upload(here.base, bytes(8 * MIB), 0)[: -8 * MIB]
        stranger = signing.sign(Identity(bytes(32)), "POST", f"{here.base}/message", MESSAGE)
        length = {"content-length": str(len(MESSAGE))}
        for request, expected in [
            (head("POST", f"{here.base}/message", length), 401),
            (head("POST", f"{here.base}/message", length | stranger), 401),
            (signed.replace(b"signature: ", b"signature: 00")[:-4] + b"\r\n\r\n", 401),
            (signed.replace(b"content-length: 26", b"content-length: 27"), 401),
            (elsewhere, 401),
            (large, 413),
        ]:
            assert status(here.ask(request)) == expected
        other = mine[: -len(MESSAGE)] + MESSAGE[::-1]
        assert status(here.ask(other)) == 401, "not the body that was signed"
        assert status(here.ask(mine)) == 422


@pytest.mark.fault(54)
def test_a_refusal_is_heard_over_the_body_that_it_refuses(tmp_path: Path) -> None:
    """The body is on its way already; without patience for it, the line would be reset."""
    patient = replace(PATIENT, close_seconds=5.0)
    with besieged(tmp_path, patient) as here, connect(here.server) as client:
        client.sendall(head("POST", NOWHERE, {"content-length": str(16 * MIB)}))
        client.sendall(bytes(16 * MIB))
        assert status(read_response(client)) == 401


@pytest.mark.fault(54)
def test_a_members_announced_body_takes_no_memory_before_it_comes(tmp_path: Path) -> None:
    limits = replace(TIGHT, memory_bytes=64 * KIB)  # one body's
    with besieged(tmp_path, limits) as here, connect(here.server) as silent:
        silent.sendall(upload(here.base, MESSAGE, 0)[: -len(MESSAGE)])
        assert here.post(MESSAGE, 1) == 422
        assert b"dhdmm_body_bytes 0.0" in here.metrics.text()
        silent.sendall(MESSAGE)
        assert status(read_response(silent)) == 422


class WithoutReserve(BodyMemory):
    """Nobody is let through."""

    def __init__(self, total: int, each: int, largest: int) -> None:
        super().__init__(total, each, largest)
        self._left, self._first = total, object()  # type: ignore[assignment]


@pytest.mark.fault(39)
@pytest.mark.parametrize(("kind", "completed"), [(BodyMemory, 8), (WithoutReserve, 0)])
def test_bodies_of_which_each_has_a_part_do_not_wait_for_ever(
    kind: type[BodyMemory], completed: int
) -> None:
    """Eight bodies of four parts, and memory for eight parts: two whole bodies."""

    async def scenario() -> int:
        memory = kind(8, 4, 4)
        done, begun = 0, asyncio.Barrier(8)

        async def receive(caller: str) -> None:
            nonlocal done
            body = memory.begin(caller)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.5):
                    for part in range(4):
                        if (turn := body.grow(1)) is not None:
                            await turn
                        assert memory.held <= 8
                        if part == 0 and kind is WithoutReserve:
                            await begun.wait()
                        await asyncio.sleep(0)
                    done += 1
            body.release()

        await asyncio.gather(*(receive(str(number)) for number in range(8)))
        assert memory.held == 0
        return done

    assert asyncio.run(scenario()) == completed


def test_one_caller_does_not_get_more_memory_than_its_own() -> None:
    memory = BodyMemory(100, 10, 10)
    first, second, other = (memory.begin(caller) for caller in ("me", "me", "you"))
    assert first.grow(6) is None
    with pytest.raises(MemoryExceeded):
        second.grow(5)
    assert other.grow(10) is None
    for body in (first, second, other):
        body.release()
    assert memory.held == 0


# ---- connections and answers --------------------------------------------------------------------


@pytest.mark.fault(54)
def test_strangers_are_not_kept_waiting(tmp_path: Path) -> None:
    """Not even where everybody may read: a question without a name is answered at once."""
    for public, expected in ((False, 401), (True, 200)):
        folder = tmp_path / str(public)
        folder.mkdir()
        with besieged(folder, public=public) as here, connect(here.server) as client:
            client.settimeout(5)
            client.sendall(head("GET", f"{here.base}?after=1000&wait=30", {}))
            assert status(read_response(client)) == expected


@pytest.mark.fault(54)
def test_a_member_has_so_many_questions_under_way_and_others_theirs(tmp_path: Path) -> None:
    limits = replace(PATIENT, requests_at_once=2, connections_per_identity=9)
    with besieged(tmp_path, limits) as here, contextlib.ExitStack() as held:
        target = f"{here.base}?after=1000&wait=20"
        signed = head("GET", target, signing.sign(identity_of(0), "GET", target))
        polls = [held.enter_context(connect(here.server)) for _ in range(3)]
        for client in polls:
            client.sendall(signed)
        assert _only_answer(polls) == 429
        assert here.read("", member=1) == 200


def _only_answer(clients: list[socket.socket]) -> int:
    """The status that one of them gets while the others wait."""
    ready, _, _ = select.select(clients, [], [], PATIENCE)
    (one,) = ready
    return status(read_response(one))


@pytest.mark.fault(54)
def test_strangers_at_one_address_have_so_many_requests_under_way() -> None:
    app = Toy()
    app.hold = lambda: True
    limits = replace(PATIENT, stranger_requests_at_once=2)
    with running(app, limits) as server, contextlib.ExitStack() as held:
        clients = [held.enter_context(connect(server)) for _ in range(3)]
        for client in clients:
            client.sendall(head("GET", "/", {}))
        assert _only_answer(clients) == 429
        with connect(server, source="127.0.0.2") as other:
            other.sendall(head("GET", "/", {}))
            until(lambda: app.calls == 3)  # it was let through to the application
        app.hold = lambda: False


@pytest.mark.fault(54)
@pytest.mark.parametrize("guarded", [True, False])
@pytest.mark.parametrize("claimed", [{}, {"dhdmm-key": "ab"}])
def test_without_the_limit_one_caller_has_all_its_requests_under_way(
    claimed: dict[str, str], guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Toy()
    app.hold = lambda: True
    limits = replace(PATIENT, requests_at_once=2, stranger_requests_at_once=2)
    if not guarded:
        monkeypatch.setattr(AtOnce, "begin", lambda *_: True)
        monkeypatch.setattr(AtOnce, "end", lambda *_: None)
    with running(app, limits, recognise=believing) as server, contextlib.ExitStack() as held:
        clients = [held.enter_context(connect(server)) for _ in range(3)]
        for client in clients:
            client.sendall(head("GET", "/", claimed))
        if guarded:
            assert _only_answer(clients) == 429
        until(lambda: app.calls == (2 if guarded else 3))
        app.hold = lambda: False


@pytest.mark.fault(54)
@pytest.mark.parametrize("guarded", [True, False])
def test_connections_that_strangers_hold_are_not_those_of_members(
    tmp_path: Path, guarded: bool
) -> None:
    """Six members behind one address of three; only if nobody is known are they too many."""
    limits = replace(PATIENT, connections_per_address=3, turned_away=100)
    with besieged(tmp_path, limits, guarded=guarded) as here, contextlib.ExitStack() as held:
        answers = []
        for member in range(6):
            client = held.enter_context(connect(here.server))
            client.sendall(
                head("GET", here.base, signing.sign(identity_of(member), "GET", here.base))
            )
            answers.append(status(read_response(client)))
        assert answers == ([200] * 6 if guarded else [200] * 3 + [503] * 3)
        if guarded:
            strangers = [held.enter_context(connect(here.server)) for _ in range(3)]
            with connect(here.server) as one_more:
                assert status(read_all(one_more)) == 503
            assert len(strangers) == 3


@pytest.mark.fault(54)
def test_strangers_leave_room_for_members() -> None:
    counts = ConnectionCounts(Limits(connections=4, stranger_connections=2), Metrics())
    first, second = (_entered(counts, f"10.0.0.{i}") for i in range(2))
    third = counts.add("10.0.0.3")
    assert counts.over(third)
    third.release()
    assert first.identify("key 1")
    _entered(counts, "10.0.0.4")
    second.release()
    second.release()  # counts once
    _entered(counts, "10.0.0.5")
    assert counts.over(counts.add("10.0.0.6"))


def _entered(counts: ConnectionCounts, address: str) -> Slot:
    slot = counts.add(address)
    assert not counts.over(slot)
    return slot


@pytest.mark.fault(54)
def test_one_identity_has_so_many_connections_wherever_they_come_from(tmp_path: Path) -> None:
    limits = replace(PATIENT, connections_per_identity=2)
    with besieged(tmp_path, limits) as here, contextlib.ExitStack() as held:
        answers = []
        for number in range(3):
            client = held.enter_context(connect(here.server, source=f"127.0.0.{2 + number}"))
            client.sendall(head("GET", here.base, signing.sign(identity_of(0), "GET", here.base)))
            answers.append(status(read_response(client)))
        assert answers == [200, 200, 429]
        assert here.read("", member=1) == 200


def test_an_address_of_ipv6_is_its_network() -> None:
    counts = ConnectionCounts(Limits(connections_per_address=1), Metrics())
    _entered(counts, "2001:db8::1")
    assert counts.over(counts.add("2001:db8::2"))
    _entered(counts, "2001:db8:0:1::1")


def test_connections_of_a_proxy_are_nobodys() -> None:
    counts = ConnectionCounts(
        Limits(connections_per_address=1, connections_per_identity=1), Metrics(), "::1,10.0.0.0/8"
    )
    slots = [counts.add(address) for address in ("10.0.0.1", "10.0.0.1", "::1")]
    assert not any(counts.over(slot) for slot in slots)
    assert all(slot.identify("key 1") for slot in slots)
    counts.add("192.0.2.1")
    assert counts.over(counts.add("192.0.2.1"))
    assert trusted("*")("192.0.2.1")
    assert not trusted("")("127.0.0.1")


class Large(Toy):
    """Answers with much more than the network holds."""

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] == "lifespan":
            await super().__call__(scope, receive, send)
            return
        size = (b"content-length", str(LARGE).encode())
        await send({"type": "http.response.start", "status": 200, "headers": [size]})
        await send({"type": "http.response.body", "body": bytes(LARGE)})


LARGE = 32 * MIB
HURRIED = replace(QUICK, answer_seconds=0.3, answer_bytes_per_second=MIB)


@pytest.mark.fault(54)
@pytest.mark.parametrize("tls", [True, False])
def test_an_answer_that_is_not_read_is_cut_off(tmp_path: Path, tls: bool) -> None:
    metrics, files = Metrics(), certificate(tmp_path) if tls else None
    with running(Large(), HURRIED, files, metrics) as server, connect(server, files) as client:
        client.sendall(head("GET", "/", {}))
        until(lambda: b'dhdmm_rejected_total{reason="answer slow"} 1.0' in metrics.text())
        until(lambda: b"dhdmm_open_connections 0.0" in metrics.text())


@pytest.mark.fault(54)
def test_without_our_walls_an_answer_waits_for_ever() -> None:
    with running_plain_uvicorn(Large()) as server, connect(server) as client:
        client.sendall(head("GET", "/", {}))
        until(lambda: bool(server.server_state.connections))
        with pytest.raises(AssertionError, match="did not happen"):
            until(lambda: not server.server_state.connections, 2.0)


@pytest.mark.fault(54)
def test_an_answer_that_is_read_slowly_but_steadily_arrives() -> None:
    limits = replace(QUICK, answer_seconds=1.0, answer_bytes_per_second=16 * KIB)
    with running(Large(), limits) as server, connect(server) as client:
        client.sendall(head("GET", "/", {}))
        got = 0
        while got < LARGE:
            time.sleep(0.01)
            part = client.recv(128 * KIB)
            assert part, "cut off"
            got += len(part)


# ---- rates --------------------------------------------------------------------------------------


@pytest.mark.fault(55)
def test_made_up_keys_share_the_rate_of_their_address(tmp_path: Path) -> None:
    """Signed by their owner or not: a key that has no seat is nobody's."""
    limits = replace(PATIENT, stranger_requests=Rate(0.001, 5))
    with besieged(tmp_path, limits) as here, ThreadPoolExecutor(20) as pool:

        def ask_as(number: int) -> int:
            signed = signing.sign(Identity(sha256(bytes([number])).digest()), "GET", here.base)
            if number % 2:
                signed[signing.SIGNATURE_HEADER] = "00" * 64
            return status(here.ask(head("GET", here.base, signed)))

        assert Counter(pool.map(ask_as, range(20))) == {401: 5, 429: 15}
        assert here.read("", member=0) == 200


@pytest.mark.fault(55)
@pytest.mark.parametrize("guarded", [True, False])
def test_wrong_signatures_lock_no_member_out(tmp_path: Path, guarded: bool) -> None:
    """They come from the members' own address and claim a member's own key."""
    limits = replace(PATIENT, refusals=Rate(0.001, 3))
    with besieged(tmp_path, limits, guarded=guarded) as here:
        wrong = {
            signing.KEY_HEADER: identity_of(0).public.hex(),
            signing.SIGNATURE_HEADER: "00" * 64,
        }
        tried = [here.read("", **wrong) for _ in range(6)]
        assert tried == [401] * 3 + [429] * 3
        expected = 200 if guarded else 429
        assert [here.read("", member=member) for member in (0, 1)] == [expected] * 2


class Unlimited:
    """In the place of buckets: nobody has to wait."""

    def wait(self, _caller: str) -> int:
        return 0

    def take(self, _caller: str) -> None: ...


@pytest.mark.fault(55)
@pytest.mark.parametrize("guarded", [True, False])
def test_operators_tokens_are_not_guessed_for_long(
    tmp_path: Path, guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits, build = replace(PATIENT, guesses=Rate(0.001, 3)), Guard.__init__

    def built_without_counting(guard: Guard, *given: object, **named: object) -> None:
        build(guard, *given, **named)
        guard._guesses = Unlimited()

    if not guarded:
        monkeypatch.setattr(Guard, "__init__", built_without_counting)
    with besieged(tmp_path, limits) as here:
        guessed = [here.read("", authorization=f"Bearer {number}") for number in range(30)]
        if not guarded:
            assert guessed == [403] * 30
            assert here.read("", **AS_OPERATOR) == 200, "guessed"
            return
        assert guessed == [403] * 3 + [429] * 27
        assert here.read("", **AS_OPERATOR) == 429, "a right guess would not be heard either"
        assert status(here.ask(head("GET", here.base, AS_OPERATOR), "127.0.0.2")) == 200
        assert here.read("", member=0) == 200


@pytest.mark.fault(55)
def test_a_member_that_asks_too_often_has_to_wait_wherever_it_is(tmp_path: Path) -> None:
    limits = replace(PATIENT, requests=Rate(0.001, 3))
    with besieged(tmp_path, limits) as here:
        signed = head("GET", here.base, signing.sign(identity_of(0), "GET", here.base))
        answers = [here.ask(signed, f"127.0.0.{2 + number}") for number in range(4)]
        assert [status(answer) for answer in answers] == [200, 200, 200, 429]
        assert b"retry-after: 1000" in answers[3]
        assert here.read("", member=1) == 200


def test_credentials_that_do_not_hold_are_few() -> None:
    limits = replace(QUICK, refusals=Rate(0.001, 2))
    with running(Toy(), limits) as server:
        tried = [_tried(server) for _ in range(4)]
        assert tried == [401, 401, 429, 429]


def _tried(server) -> int:
    with connect(server) as client:
        return status(ask(client, b"x", "/unauthorised"))


# ---- the file of limits -------------------------------------------------------------------------


def test_a_file_changes_the_limits_that_it_names(tmp_path: Path) -> None:
    file = tmp_path / "limits.yaml"
    file.write_text(
        "connections: 100\n"
        "connections_per_address: null\n"
        "answer_seconds: 5\n"
        "body_bytes: 1 MiB\n"
        "requests: {per_second: 0.5, burst: 7}\n"
    )
    changed = {
        "connections": 100,
        "connections_per_address": None,
        "answer_seconds": 5.0,
        "body_bytes": MIB,
        "requests": Rate(0.5, 7),
    }
    assert Limits.load(file) == replace(Limits(), **changed)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("conections: 1", "conections: unknown limit 'conections' (did you mean connections?)"),
        ("x: 1", "x: unknown limit 'x' (docs/DEPLOYING.md lists all limits)"),
        ("connections: many", "connections: 'many' is not a whole number above 0"),
        ("connections: 0", "connections: 0 is not a whole number above 0"),
        ("connections: true", "connections: true is not a whole number above 0"),
        ("connections: null", "connections: None is not a whole number above 0"),
        ("idle_seconds: -1", "idle_seconds: -1 is not a number above 0"),
        ("body_bytes: 16 MB", "body_bytes: '16 MB' is not a size (such as 65536 or 64 KiB)"),
        ("requests: 7", "requests: not a rate (such as  {per_second: 50, burst: 200})"),
        ("requests: {per_second: 1, burst: 0}", "requests.burst: 0 is not a whole number above 0"),
        ("body_bytes: 512 MiB", "body_bytes: body_bytes is larger than memory_bytes"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_limits_is_named_with_its_line(
    tmp_path: Path, text: str, words: str
) -> None:
    file = tmp_path / "limits.yaml"
    file.write_text(f"turned_away: 7\n{text}\n")
    with pytest.raises(DhdmmError) as refusal:
        Limits.load(file)
    assert str(refusal.value) == f"limits.yaml:2: {words}"


@pytest.mark.parametrize("text", ["- 1", "7", ""])
def test_limits_are_a_mapping(tmp_path: Path, text: str) -> None:
    file = tmp_path / "limits.yaml"
    file.write_text(text)
    with pytest.raises(DhdmmError, match=r"limits.yaml"):
        Limits.load(file)
