"""What is logged and counted, and that nothing else is."""

from __future__ import annotations

import io
import json
import logging
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy
import structlog

from dhdmm.server import logs
from dhdmm.server.metrics import Metrics, RoundFigures
from tests.service.walls.servers import Toy, ask, certificate, connect, running, status

pytestmark = pytest.mark.slow

CANARY = "canary-" + os.urandom(8).hex()


@pytest.fixture(params=["json", "console"])
def log(request: pytest.FixtureRequest) -> Iterator[io.StringIO]:
    written = io.StringIO()
    handlers, level = logging.root.handlers[:], logging.root.level
    logs.configure(as_json=request.param == "json", stream=written)
    yield written
    structlog.reset_defaults()
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


@pytest.mark.fault(38)
@pytest.mark.parametrize("key", ["name", "participant", "token", "key", "secret", "body", "record"])
def test_a_key_that_nobody_thought_about_is_not_written(log: io.StringIO, key: str) -> None:
    logs.logger().info("enrolled", **{key: CANARY, "enrolled": 3})
    assert CANARY not in log.getvalue()
    assert "enrolled" in log.getvalue()


@pytest.mark.fault(38)
def test_without_the_list_the_key_would_be_written() -> None:
    written = io.StringIO()
    plain = structlog.wrap_logger(
        structlog.PrintLogger(written), processors=[structlog.processors.JSONRenderer()]
    )
    plain.info("enrolled", name=CANARY)
    assert CANARY in written.getvalue()


@pytest.mark.fault(38)
def test_bytes_are_never_written(log: io.StringIO) -> None:
    logs.logger().info("message", reason=CANARY.encode(), phase=bytearray(CANARY.encode()))
    assert CANARY not in log.getvalue()
    assert CANARY.encode().hex() not in log.getvalue()


@pytest.mark.fault(38)
def test_an_error_is_its_type_and_place_without_its_text(log: io.StringIO) -> None:
    engine = sqlalchemy.create_engine("sqlite://")
    with engine.connect() as connection:
        statement = sqlalchemy.text("INSERT INTO nowhere VALUES (:value)")
        with pytest.raises(sqlalchemy.exc.OperationalError) as failure:
            connection.execute(statement, {"value": CANARY})
    assert CANARY in str(failure.value), "the text alone would have told"
    logs.logger().error("commit failed", exc_info=failure.value)
    try:
        raise sqlite3.OperationalError(CANARY)
    except sqlite3.OperationalError:
        logs.logger().error("commit failed", exc_info=True)
        logs.logger().error("commit failed", error=failure.value)
        logging.getLogger("some.library").exception("it broke: %s", CANARY)
    assert CANARY not in log.getvalue()
    assert log.getvalue().count("OperationalError") == 6, "a library's error has its traceback"
    assert "test_logs.py:" in log.getvalue()


@pytest.mark.fault(38)
def test_requests_are_logged_without_what_strangers_wrote(log: io.StringIO, tmp_path: Path) -> None:
    files = certificate(tmp_path)
    with running(Toy(), files=files) as server:
        with connect(server, files) as client:
            headers = f"authorization: Bearer {CANARY}\r\ncookie: {CANARY}\r\n"
            assert status(ask(client, CANARY.encode(), f"/{CANARY}?token={CANARY}", headers)) == 200
            assert status(ask(client, b"x", "/unauthorised", headers)) == 401
        with connect(server, files) as client:
            client.sendall(f"{CANARY} nonsense\r\n\r\n".encode())
            assert client.recv(100).startswith(b"HTTP/1.1 400")
    assert CANARY not in log.getvalue()
    assert "401" in log.getvalue()


@pytest.mark.fault(38)
@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/v1/rounds/" + "0f" * 16 + "/message", "/v1/rounds/" + "0f" * 16 + "/message"),
        ("/metrics", "/metrics"),
        ("/v1/rounds/Dr-Mallory", "elsewhere"),
        ("/v1/rounds/" + "0f" * 16 + "/message\n", "elsewhere"),
        ("/<script>", "elsewhere"),
    ],
)
def test_only_paths_of_ours_are_logged(path: str, shown: str) -> None:
    assert logs.place(path) == shown


@pytest.mark.parametrize("log", ["json"], indirect=True)
def test_lines_are_json(log: io.StringIO) -> None:
    logs.logger().warning("phase closed", round="0f", phase="collecting-keys", alive=3)
    line = json.loads(log.getvalue())
    assert line.pop("timestamp")
    told = {"round": "0f", "phase": "collecting-keys", "alive": 3}
    assert line == {"event": "phase closed", "level": "warning"} | told


def test_nothing_is_logged_before_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    logs.logger().error("quiet", name=CANARY)
    assert capsys.readouterr() == ("", "")


def test_metrics_show_rounds_and_counts() -> None:
    metrics = Metrics()
    metrics.watch(lambda: [RoundFigures("0f", "collecting-inputs", 5, 3, 1, 2)])
    metrics.upload("accepted", 1000)
    metrics.committed(3, 0.004)
    metrics.commit_failed()
    shown = metrics.text().decode()
    for line in (
        'dhdmm_round_phase{phase="collecting-inputs",round="0f"} 1.0',
        'dhdmm_round_participants{round="0f",standing="departed"} 1.0',
        'dhdmm_round_participants{round="0f",standing="dropped"} 2.0',
        'dhdmm_uploads_total{reply="accepted"} 1.0',
        "dhdmm_upload_bytes_total 1000.0",
        "dhdmm_batch_messages_sum 3.0",
        'dhdmm_commit_seconds_bucket{le="0.005"} 1.0',
        "dhdmm_failed_commits_total 1.0",
    ):
        assert line in shown


@pytest.mark.fault(38)
def test_metrics_name_nobody() -> None:
    """Requests of an identity at an address leave neither behind."""
    metrics = Metrics()
    with running(Toy(), metrics=metrics) as server:
        for path in ("/", f"/{CANARY}", "/unauthorised"):
            with connect(server) as client:
                ask(client, b"x", path, f"dhdmm-key: {'ab' * 32}\r\n")
    shown = metrics.text().decode()
    assert 'dhdmm_responses_total{status="401"} 1.0' in shown
    for secret in (CANARY, "ab" * 32, "127.0.0.1"):
        assert secret not in shown
