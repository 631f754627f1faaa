"""A wrong name of an option says what to write; those of Spark's Kafka connector say what there is instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from gantrymq.errors import ConfigError
from gantrymq.spark.options import table as option_table
from gantrymq.spark.options.option import Option
from gantrymq.spark.options.settings import parse_options
from gantrymq.spark.sink import options as sink_options
from gantrymq.spark.sink.options import parse_sink_options

Parse = Callable[[Mapping[str, str]], object]
SIDES: list[tuple[Parse, tuple[Option, ...], dict[str, str]]] = [
    (parse_options, option_table.DECLARED, option_table.WITHOUT_COUNTERPART),
    (parse_sink_options, sink_options.DECLARED, sink_options.WITHOUT_COUNTERPART),
]


def refused(parse: Parse, name: str) -> str:
    with pytest.raises(ConfigError, match="has no option") as raised:
        parse({name: "x"})
    return str(raised.value)


@pytest.mark.parametrize(("parse", "declared", "reasons"), SIDES, ids=["source", "sink"])
def test_every_option_of_kafka_says_what_there_is_instead(
    parse: Parse, declared: tuple[Option, ...], reasons: dict[str, str]
) -> None:
    accepted = {name for option in declared for name in (option.name, *option.aliases)}
    for option in declared:
        for theirs in set(option.kafka) - accepted:
            for written in (theirs, theirs.upper()):
                assert refused(parse, written).endswith(f"Kafka's option is {option.name} here")
    for names, reason in reasons.items():
        for theirs in names.split(", ") if not names.startswith("(") else ():
            assert refused(parse, theirs.replace("*", "any.thing")).endswith(reason.replace("`", ""))


@pytest.mark.parametrize("parse", [parse_options, parse_sink_options])
def test_names_that_nobody_has(parse: Parse) -> None:
    assert "is a setting of Kafka's client, and there are nameServers" in refused(parse, "kafka.socket.buffer")
    assert refused(parse, "nameServrs").endswith("did you mean nameServers?")
    assert "; there are nameServers, " in refused(parse, "zzz")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("kafka.ssl.truststore.location", "leave it out: tls and the options that begin with it"),
        ("kafka.security.protocol", "leave it out: tls and the options that begin with it"),
        ("kafka.sasl.jaas.config", "accessKey, secretKey"),
        ("kafka.bootstrap.servers", "Kafka's option is nameServers here"),
    ],
)
@pytest.mark.parametrize("parse", [parse_options, parse_sink_options])
def test_what_users_of_kafka_write_first(parse: Parse, name: str, said: str) -> None:
    assert said in refused(parse, name)
