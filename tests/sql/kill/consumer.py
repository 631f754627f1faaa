"""The consumers that are killed: each message has one effect in a database. They are forked, and never return.

| kind    | listener                                                              | transaction                     |
|---------|-----------------------------------------------------------------------|---------------------------------|
| each    | concurrent, in four threads                                           | one for each message            |
| batch   | concurrent, up to eight messages at once                              | one for the batch               |
| ordered | one message of a queue after the other                                | one for each message            |
| chain   | concurrent; sends another message, which commits with the effect      | one for each message            |
"""

from __future__ import annotations

import logging
import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import sessionmaker

from gantrymq import ConsumeFromWhere, Message, MessageView, PushConsumer
from gantrymq.errors import GantryError
from gantrymq.sql import Inbox, Transactions
from tests.sql.kill.points import Points, watch_consumer

KINDS = ("each", "batch", "ordered", "chain")
WORK, FOLLOWED = "work", "followed"
"""Topics: what is consumed, and what the kind ``chain`` sends."""
CHAIN_SERVICE = "chain-service"
QUEUES = 4
SCHEMA = (
    "CREATE TABLE effects (kind VARCHAR(10) NOT NULL, message INTEGER NOT NULL)",
    "CREATE TABLE queues (queue INTEGER PRIMARY KEY, last INTEGER NOT NULL, wrong INTEGER NOT NULL)",
)
"""``effects`` has no unique key: an effect that happens twice has two rows. ``wrong`` counts messages that did not come
behind the one before them in their queue."""
EFFECT = text("INSERT INTO effects VALUES (:kind, :message)")
IN_ORDER = text(
    "UPDATE queues SET wrong = wrong + CASE WHEN last = :before THEN 0 ELSE 1 END, last = :message WHERE queue = :queue"
)
SAME = "ordered-1"
"""The name of every process of the kind ``ordered``: it is the same client for the broker, and need not wait for a
minute until the locks of the queues have expired. So only one may live at a time."""
DATABASE_SECONDS = 30.0
"""Longer than the restart of a database takes."""
MOST_BEFORE = 4
"""Messages that a process gets before the one with which it may die."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Where the processes find everything."""

    url: str
    name_servers: str
    log: Path

    def engine(self) -> Engine:
        waits = {"connect_args": {"timeout": 30}} if self.url.startswith("sqlite") else {}
        return create_engine(self.url, **waits)


def consume(setting: Setting, kind: str, point: str | None, seed: int) -> None:
    """Consume until killed, or until ``point``."""
    rng, points, engine = random.Random(seed), Points(), setting.engine()
    inbox, sessions = _inbox(setting, kind, engine)
    watch_consumer(points, engine, sessions)
    listener = inbox.once(_effect_of(kind, points), whole_batch=True) if kind == "batch" else None
    listener = listener or inbox.once(_effect_of(kind, points))
    left = rng.randrange(MOST_BEFORE)

    def listen(messages: Sequence[MessageView]) -> Any:
        nonlocal left
        if left <= 0 and points.chosen is None:
            points.chosen = point
            points.soon(rng.random() * 0.05)
        left -= 1
        points.reach("received")
        answer = _patiently(lambda: listener(messages))
        points.reach("after_listener")
        return answer

    while True:
        consumer = PushConsumer(
            kind, name_servers=setting.name_servers, listener=listen, orderly=kind == "ordered", consume_threads=4,
            consume_batch_size=8 if kind == "batch" else 1, persist_interval_ms=100, max_messages_per_queue=50,
            suspend_ms=100, from_where=ConsumeFromWhere.FIRST_OFFSET, instance_name=SAME if kind == "ordered" else None,
        )  # fmt: skip
        try:
            consumer.subscribe(WORK).start()
        except GantryError:  # the broker was killed; a consumer that could not start is closed
            time.sleep(0.1)
        else:
            signal.pause()


def _patiently(work: Callable[[], Any]) -> Any:
    """Again while the database is down. Sent back, the messages would wait for longer each time."""
    end = time.monotonic() + DATABASE_SECONDS
    while True:
        try:
            return work()
        except DBAPIError as error:
            logging.warning("the database was killed: %s", str(error).splitlines()[0])
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def _inbox(setting: Setting, kind: str, engine: Engine) -> tuple[Any, Any]:
    """The inbox, and the sessions in which it works."""
    if kind == "chain":
        transactions = Transactions(CHAIN_SERVICE, engine, name_servers=setting.name_servers)
        return Inbox(kind, transactions), transactions._sessions.class_
    sessions = sessionmaker(engine)
    return Inbox(kind, sessions), sessions.class_


def _effect_of(kind: str, points: Points) -> Callable[[Any, Any], None]:
    def effect(given: MessageView | list[MessageView], tx: Any) -> None:
        points.reach("before_effect")
        for message in given if isinstance(given, list) else [given]:
            number = int(message.body)
            tx.execute(EFFECT, {"kind": kind, "message": number})
            if kind == "ordered":
                queue = number % QUEUES
                tx.execute(IN_ORDER, {"queue": queue, "before": number - QUEUES, "message": number})
            elif kind == "chain":
                tx.send(Message(FOLLOWED, b"%d" % number, keys=[str(number)]))
        points.reach("after_effect")

    return effect


def answer(setting: Setting) -> None:
    """Answer check-backs about messages of the kind ``chain``, until killed."""
    Transactions(CHAIN_SERVICE, setting.engine(), name_servers=setting.name_servers, topics=[FOLLOWED]).start()
    while True:
        signal.pause()
