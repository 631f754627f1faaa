"""Settings: what is refused, and that keywords and fields are the same."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_type_hints

import pytest

from gantrymq.client import config
from gantrymq.errors import ConfigError

PAIRS: list[tuple[Any, Any]] = [
    (config.ClientConfig, config.ClientSettings),
    (config.ProducerConfig, config.ProducerSettings),
    (config.TransactionProducerConfig, config.TransactionProducerSettings),
    (config.PullConfig, config.PullSettings),
    (config.PushConfig, config.PushSettings),
    (config.LitePullConfig, config.LitePullSettings),
]


@pytest.mark.parametrize(("frozen", "keywords"), PAIRS)
def test_every_field_can_be_given_by_keyword(frozen: Any, keywords: Any) -> None:
    of_fields, of_keywords = get_type_hints(frozen), get_type_hints(keywords)
    assert {field.name for field in fields(frozen)} - {"name_servers"} == set(of_keywords)
    assert all(of_fields[name] == kind for name, kind in of_keywords.items() if name != "topics")


def test_name_servers_are_read_in_every_form() -> None:
    for given in ("a:1;b:2", "a:1, b:2", ["a:1", "b:2"], ("a:1", " b:2 ")):
        assert config.parse_name_servers(given) == ("a:1", "b:2")


def test_topics_may_be_one() -> None:
    assert config.settings_of(config.ProducerConfig, "a:1", {"topics": "T"}).topics == ("T",)
    assert config.settings_of(config.ProducerConfig, "a:1", {"topics": ["T", "U"]}).topics == ("T", "U")


@pytest.mark.parametrize(
    ("name_servers", "settings", "words"),
    [
        ("", {}, "no name server"),
        ("localhost", {}, "host:port"),
        ("a:x", {}, "host:port"),
        ("a:1", {"retrys": 1}, "did you mean 'retries'"),
        ("a:1", {"colour": 1}, "known settings"),
        ("a:1", {"send_timeout_ms": -1}, "milliseconds"),
        ("a:1", {"send_timeout_ms": "3s"}, "milliseconds"),
    ],
)
def test_what_is_refused_says_what_to_write(name_servers: str, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        config.settings_of(config.ProducerConfig, name_servers, settings)
