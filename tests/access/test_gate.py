"""What a gate remembers never changes an answer: it is compared with a guard that remembers nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.access.directory import ChangeRefused, Content, Directory
from gantrymq.access.guard import NAME_KEPT, Denied, Guard
from gantrymq.access.places import NoPlaces
from gantrymq.access.remoting.gate import Gate
from gantrymq.access.remoting.requests import BROKER_ROWS
from gantrymq.access.values import Action, Policy, PolicyDecision, Resource, User, UserKind
from gantrymq.errors import RemoteProtocolError
from gantrymq.protocol.codes import RequestCode as Code
from gantrymq.protocol.command import Command
from gantrymq.protocol.signature import ACCESS_KEY, SIGNATURE, signature_of

USERS = tuple(User(name, f"{name}-secret") for name in ("app", "other"))
HERE, THERE = "10.0.0.1:5000", "192.168.0.1:5000"
CODES = (
    Code.SEND_MESSAGE_V2, Code.PULL_MESSAGE, Code.ACK_MESSAGE, Code.UNREGISTER_CLIENT, Code.GET_CONSUME_STATS,
    Code.GET_BROKER_CONFIG, Code.VIEW_MESSAGE_BY_ID, Code.HEART_BEAT,
)  # fmt: skip


def allow(
    resource: str, *actions: Action, decision: PolicyDecision = PolicyDecision.ALLOW, sources: tuple[str, ...] = ()
) -> Policy:
    return Policy(Resource.parse(resource), frozenset(actions or {Action.ALL}), decision, sources)


def directory() -> Directory:
    return Directory(Content({user.name: user for user in USERS}), lambda content: None)


def request(code: int, user: str, secret: str | None = None, **fields: str) -> Command:
    fields[ACCESS_KEY] = user
    fields[SIGNATURE] = signature_of(fields, b"{}", secret or f"{user}-secret")
    return Command(code=code, ext=fields, body=b"{}")


def answer(admit: Callable[[], User | None]) -> object:
    try:
        return admit()
    except (Denied, RemoteProtocolError) as refused:
        return type(refused), str(refused)


POLICIES = st.builds(
    allow,
    st.sampled_from(["Topic:orders", "Topic:ord*", "Topic:*", "Group:orders", "Group:*", "Cluster:*", "*"]),
    st.sampled_from(Action).filter(lambda action: action is not Action.ANY),
    decision=st.sampled_from(PolicyDecision),
    sources=st.sampled_from([(), ("10.0.0.0/8",)]),
)
NAMES = st.sampled_from(["app", "other"])
CHANGES = st.one_of(
    st.tuples(st.just("grant"), NAMES, POLICIES),
    st.tuples(st.just("revoke"), NAMES),
    st.tuples(st.just("enabled"), NAMES, st.booleans()),
    st.tuples(st.just("secret"), NAMES, st.sampled_from(["app-secret", "other-secret", "x"])),
    st.tuples(st.just("kind"), NAMES, st.sampled_from(UserKind)),
)


def change(known: Directory, what: str, name: str, value: object = None) -> None:
    """What the directory refuses changes nothing."""
    with contextlib.suppress(ChangeRefused):
        if isinstance(value, Policy):
            known.grant(name, [value])
        elif what == "revoke":
            known.revoke(name)
        else:
            known.update(name, None, **{what: value})  # type: ignore[arg-type]


REQUESTS = st.tuples(
    st.sampled_from(CODES), NAMES, st.sampled_from(["orders", "%RETRY%orders", "%RETRY%orders_orders", "payments", ""]),
    st.sampled_from([HERE, THERE]),
)  # fmt: skip


@given(st.lists(st.one_of(CHANGES, REQUESTS, REQUESTS), max_size=12))
def test_a_gate_answers_as_a_guard_that_remembers_nothing(steps: list[tuple[Any, ...]]) -> None:
    known = directory()
    guard = Guard(known, "DefaultCluster", authorize=True)
    gates = {code: Gate(guard, BROKER_ROWS[code], NoPlaces()) for code in CODES}
    for step in steps:
        if isinstance(step[0], str):
            change(known, *step)
            continue
        code, name, resource, address = step
        fields = {"b": resource, "topic": resource, "consumerGroup": "orders", "offset": "7"}
        command = request(code, name, **fields)
        fresh = Guard(known, "DefaultCluster", authorize=True)
        expected = answer(partial(Gate(fresh, BROKER_ROWS[code], NoPlaces(), remembers=False).admit, command, address))
        for _ in range(2):
            assert answer(partial(gates[code].admit, command, address)) == expected


def test_a_change_counts_for_the_next_request() -> None:
    known = directory()
    guard = Guard(known, "DefaultCluster", authorize=True)
    gate = Gate(guard, BROKER_ROWS[Code.SEND_MESSAGE_V2], NoPlaces())
    send = request(Code.SEND_MESSAGE_V2, "app", b="orders")
    for _ in range(2):
        with pytest.raises(Denied, match="no policy"):
            gate.admit(send, HERE)
        known.grant("app", [allow("Topic:orders", Action.PUB)])
        for _ in range(2):
            assert gate.admit(send, HERE) == USERS[0]
        known.grant("app", [allow("Topic:orders", Action.PUB, decision=PolicyDecision.DENY)])
        with pytest.raises(Denied, match="denies it"):
            gate.admit(send, HERE)
        known.revoke("app")
    known.grant("app", [allow("Topic:orders", Action.PUB)])
    assert gate.admit(send, HERE) == USERS[0]
    known.update("app", None, secret="new")
    with pytest.raises(Denied, match="signature"):
        gate.admit(send, HERE)
    assert gate.admit(request(Code.SEND_MESSAGE_V2, "app", "new", b="orders"), HERE) == known.user("app")
    known.update("app", None, enabled=False)
    with pytest.raises(Denied, match="disabled"):
        gate.admit(request(Code.SEND_MESSAGE_V2, "app", "new", b="orders"), HERE)


def test_what_the_body_or_the_store_says_is_never_remembered() -> None:
    for code in (Code.HEART_BEAT, Code.END_TRANSACTION, Code.VIEW_MESSAGE_BY_ID, Code.CONSUMER_SEND_MSG_BACK):
        assert BROKER_ROWS[code].fields is None
    assert BROKER_ROWS[Code.PULL_MESSAGE].fields == ("topic", "consumerGroup")
    assert BROKER_ROWS[Code.GET_BROKER_CONFIG].fields == ()


def test_long_names_and_many_names_fill_no_memory() -> None:
    known = directory()
    known.grant("app", [allow("Topic:*", Action.PUB)])
    guard = Guard(known, "DefaultCluster", authorize=True)
    gate = Gate(guard, BROKER_ROWS[Code.SEND_MESSAGE_V2], NoPlaces())
    gate.admit(request(Code.SEND_MESSAGE_V2, "app", b="x" * (NAME_KEPT + 1)), HERE)
    assert not gate._passed and not guard._judged
    for number in range(3):
        gate.admit(request(Code.SEND_MESSAGE_V2, "app", b=f"t{number}"), HERE)
    assert len(gate._passed) == len(guard._judged) == 3
    gate._passed.update(("app", str(number)) for number in range(10_000))
    gate.admit(request(Code.SEND_MESSAGE_V2, "app", b="more"), HERE)
    assert len(gate._passed) == 1
