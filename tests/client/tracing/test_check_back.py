"""A transaction whose producer was killed is one trace all the same: across its process, the sibling that answers the
check-back, and the consumer."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gantrymq import ConsumeFromWhere, MessageView, PushConsumer, TransactionProducer
from gantrymq.sql import Transactions
from tests.kill.server import Server
from tests.support.tied import tied

trace = pytest.importorskip("opentelemetry.trace")
pytest.importorskip("opentelemetry.sdk")

from tests.client.tracing.killed_service import GROUP, TOPIC, Listener  # noqa: E402
from tests.client.tracing.recorded import of, recording  # noqa: E402

TRACE = "0af7651916cd43dd8448eb211c80319c"
PATIENCE_S = 120.0


def _killed(kind: str, name_servers: str, directory: Path) -> dict[str, tuple[str, str]]:
    """The spans that the killed process left: trace and span id by name."""
    command = [sys.executable, "-m", "tests.client.tracing.killed_service", kind, name_servers, str(directory)]
    done = subprocess.run(
        tied([*command, f"00-{TRACE}-b7ad6b7169203331-01"]), capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr
    lines = [line.split(" ", 2) for line in (directory / "spans").read_text().splitlines()]
    return {name: (trace_id, span_id) for trace_id, span_id, name in lines}


def _sibling(kind: str, name_servers: str, database: Path) -> Any:
    if kind == "sql":
        return Transactions(GROUP, lambda: sqlite3.connect(database), name_servers=name_servers)
    return TransactionProducer(GROUP, name_servers=name_servers, listener=Listener(database))


@pytest.mark.kill
@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("sql", marks=pytest.mark.pure("a step of a local transaction is replaced in the service")),
        "listener",
    ],
)
def test_the_check_in_another_process_belongs_to_the_trace_of_the_request(tmp_path: Path, kind: str) -> None:
    database = tmp_path / "shop.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE orders (id TEXT PRIMARY KEY)")
    server = Server(tmp_path / "broker", "ASYNC_FLUSH")
    server.start()
    try:
        left = _killed(kind, server.name_servers, tmp_path)
        assert left.keys() == {f"half {TOPIC}"}, "all others had not ended"
        trace_id, half_id = left[f"half {TOPIC}"]
        assert trace_id == TRACE
        arrived = threading.Event()

        def listener(messages: list[MessageView]) -> None:
            arrived.set()

        with recording() as recorded:
            where = ConsumeFromWhere.FIRST_OFFSET
            consumer = PushConsumer("CG", name_servers=server.name_servers, listener=listener, from_where=where)
            with consumer.subscribe(TOPIC), _sibling(kind, server.name_servers, database):
                assert arrived.wait(PATIENCE_S)
        assert {"check Paid", "process Paid"} == set(recorded.names())
        assert {f"{one:032x}" for one in recorded.traces()} == {TRACE}
        for span in recorded.all():
            assert span.parent is not None and f"{span.parent.span_id:016x}" == half_id, span.name
        answers = [of(span, "gantrymq.transaction.state") for span in recorded.named("check Paid")]
        assert ["COMMIT"] in answers, answers
        kind = "messaging.rocketmq.message.type"
        assert {of(span, kind)[0] for span in recorded.all()} == {"transaction"}
        check = recorded.named("check Paid")[0]
        assert check.kind is trace.SpanKind.SERVER and of(check, "messaging.operation.type") == ["check"]
    finally:
        server.kill()
