"""Every operation of the broker through every door that can ask for it, with equal outcomes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from types import CodeType
from typing import Any, Final

import pytest

from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.message.message import Message
from gantrymq.message.receipt_handle import ReceiptHandle
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.protocol.files.groups import LITE_BIND_TOPIC, Group
from gantrymq.protocol.files.topics import MESSAGE_TYPE, TopicConfig
from gantrymq.testing import LocalCluster
from tests.broker.doors.asked import BY_THE_BROKER, PARTS, methods, operations
from tests.broker.doors.by_values import ByValues
from tests.broker.doors.callers import DOORS
from tests.broker.doors.test_equal_outcomes import USERS, opened
from tests.broker.doors.who import Delivery, Who

COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK, LocalTransactionState.UNKNOWN
SETTINGS: Final = {
    "timerWheelEnable": True,
    "recallMessageEnable": True,
    "enablePropertyFilter": True,
    "brokerIP1": "127.0.0.1",
}

DELIVERY: Final = Delivery(b"x", 0, 0, str(ReceiptHandle(0, 1, 60_000, 0, "0", "broker-a", 0, 0)))


def refusal_of(work: Callable[[], object]) -> Refusal:
    with pytest.raises(Refused) as caught:
        work()
    return caught.value.reason


# What is done, by one caller after the other, each on a broker of its own. What is returned must be equal.


def sent(by: Any) -> Any:
    by.send("orders", b"one", KEYS="k")
    first = by.send_batch("orders", [b"two", b"three"])
    return (
        first, by.read("orders"), by.offsets("orders"), by.topic_offsets("orders"), by.by_key("orders", "k"),
        by.by_log_offset(0), refusal_of(lambda: by.by_log_offset(7)), len(by.entries("orders")),
        refusal_of(lambda: by.entries("nothing")), refusal_of(lambda: by.send_batch("orders", [b""])),
    )  # fmt: skip


def ended(by: Any) -> Any:
    return _ended(by, by.end)


def ended_by_ids(by: Any) -> Any:
    return _ended(by, by.end_by_id)


def _ended(by: Any, end: Callable[[Any, LocalTransactionState], None]) -> Any:
    half, other = by.half("orders", b"kept"), by.half("orders", b"dropped")
    end(half, UNKNOWN)
    end(half, COMMIT)
    end(half, COMMIT)
    end(other, ROLLBACK)
    return refusal_of(lambda: end(half, ROLLBACK)), refusal_of(lambda: end(other, COMMIT)), by.read("orders")


def many_ended(by: Any) -> Any:
    halves = by.halves("orders", {"KEY1": b"one", "KEY2": b"two"})
    listed, checked = by.listed(), by.checks(10)
    committed, again = by.end_halves(halves, COMMIT), by.end_halves(halves, ROLLBACK)
    return listed, checked, committed, again, by.read("orders"), by.listed(), by.checks(10)


def explained(by: Any) -> Any:
    half = by.half("orders", b"x")
    (one,) = by.explain(half.transaction_id)
    return one["topic"], one["state"], by.explain("unknown"), refusal_of(lambda: by.resume(half.log_offset))


def positioned(by: Any) -> Any:
    by.send_batch("orders", [b"one", b"two"])
    by.join("readers", "orders")
    by.commit("readers", "orders", 1)
    by.make_group("others")
    return (
        by.position("readers", "orders"), by.positions("orders@readers"), by.progress("readers"),
        by.readers("readers", "orders"), by.time_spans("readers", "orders"), by.clone("readers", "others", "orders"),
        by.position("others", "orders"), by.reset("readers", "orders", 0),
        refusal_of(lambda: by.reset("readers", "no", 0)), refusal_of(lambda: by.commit("readers", "no", 1)),
        refusal_of(lambda: by.topic_offsets("no")),
    )  # fmt: skip


def joined(by: Any) -> Any:
    by.join("readers", "orders")
    found = (
        by.client_ids("readers"), by.consumers("readers", "orders"), by.producers("payments"),
        by.lock("readers", "orders"), by.overviews(), by.reported_positions("readers", "orders"),
        by.copied_tables(),
    )  # fmt: skip
    by.leave("readers")
    by.check_subscription("readers", "orders", "a > 1")
    return found, [
        refusal_of(lambda: by.client_ids("readers")), refusal_of(lambda: by.consumers("readers", "orders")),
        refusal_of(lambda: by.producers("nobody")), refusal_of(lambda: by.running_info("readers", "nobody")),
        refusal_of(lambda: by.consume_directly("readers", "nobody")),
        refusal_of(lambda: by.reported_positions("readers", "orders")),
        refusal_of(lambda: by.check_subscription("readers", "orders", "a >")),
    ]  # fmt: skip


def popped(by: Any) -> Any:
    by.send_batch("orders", [b"one", b"two", b"three"])
    by.join("poppers", "orders")
    peeked, noticed = by.peek("poppers", "orders"), by.notification("poppers", "orders")
    one, two, three = by.pop("poppers", "orders")
    by.ack("poppers", "orders", one)
    renewed = by.change_invisible_time("poppers", "orders", two, 30_000)
    by.batch_ack("poppers", "orders", [three])
    ended = refusal_of(lambda: by.change_invisible_time("poppers", "orders", one, 30_000))
    return peeked, noticed, [one.body, two.body, three.body], renewed, ended, by.pop("poppers", "orders")


def consumed(by: Any) -> Any:
    first = by.send_batch("orders", [b"one", b"two"])
    by.join("poppers", "orders")
    one, two = by.pop("poppers", "orders")
    renewed = by.change_invisible_time("poppers", "orders", one, 30_000)
    by.ack("poppers", "orders", two)
    ended = refusal_of(lambda: by.change_invisible_time("poppers", "orders", two, 30_000))
    return first, [one.body, two.body], renewed, ended, by.pop("poppers", "orders")


def recalled(by: Any) -> Any:
    return refusal_of(lambda: by.recall("orders", "no handle"))


def half_ended(by: Any) -> Any:
    half, other = by.half("orders", b"kept"), by.half("orders", b"dropped")
    by.join("poppers", "orders")
    by.end_by_id(half, UNKNOWN)
    by.end_by_id(half, COMMIT)
    by.end_by_id(half, COMMIT)
    by.end_by_id(other, ROLLBACK)
    kept = [one.body for one in by.pop("poppers", "orders")]
    return refusal_of(lambda: by.end_by_id(half, ROLLBACK)), refusal_of(lambda: by.end_by_id(other, COMMIT)), kept


def assigned(by: Any) -> Any:
    by.join("poppers", "orders")
    before = by.assigned("poppers", "orders")
    modes = by.set_mode("poppers", "orders", "POP")
    return before, modes, by.assigned("poppers", "orders"), refusal_of(lambda: by.set_mode("poppers", "no", "POP"))


def administered(by: Any) -> Any:
    by.make_topic("made", 3)
    by.make_group("group")
    made = by.topic("made"), by.group("group"), "made" in by.topics()[0], "group" in by.groups()
    forbidden, allowed = by.allow("group", "made", False), by.allow("group", "made", True)
    by.delete_topic("made")
    by.delete_group("group")
    return made, forbidden, allowed, by.topics(), by.groups(), [
        refusal_of(lambda: by.topic("made")), refusal_of(lambda: by.group("group")),
        refusal_of(lambda: by.make_topic("made", 0)), refusal_of(lambda: by.delete_topic("TBW102")),
        refusal_of(lambda: by.make_group("a group")),
    ]  # fmt: skip


def operated(by: Any) -> Any:
    by.set("maxMessageSize", "5000")
    by.clean()
    return (
        "maxMessageSize=5000\n" in by.settings(), by.figures(), by.replication(),
        refusal_of(lambda: by.set("maxMessageSize", "much")), refusal_of(lambda: by.set("nothing", "1")),
        refusal_of(lambda: by.statistic("TOPIC_PUT_NUMS", "nothing")), refusal_of(lambda: by.elect(1)),
        refusal_of(by.told),
    )  # fmt: skip


def timed(by: Any) -> Any:
    handle = by.send("orders", b"later", TIMER_DELAY_SEC="3600", UNIQ_KEY="A1")
    return by.recall("orders", handle), by.timers()[0], refusal_of(lambda: by.recall("orders", "no handle"))


def given_back(by: Any) -> Any:
    by.send("orders", b"x")
    by.join("readers", "orders")
    by.send_back("readers", 0)
    marks = {"CORRELATION_ID": "1", "REPLY_TO_CLIENT": "nobody", "MSG_TYPE": "reply"}
    return (
        refusal_of(lambda: by.send_back("readers", 7)), refusal_of(lambda: by.reply("orders", **marks)),
        by.topic_offsets("%RETRY%readers")[0],
    )  # fmt: skip


def lite(by: Any) -> Any:
    with_lite_topics(by._cluster)
    by.lite_send("baskets", "a", b"a1")
    by.lite_send("baskets", "b", b"b1")
    by.lite_send("baskets", "a", b"a2")
    by.lite_subscribe("readers", "baskets", "a")
    first = by.lite_pop("readers", "baskets")
    by.lite_subscribe_exactly("readers", "baskets", "b")
    second = by.lite_pop("readers", "baskets")
    by.lite_unsubscribe("readers", "baskets", "b")
    by.lite_leave("readers", "baskets")
    return first, second, by.lite_pop("readers", "baskets"), [
        refusal_of(lambda: by.lite_subscribe("readers", "nothing", "a")),
        refusal_of(lambda: by.lite_subscribe("readers", "orders", "a")),
        refusal_of(lambda: by.lite_subscribe("others", "baskets", "a")),
        refusal_of(lambda: by.lite_subscribe("readers", "baskets", "a/b")),
        refusal_of(lambda: by.lite_pop("others", "baskets")),
        refusal_of(lambda: by.lite_send("baskets", "a/b", b"x")),
    ]  # fmt: skip


def with_lite_topics(cluster: LocalCluster) -> None:
    """A topic of type LITE, and a group that reads its lite topics."""
    topic = TopicConfig(topic_name="baskets", read_queue_nums=2, write_queue_nums=2, attributes={MESSAGE_TYPE: "LITE"})
    cluster.broker.topics.update(topic)
    cluster.broker.groups.update(Group(group_name="readers", attributes={LITE_BIND_TOPIC: "baskets"}))


DONE: Final = (
    sent, ended, ended_by_ids, many_ended, explained, positioned, joined, popped, consumed, recalled,
    half_ended, assigned, administered, operated,
    timed, given_back, lite,
)  # fmt: skip

# What a door that only shows can be asked about what was done through another one.
SHOWN: Final[dict[str, Callable[[Any, str], Any]]] = {
    "health": lambda by, transaction_id: by.health(),
    "undecided": lambda by, transaction_id: by.undecided() == [transaction_id],
    "explain": lambda by, transaction_id: [one["state"] for one in by.explain(transaction_id)],
}


def names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from names_in(inner)


def used(scenario: Any) -> set[str]:
    """The methods of callers that a scenario uses."""
    known = {name for door in DOORS for name in methods(door)}
    inner = used(_ended) if "_ended" in scenario.__code__.co_names else set()
    return inner | (set(names_in(scenario.__code__)) & known)


@pytest.mark.parametrize("scenario", DONE, ids=lambda scenario: scenario.__name__)
def test_what_is_done_has_the_same_outcome_through_every_door(scenario: Callable[[Any], Any]) -> None:
    outcomes = {}
    for door in DOORS:
        if used(scenario) <= methods(door).keys():
            with opened(SETTINGS) as cluster:
                outcomes[door.name] = scenario(door(cluster, Who()))
    first = outcomes[ByValues.name]
    assert outcomes == dict.fromkeys(outcomes, first)
    assert len(outcomes) > 1 or scenario is ended_by_ids


def test_an_end_by_ids_has_the_outcome_of_an_end_by_offsets() -> None:
    outcomes = []
    for scenario in (ended, ended_by_ids):
        with opened(SETTINGS) as cluster:
            outcomes.append(scenario(ByValues(cluster, Who())))
    assert outcomes == [(Refusal.CONFLICT, Refusal.CONFLICT, [b"kept"])] * 2


@pytest.mark.parametrize("method", SHOWN)
def test_what_is_shown_is_the_same_through_every_door(method: str) -> None:
    with opened(SETTINGS) as cluster:
        half = ByValues(cluster, Who()).half("orders", b"x")
        shown = {
            door.name: SHOWN[method](door(cluster, Who()), half.transaction_id)
            for door in DOORS
            if method in methods(door)
        }
    assert len(shown) > 1
    assert len({str(one) for one in shown.values()}) == 1


@pytest.mark.parametrize("authorizes", [True, False])
@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
def test_a_client_whose_user_is_not_known_may_see_nothing(door: Any, authorizes: bool) -> None:
    with opened({**SETTINGS, **USERS, "authorizationEnabled": authorizes}) as cluster:
        with cluster.door("payments", user="admin") as owner:
            half = owner.send_half(Message("orders", b"x"))
        nobody = door(cluster, Who())
        given: dict[str, Any] = {
            "half": half, "halves": [half], "transaction_id": half.transaction_id, "one": DELIVERY, "some": [DELIVERY],
            "bodies": [b"x"], "state": COMMIT, "topic": "orders", "readable": True, "mode": "POP",
        }  # fmt: skip
        for name in getattr(door, "judged", methods(door)):
            if name in getattr(door, "open_to_all", ()):
                continue
            method = getattr(nobody, name)
            arguments = {
                parameter.name: given.get(parameter.name) or _example(parameter)
                for parameter in inspect.signature(method).parameters.values()
                if parameter.kind is not parameter.VAR_KEYWORD
            }
            if name == "halves":
                arguments["bodies"] = {"KEY1": b"x"}
            assert refusal_of(partial(method, **arguments)) is Refusal.NOT_PERMITTED, name


def _example(parameter: inspect.Parameter) -> object:
    """An argument of the right type."""
    return {"str": "x", "int": 0, "bytes": b"x"}[parameter.annotation]


@pytest.mark.pure("it reads from the classes which methods there are")
def test_every_operation_is_asked_through_every_door_or_there_is_a_reason_why_not() -> None:
    exercised = set(SHOWN).union(*map(used, DONE))
    with opened(SETTINGS) as cluster:
        there = operations(cluster._servers.served.operations)  # type: ignore[union-attr]
    for door in DOORS:
        assert methods(door).keys() <= exercised, f"no scenario uses this of {door.name}"
        asked = {operation for some in methods(door).values() for operation in some}
        assert asked <= there, f"{door.name} asks for what is no operation"
        reasons: dict[str, str] = door.cannot
        missing = {operation for operation in there - asked if not operation.startswith(tuple(reasons))}
        assert not missing, f"{door.name} neither asks for these nor says why it cannot"
        idle = [beginning for beginning in reasons if not any(one.startswith(beginning) for one in there - asked)]
        assert not idle, f"{door.name} says that it cannot ask for these"


def test_what_no_door_asks_for_exists() -> None:
    with opened(SETTINGS) as cluster:
        whole: Any = cluster._servers.served.operations  # type: ignore[union-attr]
        for name in (*BY_THE_BROKER, *PARTS):
            part = whole
            for word in name.split("."):
                part = getattr(part, word)
