"""The clients of the sink in a process: when the first batch gives up, and when it waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
from gantrymq.demo.ports import free_port
from gantrymq.errors import ConfigError
from gantrymq.message.queues import MessageQueue
from gantrymq.spark.sink.columns import SinkColumns
from gantrymq.spark.sink.ids import query_digits
from gantrymq.spark.sink.options import SinkSettings, parse_sink_options
from gantrymq.spark.sink.processes import SinkProcess, close_sink_processes
from gantrymq.spark.sink.writers import write_task
from tests.spark.fakes import FakeBroker
from tests.spark.log_server import LogServer

LONG_MS = 60_000
"""Longer than any machine takes to start a thread."""


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    close_sink_processes()


@pytest.fixture
def server() -> Iterator[LogServer]:
    broker = FakeBroker()
    broker.fill(MessageQueue("Orders", "broker-a", 0), 1)
    with LogServer(broker) as running:
        yield running


def settings(address: str, **options: str) -> SinkSettings:
    return parse_sink_options({"nameServers": address, "topic": "Orders", **options})


def write(address: str, batch: int, **options: str) -> object:
    """Run a task, as Spark does. Its rows fail the test when they are read: the error must come before them."""

    def rows() -> Iterator[pa.RecordBatch]:
        raise AssertionError("a row was read")
        yield

    return write_task(settings(address, **options), SinkColumns(body=0), query_digits("q"), batch, rows())


@pytest.mark.timeout(60)  # less than the 120 s for which a task waits for brokers
@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_a_first_batch_without_a_name_server_is_soon_an_error_that_says_what_to_check(guarantee: str) -> None:
    """``writeTimeout`` shortens the ten seconds; before, exactly_once waited 120 s whatever it said."""
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(ConfigError, match="no answer from a name server within 1 s") as found:
        write(address, 0, deliveryGuarantee=guarantee, writeTimeout="1s")
    assert address in str(found.value)
    assert "option nameServers; if they accept nothing but TLS, set the option tls to true" in str(found.value)


@pytest.mark.timeout(60)
def test_a_name_server_without_tls_is_named_as_the_other_cause(server: LogServer) -> None:
    process = SinkProcess(settings(server.address, tls="true"), first_answer_ms=1_000)
    with pytest.raises(ConfigError, match="leave the option tls out"):
        process.await_first_answer()
    process.close()


def test_a_later_batch_asks_nothing_first() -> None:
    """It goes on to the rows, and waits for brokers as long as ``writeTimeout`` allows."""
    with pytest.raises(AssertionError, match="a row was read"):
        write(f"127.0.0.1:{free_port()}", 1, deliveryGuarantee="at_least_once")


def test_a_name_server_that_starts_meanwhile_is_enough(server: LogServer) -> None:
    server.go_away()
    process = SinkProcess(settings(server.address), first_answer_ms=LONG_MS)
    timer = threading.Timer(0.2, server.come_back)
    timer.start()
    process.await_first_answer()
    timer.join()
    process.close()


def test_a_process_that_had_an_answer_is_patient_from_then_on(server: LogServer) -> None:
    process = SinkProcess(settings(server.address), first_answer_ms=LONG_MS)
    process.await_first_answer()
    server.go_away()
    process.await_first_answer()
    process.close()
