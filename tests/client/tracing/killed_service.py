"""A service that kills itself with SIGKILL when its database has committed and no broker knows it.

``python -m tests.client.tracing.killed_service sql|listener NAME_SERVERS DIRECTORY TRACEPARENT``. Its spans go to the
file ``spans`` in the directory, a line for each.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path

from opentelemetry import propagate, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from gantrymq import LocalTransactionState, Message, MessageView, TransactionProducer
from gantrymq.client.sending.halves import Halves
from gantrymq.sql import Transactions

GROUP, TOPIC = "shop", "Paid"


class ToFile(SpanExporter):
    """Each span is on the disk before its end returns, as far as this process can say."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        for span in spans:
            self._file.write(f"{span.context.trace_id:032x} {span.context.span_id:016x} {span.name}\n")
        return SpanExportResult.SUCCESS


class Listener:
    """The outcome is a row; it dies when that is committed."""

    def __init__(self, database: Path) -> None:
        self._database = database

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        with sqlite3.connect(self._database) as database:
            database.execute("INSERT INTO orders VALUES (?)", (message.transaction_id,))
        die()
        return LocalTransactionState.COMMIT

    def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        with sqlite3.connect(self._database) as database:
            found = database.execute("SELECT * FROM orders WHERE id = ?", (message.transaction_id,)).fetchone()
        return LocalTransactionState.UNKNOWN if found is None else LocalTransactionState.COMMIT


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(kind: str, name_servers: str, directory: Path, traceparent: str) -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ToFile(directory / "spans")))
    trace.set_tracer_provider(provider)  # as a program does: the clients find the global one
    database = directory / "shop.db"
    request = propagate.extract({"traceparent": traceparent})
    with provider.get_tracer("shop").start_as_current_span("request", context=request):
        if kind == "sql":
            Halves.begin_to_end = die  # type: ignore[method-assign]
            transactions = Transactions(GROUP, lambda: sqlite3.connect(database), name_servers=name_servers)
            transactions.create_table()
            with transactions, transactions.begin() as tx:
                tx.execute("INSERT INTO orders VALUES ('o-1')")
                tx.send(Message(TOPIC, "o-1"))
        else:
            with TransactionProducer(GROUP, name_servers=name_servers, listener=Listener(database)) as producer:
                producer.send_in_transaction(Message(TOPIC, "o-1"))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])
