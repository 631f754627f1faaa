"""Any value of each setting either works as documented or is refused with a sentence that names it.

In virtual time: each client that can be built is started against a broker, does its work, and is closed.
The same values are tried every time; ``pytest --hypothesis-profile long tests/client/test_settings_property.py`` tries
twenty times as many, others each time.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gantrymq import aio
from gantrymq.client import config, settings_rules
from gantrymq.client.connection.endpoint import Outside
from gantrymq.client.settings_rules import Addresses, Flag, Rule, Topic, Topics, Whole
from gantrymq.errors import ConfigError, GantryError, MessageIllegal, RequestRejected
from gantrymq.message.arguments import shown
from gantrymq.message.message import Message
from gantrymq.simulation.world.cluster import NAME_SERVERS
from tests.client import simulated
from tests.client.peer import run, until
from tests.client.real import server
from tests.client.simulated import Work, World, fresh_world

SEED = 11
KINDS: dict[str, tuple[type[config.ClientConfig], Work]] = {
    "Admin": (config.ClientConfig, simulated.admin),
    "Producer": (config.ProducerConfig, simulated.producer),
    "TransactionProducer": (config.TransactionProducerConfig, simulated.transaction_producer),
    "PullConsumer": (config.PullConfig, simulated.pull_consumer),
    "PushConsumer": (config.PushConfig, simulated.push_consumer),
    "LitePullConsumer": (config.LitePullConfig, simulated.lite_pull_consumer),
    "SimpleConsumer": (config.SimpleConfig, simulated.simple_consumer),
}
SETTINGS = [(client, name) for client, (kind, _) in KINDS.items() for name in settings_rules.rules_of(kind)]
WITHOUT_TLS = [(client, name) for client, name in SETTINGS if not name.startswith("tls")]
"""The network in virtual time knows no TLS; ``tests/cli/test_tls.py`` uses these settings on a real one."""
SHORT_MS = 100
"""A time-out below it may end a call in this network; that is what it is for."""
EVERY_TIME = settings(
    max_examples=max(settings.default.max_examples // 10, 1),
    derandomize=settings.get_current_profile_name() != "long",
    suppress_health_check=[*HealthCheck],
)
PROGRAMMING_ERRORS = ("Traceback", "object has no attribute", "NoneType", "unsupported operand", "argument", "expected")


class Strange:
    """Nothing that a setting could be, and hard to show."""

    def __repr__(self) -> str:
        raise RuntimeError("no text for this")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("it cannot be compared")

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise RuntimeError("neither true nor false")


STRANGE: list[Any] = [
    None, True, False, 0, -1, 1, 1.5, math.nan, math.inf, -math.inf, "", " ", "x", "5", "a b", "\0", "\ud800", "ä",
    b"", b"x", bytearray(b"x"), memoryview(b"x"), [], [1], ["a"], ("a:1", 5), {}, {"a": 1}, set(), object(),
    Strange(), [Strange()], len, int, Decimal(5), 1j, range(3), 10**30, -(10**30), 10**5000, 2**31, 2**63, 2**64,
]  # fmt: skip
ANYTHING: st.SearchStrategy[Any] = st.one_of(
    st.integers(),
    st.floats(),
    st.text(),
    st.binary(max_size=20),
    st.lists(st.integers() | st.text() | st.sampled_from(STRANGE), max_size=4),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
)


def with_anything(test: Callable[[Any], None], more: st.SearchStrategy[Any] | None = None) -> None:
    """Run a test with everything that is strange, and with values of every kind."""
    for value in STRANGE:
        test(value)
    settings(EVERY_TIME, max_examples=max(settings.default.max_examples // 6, 1))(
        given(ANYTHING if more is None else ANYTHING | more)(test)
    )()


NAMES = st.from_regex(r"[a-zA-Z0-9_-]{1,20}", fullmatch=True)
ADDRESSES = st.sampled_from(
    [NAME_SERVERS, f" {NAME_SERVERS} ;", f"{NAME_SERVERS},{NAME_SERVERS}", f"10.9.9.9:1;{NAME_SERVERS}"]
)


def possible(name: str, rule: Rule) -> st.SearchStrategy[Any]:
    """Values that the documentation allows."""
    if isinstance(rule, Whole):
        edges = st.sampled_from(
            sorted({rule.low, rule.low + 1, min(rule.low + 10, rule.high), rule.high - 1, rule.high})
        )
        return edges | st.integers(rule.low, rule.high)
    if isinstance(rule, Flag):
        return st.booleans()
    if isinstance(rule, Topic):
        return NAMES
    if isinstance(rule, Topics):
        return NAMES | st.lists(NAMES, max_size=3) | st.tuples(NAMES)
    if isinstance(rule, Addresses):
        return ADDRESSES | st.lists(ADDRESSES, min_size=1, max_size=2)
    return {
        "namespace": st.none() | NAMES,
        "access_key": NAMES,
        "secret_key": st.text(min_size=1),
        "instance_name": st.none() | NAMES | st.sampled_from(["a@b", "ä" * 64, "x" * 128]),
        "compress_type": st.sampled_from(["ZLIB", "zlib", "LZ4", "ZSTD"]),
        "offset_dir": st.sampled_from(["/offsets", "~/offsets", "/ä b"]),
    }[name]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    yield from fresh_world(SEED)


def check_sentence(error: Exception, name: str, value: object) -> None:
    """One sentence for a person, which names what is wrong."""
    text = str(error)
    assert isinstance(error, ConfigError | MessageIllegal), repr(error)
    assert name in text
    own = text.replace(shown(value), "...").replace("\\ud800", "")
    for part in value if isinstance(value, list | tuple) else ():
        own = own.replace(shown(part), "...")
    assert "\n" not in text and len(text) < 400 and ". " not in own.replace("... ", "") and not own.endswith("\n"), text
    assert not any(words in own for words in PROGRAMMING_ERRORS), text


def excused(arguments: dict[str, Any], error: BaseException) -> bool:
    """Whether the documentation says that the work may fail so."""
    short = [name for name, value in arguments.items() if name.endswith("timeout_ms") and value < SHORT_MS]
    if short and isinstance(error, GantryError | TimeoutError):
        return True
    if "name_servers" in arguments and "10.0.0.1:9876" not in str(arguments["name_servers"]):
        return isinstance(error, GantryError)
    return False


def work(world: World, client: str, arguments: dict[str, Any]) -> None:
    """The client does its work with what it was given."""
    try:
        world.play(KINDS[client][1], arguments)
    except (GantryError, TimeoutError) as error:
        if not excused(arguments, error):
            raise


@pytest.mark.slow
@pytest.mark.parametrize(("client", "name"), WITHOUT_TLS)
def test_a_possible_value_works(world: World, client: str, name: str) -> None:
    kind = KINDS[client][0]
    rule = settings_rules.rules_of(kind)[name]

    @EVERY_TIME
    @given(possible(name, rule))
    def each(value: Any) -> None:
        arguments = {name: value}
        if name == "pull_suspend_ms":
            arguments["pull_timeout_ms"] = settings_rules.MAX_MS
            assume(value < settings_rules.MAX_MS)
        if name == "pull_timeout_ms" and "pull_suspend_ms" in settings_rules.rules_of(kind):
            arguments["pull_suspend_ms"] = 1
            assume(value > 1)
        if name in ("offset_dir", "instance_name") and kind is config.PushConfig:
            arguments["broadcasting"] = True
        if name in ("suspend_ms", "lock_interval_ms"):
            arguments["orderly"] = True
        if name == "trace_topic":
            arguments["trace"] = True
        if name in ("access_key", "secret_key"):
            arguments = {"access_key": "me", "secret_key": "secret", name: value}
        work(world, client, arguments)

    each()


@pytest.mark.parametrize(("client", "name"), SETTINGS)
def test_any_value_is_refused_with_its_name_or_works(world: World, client: str, name: str) -> None:
    kind = KINDS[client][0]
    tried: list[bool] = []

    def each(value: Any) -> None:
        try:
            config.settings_of(kind, **{"name_servers": NAME_SERVERS, "settings": {}, **split(name, value)})
        except GantryError as error:
            check_sentence(error, name, value)
            tried.append(False)
        else:
            tried.append(True)
            if (client, name) in WITHOUT_TLS:
                work(world, client, {name: value})

    with_anything(each)
    assert not all(tried), "nothing was refused: the rule is no rule"


def split(name: str, value: Any) -> dict[str, Any]:
    return {name: value} if name == "name_servers" else {"settings": {name: value}}


@pytest.mark.parametrize("client", KINDS)
def test_possible_values_work_together(world: World, client: str) -> None:
    kind = KINDS[client][0]
    rules = {name: rule for name, rule in settings_rules.rules_of(kind).items() if (client, name) in WITHOUT_TLS}
    ordinary = {name: possible(name, rule) for name, rule in rules.items() if name != "name_servers"}

    @EVERY_TIME
    @given(st.fixed_dictionaries({}, optional=ordinary))
    def each(arguments: dict[str, Any]) -> None:
        assume(all(value >= SHORT_MS for name, value in arguments.items() if name.endswith("timeout_ms")))
        if "access_key" in arguments or "secret_key" in arguments:
            arguments = {"access_key": "me", "secret_key": "secret", **arguments}
        try:
            config.settings_of(kind, NAME_SERVERS, arguments)
        except ConfigError as error:
            assert "pull_timeout_ms=" in str(error) and "pull_suspend_ms=" in str(error), "a contradiction names both"
        else:
            work(world, client, arguments)

    each()


# ---- what is given beside the settings


def built(client: str, **given: Any) -> Any:
    full: dict[str, Any] = {"group": "G", "name_servers": NAME_SERVERS, **given}
    if client == "PushConsumer":
        full.setdefault("listener", print)
    if client == "TransactionProducer":
        full.setdefault("listener", simulated.Commits())
    if client == "Admin":
        del full["group"]
    return getattr(aio, client)(**full)


@pytest.mark.parametrize("client", [client for client in KINDS if client != "Admin"])
def test_any_group_is_refused_with_its_name_or_works(world: World, client: str) -> None:
    def each(value: Any) -> None:
        try:
            built(client, group=value)
        except MessageIllegal as error:
            check_sentence(error, "group", value)

    with_anything(each, NAMES)


@pytest.mark.parametrize("name", ["topic", "tags", "sql", "from_where"])
@pytest.mark.parametrize("client", ["PushConsumer", "LitePullConsumer", "SimpleConsumer"])
def test_any_subscription_is_refused_with_its_name_or_taken(client: str, name: str) -> None:
    def each(value: Any) -> None:
        try:
            if name == "from_where":
                built(client, from_where=value)
                raise AssertionError(f"from_where was taken: {value!r}")
            built(client).subscribe(**{"topic": "T", name: value})
        except GantryError as error:
            # A tag expression and an SQL expression are called so in the sentence about them.
            check_sentence(error, {"tags": "tag"}.get(name, name), value)

    with_anything(each)


MESSAGE: dict[str, st.SearchStrategy[Any]] = {
    "topic": NAMES,
    "body": st.binary(min_size=1) | st.text(min_size=1) | st.binary(min_size=1).map(bytearray),
    "tags": NAMES | st.none(),
    "keys": NAMES | st.lists(NAMES | st.integers()),
    "properties": st.dictionaries(NAMES.map("x{}".format), st.text(min_size=1).filter(lambda text: text.isprintable())),
    "flag": st.integers(-(2**31), 2**31 - 1),
    "delay_level": st.integers(0, 1),
    "wait": st.booleans(),
    "delay_ms": st.integers(0, 2_000),
    "deliver_at_ms": st.integers(0, 2_000),
    "unique_key": st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=128) | st.none(),
    "priority": st.integers(0, 2**31 - 1) | st.none(),
    "lite_topic": st.from_regex("[A-Za-z0-9_-]{1,64}", fullmatch=True) | st.none(),
}


def test_every_argument_of_a_message_is_tried() -> None:
    assert set(MESSAGE) == set(inspect.signature(Message).parameters)


@pytest.mark.parametrize("name", MESSAGE)
def test_any_argument_of_a_message_is_refused_with_its_name_or_travels(world: World, name: str) -> None:
    def each(value: Any) -> None:
        try:
            message = Message(**{"topic": simulated.TOPIC, "body": b"x", name: value})
        except MessageIllegal as error:
            check_sentence(error, "property" if "property" in str(error) and name == "properties" else name, value)
            return
        try:
            world.play(
                simulated.travels, {"message": message, "now": name not in ("delay_level", "delay_ms", "deliver_at_ms")}
            )
        except RequestRejected as error:
            # How long a message may be put off is a setting of the broker, and this topic has no lite topics.
            why = {"delay_ms": "timerMaxDelaySec", "deliver_at_ms": "timerMaxDelaySec", "lite_topic": "no lite topics"}
            assert name in why and why[name] in str(error)
        except MessageIllegal as error:
            # Names, sizes and separators are looked at when it is sent.
            words = {"tags": "TAGS", "keys": "KEYS", "properties": "property"}
            assert words.get(name, name) in str(error) or "properties" in str(error)

    with_anything(each, MESSAGE[name])


@pytest.mark.parametrize("client", KINDS)
@pytest.mark.parametrize("outside", [5, "x", object(), [1], Outside])
def test_an_outside_of_another_kind_is_refused(client: str, outside: object) -> None:
    with pytest.raises(ConfigError, match="outside must be Outside"):
        built(client, outside=outside)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("offset", {"offset": "1"}),
        ("offset", {"offset": 2**63}),
        ("max_count", {"max_count": 0}),
        ("max_bytes", {"max_bytes": 1.5}),
        ("wait_ms", {"wait_ms": -1}),
        ("wait_ms", {"wait_ms": True}),
        ("tags", {"tags": None}),
    ],
)
def test_an_impossible_argument_of_a_pull_is_named(world: World, name: str, arguments: dict[str, Any]) -> None:
    async def pull(world: World, outside: Outside, given: dict[str, Any]) -> None:
        async with aio.PullConsumer(name_servers=NAME_SERVERS, outside=outside) as consumer:
            (queue, *_) = await consumer.queues(simulated.TOPIC)
            await consumer.pull(**{"queue": queue, "offset": 0, **given})

    with pytest.raises(ConfigError, match=f"{name} must be"):
        world.play(pull, arguments)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("queues", {"queues": 0}), ("queues", {"queues": "8"}), ("perm", {"perm": 5}), ("order", {"order": None})],
)
def test_an_impossible_argument_for_a_topic_is_named(world: World, name: str, arguments: dict[str, Any]) -> None:
    async def make(world: World, outside: Outside, given: dict[str, Any]) -> None:
        async with aio.Admin(NAME_SERVERS, outside=outside) as admin:
            await admin.create_topic("New", **given)

    with pytest.raises(ConfigError, match=f"{name} must be"):
        world.play(make, arguments)


def test_the_most_threads_work(tmp_path: Path) -> None:
    """Real ones; in virtual time there are none."""
    got: list[bytes] = []

    def listener(messages: list[aio.MessageView]) -> None:
        got.extend(view.body for view in messages)

    async def test() -> None:
        most = settings_rules.rules_of(config.PushConfig)["consume_threads"]
        assert isinstance(most, Whole)
        async with server(tmp_path) as address, aio.Producer("PG", name_servers=address) as producer:
            consumer = aio.PushConsumer("CG", name_servers=address, listener=listener, consume_threads=most.high)
            async with consumer.subscribe("T"):
                await producer.send(Message("T", b"x"))
                await until(lambda: got == [b"x"])

    run(test)
