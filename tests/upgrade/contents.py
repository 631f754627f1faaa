"""What is written into a store before an upgrade, and how each of it is judged afterwards: the list CONTENTS."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypedDict

from typer.testing import CliRunner

from gantrymq import Admin, LocalTransactionState, Message, Producer, PullConsumer, TransactionListener
from gantrymq import TransactionProducer as Transactional
from gantrymq.cli.commands import app
from gantrymq.errors import GantryError
from gantrymq.protocol.signature import Account
from tests.upgrade.popping import Popping


class Keys(TypedDict):
    access_key: str
    secret_key: str


ADMIN: Final = Keys(access_key="admin", secret_key="secret-of-admin")
SHOP: Final = Keys(access_key="shop", secret_key="secret-of-shop")
SETTINGS: Final = (
    # An undecided half message stays open while the store is written; one with an immunity of its own is parked after
    # one check. Nothing is deleted by its age.
    "transactionTimeOut=3600000\ntransactionCheckMax=1\nfileReservedTime=1000000\nmappedFileSizeTimerLog=1048576\n"
    "authenticationEnabled=true\nauthorizationEnabled=true\n"
    f'initAuthenticationUser={{"username":"{ADMIN["access_key"]}","password":"{ADMIN["secret_key"]}"}}\n'
    'innerClientAuthenticationCredentials={"accessKey":"broker","secretKey":"secret-of-broker"}\n'
)
BROKER: Final = "broker-kill"
"""The name that tests.kill.server gives to its broker."""
SURELY: Final = ("--yes", "--why", "a test of upgrades")
PATIENCE_S: Final = 120.0
LATER_LEVEL: Final = 4
LATER_MS: Final = 30_000
"""Half a minute: longer than the rest of the writing takes, and short enough to wait for."""
PLAIN, KINDS, HALVES, PARKED, GUARDED, POPPED, DELAYED = (
    "plain", "typed", "halves", "parked", "guarded", "popped", "delayed",
)  # fmt: skip
GROUP: Final = "readers"


@dataclass(frozen=True, slots=True)
class Kept:
    """Something that a store keeps over an upgrade."""

    name: str
    write: Callable[[str], None]
    """With the address of the name server."""
    judge: Callable[[str], None]
    """Raises AssertionError or GantryError when it is not there any more, or does not go on."""


class Undecided(TransactionListener):
    """Never says how a local transaction ended."""

    def execute_local_transaction(self, message: object, argument: object = None) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN

    def check_local_transaction(self, message: object) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN


def fill(name_servers: str) -> None:
    """Something of each kind that a store keeps. Raises AssertionError when what must come later has come."""
    for kept in CONTENTS:
        kept.write(name_servers)
    assert visible(name_servers, DELAYED) == [], "this machine is too slow: a delayed message came before the end"


def judge(name_servers: str) -> dict[str, str]:
    """What is wrong with each thing that ``fill`` wrote; empty when all is there and goes on."""
    wrong = {}
    for kept in CONTENTS:
        try:
            kept.judge(name_servers)
        except (AssertionError, GantryError) as error:
            wrong[kept.name] = f"{type(error).__name__}: {error}"
    return wrong


def write_messages(name_servers: str) -> None:
    make_topic(name_servers, PLAIN)
    with Producer("writers", name_servers=name_servers, **ADMIN) as producer:
        for number in range(10):
            producer.send(Message(PLAIN, f"plain-{number}", keys=f"key-{number}"))


def judge_messages(name_servers: str) -> None:
    found = visible(name_servers, PLAIN)
    assert found[:10] == [f"plain-{number}" for number in range(10)], found
    with Admin(name_servers, **ADMIN) as admin:
        listed = admin.messages.by_key(PLAIN, "key-7")
    assert [message.body for message in listed] == [b"plain-7"], listed
    with Producer("writers", name_servers=name_servers, **ADMIN) as producer:
        place = producer.send(Message(PLAIN, "one more"))
    assert place.queue_offset == len(found), (place, found)


def write_offset(name_servers: str) -> None:
    with PullConsumer(GROUP, name_servers=name_servers, **ADMIN) as consumer:
        (queue,) = consumer.queues(PLAIN)
        consumer.commit(queue, 4)


def judge_offset(name_servers: str) -> None:
    with PullConsumer(GROUP, name_servers=name_servers, **ADMIN) as consumer:
        (queue,) = consumer.queues(PLAIN)
        found = consumer.committed(queue)
    assert found == 4, f"the group has the offset {found}, and not 4"


TYPES: Final = {KINDS: "FIFO", HALVES: "TRANSACTION", PARKED: "TRANSACTION", DELAYED: "DELAY"}


def write_types(name_servers: str) -> None:
    for topic, kind in TYPES.items():
        make_topic(name_servers, topic, kind)


def judge_types(name_servers: str) -> None:
    for topic, kind in TYPES.items():
        assert kind in gantry("topic", "show", topic, "--json", name_servers=name_servers), topic


def write_halves(name_servers: str) -> None:
    with Transactional("tellers", name_servers=name_servers, listener=Undecided(), **ADMIN) as producer:
        for number in range(3):
            producer.send_in_transaction(Message(HALVES, f"half-{number}"))


def judge_halves(name_servers: str) -> None:
    """They are open and invisible; one is committed, and then it alone is delivered."""
    found = transactions(name_servers, HALVES, "open")
    assert len(found) == 3, found
    assert visible(name_servers, HALVES) == [], "a half message is visible"
    gantry("transactions", "commit", found[0]["id"], *SURELY, name_servers=name_servers)
    until(lambda: len(visible(name_servers, HALVES)) == 1, "the committed half message is delivered")
    assert len(transactions(name_servers, HALVES, "open")) == 2


def write_parked(name_servers: str) -> None:
    with Transactional("forgetful", name_servers=name_servers, listener=Undecided(), **ADMIN) as producer:
        message = Message(PARKED, "given up")
        message.properties["CHECK_IMMUNITY_TIME_IN_SECONDS"] = "1"
        producer.send_in_transaction(message)
        until(lambda: len(transactions(name_servers, PARKED, "parked")) == 1, "the half message is parked")


def judge_parked(name_servers: str) -> None:
    """It is parked; it is opened again, and committed."""
    found = transactions(name_servers, PARKED, "parked")
    assert len(found) == 1, found
    assert visible(name_servers, PARKED) == [], "a parked message is visible"
    for word in ("resume", "commit"):
        gantry("transactions", word, found[0]["id"], *SURELY, name_servers=name_servers)
    until(lambda: visible(name_servers, PARKED) == ["given up"], "the parked message is committed and delivered")


def write_users(name_servers: str) -> None:
    make_topic(name_servers, GUARDED)
    password = ("--password-file", "-", *SURELY)
    gantry("user", "create", SHOP["access_key"], *password, name_servers=name_servers, given=SHOP["secret_key"] + "\n")
    words = ("--resource", f"Topic:{GUARDED}", "--actions", "Pub", *SURELY)
    gantry("acl", "allow", SHOP["access_key"], *words, name_servers=name_servers)


def judge_users(name_servers: str) -> None:
    """The user may send where the policy allows it, and nowhere else, and not with another secret."""
    with Producer("shops", name_servers=name_servers, **SHOP) as producer:
        producer.send(Message(GUARDED, "allowed"))
        assert refused(producer, PLAIN), "the user sends to a topic that no policy names"
    with Producer("thieves", name_servers=name_servers, access_key="shop", secret_key="guessed") as producer:
        assert refused(producer, GUARDED), "the user's secret is not looked at"


def refused(producer: Producer, topic: str) -> bool:
    try:
        producer.send(Message(topic, "forbidden"))
    except GantryError:
        return True
    return False


def write_popped(name_servers: str) -> None:
    make_topic(name_servers, POPPED)
    with Producer("writers", name_servers=name_servers, **ADMIN) as producer:
        for body in ("acknowledged", "not acknowledged"):
            producer.send(Message(POPPED, body))
    taken: list[bytes] = []

    def all_taken() -> bool:
        taken.extend(popping(name_servers).take(POPPED, acknowledge=b"acknowledged", invisible_ms=LATER_MS))
        return len(taken) == 2

    until(all_taken, "both messages are popped")


def judge_popped(name_servers: str) -> None:
    """What was acknowledged stays away; the other one comes again when its invisibility is over."""
    taken: list[bytes] = []

    def comes_again() -> bool:
        taken.extend(popping(name_servers).take(POPPED, acknowledge=b"not acknowledged"))
        return bool(taken)

    until(comes_again, "the message that was not acknowledged is popped again")
    assert taken == [b"not acknowledged"], taken


def write_delayed(name_servers: str) -> None:
    with Producer("writers", name_servers=name_servers, **ADMIN) as producer:
        producer.send(Message(DELAYED, "by its level", delay_level=LATER_LEVEL))
        producer.send(Message(DELAYED, "by its time", delay_ms=LATER_MS))


def judge_delayed(name_servers: str) -> None:
    """Each comes after the upgrade, once."""
    until(lambda: len(visible(name_servers, DELAYED)) >= 2, "the delayed messages are delivered")
    found = visible(name_servers, DELAYED)
    assert sorted(found) == ["by its level", "by its time"], found


CONTENTS: Final = (
    Kept("messages with keys", write_messages, judge_messages),
    Kept("the offset of a group", write_offset, judge_offset),
    Kept("types of topics", write_types, judge_types),
    Kept("open half messages", write_halves, judge_halves),
    Kept("a parked half message", write_parked, judge_parked),
    Kept("a user with a policy", write_users, judge_users),
    # What must come after the upgrade is written last.
    Kept("popped messages", write_popped, judge_popped),
    Kept("delayed messages", write_delayed, judge_delayed),
)


def make_topic(name_servers: str, topic: str, kind: str | None = None) -> None:
    with Admin(name_servers, **ADMIN) as admin:
        admin.create_topic(topic, queues=1, message_type=kind)


def visible(name_servers: str, topic: str) -> list[str]:
    """The bodies that consumers can read."""
    with PullConsumer(GROUP, name_servers=name_servers, **ADMIN) as consumer:
        (queue,) = consumer.queues(topic)
        return [message.body.decode() for message in consumer.pull(queue, 0).messages]


def popping(name_servers: str) -> Popping:
    with Admin(name_servers, **ADMIN) as admin:
        address = admin.cluster_info().broker_addr_table[BROKER].broker_addrs[0]
    return Popping(address, BROKER, Account(**ADMIN))


def transactions(name_servers: str, topic: str, state: str) -> list[dict[str, Any]]:
    words = ("transactions", "list", "--json", "--topic", topic, "--state", state)
    printed = json.loads(gantry(*words, name_servers=name_servers))
    listed: list[dict[str, Any]] = printed if isinstance(printed, list) else printed["transactions"]
    return listed


def gantry(*words: str, name_servers: str, given: str = "") -> str:
    """What a command of this checkout prints, called by the first user."""
    with tempfile.TemporaryDirectory() as directory:
        environment = {
            "GANTRY_ACCESS_KEY": ADMIN["access_key"], "GANTRY_SECRET_KEY": ADMIN["secret_key"],
            "GANTRY_AUDIT": str(Path(directory) / "audit.jsonl"), "NAMESRV_ADDR": name_servers,
        }  # fmt: skip
        # In this process: an interpreter for each of a dozen commands would take most of the time.
        done = CliRunner().invoke(app, list(words), input=given, env=environment)
    assert done.exit_code == 0, f"gantry {' '.join(words)}: {done.output} {done.exception}"
    return done.stdout


def until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, f"not within {PATIENCE_S:.0f} s: {what}"
        time.sleep(0.2)
