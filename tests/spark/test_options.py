from __future__ import annotations

import pytest

from gantrymq.errors import ConfigError
from gantrymq.message.queues import MessageQueue
from gantrymq.spark.options import OPTIONS, Edge, Instant, Settings, parse_options
from gantrymq.spark.rows import DEFAULT_COLUMNS

LEAST = {"nameServers": "127.0.0.1:9876", "subscribe": "orders"}


def test_the_least_that_must_be_said() -> None:
    assert parse_options(LEAST) == Settings("127.0.0.1:9876", topics=("orders",))


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
    assert settings == Settings(
        "a:1;b:2",
        topics=("x", "y"),
        starting={MessageQueue("x", "b", 0): 5},
        ending=Instant(1_700_000_000_000),
        ending_given=True,
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
    assert parse_options({name: "h:1", "topic": "t"}) == Settings("h:1", topics=("t",))


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
    ({**LEAST, "failOnDataLoss": "no"}, "true and false"),
    ({**LEAST, "readTimeout": "soon"}, "readTimeout"),
    ({**LEAST, "columns": "body,colour"}, "no column 'colour'"),
    ({**LEAST, "columns": "body,body"}, "twice"),
    ({**LEAST, "columns": ","}, "at least one column"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_options_say_what_is_allowed(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        parse_options(options)


def test_what_is_for_streams_and_what_is_for_batches() -> None:
    assert parse_options(LEAST).for_stream().for_batch()
    with pytest.raises(ConfigError, match="a stream has no end"):
        parse_options({**LEAST, "endingOffsets": "latest"}).for_stream()
    with pytest.raises(ConfigError, match="maxOffsetsPerTrigger"):
        parse_options({**LEAST, "maxOffsetsPerTrigger": "5"}).for_batch()
    with pytest.raises(ConfigError, match="startingOffsets=latest"):
        parse_options({**LEAST, "startingOffsets": "latest"}).for_batch()


def test_every_option_is_documented_with_a_meaning() -> None:
    assert all(OPTIONS.values())
