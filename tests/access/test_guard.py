"""The guard against requests that nobody made on purpose: changed, cut, forged, or without any sense."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.access.directory import Content, Directory
from gantrymq.access.guard import (
    GUESSES,
    GUESSES_OF_ADDRESS,
    GUESSES_WITHIN_S,
    Denied,
    Guard,
    TooManyGuesses,
    Unknown,
    basic_credentials,
)
from gantrymq.access.operations import CONSUME, Operation, Role
from gantrymq.access.places import NoPlaces
from gantrymq.access.remoting.gate import Gate
from gantrymq.access.remoting.naming import Is, Row
from gantrymq.access.remoting.requests import BROKER_ROWS, NAME_SERVER_ROWS
from gantrymq.access.values import (
    Action,
    Grants,
    Policy,
    PolicyDecision,
    Resource,
    User,
    UserKind,
    topic_need,
)
from gantrymq.errors import RemoteProtocolError
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import Command, SerializeType, decode_command, encode_request
from gantrymq.protocol.frame import FrameSplitter
from gantrymq.protocol.headers.consumer import UnregisterClient
from gantrymq.protocol.headers.send import SendMessage
from gantrymq.protocol.signature import ACCESS_KEY, SIGNATURE, Account, signature_of, signed_frame
from gantrymq.runtime.limits.attempts import NAME_MAX, REMEMBERED_MAX, Attempts
from tests.support.brokers import send_header
from tests.support.sim_clock import SimClock

APP = User("app", "app-secret")
ADMIN = User("admin", "admin-secret", UserKind.SUPER)
OFF = User("off", "off-secret", UserKind.NORMAL, False)
MAY_SEND = Policy(Resource.parse("Topic:orders"), frozenset({Action.PUB}), PolicyDecision.ALLOW)
HERE = "10.0.0.1:5000"
SEND = BROKER_ROWS[RequestCode.SEND_MESSAGE_V2]
NOTHING = Is(Operation("what everybody may"))


def guard(**options: object) -> Guard:
    users = {user.name: user for user in (APP, ADMIN, OFF)}
    content = Content(users, {"app": Grants((MAY_SEND,))})
    return Guard(Directory(content, lambda changed: None), "DefaultCluster", **{"authorize": True, **options})  # type: ignore[arg-type]


def admit(guarding: Guard, command: Command, row: Row | None, address: str, known: User | None = None) -> User | None:
    return Gate(guarding, row, NoPlaces(), remembers=False).admit(command, address, known)


def read(frame: bytes) -> Command:
    ((serialization, header, body),) = FrameSplitter().feed(frame)
    return decode_command(serialization, header, body)


def signed(
    name: str = "app", secret: str = "app-secret", topic: str = "orders", kind: SerializeType = SerializeType.JSON,
) -> bytes:  # fmt: skip
    header: SendMessage = send_header(topic)
    frame = encode_request(RequestCode.SEND_MESSAGE_V2, 7, header, b"hello", serialize=kind)
    return signed_frame(frame, Account(name, secret))


@pytest.mark.parametrize("kind", list(SerializeType))
def test_the_user_who_signed_is_known(kind: SerializeType) -> None:
    assert admit(guard(), read(signed(kind=kind)), SEND, HERE) == APP


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (signed(secret="guess"), "the signature of app is wrong"),
        (signed("nobody", "app-secret"), "there is no user 'nobody'"),
        (signed("nobody", ""), "there is no user 'nobody'"),
        (signed("off", "off-secret"), "the user off is disabled"),
        (signed("off", "guess"), "the signature of off is wrong"),
        (encode_request(RequestCode.SEND_MESSAGE_V2, 7, send_header("orders"), b"hello"), "not signed"),
        (encode_request(RequestCode.SEND_MESSAGE_V2, 7), "not signed"),
    ],
)
def test_nobody_else_is(frame: bytes, reason: str) -> None:
    guarding = guard()
    with pytest.raises(Unknown, match=reason):
        admit(guarding, read(frame), SEND, HERE)
    assert guarding.refusals.unauthenticated == 1 and guarding.refusals.forbidden == 0


@given(st.data(), st.sampled_from(list(SerializeType)))
def test_a_signed_request_that_was_changed_is_not_served(data: st.DataObject, kind: SerializeType) -> None:
    """One byte of the frame is another one. It may be a byte that is not signed (opaque, flag, language, version,
    remark, request code); then the fields and the body are still those that were signed."""
    frame = bytearray(signed(kind=kind))
    at = data.draw(st.integers(4, len(frame) - 1))
    frame[at] ^= data.draw(st.integers(1, 255))
    try:
        command = read(bytes(frame))
        user = admit(guard(), command, SEND, HERE)
    except (Denied, RemoteProtocolError, ValueError):
        return
    assert user == APP
    original = read(signed(kind=kind))
    assert command.body == original.body
    fields, before = command.ext_fields(), original.ext_fields()
    # Names are not signed, only their order is. Values cannot move to another field that the broker reads. An empty
    # value adds nothing to the signed text: its field can disappear behind another one that gets the same name.
    assert [fields[name] for name in sorted(fields) if name != SIGNATURE and fields[name]] == [
        before[name] for name in sorted(before) if name != SIGNATURE and before[name]
    ]


TEXTS = st.text(max_size=12) | st.sampled_from(["app", "admin", "off", "app-secret", "", "\0", "=" * 28])


@given(TEXTS, TEXTS, st.dictionaries(TEXTS, TEXTS, max_size=4), st.binary(max_size=20))
def test_a_guessed_signature_lets_nobody_in(name: str, guess: str, fields: dict[str, str], body: bytes) -> None:
    fields = {**fields, ACCESS_KEY: name, SIGNATURE: guess}
    command = Command(code=RequestCode.SEND_MESSAGE_V2, ext=fields, body=body)
    if name in ("app", "admin") and guess == signature_of(fields, body, f"{name}-secret"):
        return
    with pytest.raises(Unknown):
        admit(guard(), command, SEND, HERE)


CODES = st.sampled_from(sorted({*BROKER_ROWS, *NAME_SERVER_ROWS}))
NAMES = st.sampled_from(
    ["topic", "b", "group", "consumerGroup", "msgId", "offset", "groupName", "clusterName", "cluster"]
)
VALUES = st.sampled_from(["", "orders", "%RETRY%", "%RETRY%app", "-1", "99999999999999999999", "x" * 300, "ü", "*"])
BODIES = st.binary(max_size=40) | st.sampled_from([b"", b"{}", b"[]", b"null", b'{"clientID":"c"}'])


@given(CODES, st.dictionaries(NAMES, VALUES, max_size=5), BODIES)
def test_a_user_without_policies_gets_no_answer_that_tells_anything(
    code: int, fields: dict[str, str], body: bytes
) -> None:
    """Every request is refused, malformed, or needs nothing: it is not crashed, whatever is in it."""
    fields = {**fields, ACCESS_KEY: "app"}
    fields[SIGNATURE] = signature_of(fields, body, "app-secret")
    guarding = guard()
    guarding.directory.replace(Content({"app": APP}, {}))
    command = Command(code=code, ext=fields, body=body)
    row = {**NAME_SERVER_ROWS, **BROKER_ROWS}[code]
    needed: list[str] = []
    try:
        admit(guarding, command, row, HERE)
    except (Denied, RemoteProtocolError) as refused:
        needed.append(str(refused))
    quiet = {
        RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT, RequestCode.CHECK_CLIENT_CONFIG,
        RequestCode.BATCH_ACK_MESSAGE, RequestCode.END_TRANSACTION, RequestCode.END_HALVES,
        RequestCode.VIEW_MESSAGE_BY_ID, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, RequestCode.LITE_SUBSCRIPTION_CTL,
    }  # fmt: skip
    assert needed or code in quiet
    # With the signature of a super user the guard stops nothing; what is malformed, the operation says.
    fields[ACCESS_KEY] = "admin"
    fields[SIGNATURE] = signature_of(fields, body, "admin-secret")
    guarding.directory.replace(Content({"admin": ADMIN}, {}))
    assert admit(guarding, Command(code=code, ext=fields, body=body), row, HERE) == ADMIN


def test_a_request_without_a_row_is_for_super_users() -> None:
    with pytest.raises(Denied, match="super user"):
        admit(guard(), read(signed()), None, HERE)
    assert admit(guard(), read(signed("admin", "admin-secret")), None, HERE) == ADMIN


def test_judgements_are_remembered_until_something_changes() -> None:
    guarding = guard()
    for _ in range(2):
        assert admit(guarding, read(signed()), SEND, HERE) == APP
    guarding.directory.revoke("app")
    for count in (1, 2):
        with pytest.raises(Denied, match="no policy"):
            admit(guarding, read(signed()), SEND, HERE)
        assert guarding.refusals.forbidden == count


def test_old_clients_do_not_sign_that_they_ask_for_a_unique_key() -> None:
    fields = {"topic": "orders", "key": "k", ACCESS_KEY: "app"}
    fields[SIGNATURE] = signature_of(fields, b"", "app-secret")
    fields["_UNIQUE_KEY_QUERY"] = "true"
    command = Command(code=RequestCode.UNREGISTER_CLIENT, ext=fields)
    assert admit(guard(), command, NOTHING, HERE) == APP


def test_a_client_whose_user_is_not_known_may_nothing_also_where_every_user_may_everything() -> None:
    """Only the requests that need no signature were let in; what the broker gives on its own was given to all."""
    guarding = guard(authorize=False)
    need = topic_need("orders", (Action.SUB,))
    assert guarding.allows(APP, need, HERE) and guarding.allows(ADMIN, need, HERE)
    assert not guarding.allows(None, need, HERE)
    assert not guarding.allows(OFF, need, HERE) and not guarding.allows(User("gone", "x"), need, HERE)
    guarding.demand_operation(APP, CONSUME, {Role.TOPIC: ("orders",)}, HERE)
    with pytest.raises(Unknown, match="not known"):
        guarding.demand_operation(None, CONSUME, {Role.TOPIC: ("orders",)}, HERE)


def test_the_lists_of_requests() -> None:
    frame = encode_request(RequestCode.UNREGISTER_CLIENT, 1, UnregisterClient(client_id="c", consumer_group="G"))
    row = BROKER_ROWS[RequestCode.UNREGISTER_CLIENT]
    with pytest.raises(Unknown, match="not signed"):
        Gate(guard(), row, NoPlaces(), signed=False).admit(read(frame), HERE)
    assert Gate(guard(), row, NoPlaces(), signed=False, judged=False).admit(read(frame), HERE) is None
    assert Gate(guard(authorize=False), row, NoPlaces(), signed=False).admit(read(frame), HERE) is None


def test_addresses_of_4x() -> None:
    guarding = guard()
    guarding.open_to = (lambda source: source == "10.0.0.1",)
    assert admit(guarding, read(encode_request(10, 1)), None, HERE) is None
    guarding.open_to = ()
    guarding.trusted = {"app": lambda source: source == "10.0.0.1"}
    assert admit(guarding, read(signed(secret="guess")), SEND, HERE) == APP
    with pytest.raises(Unknown):
        admit(guarding, read(signed(secret="guess")), SEND, "10.0.0.2:1")


def test_passwords() -> None:
    guarding = guard()
    assert guarding.user_with_password("app", "app-secret", "10.0.0.1") == APP
    for name, password in (("app", "guess"), ("nobody", ""), ("", ""), ("off", "off-secret"), ("app", "größer")):
        with pytest.raises(Unknown):
            guarding.user_with_password(name, password, "10.0.0.1")
    assert basic_credentials("Basic YXBwOmE6Yg==") == ("app", "a:b")
    for header in ("", "Basic", "Basic !!", "Basic YXBw", "Bearer YXBwOmI=", "Basic /w=="):
        assert basic_credentials(header) is None


def test_who_guesses_must_wait_and_hinders_nobody_elsewhere() -> None:
    clock = SimClock()
    guarding = guard(clock=clock)
    wrong = read(signed(secret="guess"))
    for _ in range(GUESSES):
        with pytest.raises(Unknown, match="signature of app is wrong"):
            admit(guarding, wrong, SEND, HERE)
    right = read(signed())
    with pytest.raises(TooManyGuesses, match="try again in 60 s"):
        admit(guarding, right, SEND, HERE)  # the attacker must not learn which guess was right
    with pytest.raises(TooManyGuesses):
        guarding.user_with_password("app", "app-secret", "10.0.0.1")  # the same limit at the other door
    assert admit(guarding, right, SEND, "10.0.0.2:1") == APP, "another address is not hindered"
    assert admit(guarding, right, SEND, HERE, APP) == APP, "nor a connection on which the user was before"
    assert guarding.user_with_password("admin", "admin-secret", "10.0.0.1") == ADMIN, "nor another user from there"
    assert guarding.refusals.guessed == 2 and guarding.refusals.unauthenticated == GUESSES
    asyncio.run(clock.advance(GUESSES_WITHIN_S))
    assert admit(guarding, right, SEND, HERE) == APP


def test_many_names_from_one_address_and_one_network() -> None:
    guarding = guard(clock=SimClock())
    for number in range(GUESSES_OF_ADDRESS):
        with pytest.raises(Unknown):
            guarding.user_with_password(f"name{number}", "x", f"2001:db8::{number:x}")
    with pytest.raises(TooManyGuesses):
        guarding.user_with_password("app", "app-secret", "2001:db8::ffff")
    assert guarding.user_with_password("app", "app-secret", "2001:db8:0:1::1") == APP
    guarding.directory.update("app", ADMIN, secret="a new secret")
    assert guarding.user_with_password("app", "a new secret", "2001:db8::1"), "who changes a password ends the waiting"


def test_what_is_remembered_of_guesses_is_bounded() -> None:
    attempts = Attempts(SimClock(), 3, 1_000_000, 60.0)
    for number in range(REMEMBERED_MAX + 10):
        attempts.attempt("x" * 1_000, f"address {number}")
    assert len(attempts._failed) == REMEMBERED_MAX
    assert max(len(name or "") for name, _ in attempts._failed) == NAME_MAX
