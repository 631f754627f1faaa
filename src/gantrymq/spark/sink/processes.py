"""The clients of the sink in this process. Spark reuses its worker processes, so most tasks find open connections."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final

from gantrymq.client.connection.blocking import Blocking
from gantrymq.client.keywords import ClientSettings
from gantrymq.client.sync import PullConsumer
from gantrymq.errors import ConfigError, Unreachable
from gantrymq.message.message import Message
from gantrymq.message.queues import MessageQueue
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.rng import SystemRng
from gantrymq.spark.options.access import Access
from gantrymq.spark.patience import Patience
from gantrymq.spark.sink.ids import BatchId
from gantrymq.spark.sink.ledger import Ledger
from gantrymq.spark.sink.listener import ControlListener
from gantrymq.spark.sink.options import SinkSettings
from gantrymq.spark.sink.patient_reader import PatientReader, PatientWriter
from gantrymq.spark.sink.requests import (
    REQUEST_TIMEOUT_MS,
    Committer,
    TaskProducer,
    append,
    await_name_server,
    make_control_topic,
)

APPEND_TIMEOUT_MS: Final = 120_000
"""How long the control topic and the topic of places are written and read again while their broker is away."""
FIRST_ANSWER_TIMEOUT_MS: Final = 10_000
"""How long the first batch waits for the first answer of a name server. A name server that never answered has most
likely a wrong address or another idea of TLS, and then no patience helps."""


class Tasks(Blocking[TaskProducer]):
    """The producer of tasks, for threads."""

    def __init__(self, name_servers: str, group: str, security: Mapping[str, Any]) -> None:
        """``security``: the client settings about account and TLS, here and below."""
        super().__init__(
            TaskProducer(
                f"{group}-tasks", name_servers=name_servers, send_timeout_ms=REQUEST_TIMEOUT_MS, **security
            )
        )  # fmt: skip

    def submit(self, method: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Begin ``method(client, ...)``, without waiting."""
        return self._open_portal().submit(method, self._client, *arguments)

    def queue_count(self, topic: str) -> int:
        return self._call(self._client.queue_count, topic)

    def await_name_server(self) -> None:
        """Raises Unreachable when no name server answers."""
        self._call(await_name_server, self._client)


class Commits(Blocking[Committer]):
    """The producer that decides batches and answers check-backs, for threads."""

    def __init__(self, name_servers: str, group: str, security: Mapping[str, Any], listener: ControlListener) -> None:
        super().__init__(
            Committer(
                group, name_servers=name_servers, listener=listener, send_timeout_ms=REQUEST_TIMEOUT_MS, **security
            )
        )  # fmt: skip

    def submit(self, method: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Begin ``method(client, ...)``, without waiting."""
        return self._open_portal().submit(method, self._client, *arguments)

    def append(self, queue: MessageQueue, message: Message) -> int:
        return self._call(append, self._client, queue, message, APPEND_TIMEOUT_MS).queue_offset

    def make_topic(self, topic: str) -> None:
        self._call(make_control_topic, self._client, topic)


class SinkProcess:
    """The clients of one producer group. They are started when they are first used, and end with the process."""

    def __init__(
        self,
        settings: SinkSettings,
        read_timeout_ms: int = APPEND_TIMEOUT_MS,
        first_answer_ms: int = FIRST_ANSWER_TIMEOUT_MS,
    ) -> None:
        """``read_timeout_ms``: how long the sink's own topics are read again; 0: errors are raised at once.
        ``first_answer_ms``: how long ``await_first_answer`` waits, unless tasks give up earlier (``writeTimeout``)."""
        self._name_servers = settings.name_servers
        self._group = settings.group
        self._security = settings.access.client_settings(ClientSettings.__annotations__)
        self._tasks: Tasks | None = None
        self._commits: Commits | None = None
        self._ledger: Ledger | None = None
        self._reader: PullConsumer | None = None
        self._patience = Patience(read_timeout_ms, SystemClock(), SystemRng())
        self._first_answer_ms = min(first_answer_ms, settings.write_timeout_ms)
        self._missing_s = min(read_timeout_ms, settings.write_timeout_ms) / 1000
        self._tls = settings.access.tls
        self._answered = False

    def await_first_answer(self) -> None:
        """Return when a name server has answered this process, now or before. Raises ConfigError when none does."""
        if self._answered:
            return
        patience = Patience(self._first_answer_ms, SystemClock(), SystemRng())
        try:
            patience.call("asking the name servers", self.tasks.await_name_server)
        except Unreachable as error:
            advice = (
                "if they do not speak TLS, leave the option tls out"
                if self._tls
                else "if they accept nothing but TLS, set the option tls to true"
            )
            raise ConfigError(
                f"the sink had no answer from a name server within {self._first_answer_ms / 1000:g} s: {error}. Check "
                f"the option nameServers; {advice}"
            ) from None
        self._answered = True

    @property
    def tasks(self) -> Tasks:
        if self._tasks is None:
            tasks = Tasks(self._name_servers, self._group, self._security)
            tasks.start()
            self._tasks = tasks
        return self._tasks

    @property
    def commits(self) -> Commits:
        """From its first use on, this process answers check-backs, too."""
        if self._commits is None:
            listener = ControlListener()
            commits = Commits(self._name_servers, self._group, self._security, listener)
            commits.start()
            listener.ledger = Ledger(self._group, self._read(), PatientWriter(commits, self._patience), self._missing_s)
            self._ledger, self._commits = listener.ledger, commits
        return self._commits

    @property
    def ledger(self) -> Ledger:
        """For reading and writing; in a task its writer is the producer of tasks, which no broker asks."""
        if self._ledger is None:
            writer = PatientWriter(_TaskWriter(self), self._patience)
            self._ledger = Ledger(self._group, self._read(), writer, self._missing_s)
        return self._ledger

    def _read(self) -> PatientReader:
        if self._reader is None:
            reader = PullConsumer(name_servers=self._name_servers, **self._security)
            reader.start()
            self._reader = reader
        return PatientReader(self._reader, self._patience)

    def close(self) -> None:
        """Close all connections."""
        for client in (self._tasks, self._commits, self._reader):
            if client is not None:
                client.close()


class _TaskWriter:
    """Lets tasks write the places of their half messages."""

    def __init__(self, process: SinkProcess) -> None:
        self._process = process

    def append(self, queue: MessageQueue, message: Message) -> int:
        tasks = self._process.tasks
        return int(tasks.submit(append, queue, message, APPEND_TIMEOUT_MS).result().queue_offset)

    def make_topic(self, topic: str) -> None:
        self._process.tasks.submit(make_control_topic, topic).result()


_processes: Final[dict[tuple[int, str, str, Access], SinkProcess]] = {}
"""By process id, so that a forked child makes its own."""


def sink_process(settings: SinkSettings) -> SinkProcess:
    """The clients for these settings in this process."""
    key = os.getpid(), settings.name_servers, settings.group, settings.access
    process = _processes.get(key)
    if process is None:
        process = _processes[key] = SinkProcess(settings)
    return process


def task_process(settings: SinkSettings, of: BatchId) -> SinkProcess:
    """The clients for a task of this batch. The first batch of a query, and every batch write, begins with
    ``await_first_answer``; for a later batch the cluster was there before, and it is worth waiting for its return."""
    process = sink_process(settings)
    if of.batch == 0:
        process.await_first_answer()
    return process


def close_sink_processes() -> None:
    """Close the clients of the sink in this process; the next write opens new ones."""
    for key in [key for key in _processes if key[0] == os.getpid()]:
        _processes.pop(key).close()
