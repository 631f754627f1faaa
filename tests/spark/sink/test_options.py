from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from gantrymq.client.keywords import ClientSettings
from gantrymq.errors import ConfigError
from gantrymq.spark.sink.columns import SinkColumns, sink_columns
from gantrymq.spark.sink.options import Guarantee, SinkSettings, parse_sink_options

SERVERS = {"nameServers": "a:1, b:2"}


def test_the_defaults() -> None:
    assert parse_sink_options(SERVERS) == SinkSettings("a:1;b:2")


def test_options_of_spark_are_left_alone() -> None:
    given = {"checkpointLocation": "/x", "queryName": "q", "TOPIC": "Orders", "deliveryguarantee": "AT_least_once"}
    settings = parse_sink_options({**SERVERS, **given})
    assert (settings.topic, settings.guarantee) == ("Orders", Guarantee.AT_LEAST_ONCE)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"nameServers": " ;"}, "nameServers is missing"),
        ({"topics": "a"}, "did you mean topic"),
        ({"topic": "a b"}, "option topic: "),
        ({"producerGroup": "a b"}, "option producerGroup: "),
        ({"deliveryGuarantee": "once"}, "allowed are exactly_once and at_least_once"),
        ({"batchMaxRows": "0"}, "from 1 to 4000"),
        ({"batchMaxBytes": "9m"}, "allowed are sizes"),
        ({"writeTimeout": "soon"}, "allowed are times"),
        ({"undecidedTimeout": "10ms"}, "1000 ms or more"),
        ({"writeId": "x", "deliveryGuarantee": "at_least_once"}, "exactly_once only"),
        ({"rocketmq.nameserver": "c:3"}, "given twice"),
        ({"namespace": "a b", "topic": "T"}, "option topic and namespace: "),
        ({"namespace": "a b"}, "option producerGroup and namespace: "),
        ({"accessKey": "me"}, "both accessKey and secretKey"),
        ({"tls": "yes"}, "allowed are true and false"),
    ],
)
def test_wrong_options_are_named(options: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        parse_sink_options({**SERVERS, **options})


def test_a_namespace_is_before_topic_and_group_and_no_setting_of_clients() -> None:
    given = {"rocketmq.client.namespace": "shop", "topic": "Orders"}
    settings = parse_sink_options({**SERVERS, **given})
    assert (settings.topic, settings.group) == ("shop%Orders", "shop%gantry-spark-sink")
    assert (settings.namespace, settings.access) == ("shop", parse_sink_options(SERVERS).access)


def test_account_and_tls_reach_the_clients_and_the_secret_no_text() -> None:
    account = {"accessKey": "me", "rocketmq.client.secretKey": "hush", "tls.enable": "true", "tlsKeyPassword": "hush"}
    settings = parse_sink_options({**SERVERS, **account, "tlsTrustCertPath": "/ca.pem"})
    assert settings.access.client_settings(ClientSettings.__annotations__) == {
        "access_key": "me", "secret_key": "hush", "tls": True, "tls_trust_cert_path": "/ca.pem",
        "tls_key_password": "hush",
    }  # fmt: skip
    assert "hush" not in repr(settings)
    with pytest.raises(ConfigError, match="secretKey is given twice") as raised:
        parse_sink_options({**SERVERS, **account, "secretKey": "other"})
    assert "hush" not in str(raised.value)


TYPES = {
    "string": StringType(), "binary": BinaryType(), "int": IntegerType(), "bigint": LongType(),
    "array<string>": ArrayType(StringType()), "map<string,string>": MapType(StringType(), StringType()),
    "map<string,int>": MapType(StringType(), IntegerType()),
}  # fmt: skip


def columns(ddl: str, **options: str) -> SinkColumns:
    fields = [field.split() for field in ddl.split(", ")]  # fromDDL needs a Spark session
    schema = StructType([StructField(name, TYPES[kind]) for name, kind in fields])
    return sink_columns(schema, parse_sink_options({**SERVERS, **options}))


def test_columns_in_any_order() -> None:
    assert columns("tags string, body binary, topic string") == SinkColumns(body=1, topic=2, tags=0)
    assert columns("body string, keys array<string>, properties map<string,string>", topic="T") == SinkColumns(
        body=0, keys=1, properties=2
    )


@pytest.mark.parametrize(
    ("ddl", "reason"),
    [
        ("body int, topic string", "must be binary or string: use CAST"),
        ("topic string", "needs a column 'body'"),
        ("body binary", "does not know the topic"),
        ("value binary, topic string", "is called 'body' here"),
        ("body binary, topic string, queue_id int", "drop the column"),
        ("body binary, topic string, amount int", "put it into the body"),
        ("body binary, topic string, delay_ms bigint", "cannot be delayed"),
        ("body binary, topic string, properties map<string,int>", "use CAST"),
    ],
)
def test_wrong_columns_are_named(ddl: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        columns(ddl)
