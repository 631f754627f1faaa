"""Each operation through every door that offers it, with the same outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from gantrymq.access.values import Action, Policy, PolicyDecision, Resource, User
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.demo.ports import free_port
from gantrymq.message.message import Message
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.protocol.files.topics import TopicConfig
from gantrymq.testing import LocalCluster
from tests.broker.doors.callers import DOORS
from tests.broker.doors.who import HTTP_PORT, Who

COMMIT, ROLLBACK = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK
FIRST: Final = '{"username":"admin","password":"admin-secret"}'
USERS: Final = {
    "authenticationEnabled": True, "authorizationEnabled": True, "initAuthenticationUser": FIRST, "namesrvAddr": "",
}  # fmt: skip
BIG: Final = b"x" * 5_000_000
NOBODY, APP, ADMIN = Who(), Who(user="app"), Who(user="admin")

Outcome = Any
Operation = Callable[[Callable[[Who], Any]], Outcome]
"""Something that is done with callers, which the argument makes; and what came of it."""


def refusal_of(work: Callable[[], object]) -> Refusal:
    with pytest.raises(Refused) as caught:
        work()
    return caught.value.reason


def half_of(come: Callable[[Who], Any], topic: str = "orders") -> tuple[Any, Any]:
    caller = come(NOBODY)
    return caller, caller.half(topic, b"x")


def sent(come: Callable[[Who], Any]) -> Outcome:
    caller = come(NOBODY)
    caller.send("orders", b"x")
    return caller.read("orders")


def committed(come: Callable[[Who], Any]) -> Outcome:
    caller, half = half_of(come)
    before = caller.read("orders")
    caller.end(half, COMMIT)
    caller.end(half, COMMIT)  # the same decision again is no contradiction
    return before, caller.read("orders"), refusal_of(lambda: caller.end(half, ROLLBACK))


def rolled_back(come: Callable[[Who], Any]) -> Outcome:
    caller, half = half_of(come)
    caller.end(half, ROLLBACK)
    return caller.read("orders"), refusal_of(lambda: caller.end(half, COMMIT))


def left_open(come: Callable[[Who], Any]) -> Outcome:
    caller, half = half_of(come)
    caller.end(half, LocalTransactionState.UNKNOWN)
    caller.end(half, COMMIT)
    return caller.read("orders")


def ended_by_a_stranger(come: Callable[[Who], Any]) -> Outcome:
    caller, half = half_of(come)
    stranger = come(Who(group="strangers"))
    return refusal_of(lambda: stranger.end(half, COMMIT)), caller.read("orders")


def too_large(come: Callable[[Who], Any]) -> Outcome:
    return refusal_of(lambda: come(NOBODY).send("orders", BIG))


def system_topic(come: Callable[[Who], Any]) -> Outcome:
    return refusal_of(lambda: come(NOBODY).send("RMQ_SYS_TRANS_OP_HALF_TOPIC", b"x"))


def unread_topic(come: Callable[[Who], Any]) -> Outcome:
    return refusal_of(lambda: come(NOBODY).read("unread"))


PLAIN: Final[dict[Operation, Outcome]] = {
    sent: [b"x"],
    committed: ([], [b"x"], Refusal.CONFLICT),
    rolled_back: ([], Refusal.CONFLICT),
    left_open: [b"x"],
    ended_by_a_stranger: (Refusal.FAILED, []),
    too_large: Refusal.MESSAGE_ILLEGAL,
    system_topic: Refusal.NOT_PERMITTED,
    unread_topic: Refusal.NOT_PERMITTED,
}
"""On a broker without users: what is done, and what comes of it."""


def offers(door: type, *methods: str) -> bool:
    return all(hasattr(door, method) for method in methods)


@contextmanager
def opened(settings: dict[str, object]) -> Iterator[LocalCluster]:
    with LocalCluster(broker={"httpPort": HTTP_PORT, "grpcPort": free_port(), **settings}, patience=60) as cluster:
        cluster.create_topic("orders", 1)
        only_written = TopicConfig(topic_name="unread", read_queue_nums=1, write_queue_nums=1, perm=2, attributes={})
        cluster.broker.topics.update(only_written)
        yield cluster


@pytest.mark.parametrize("door", [door for door in DOORS if offers(door, "send", "half", "end", "read")])
@pytest.mark.parametrize("operation", PLAIN, ids=lambda operation: operation.__name__)
def test_an_operation_has_the_same_outcome_through_every_door(operation: Operation, door: type) -> None:
    with opened({}) as cluster:
        assert operation(lambda who: door(cluster, who)) == PLAIN[operation]


@pytest.mark.parametrize("door", [door for door in DOORS if offers(door, "send", "half", "end", "read")])
def test_what_a_user_may_is_the_same_through_every_door(door: type) -> None:
    with opened(USERS) as cluster:
        guard = cluster.broker.guard
        assert guard is not None
        guard.directory.create(User("app", APP.secret), None)
        guard.directory.grant(
            "app", [Policy(Resource.parse("Topic:orders"), frozenset({Action.PUB}), PolicyDecision.ALLOW)]
        )
        admin, app, nobody = (door(cluster, who) for who in (ADMIN, APP, NOBODY))
        half = admin.half("refunds", b"x")
        app.send("orders", b"by the application")
        for refused in (
            lambda: app.send("refunds", b"x"), lambda: app.end(half, COMMIT), lambda: app.read("orders"),
            lambda: nobody.send("orders", b"x"), lambda: nobody.end(half, COMMIT), lambda: nobody.read("orders"),
        ):  # fmt: skip
            assert refusal_of(refused) is Refusal.NOT_PERMITTED
        admin.end(half, COMMIT)
        assert admin.read("orders") == [b"by the application"]


@pytest.mark.parametrize("door", [door for door in DOORS if offers(door, "explain")])
def test_an_explanation_is_the_same_through_every_door(door: type) -> None:
    with opened(USERS) as cluster:
        guard = cluster.broker.guard
        assert guard is not None
        guard.directory.create(User("app", APP.secret), None)
        about = Policy(Resource.parse("Cluster:*"), frozenset({Action.GET}), PolicyDecision.ALLOW)
        guard.directory.grant("app", [about])
        with cluster.door("payments", user="admin") as local:
            half = local.send_half(Message("refunds", b"x"))
        admin, app, nobody = (door(cluster, who) for who in (ADMIN, APP, NOBODY))
        (explained,) = admin.explain(half.transaction_id)
        assert (explained["topic"], explained["state"]) == ("refunds", "open")
        assert admin.explain("unknown") == []
        for refused in (lambda: app.explain(half.transaction_id), lambda: nobody.explain(half.transaction_id)):
            assert refusal_of(refused) is Refusal.NOT_PERMITTED


def test_every_door_of_a_broker_is_in_the_list() -> None:
    with opened({}) as cluster:
        assert {door.name for door in cluster.broker.doors} == {door.name for door in DOORS}
