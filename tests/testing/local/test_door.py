"""The door for code in the same process: what came through one door can go on through the other."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gantrymq import LocalTransactionState, Message, MessageView, Producer, TransactionProducer
from gantrymq.access.values import Action, Policy, PolicyDecision, Resource, User
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.testing import LocalCluster
from gantrymq.testing.local.door import LocalDoor

from .test_cluster import ANYWHERE, COMMIT, ROLLBACK, UNKNOWN, Answers
from .test_faults import Dies


def test_a_message_sent_by_values_is_what_clients_get_and_the_other_way_round(cluster: LocalCluster) -> None:
    with cluster.door() as door, Producer("p", name_servers=ANYWHERE) as producer:
        stored = door.send(Message("orders", b"by values", tags="vip", keys=["k"]))
        producer.send(Message("orders", b"by frames"))
        first, second = door.read("orders")
        assert (first.body, first.tags, first.keys, first.message_id) == (b"by values", "vip", ["k"], stored.unique_key)
        assert second.body == b"by frames"
        assert [view.body for view in cluster.messages("orders")] == [b"by values", b"by frames"]


def test_a_transaction_begins_and_ends_by_values(cluster: LocalCluster) -> None:
    with cluster.door("payments", check=lambda view: UNKNOWN) as door:
        commit, rollback = door.send_half(Message("orders", b"yes")), door.send_half(Message("orders", b"no"))
        assert door.read("orders") == []
        door.end(commit, COMMIT)
        door.end(rollback, ROLLBACK)
        assert [view.body for view in door.read("orders")] == [b"yes"]
        assert cluster.open_transactions() == []


def test_what_is_refused_is_refused_with_a_reason(cluster: LocalCluster) -> None:
    with cluster.door("payments", check=lambda view: UNKNOWN) as door, cluster.door("others") as stranger:
        half = door.send_half(Message("orders", b"x"))
        with pytest.raises(Refused) as caught:
            stranger.end(half, COMMIT)
        assert caught.value.reason is Refusal.FAILED
        door.end(half, COMMIT)
        with pytest.raises(Refused) as caught:
            door.end(half, ROLLBACK)
        assert caught.value.reason is Refusal.CONFLICT
        with pytest.raises(Refused):
            door.send(Message("orders", b"x" * 5_000_000))


def test_a_half_that_came_by_frames_is_checked_by_values(virtual: LocalCluster) -> None:
    """An unchanged TransactionProducer is killed; a member of its group behind the other door answers."""
    virtual.create_topic("orders")
    asked: list[MessageView] = []

    def check(view: MessageView) -> LocalTransactionState:
        asked.append(view)
        return COMMIT

    listener = Dies(COMMIT)
    listener.cluster = virtual
    with TransactionProducer("payments", name_servers=ANYWHERE, listener=listener) as producer:
        listener.producer = producer
        result = producer.send_in_transaction(Message("orders", b"x", keys=["o-1"]))
    with virtual.door("payments", check=check) as door:
        virtual.advance(6)
        assert door.checks == 1
    (view,) = asked
    assert (view.topic, view.body, view.keys, view.transaction_id) == ("orders", b"x", ["o-1"], result.transaction_id)
    assert [view.body for view in virtual.messages("orders")] == [b"x"]


def test_a_half_that_came_by_values_is_checked_by_frames(virtual: LocalCluster) -> None:
    virtual.create_topic("orders")
    listener = Answers(UNKNOWN, COMMIT)
    with virtual.door("payments") as door:
        half = door.send_half(Message("orders", b"x"))
    with TransactionProducer("payments", name_servers=ANYWHERE, listener=listener, topics=["orders"]):
        virtual.advance(6)
        assert listener.checks == 1
    (view,) = virtual.messages("orders")
    assert (view.body, view.message_id) == (b"x", half.transaction_id)


def test_a_checker_that_fails_is_asked_again(virtual: LocalCluster) -> None:
    answers = [ValueError("no database"), COMMIT]

    def check(view: MessageView) -> LocalTransactionState:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with virtual.door("payments", check=check) as door:
        door.send_half(Message("orders", b"x"))
        virtual.advance(6)
        assert door.checks == 1 and virtual.messages("orders") == []
        virtual.advance(120)
        assert door.checks == 2 and len(virtual.messages("orders")) == 1


def test_who_has_left_is_asked_nothing(virtual: LocalCluster) -> None:
    with virtual.door("payments", check=lambda view: COMMIT) as door:
        door.send_half(Message("orders", b"x"))
    virtual.advance(60)
    assert door.checks == 0 and len(virtual.open_transactions()) == 1


def test_a_broker_with_users_asks_the_guard_at_this_door_too() -> None:
    first = '{"username":"admin","password":"admin-secret"}'
    settings = {"authenticationEnabled": True, "authorizationEnabled": True, "initAuthenticationUser": first}
    with LocalCluster(broker={**settings, "namesrvAddr": ""}) as guarded:
        guard = guarded.broker.guard
        assert guard is not None
        guard.directory.create(User("app", "secret"), None)
        orders = Policy(Resource.parse("Topic:orders"), frozenset({Action.PUB}), PolicyDecision.ALLOW)
        guard.directory.grant("app", [orders])
        with guarded.door("payments", user="app") as door, guarded.door("payments", user="admin") as admin:
            half = admin.send_half(Message("refunds", b"x"))
            for refused in (
                lambda: door.send(Message("refunds", b"x")), lambda: door.end(half, COMMIT),
                lambda: door.read("orders"), lambda: guarded.door().send(Message("orders", b"x")),
            ):  # fmt: skip
                with pytest.raises(Refused) as caught:
                    refused()
                assert caught.value.reason is Refusal.NOT_PERMITTED
            door.send(Message("orders", b"by the application"))
            assert [view.body for view in admin.read("orders")] == [b"by the application"]


def test_a_member_at_this_door_is_asked_only_about_topics_of_its_user() -> None:
    """The check-back carries the message. A member whose user is not known gets none."""
    first = '{"username":"admin","password":"admin-secret"}'
    settings = {"authenticationEnabled": True, "authorizationEnabled": True, "initAuthenticationUser": first}
    with LocalCluster(broker={**settings, "namesrvAddr": ""}, virtual_time=True, patience=60) as guarded:
        guard = guarded.broker.guard
        assert guard is not None
        guard.directory.create(User("app", "secret"), None)
        orders = Policy(Resource.parse("Topic:orders"), frozenset({Action.PUB}), PolicyDecision.ALLOW)
        guard.directory.grant("app", [orders])
        asked: dict[str, list[bytes]] = {"app": [], "nobody": [], "admin": []}

        def checker(name: str) -> Callable[[MessageView], LocalTransactionState]:
            def check(view: MessageView) -> LocalTransactionState:
                asked[name].append(view.body)
                return UNKNOWN

            return check

        def door(name: str) -> LocalDoor:
            return guarded.door("payments", check=checker(name), user=None if name == "nobody" else name)

        with door("app") as app, door("nobody"):
            with guarded.door("payments", user="admin") as sender:
                sender.send_half(Message("refunds", b"of refunds"))
            app.send_half(Message("orders", b"of orders"))
            guarded.advance(120)
            assert set(asked["app"]) == {b"of orders"} and not asked["nobody"]
            with door("admin"):
                guarded.advance(120)
            assert b"of refunds" in asked["admin"]
