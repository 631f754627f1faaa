"""One official client of RocketMQ 5 that obeys: a driver process (``five/lines.*``), and what a line asks of it."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from gantrymq import PullConsumer
from gantrymq.admin import Admin
from gantrymq.errors import GantryError
from gantrymq.grpc.definition_pb2 import Code
from gantrymq.protocol.files.groups import Group
from tests.interop.process import DEADLINE_SECONDS, POLL_SECONDS, Process
from tests.runtime.tls.peers import file

T = TypeVar("T")

EMPTY_POLLS = 3
"""So many receptions without a message say that there is none: one that waits may be answered by another queue."""
QUEUES = 1
"""Of a topic, unless a line says more: a receive asks one queue at a time."""
PATIENCE_S = 30.0
ADMIN_MS = 60_000
"""For making topics and groups: a cold broker of Apache's needs more than the usual 3 s when all lines begin."""
CODES = {name: str(number) for name, number in Code.items() if number >= Code.BAD_REQUEST}
"""Those that say that something is refused, or has failed."""
QUICK_RETRIES = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000] * 4}}


class Refused(Exception):
    """The client, or the server, did not do what was asked; the text is what the client says of it."""


class NotInThisClient(Exception):
    """The official client has no such thing."""


def codes_in(text: str) -> list[str]:
    """The codes of RocketMQ 5 that a client tells, by number or by name. Some clients keep them to themselves."""
    words = (CODES.get(word, word) for word in re.findall(r"\b(?:[45]\d{4}|[A-Z][A-Z_]+)\b", text))
    return list(dict.fromkeys(word for word in words if word.isdigit()))


@dataclass(frozen=True)
class Door:
    """Where a driver connects, and the cluster behind."""

    endpoint: str
    name_servers: str
    wait_s: int
    """How long a reception waits. Apache's proxy lets each one wait for 5 s at least."""
    invisible_s: int
    """How long a message is kept from others. Apache's proxy takes no less than 10 s."""
    words: tuple[str, ...] = ("plain",)
    """``plain`` or ``tls``, and access key and secret key."""
    account: dict[str, str] = field(default_factory=dict)
    """Of our own tools."""
    patient: bool = False
    """Whether a start or a reception that fails is tried again: Apache's proxy refuses a consumer until it has taken in
    its settings, and a cold one does not answer in the time of a client. It is to be a fair control."""
    second: str = ""
    """The endpoint of another door before the same broker."""
    restart_second: Callable[[], float] | None = None
    """Kills the second door alone, and starts it again on its port."""
    restart: Callable[[], float] | None = None
    """Kills the broker with its door, and starts it again on the same store and ports; the time when it was dead."""


class Driver:
    """A driver process. Orders may come from several threads; each waits for its answer."""

    def __init__(self, name: str, command: list[str], door: Door, directory: Path) -> None:
        (directory / "logs").mkdir(parents=True, exist_ok=True)  # the client for Rust writes there
        authority = file("authority.pem")
        home = {
            **os.environ, "HOME": str(directory), "NODE_EXTRA_CA_CERTS": authority, "SSL_CERT_FILE": authority,
            "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": authority, "JDK_JAVA_OPTIONS": "-Xmx512m -XX:TieredStopAtLevel=1",
        }  # fmt: skip
        self.process = Process(name, [*command, door.endpoint, *door.words], directory, home)
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._read, self._part = 0, b""
        self._answers: dict[str, dict[str, Any]] = {}
        self._seen: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self.process.await_line('"ready"')

    def tell(self, verb: str, **words: object) -> str:
        """Give an order; its number."""
        number = str(next(self._numbers))
        with self._lock:
            given = "\t".join([verb, f"number={number}", *(f"{key}={value}" for key, value in words.items())])
            self.process.write_line(given)
        return number

    def ask(self, verb: str, **words: object) -> str:
        """The text of the answer to an order. Raises Refused and NotInThisClient."""
        number = self.tell(verb, **words)
        answer = self.until(lambda: self._answers.pop(number, None), f"answer to {verb} {str(words)[:200]}")
        text = str(answer["text"])
        if answer["step"] == "done":
            return text
        raise (NotInThisClient if text.startswith("not in this client") else Refused)(text)

    def seen(self, step: str, who: str) -> list[dict[str, Any]]:
        """The messages (``got``) and checks (``check``) of a client until now."""
        with self._lock:
            self._look()
            return list(self._seen.get((step, who), ()))

    def until(self, look: Callable[[], T | None], what: str, seconds: float = DEADLINE_SECONDS) -> T:
        end = time.monotonic() + seconds
        while True:
            with self._lock:
                self._look()
            found = look()
            if found:
                return found
            assert self.process.running, f"{self.process.name} ended before {what}{self.process.last_words()}"
            assert time.monotonic() < end, f"{self.process.name}: no {what} within {seconds:g} s"
            time.sleep(POLL_SECONDS)

    def _look(self) -> None:
        """Take in the whole lines that came since the last time."""
        with self.process.out.open("rb") as out:
            out.seek(self._read)
            new = out.read()
        self._read += len(new)
        *lines, self._part = (self._part + new).split(b"\n")
        for line in lines:
            if line.startswith(b'{"'):
                said = json.loads(line)
                if said.get("step") in ("done", "failed"):
                    self._answers[str(said["number"])] = said
                elif "who" in said:
                    self._seen.setdefault((said["step"], said["who"]), []).append(said)


class Play:
    """One line at one door: names of its own, and what lines do again and again."""

    def __init__(self, name: str, driver: Driver, door: Door, another: Callable[[], Driver]) -> None:
        self.name, self.driver, self.door, self._another = name, driver, door, another
        self._numbers = itertools.count()
        self._open: list[tuple[Driver, str]] = []
        self._further: list[Driver] = []

    def topic(self, message_type: str = "NORMAL", queues: int = QUEUES) -> str:
        """A new one."""
        name = f"{self.name}T{next(self._numbers)}"
        self._admin(lambda admin: admin.create_topic(name, queues=queues, message_type=message_type))
        return name

    def group(self, **settings: object) -> str:
        """A new one: Apache's proxy knows no group that was not made."""
        name = f"{self.name}G{next(self._numbers)}"
        self._admin(lambda admin: admin.groups.put(name, lambda now: Group(group_name=now.group_name, **settings)))  # type: ignore[arg-type]
        return name

    def _admin(self, work: Callable[[Admin], Any]) -> None:
        async def do() -> None:
            async with Admin(self.door.name_servers, call_timeout_ms=ADMIN_MS, **self.door.account) as admin:  # type: ignore[arg-type]
                await work(admin)

        asyncio.run(do())

    def sibling(self) -> Driver:
        """One more process of the same client."""
        self._further.append(self._another())
        return self._further[-1]

    def client(self, verb: str, *, driver: Driver | None = None, **words: object) -> str:
        """A new producer or consumer; its name."""
        used, name = driver or self.driver, f"{self.name}c{next(self._numbers)}"
        if verb in ("simple", "lite_simple"):
            words = {"wait": self.door.wait_s, **words}
        self._patiently(lambda: used.ask(verb, name=name, **words))
        self._open.append((used, name))
        return name

    def at_once(self, verb: str, **words: object) -> str:
        """The same, where a refusal is what is looked for."""
        name = f"{self.name}c{next(self._numbers)}"
        self.driver.ask(verb, name=name, **words)
        self._open.append((self.driver, name))
        return name

    def _patiently(self, work: Callable[[], object]) -> None:
        end = time.monotonic() + (PATIENCE_S if self.door.patient else 0)
        while True:
            try:
                work()
                return
            except Refused:
                if time.monotonic() > end:
                    raise
                time.sleep(1)

    def reader(self, topic: str, group: str | None = None, **words: object) -> str:
        """A simple consumer of a group of its own."""
        return self.client("simple", topic=topic, group=group or self.group(), **words)  # type: ignore[arg-type]

    def send(self, topic: str, *bodies: str, producer: str = "", **words: object) -> str:
        """The text of the last answer: the recall handle."""
        name, text = producer or self.client("producer", topic=topic), ""
        for body in bodies:
            text = self.driver.ask("send", name=name, topic=topic, body=body, **words)
        return text

    def receive(self, consumer: str, count: int = 16, invisible: int | None = None) -> list[dict[str, Any]]:
        """What one reception brought."""
        before = len(self.driver.seen("got", consumer))
        self._patiently(lambda: self.driver.ask("receive", name=consumer, count=count, invisible=invisible or 30))
        return self.driver.seen("got", consumer)[before:]

    def take(self, consumer: str, count: int, *, invisible: int | None = None, ack: bool = True) -> list[str]:
        """Receive so many messages, and acknowledge them; their bodies."""
        found: list[str] = []
        end = time.monotonic() + DEADLINE_SECONDS
        while len(found) < count:
            for one in self.receive(consumer, invisible=invisible):
                found.append(one["body"])
                if ack and not one["body"].startswith("large "):
                    self.driver.ask("ack", name=consumer, body=one["body"])
            assert time.monotonic() < end, f"only {found} of {count} messages came"
        return found

    def take_singly(self, consumer: str, count: int) -> None:
        """Receive so many messages, one at a time."""
        end = time.monotonic() + DEADLINE_SECONDS
        while count > 0:
            for one in self.receive(consumer, 1):
                self.driver.ask("ack", name=consumer, body=one["body"])
                count -= 1
            assert time.monotonic() < end, f"{count} messages more did not come"

    def dead_letters(self, group: str, count: int) -> list[str]:
        """The bodies of a group's dead letters, once there are so many."""
        found: list[str] = []
        with PullConsumer(name_servers=self.door.name_servers, **self.door.account) as consumer:  # type: ignore[arg-type]

            def look() -> bool:
                with suppress(GantryError):  # the topic comes with the first one
                    (queue,) = consumer.queues(f"%DLQ%{group}")
                    found[:] = [one.body.decode() for one in consumer.pull(queue, 0).messages]
                return len(found) >= count

            self.driver.until(look, f"{count} dead letters")
        return found

    def commit_after_restart(self, transaction: str) -> None:
        """Again while the client has not connected again. An answer of the door counts: it knows who may commit."""
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.driver.ask("end", transaction=transaction, how="commit")
                return
            except Refused as reason:
                if codes_in(str(reason)) or time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def nothing(self, consumer: str) -> bool:
        """Whether there is no message for it."""
        found = [one["body"] for _ in range(EMPTY_POLLS) for one in self.receive(consumer)]
        assert not found, f"{found} came"
        return True

    def refused(self, verb: str, **words: object) -> str:
        """What the client says of what must not work."""
        try:
            text = self.driver.ask(verb, **words)
        except Refused as reason:
            return str(reason)
        raise AssertionError(f"{verb} was taken: {text!r}")

    def bodies(self, consumer: str, count: int, seconds: float = DEADLINE_SECONDS) -> list[str]:
        """What a push consumer got, once it is so much."""
        self.driver.until(lambda: len(self.driver.seen("got", consumer)) >= count, f"{count} messages", seconds)
        return [one["body"] for one in self.driver.seen("got", consumer)]

    def checks(self, producer: str, count: int, driver: Driver | None = None) -> list[str]:
        """The bodies that a producer was asked for, once there were so many checks."""
        used = driver or self.driver
        used.until(lambda: len(used.seen("check", producer)) >= count, f"{count} checks")
        return [one["body"] for one in used.seen("check", producer)]

    def close(self) -> None:
        """Nobody waits for the end of its clients: some of them first wait for the end of a long poll."""
        for driver, name in self._open:
            if driver is self.driver and driver.process.running:
                driver.tell("close", name=name)
        for driver in self._further:
            driver.process.kill()
