from __future__ import annotations

import pickle
import re

import pytest

from gantrymq.client.keywords import PullSettings
from gantrymq.errors import ConfigError
from gantrymq.message.queues import MessageQueue
from gantrymq.spark.columns.rows import DEFAULT_COLUMNS
from gantrymq.spark.options.access import Access
from gantrymq.spark.options.bounds import Edge, Instant, Instants
from gantrymq.spark.options.settings import parse_options
from gantrymq.spark.options.table import SourceSettings
from gantrymq.spark.options.values import Secret

LEAST = {"nameServers": "127.0.0.1:9876", "subscribe": "orders"}


def test_the_least_that_must_be_said() -> None:
    assert parse_options(LEAST) == SourceSettings("127.0.0.1:9876", topics=("orders",))


def test_everything() -> None:
    settings = parse_options(
        {
            "nameServers": "a:1; b:2",
            "subscribe": " x , y, x",
            "startingOffsets": '{"x": {"b": {"0": 5}}}',
            "endingTimestamp": "1700000000000",
            "minPartitions": "3",
            "maxRecordsPerPartition": "1000",
            "failOnDataLoss": "FALSE",
            "includeProperties": "true",
            "readTimeout": "2m",
            "pollInterval": "5",
            "discoveryInterval": "1s",
            "pullMaxRows": "32",
        }
    )
    assert settings == SourceSettings(
        "a:1;b:2",
        topics=("x", "y"),
        starting={MessageQueue("x", "b", 0): 5},
        ending=Instant(1_700_000_000_000),
        min_partitions=3,
        max_rows_per_partition=1000,
        fail_on_data_loss=False,
        columns=(*DEFAULT_COLUMNS, "properties"),
        read_timeout_ms=120_000,
        poll_interval_ms=5,
        discovery_interval_ms=1000,
        pull_max_rows=32,
    )


@pytest.mark.parametrize("name", ["nameserver", "nameServer", "rocketmq.name.servers", "NAMESERVERS"])
def test_other_names_of_the_name_servers(name: str) -> None:
    assert parse_options({name: "h:1", "topic": "t"}) == SourceSettings("h:1", topics=("t",))


def test_queues_by_hand_and_topics_by_pattern() -> None:
    assigned = parse_options({"nameServers": "h:1", "assign": '{"t": {"b": [1, 0]}}'})
    assert assigned.queues == (MessageQueue("t", "b", 0), MessageQueue("t", "b", 1))
    assert parse_options({"nameServers": "h:1", "subscribePattern": "ord.*"}).pattern == "ord.*"


def test_time_wins_over_offsets_and_columns_are_chosen() -> None:
    settings = parse_options({**LEAST, "startingTimestamp": "7", "startingOffsets": "latest", "columns": "body, tags"})
    assert settings.starting == Instant(7)
    assert settings.columns == ("body", "tags")
    assert parse_options({**LEAST, "startingOffsets": "Earliest"}).starting is Edge.EARLIEST


BAD = [
    ({"subscribe": "t"}, "nameServers"),
    ({"nameServers": " ; ", "subscribe": "t"}, "nameServers"),
    ({"nameServers": "h:1"}, "exactly one of subscribe"),
    ({**LEAST, "assign": "{}"}, "exactly one of subscribe"),
    ({"nameServers": "h:1", "subscribe": " , "}, "names no topic"),
    ({"nameServers": "h:1", "subscribePattern": "("}, "subscribePattern"),
    ({"nameServers": "h:1", "assign": "{}"}, "assign"),
    ({"nameServers": "h:1", "assign": '{"t": [0]}'}, "assign"),
    ({**LEAST, "topic": "other"}, "given twice"),
    ({**LEAST, "startingOffset": "earliest"}, "did you mean startingOffsets"),
    ({**LEAST, "zzz": "1"}, "there are nameServers"),
    ({**LEAST, "startingOffsets": "newest"}, "allowed are earliest, latest and JSON"),
    ({**LEAST, "endingOffsets": "earliest"}, "allowed are latest and JSON"),
    ({**LEAST, "startingTimestamp": "yesterday"}, "startingTimestamp"),
    ({**LEAST, "maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger"),
    ({**LEAST, "minPartitions": "many"}, "minPartitions"),
    ({**LEAST, "maxBytesPerTrigger": "64 MiB"}, "allowed are sizes like 512k, 64m, 1g, of 1 bytes or more"),
    ({**LEAST, "maxBytesPerTrigger": "0"}, "allowed are sizes like"),
    ({**LEAST, "columns": "value,timestampType"}, "That of Spark's Kafka source is body here"),
    ({**LEAST, "failOnDataLoss": "no"}, "true and false"),
    ({**LEAST, "readTimeout": "soon"}, "readTimeout"),
    ({**LEAST, "columns": "body,colour"}, "no column 'colour'"),
    ({**LEAST, "columns": "body,body"}, "twice"),
    ({**LEAST, "columns": ","}, "at least one column"),
    ({**LEAST, "startingTimestamp": "2026-01-31T08:00:00"}, "without its zone; write for example 2026-01-31T08:00:00Z"),
    ({**LEAST, "endingTimestamp": "1960-01-31T08:00:00Z"}, "before 1970"),
    ({**LEAST, "startingOffsetsByTimestamp": "{}"}, "names no queue"),
    ({**LEAST, "startingOffsetsByTimestamp": "[1]"}, "write for example"),
    ({**LEAST, "startingOffsetsByTimestampStrategy": "ignore"}, "allowed are error and latest"),
    ({**LEAST, "subExpression": "||"}, "names no tag"),
    ({**LEAST, "subExpressionType": "SQL92"}, "the expression, is missing"),
    ({**LEAST, "subExpressionType": "REGEX"}, "allowed are TAG and SQL92"),
    ({**LEAST, "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "more than maxOffsetsPerTrigger"),
    ({**LEAST, "maxTriggerDelay": "long"}, "maxTriggerDelay"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_options_say_what_is_allowed(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        parse_options(options)


def test_what_is_for_streams_and_what_is_for_batches() -> None:
    assert parse_options(LEAST).for_stream().for_batch()
    for name, value in (("endingOffsets", "latest"), ("endingTimestamp", "5")):
        with pytest.raises(ConfigError, match=f"option {name} is for spark.read: a stream has no end"):
            parse_options({**LEAST, name: value}).for_stream()
    with pytest.raises(ConfigError, match="maxOffsetsPerTrigger"):
        parse_options({**LEAST, "maxOffsetsPerTrigger": "5"}).for_batch()
    with pytest.raises(ConfigError, match="startingOffsets=latest"):
        parse_options({**LEAST, "startingOffsets": "latest"}).for_batch()


AT = "2026-01-31T08:00:00Z"
AT_MS = 1_769_846_400_000


@pytest.mark.parametrize("text", [str(AT_MS), AT, "2026-01-31T10:00:00+02:00", " 2026-01-31 08:00:00.000+00:00 "])
def test_a_time_is_a_number_or_iso_8601(text: str) -> None:
    assert parse_options({**LEAST, "startingTimestamp": text}).starting == Instant(AT_MS)


@pytest.mark.parametrize(("text", "size"), [("7", 7), ("64m", 64 << 20), (" 2 GB", 2 << 30), ("512kb", 512 << 10)])
def test_a_size_has_a_unit(text: str, size: int) -> None:
    assert parse_options({**LEAST, "maxBytesPerTrigger": text}).max_bytes_per_trigger == size


def test_a_time_for_each_queue() -> None:
    times = f'{{"t": {{"b": {{"0": "{AT}", "1": 7, "2": "8"}}}}}}'
    settings = parse_options(
        {
            **LEAST, "startingOffsetsByTimestamp": times, "startingOffsets": "earliest",
            "endingOffsetsByTimestamp": times, "startingOffsetsByTimestampStrategy": "Latest",
        }
    )  # fmt: skip
    queues = [MessageQueue("t", "b", number) for number in range(3)]
    expected = Instants(dict(zip(queues, (AT_MS, 7, 8), strict=True)))
    assert settings.starting == settings.ending == expected
    assert settings.late_start_at_end
    assert parse_options({**LEAST, "startingOffsetsByTimestamp": times, "startingTimestamp": "9"}).starting == Instant(
        9
    )


def test_a_selection_by_tag_or_sql() -> None:
    assert parse_options({**LEAST, "subExpression": "a || b"}).filter.text == "a || b"
    assert parse_options({**LEAST, "subExpression": " * "}) == parse_options(LEAST)
    chosen = parse_options({**LEAST, "subExpression": "amount > 5", "subExpressionType": "sql92"}).filter
    assert (chosen.text, chosen.kind) == ("amount > 5", "SQL92")


def test_names_of_the_older_connectors() -> None:
    """Those of rocketmq-spark and rocketmq-flink."""
    old = {
        "nameServer": "h:1", "topic": "t", "pullTimeoutMs": "500", "pullBatchSize": "64", "subExpression": "vip",
        "group": "g", "failOnDataLoss": "false", "maxOffsetsPerTrigger": "9",
    }  # fmt: skip
    settings = parse_options(old)
    assert (settings.access.request_timeout_ms, settings.pull_max_rows, settings.group) == (500, 64, "g")
    flink = {"rocketmq.client.endpoints": "h:1", "topic": "t", "rocketmq.client.partition.discovery.interval.ms": "70"}
    assert parse_options(flink).discovery_interval_ms == 70


def test_what_spark_adds_for_tables_is_ignored() -> None:
    added = {"provider": "rocketmq", "owner": "me", "option.subscribe": "orders", "location": "file:/x"}
    assert parse_options({**LEAST, **added}) == parse_options(LEAST)
    with pytest.raises(ConfigError, match=r"CREATE TEMPORARY VIEW .* WITH"):
        parse_options({})


SECRETS = {**LEAST, "accessKey": "me", "secretKey": "hush-1", "tlsKeyPassword": "hush-2", "namespace": "ns"}


def test_secrets_are_shown_nowhere() -> None:
    settings = parse_options(SECRETS)
    assert settings.access.secret_key == Secret("hush-1") != Secret("other")
    assert "hush" not in repr(settings)
    assert pickle.loads(pickle.dumps(settings)) == settings
    for bad in ({**SECRETS, "rocketmq.client.secretKey": "hush-3"}, {**SECRETS, "secretkeys": "hush-3"}):
        with pytest.raises(ConfigError) as raised:
            parse_options(bad)
        assert "hush" not in str(raised.value)


def test_an_account_that_the_client_cannot_use_is_refused() -> None:
    access = parse_options(SECRETS).access
    with pytest.raises(ConfigError, match=r"option accessKey is set, but this client") as raised:
        access.client_settings({"namespace": str})
    assert "hush" not in str(raised.value)
    known = dict.fromkeys(("access_key", "secret_key", "tls_key_password"), str)
    assert access.client_settings(known) == {
        "access_key": "me", "secret_key": "hush-1", "tls_key_password": "hush-2", "namespace": "ns",
    }  # fmt: skip
    assert Access().client_settings({}) == {}
    secure = parse_options({**LEAST, "tls": "true", "tlsTrustCertPath": "/ca.pem"}).access
    assert secure.client_settings(PullSettings.__annotations__) == {"tls": True, "tls_trust_cert_path": "/ca.pem"}
    with pytest.raises(ConfigError, match="both accessKey and secretKey"):
        parse_options({**LEAST, "accessKey": "me"})
