"""Settings: what is refused, and that keywords and fields are the same."""

from __future__ import annotations

import sys
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

from gantrymq.client import config, settings_rules
from gantrymq.errors import ConfigError
from tools import settings_types


@pytest.mark.parametrize("module", settings_types.MODULES)
def test_the_keyword_arguments_are_those_that_are_written_from_the_fields(module: str) -> None:
    assert (settings_types.SOURCE / module).read_text() == settings_types.text_of(module), (
        "a setting was changed: run `python -m tools.settings_types`"
    )


def test_name_servers_are_read_in_every_form() -> None:
    for given in ("a:1;b:2", "a:1, b:2", ["a:1", "b:2"], ("a:1", " b:2 ")):
        assert config.parse_name_servers(given) == ("a:1", "b:2")


def test_topics_may_be_one() -> None:
    assert config.settings_of(config.ProducerConfig, "a:1", {"topics": "T"}).topics == ("T",)
    assert config.settings_of(config.ProducerConfig, "a:1", {"topics": ["T", "U"]}).topics == ("T", "U")


P, T, S, L = (config.ProducerConfig, config.TransactionProducerConfig, config.PushConfig, config.LitePullConfig)


@pytest.mark.parametrize(
    ("name_servers", "settings", "words"),
    [
        ("", {}, "name_servers: no name server"),
        (None, {}, "name_servers must be an address"),
        (5, {}, "name_servers must be an address"),
        (b"a:1", {}, "name_servers must be an address"),
        ({"a": 1}, {}, "name_servers must be an address"),
        ([], {}, "name_servers: no name server"),
        (("127.0.0.1", 21000), {}, "name_servers: 21000 is not an address; write"),
        (["a:1", 2], {}, "name_servers: 2 is not an address; write"),
        ([["a:1"]], {}, r"name_servers: \['a:1'\] is not an address"),
        ("localhost", {}, "host:port"),
        ("a:x", {}, "host:port"),
        ("a:0", {}, "host:port"),
        ("a:1:2", {}, "host:port"),
        ("host:99999", {}, "host:port"),
        ("http://localhost:1", {}, "host:port"),
        ("a..b:1", {}, "host:port"),
        ("x" * 64 + ".org:1", {}, "host:port"),
        ("a\0b:1", {}, "host:port"),
        ("a:\u00b2", {}, "host:port"),
        ("a:1", {"retrys": 1}, "did you mean 'retries'"),
        ("a:1", {"colour": 1}, "known settings"),
        ("a:1", {"send_timeout_ms": -1}, "send_timeout_ms must be .*milliseconds from 1 to 2147483647, not -1"),
        ("a:1", {"send_timeout_ms": 0}, "send_timeout_ms .*not 0"),
        ("a:1", {"send_timeout_ms": "3s"}, "send_timeout_ms .*not '3s'"),
        ("a:1", {"send_timeout_ms": 1.5}, "send_timeout_ms .*not 1.5"),
        ("a:1", {"send_timeout_ms": float("nan")}, "send_timeout_ms .*not nan"),
        ("a:1", {"send_timeout_ms": True}, "send_timeout_ms .*not True"),
        ("a:1", {"send_timeout_ms": None}, "send_timeout_ms .*not None"),
        ("a:1", {"send_timeout_ms": 10**30}, "send_timeout_ms .*not 10000"),
        ("a:1", {"send_timeout_ms": 10**5000}, "send_timeout_ms .*not an object of type int"),
        ("a:1", {"heartbeat_interval_ms": 120_000}, "heartbeat_interval_ms .*100000 .*120 s"),
        ("a:1", {"retries": -1}, "retries must be a whole number of further attempts from 0 to 1000, not -1"),
        ("a:1", {"compress_level": 99}, "compress_level must be a whole number from 1 to 9, not 99"),
        ("a:1", {"compress_type": "rar"}, "compress_type: .*known: ZLIB"),
        ("a:1", {"compress_type": 5}, "compress_type must be ZLIB, LZ4 or ZSTD, not 5"),
        ("a:1", {"max_message_bytes": 2**30}, "max_message_bytes"),
        ("a:1", {"trace": 1}, "trace must be True or False, not 1"),
        ("a:1", {"trace_topic": "a b"}, "trace_topic must be the name of a topic"),
        ("a:1", {"topics": 5}, "topics must be the name of a topic, or a list of such names, not 5"),
        ("a:1", {"topics": ["T", 5]}, "topics: 5 is not the name"),
        ("a:1", {"topics": b"T"}, "topics must be"),
        ("a:1", {"instance_name": "../x"}, "instance_name must be"),
        ("a:1", {"instance_name": 5}, "instance_name must be"),
        ("a:1", {"namespace": "a%b"}, "namespace must be"),
        ("a:1", {"namespace": b"x"}, "namespace must be"),
    ],
)
def test_what_is_refused_says_what_to_write(name_servers: Any, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        config.settings_of(config.ProducerConfig, name_servers, settings)


@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [
        (S, {"consume_threads": 0}, "consume_threads must be a whole number of threads from 1 to 1000, not 0"),
        (S, {"consume_threads": 10**6}, "consume_threads"),
        (S, {"consume_batch_size": 0}, "consume_batch_size must be a whole number of messages from 1 to 1024, not 0"),
        (S, {"offset_dir": 5}, "offset_dir must be the path of a directory"),
        (S, {"offset_dir": b"/tmp"}, "offset_dir must be"),
        (S, {"offset_dir": ""}, "offset_dir must be"),
        (S, {"lock_interval_ms": 30_000}, "lock_interval_ms .*28000 .*a lock"),
        (S, {"pull_suspend_ms": 30_000}, "pull_timeout_ms=30000 must be longer than pull_suspend_ms=30000; else every"),
        (L, {"pull_timeout_ms": 20_000}, "pull_timeout_ms=20000 must be longer than pull_suspend_ms=20000"),
        (L, {"poll_timeout_ms": -1}, "poll_timeout_ms"),
        (S, {"timestamp_ms": 1_700_000_000_000_000}, "timestamp_ms .*milliseconds since 1970"),
        (T, {"check_threads": 0}, "check_threads"),
        (T, {"check_queue_size": 0}, "check_queue_size"),
        (T, {"remembered_transactions": 0}, "remembered_transactions"),
    ],
)
def test_every_kind_of_client_checks_its_own(kind: Any, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        config.settings_of(kind, "a:1", settings)


@pytest.mark.parametrize("kind", settings_types.MODULES["client/keywords.py"])
def test_every_field_has_a_rule_that_takes_its_default(kind: Any) -> None:
    rules = settings_rules.rules_of(kind)
    assert set(rules) == {field.name for field in fields(kind)}
    made = kind(name_servers=("a:1",))
    for field in fields(kind):
        if field.default is not MISSING:
            assert getattr(made, field.name) == field.default, field.name


def test_numbers_and_paths_of_other_kinds_are_read() -> None:
    numpy = pytest.importorskip("numpy")
    made = config.settings_of(P, "a:1", {"send_timeout_ms": numpy.int64(5), "namespace": "", "instance_name": ""})
    assert made.send_timeout_ms == 5 and type(made.send_timeout_ms) is int
    assert made.namespace is None and made.instance_name is None
    assert config.settings_of(S, "a:1", {"offset_dir": Path("/x")}).offset_dir == "/x"
    assert config.settings_of(P, (name for name in ["a:1", "[::1]:2"]), {}).name_servers == ("a:1", "[::1]:2")


def test_settings_that_follow_from_others() -> None:
    assert config.settings_of(P, "a:1", {"max_message_bytes": 1000}).batch_bytes == 1000
    assert config.settings_of(S, "a:1", {"broadcasting": True}).instance_name == "DEFAULT"
    assert config.settings_of(S, "a:1", {"broadcasting": True, "instance_name": "x"}).instance_name == "x"


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("lz4", "lz4.frame"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=r"compress_type: .*pip install"):
        config.settings_of(P, "a:1", {"compress_type": "LZ4"})


def test_timeouts_of_calls() -> None:
    for good in (None, 1, 5000):
        settings_rules.check_timeout(good)
    settings_rules.check_timeout(0, settings_rules.WAIT)
    for bad in (0, -1, "1", True, 1.5, 10**30):
        with pytest.raises(ConfigError, match="timeout_ms must be a whole number of milliseconds"):
            settings_rules.check_timeout(bad)


CLIENTS: dict[Any, str] = {
    config.ClientConfig: "every client",
    config.ProducerConfig: "Producer, TransactionProducer",
    config.TransactionProducerConfig: "TransactionProducer",
    config.PullConfig: "PullConsumer",
    config.PushConfig: "PushConsumer",
    config.LitePullConfig: "LitePullConsumer",
    config.SimpleConfig: "SimpleConsumer",
}
PAGE = Path(__file__).parents[2] / "docs" / "client.md"


def documented(kind: Any) -> list[str]:
    """The rows of the table in docs/client.md for what ``kind`` adds to the class it is made from."""
    inherited = {field.name for base in kind.__bases__ if base is not object for field in fields(base)}
    rules = settings_rules.rules_of(kind)
    rows = []
    for field in fields(kind):
        if field.name not in inherited:
            default = "needed" if field.default is MISSING else f"`{field.default!r}`"
            possible = rules[field.name].possible.replace("|", "\\|")
            rows.append(f"| `{field.name}` | {CLIENTS[kind]} | {default} | {possible} |")
    return rows


@pytest.mark.parametrize("kind", CLIENTS)
def test_the_documentation_says_what_each_setting_may_be(kind: Any) -> None:
    lines = PAGE.read_text().splitlines()
    assert [row for row in documented(kind) if row not in lines] == []
