"""The lines: what each official client of RocketMQ 5 must show at a door. A line is a function that plays it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from tests.interop.five_driver import QUICK_RETRIES, Driver, NotInThisClient, Play
from tests.interop.five_line import LINES, NO_DOOR, Played, code_is, expect, line

LONG_S = 20
"""A delay in which a message can be recalled on a busy machine."""
TWO_CHECKS_S = 7
MEBI = 1 << 20

# Normal messages


def _field(words: Mapping[str, object], key: str, wanted: object) -> Callable[[Play], None]:
    def play(p: Play) -> None:
        topic = p.topic("FIFO" if "group" in words else "NORMAL")
        p.send(topic, "one", **words)  # type: ignore[arg-type]
        reader = p.reader(topic)
        p.take(reader, 1)
        expect(p.driver.seen("got", reader)[0].get(key), wanted)

    return play


for _name, _words, _key, _wanted in (
    ("normal: the body", {}, "body", "one"),
    ("normal: the tag", {"tag": "red"}, "tag", "red"),
    ("normal: the key", {"key": "k-1"}, "keys", "k-1"),
    ("normal: a property", {"property": "value"}, "property", "value"),
    ("normal: a property in any language", {"property": "héllo wörld, 你好"}, "property", "héllo wörld, 你好"),
    ("normal: the first delivery has number 1", {}, "attempt", 1),
    ("ordered: the message group", {"group": "g"}, "group", "g"),
):
    line(_name)(_field(_words, _key, _wanted))


@line("normal: a body in any language")
def _(p: Play) -> None:
    topic = p.topic()
    p.send(topic, "grüße, 你好")
    expect(p.take(p.reader(topic), 1), ["grüße, 你好"])


def _large(size: int) -> Callable[[Play], None]:
    def play(p: Play) -> None:
        topic = p.topic()
        p.send(topic, "0123456789abcdef", times=size // 16)
        expect(p.take(p.reader(topic), 1), [f"large {size}"])

    return play


line("normal: a body of 1 MiB")(_large(MEBI))
line("normal: a body of 3 MiB")(_large(3 * MEBI))


@line("normal: a body that is too large is refused, and the next one taken")
def _(p: Play) -> str:
    topic = p.topic()
    producer = p.client("producer", topic=topic)
    text = p.refused("send", name=producer, topic=topic, body="0123456789abcdef", times=5 * MEBI // 16)
    code = code_is(text, "41301")
    p.send(topic, "small", producer=producer)
    expect(p.take(p.reader(topic), 1), ["small"])
    return code


@line("normal: a hundred messages, each once")
def _(p: Play) -> None:
    topic = p.topic()
    bodies = [f"body {number}" for number in range(100)]
    p.send(topic, *bodies)
    expect(sorted(p.take(p.reader(topic), 100)), sorted(bodies))


@line("normal: four queues are all read")
def _(p: Play) -> None:
    topic = p.topic(queues=4)
    bodies = [f"body {number}" for number in range(12)]
    p.send(topic, *bodies)
    expect(sorted(p.take(p.reader(topic), 12)), sorted(bodies))


# Ordered, delayed and ranked messages

ORDERED = [f"step {number}" for number in range(5)]


@line("ordered: those of a group come in their order")
def _(p: Play) -> None:
    topic = p.topic("FIFO", queues=2)
    reader = p.reader(topic, p.group(consume_message_orderly=True))
    p.send(topic, *ORDERED, group="g")
    expect(p.take(reader, 5), ORDERED)


@line("ordered: the next one waits for the acknowledgement")
def _(p: Play) -> None:
    topic = p.topic("FIFO")
    reader = p.reader(topic, p.group(consume_message_orderly=True))
    p.send(topic, "first", "second", group="g")
    p.driver.until(lambda: p.receive(reader, 1, 300), "the first")
    p.nothing(reader)
    p.driver.ask("ack", name=reader, body="first")
    expect(p.take(reader, 1), ["second"])


@line("ordered: one that nobody acknowledged comes again before the next", short=False)
def _(p: Play) -> None:
    topic = p.topic("FIFO")
    reader = p.reader(topic, p.group(consume_message_orderly=True))
    p.send(topic, "first", "second", group="g")
    p.driver.until(lambda: p.receive(reader, 1, p.door.invisible_s), "the first")
    expect(p.take(reader, 2), ["first", "second"])


@line("delayed: it comes, and not before its time", short=False)
def _(p: Play) -> None:
    topic = p.topic("DELAY")
    reader, begun = p.reader(topic), time.monotonic()
    p.send(topic, "late", delay=5)
    expect(p.take(reader, 1), ["late"])
    assert time.monotonic() - begun >= 4, "before its time"  # clients that count whole seconds lose up to one


@line("delayed: a recalled one does not come", short=False)
def _(p: Play) -> None:
    topic = p.topic("DELAY")
    producer = p.client("producer", topic=topic)
    handle = p.send(topic, "recalled", producer=producer, delay=LONG_S)
    p.driver.ask("recall", name=producer, topic=topic, handle=handle)
    p.send(topic, "kept", producer=producer, delay=LONG_S + 2)
    reader = p.reader(topic)
    expect(p.take(reader, 1), ["kept"])
    p.nothing(reader)


@line("delayed: a recall with a wrong handle is refused")
def _(p: Play) -> str:
    topic = p.topic("DELAY")
    producer = p.client("producer", topic=topic)
    return code_is(p.refused("recall", name=producer, topic=topic, handle="nonsense"), "40000", "40008", "50001")


def _ranked(key: str, wanted: list[str]) -> Callable[[Play], None]:
    def play(p: Play) -> None:
        topic = p.topic("PRIORITY", queues=4)
        producer = p.client("producer", topic=topic)
        for priority in (1, 3, 2):  # the client for Node.js takes a 0 for no priority
            p.send(topic, f"priority {priority}", producer=producer, priority=priority)
        reader = p.reader(topic)
        p.take_singly(reader, 3)
        found = [one.get(key) for one in p.driver.seen("got", reader)]
        if found[0] is None:
            raise NotInThisClient("not in this client: the priority of a received message")
        expect(found, wanted)

    return play


line("priority: the highest comes first")(_ranked("body", [f"priority {number}" for number in (3, 2, 1)]))
line("priority: its number comes")(_ranked("priority", ["3", "2", "1"]))


# Lite topics


def _lite(p: Play, verb: str = "lite", **words: object) -> tuple[str, str, str]:
    """Topic, reader of its lite topic ``a``, producer."""
    topic = p.topic("LITE")
    group = p.group(attributes={"lite.bind.topic": topic}, group_retry_policy=QUICK_RETRIES)
    reader = p.client(verb, topic=topic, group=group, **words)  # type: ignore[arg-type]
    p.driver.ask("subscribe", name=reader, lite="a")
    return topic, reader, p.client("producer", topic=topic)


@line("lite: those of a lite topic come in their order")
def _(p: Play) -> None:
    topic, reader, producer = _lite(p)
    p.send(topic, *ORDERED, producer=producer, lite="a")
    expect(p.bodies(reader, 5), ORDERED)
    expect({one["lite"] for one in p.driver.seen("got", reader)}, {"a"})


@line("lite: nothing comes of a lite topic without a subscription")
def _(p: Play) -> None:
    topic, reader, producer = _lite(p)
    p.send(topic, "other", producer=producer, lite="b")
    p.send(topic, "own", producer=producer, lite="a")
    expect(p.bodies(reader, 1), ["own"])


@line("lite: one that failed comes again before the next", short=False)
def _(p: Play) -> None:
    topic, reader, producer = _lite(p, fails=1)
    p.send(topic, "one", "fails", "two", producer=producer, lite="a")
    expect(p.bodies(reader, 4), ["one", "fails", "fails", "two"])


@line("lite: nothing comes after the end of a subscription")
def _(p: Play) -> None:
    topic, reader, producer = _lite(p)
    p.driver.ask("subscribe", name=reader, lite="b")
    p.send(topic, "before", producer=producer, lite="a")
    p.bodies(reader, 1)
    p.driver.ask("unsubscribe", name=reader, lite="a")
    p.send(topic, "after", producer=producer, lite="a")
    p.send(topic, "other", producer=producer, lite="b")
    expect(p.bodies(reader, 2), ["before", "other"])


@line("lite: a name that is too long is refused")
def _(p: Play) -> str:
    _, reader, _ = _lite(p)
    return code_is(p.refused("subscribe", name=reader, lite="x" * 100), "40020")


@line("lite, simple: those of a lite topic come in their order, and once")
def _(p: Play) -> None:
    topic, reader, producer = _lite(p, "lite_simple")
    p.send(topic, *ORDERED, producer=producer, lite="a")
    expect(p.take(reader, 5), ORDERED)
    expect({one["lite"] for one in p.driver.seen("got", reader)}, {"a"})
    p.nothing(reader)


@line("lite, simple: nothing comes of a lite topic without a subscription, or after its end")
def _(p: Play) -> None:
    topic, reader, producer = _lite(p, "lite_simple")
    p.send(topic, "other", producer=producer, lite="b")
    p.send(topic, "own", producer=producer, lite="a")
    expect(p.take(reader, 1), ["own"])
    p.driver.ask("unsubscribe", name=reader, lite="a")
    p.send(topic, "after", producer=producer, lite="a")
    p.nothing(reader)


@line("lite, simple: one that nobody acknowledged comes again before the next", short=False)
def _(p: Play) -> None:
    topic, reader, producer = _lite(p, "lite_simple")
    p.send(topic, "first", "second", producer=producer, lite="a")
    p.driver.until(lambda: p.receive(reader, 1, p.door.invisible_s), "the first")
    expect(p.take(reader, 2), ["first", "second"])


# Transactions


def _half(p: Play, body: str, driver: Driver | None = None) -> tuple[str, str, str]:
    """Topic, producer, and transaction with one half message."""
    topic, used = p.topic("TRANSACTION"), driver or p.driver
    producer = p.client("producer", topic=topic, driver=used)
    used.ask("half", name=producer, topic=topic, body=body, transaction=topic)
    return topic, producer, topic


@line("transaction: committed, it comes")
def _(p: Play) -> None:
    topic, _, transaction = _half(p, "commit 1")
    p.driver.ask("end", transaction=transaction, how="commit")
    expect(p.take(p.reader(topic), 1), ["commit 1"])


@line("transaction: nobody sees it before the commit")
def _(p: Play) -> None:
    topic, _, transaction = _half(p, "wait for it")
    reader = p.reader(topic)
    p.nothing(reader)
    p.driver.ask("end", transaction=transaction, how="commit")
    expect(p.take(reader, 1), ["wait for it"])


@line("transaction: rolled back, it never comes")
def _(p: Play) -> None:
    topic, _, transaction = _half(p, "rollback 1")
    p.driver.ask("end", transaction=transaction, how="rollback")
    p.nothing(p.reader(topic))


@line("transaction: a tag and a key come with it")
def _(p: Play) -> None:
    topic = p.topic("TRANSACTION")
    producer = p.client("producer", topic=topic)
    p.driver.ask("half", name=producer, topic=topic, body="one", transaction=topic, tag="red", key="k")
    p.driver.ask("end", transaction=topic, how="commit")
    reader = p.reader(topic)
    p.take(reader, 1)
    expect([(one["tag"], one["keys"]) for one in p.driver.seen("got", reader)], [("red", "k")])


@line("transaction: unanswered, the check commits it", short=False)
def _(p: Play) -> None:
    topic, producer, _ = _half(p, "commit by check")
    expect(p.take(p.reader(topic), 1), ["commit by check"])
    expect(set(p.checks(producer, 1)), {"commit by check"})


@line("transaction: unanswered, the check rolls it back", short=False)
def _(p: Play) -> None:
    topic, producer, _ = _half(p, "rollback by check")
    p.checks(producer, 1)
    p.nothing(p.reader(topic))  # meanwhile the answer has arrived
    before = len(p.driver.seen("check", producer))
    time.sleep(TWO_CHECKS_S)
    expect(len(p.driver.seen("check", producer)), before)


@line("transaction: unknown at the check, it is checked again, and may still be committed", short=False)
def _(p: Play) -> None:
    topic, producer, transaction = _half(p, "unknown")
    p.checks(producer, 2)
    p.driver.ask("end", transaction=transaction, how="commit")
    expect(p.take(p.reader(topic), 1), ["unknown"])


@line("transaction: its producer is killed, and a sibling is checked", short=False)
def _(p: Play) -> None:
    killed = p.sibling()
    topic, _, _ = _half(p, "commit by sibling", killed)
    killed.process.kill()
    producer = p.client("producer", topic=topic)
    expect(set(p.checks(producer, 1)), {"commit by sibling"})
    expect(p.take(p.reader(topic), 1), ["commit by sibling"])


@line("transaction: committed after 40 s", short=False)
def _(p: Play) -> None:
    topic, _, transaction = _half(p, "unknown for long")
    time.sleep(40)
    p.driver.ask("end", transaction=transaction, how="commit")
    expect(p.take(p.reader(topic), 1), ["unknown for long"])


# Simple consumers


@line("simple: what was acknowledged does not come again", short=False)
def _(p: Play) -> None:
    topic = p.topic()
    p.send(topic, "one")
    reader = p.reader(topic)
    p.take(reader, 1, invisible=p.door.invisible_s)
    time.sleep(p.door.invisible_s + 2)
    p.nothing(reader)


@line("simple: what was not acknowledged comes again, and says so", short=False)
def _(p: Play) -> None:
    topic = p.topic()
    p.send(topic, "one")
    reader = p.reader(topic)
    p.take(reader, 1, invisible=p.door.invisible_s, ack=False)
    p.take(reader, 1)
    expect([one["attempt"] for one in p.driver.seen("got", reader)], [1, 2])


@line("simple: an empty topic gives nothing")
def _(p: Play) -> None:
    p.nothing(p.reader(p.topic()))


@line("simple: not more than asked for")
def _(p: Play) -> None:
    topic = p.topic()
    p.send(topic, "one", "two", "three")
    reader = p.reader(topic)
    expect(len(p.driver.until(lambda: p.receive(reader, 2), "two messages")) <= 2, True)


@line("simple: a message that is sent while it waits")
def _(p: Play) -> None:
    topic = p.topic()
    reader = p.reader(topic)
    p.receive(reader)
    p.send(topic, "one")
    expect(p.take(reader, 1), ["one"])


@line("simple: a shorter invisible time brings it back sooner", short=False)
def _(p: Play) -> None:
    topic = p.topic()
    p.send(topic, "one")
    reader = p.reader(topic)
    p.take(reader, 1, invisible=300, ack=False)
    p.driver.ask("change", name=reader, body="one", invisible=p.door.invisible_s)
    expect(p.take(reader, 1), ["one"])


@line("simple: a longer invisible time keeps it away", short=False)
def _(p: Play) -> None:
    topic = p.topic()
    p.send(topic, "one")
    reader = p.reader(topic)
    p.take(reader, 1, invisible=p.door.invisible_s, ack=False)
    p.driver.ask("change", name=reader, body="one", invisible=300)
    time.sleep(p.door.invisible_s + 2)
    p.nothing(reader)


@line("simple: two consumers of a group share")
def _(p: Play) -> None:
    topic, group = p.topic(), p.group()
    p.send(topic, *ORDERED)
    first, second = p.reader(topic, group), p.reader(topic, group)
    found = p.take(first, 5)
    p.nothing(second)
    expect(sorted(found), ORDERED)


@line("simple: two groups get all")
def _(p: Play) -> None:
    topic = p.topic()
    p.send(topic, *ORDERED)
    for reader in (p.reader(topic), p.reader(topic)):
        expect(sorted(p.take(reader, 5)), ORDERED)


# Push consumers


@line("push: all messages, each once")
def _(p: Play) -> None:
    topic = p.topic(queues=2)
    consumer = p.client("push", topic=topic, group=p.group())
    p.send(topic, *ORDERED)
    expect(sorted(p.bodies(consumer, 5)), ORDERED)


@line("push: the tag, the key and a property")
def _(p: Play) -> None:
    topic = p.topic()
    consumer = p.client("push", topic=topic, group=p.group())
    p.send(topic, "one", tag="red", key="k", property="v")
    p.bodies(consumer, 1)
    (one,) = p.driver.seen("got", consumer)
    expect((one["tag"], one["keys"], one["property"]), ("red", "k", "v"))


@line("push: one that failed comes again, and says so", short=False)
def _(p: Play) -> None:
    topic = p.topic()
    consumer = p.client("push", topic=topic, group=p.group(group_retry_policy=QUICK_RETRIES), fails=1)
    p.send(topic, "fails once")
    p.bodies(consumer, 2)
    expect([one["attempt"] for one in p.driver.seen("got", consumer)], [1, 2])


@line("push: after the last attempt it is a dead letter", short=False)
def _(p: Play) -> None:
    topic = p.topic()
    group = p.group(group_retry_policy=QUICK_RETRIES, retry_max_times=1)
    consumer = p.client("push", topic=topic, group=group, fails=9)
    p.send(topic, "fails always")
    p.bodies(consumer, 2)
    expect(p.dead_letters(group, 1), ["fails always"])
    expect(len(p.driver.seen("got", consumer)), 2)


@line("push: in order")
def _(p: Play) -> None:
    topic = p.topic("FIFO", queues=2)
    consumer = p.client("push", topic=topic, group=p.group(consume_message_orderly=True))
    p.send(topic, *ORDERED, group="g")
    expect(p.bodies(consumer, 5), ORDERED)


@line("push: in order, with a failure", short=False)
def _(p: Play) -> None:
    topic = p.topic("FIFO")
    group = p.group(consume_message_orderly=True, group_retry_policy=QUICK_RETRIES)
    consumer = p.client("push", topic=topic, group=group, fails=1)
    p.send(topic, "one", "fails", "two", group="g")
    expect(p.bodies(consumer, 4), ["one", "fails", "fails", "two"])


@line("push: in order, and one that fails always is a dead letter", short=False)
def _(p: Play) -> None:
    topic = p.topic("FIFO")
    group = p.group(consume_message_orderly=True, group_retry_policy=QUICK_RETRIES, retry_max_times=1)
    consumer = p.client("push", topic=topic, group=group, fails=9)
    p.send(topic, "one", "fails", "two", group="g")
    expect(p.dead_letters(group, 1), ["fails"])
    p.driver.until(lambda: "two" in p.bodies(consumer, 1), "the next one")


# Filters


def _filtered(words: dict[str, str], wanted: list[str]) -> Callable[[Play], None]:
    def play(p: Play) -> None:
        topic = p.topic()
        producer = p.client("producer", topic=topic)
        for number, tag in enumerate(("red", "green", "blue")):
            p.send(topic, tag, producer=producer, tag=tag, property=str(number))
        reader = p.reader(topic, **words)
        expect(sorted(p.take(reader, len(wanted))), sorted(wanted))
        p.nothing(reader)

    return play


line("filter: a tag")(_filtered({"tags": "red"}, ["red"]))
line("filter: one of two tags")(_filtered({"tags": "red || blue"}, ["red", "blue"]))
line("filter: SQL on a property")(_filtered({"sql": "a > 0"}, ["green", "blue"]))
line("filter: SQL on the tag")(_filtered({"sql": "TAGS = 'green'"}, ["green"]))


@line("filter: a tag, at a push consumer")
def _(p: Play) -> None:
    topic = p.topic()
    consumer = p.client("push", topic=topic, group=p.group(), tags="red")
    producer = p.client("producer", topic=topic)
    for tag in ("green", "red"):
        p.send(topic, tag, producer=producer, tag=tag)
    expect(p.bodies(consumer, 1), ["red"])


# What is refused


@line("refused: a topic that does not exist")
def _(p: Play) -> str:
    producer = p.client("producer", topic=p.topic())
    return code_is(p.refused("send", name=producer, topic=f"{p.name}Nothing", body="one"), "40402")


def _wrong_type(topic_type: str, words: dict[str, Any], verb: str = "send") -> Played:
    def play(p: Play) -> str:
        topic = p.topic(topic_type)
        producer = p.client("producer", topic=topic)
        text = p.refused(verb, name=producer, topic=topic, body="one", **words)
        code = code_is(text, "40014")
        p.nothing(p.reader(topic))
        return code

    return play


line("refused: an ordered message to a topic of normal ones")(_wrong_type("NORMAL", {"group": "g"}))
line("refused: a delayed message to a topic of normal ones")(_wrong_type("NORMAL", {"delay": LONG_S}))
line("refused: a transaction on a topic of normal messages")(_wrong_type("NORMAL", {"transaction": "t"}, "half"))
line("refused: a normal message to a topic of ordered ones")(_wrong_type("FIFO", {}))
line("refused: a normal message to a topic of transactions")(_wrong_type("TRANSACTION", {}))


# Restarts


@line(
    "restart: messages and halves outlive SIGKILL of broker and door, and the commit is taken",
    short=False,
    ours_alone="it has no door in its broker",
    restarts=True,
)
def _(p: Play) -> None:
    topic, held = p.topic(), p.topic("TRANSACTION")
    producer = p.client("producer", topic=topic)
    p.send(topic, *ORDERED, producer=producer)
    halves = p.client("producer", topic=held)
    p.driver.ask("half", name=halves, topic=held, body="unknown before", transaction=held)
    assert p.door.restart is not None
    p.door.restart()
    reader = p.reader(topic)
    expect(sorted(p.take(reader, 5)), ORDERED)
    p.commit_after_restart(held)
    expect(p.take(p.reader(held), 1), ["unknown before"])


@line("restart: a push consumer goes on", short=False, ours_alone=NO_DOOR, restarts=True)
def _(p: Play) -> None:
    topic = p.topic()
    consumer = p.client("push", topic=topic, group=p.group())
    p.send(topic, "before")
    p.bodies(consumer, 1)
    assert p.door.restart is not None
    p.door.restart()
    p.send(topic, "after")
    p.driver.until(lambda: "after" in p.bodies(consumer, 1), "the message after the restart")


assert len({one.name for one in LINES}) == len(LINES)
