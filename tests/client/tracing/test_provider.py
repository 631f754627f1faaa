"""When a client makes spans, and that it does nothing for them otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType

import pytest

from gantrymq import tracing
from gantrymq.aio import (
    ConsumeFromWhere,
    LitePullConsumer,
    LocalTransactionState,
    Message,
    MessageView,
    Producer,
    PullConsumer,
    PushConsumer,
    TransactionProducer,
)
from tests.client.peer import run, until
from tests.client.real import server

WHERE = "127.0.0.1:1"

WITHOUT = """
import sys
{}
from gantrymq.aio import *
listener = type("L", (), {{m: lambda *a: None for m in ("execute_local_transaction", "check_local_transaction")}})()
clients = [
    Producer("g", name_servers="127.0.0.1:1"), PullConsumer(name_servers="127.0.0.1:1"),
    LitePullConsumer("g", name_servers="127.0.0.1:1"),
    TransactionProducer("g", name_servers="127.0.0.1:1", listener=listener),
]
assert all(client._watch is None for client in clients)
print(sorted(name for name in sys.modules if name.startswith("opentelemetry") and sys.modules[name] is not None))
"""


def _said(begin: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(begin)], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_without_opentelemetry_nothing_of_it_is_imported() -> None:
    assert _said("") == "[]"
    # as if it were not installed
    assert _said("sys.modules['opentelemetry'] = sys.modules['opentelemetry.trace'] = None") == "[]"


def test_a_program_that_has_it_and_sets_no_provider_has_no_spans() -> None:
    pytest.importorskip("opentelemetry.trace")
    assert "opentelemetry.trace" in _said("import opentelemetry.trace")


def test_the_provider_is_chosen_when_the_client_is_made() -> None:
    provider = pytest.importorskip("opentelemetry.sdk.trace").TracerProvider()
    before = Producer("g", name_servers=WHERE)
    tracing.use(provider)
    try:
        with_it = [
            Producer("g", name_servers=WHERE), PullConsumer(name_servers=WHERE),
            LitePullConsumer("g", name_servers=WHERE),
        ]  # fmt: skip
        tracing.use(False)
        without = Producer("g", name_servers=WHERE)
    finally:
        tracing.use(None)
    assert before._watch is None and without._watch is None
    assert all(client._watch is not None for client in with_it)  # type: ignore[attr-defined]


def test_a_listener_is_called_directly_when_nobody_records() -> None:
    def listener(messages: object) -> None:
        """Never called."""

    consumer = PushConsumer("g", name_servers=WHERE, listener=listener)
    assert consumer._queues._listener is listener


class Commits:
    async def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        return LocalTransactionState.COMMIT

    async def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        return LocalTransactionState.COMMIT


def test_messages_run_no_line_of_tracing_when_nobody_records(tmp_path: Path) -> None:
    """The proof that it costs nothing: no function of gantrymq.client.tracing is called for any message."""
    called: set[str] = set()

    def note(frame: FrameType, event: str, _arg: object) -> None:
        if event != "call":
            return
        path = frame.f_code.co_filename  # it is looked at for every call of the process, so nothing is made of it
        if "/gantrymq/client/tracing/" in path or "/opentelemetry/" in path:
            called.add(f"{path}: {frame.f_code.co_name}")

    async def test() -> None:
        got: list[bytes] = []
        again: list[bytes] = []

        def listener(messages: list[MessageView]) -> None:
            got.append(messages[0].body)
            if messages[0].body == b"fails":
                again.append(messages[0].body)
                raise ValueError("once")

        first = ConsumeFromWhere.FIRST_OFFSET
        async with server(tmp_path) as address:
            consumer = PushConsumer("CG", name_servers=address, listener=listener, from_where=first)
            polled = LitePullConsumer("LG", name_servers=address, from_where=first)
            producer = TransactionProducer("PG", name_servers=address, listener=Commits())
            reader = PullConsumer(name_servers=address)
            threading.setprofile(note)
            sys.setprofile(note)
            async with consumer.subscribe("T"), polled.subscribe("T"), producer, reader:
                sent = await producer.send(Message("T", "plain"))
                await producer.send_batch([Message("T", "1"), Message("T", "2")])
                await producer.send_oneway(Message("T", "oneway"))
                await producer.send_ordered(Message("T", "fails"), "key")
                await producer.send_in_transaction(Message("T", "half"))
                await until(lambda: len(got) >= 6 and bool(again))
                await reader.pull(sent.queue, 0)
                await polled.poll()
                await polled.commit()

    try:
        run(test)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert not called
