"""The table of requests: it has every request that a server answers, and the page is made from it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gantrymq.access import operations
from gantrymq.access.operations import Operation
from gantrymq.access.places import NoPlaces
from gantrymq.access.remoting.naming import Asked, Either, Field, Is, Row, Unclear
from gantrymq.access.remoting.pages import replaced
from gantrymq.access.remoting.requests import ACCESS_ROWS, BROKER_ROWS, NAME_SERVER_ROWS
from gantrymq.access.values import Action, Need, ResourceKind
from gantrymq.message.system_topics import AUTO_CREATE
from gantrymq.nameserver.config import NameServerConfig
from gantrymq.nameserver.kv_config import KVConfig
from gantrymq.nameserver.processors import Processors
from gantrymq.nameserver.route_table import RouteTable
from gantrymq.protocol.codes import RequestCode as Code
from gantrymq.protocol.command import Command
from gantrymq.protocol.headers.registry import REQUEST_HEADERS
from gantrymq.runtime.clock import SystemClock
from gantrymq.simulation.world.disk import SimDisk
from tests.support.brokers import cluster
from tests.support.doors import remoting

PAGE = Path(__file__).resolve().parents[2] / "docs" / "permissions.md"


def test_every_request_of_the_broker_has_a_row(tmp_path: Path) -> None:
    async def work() -> set[int]:
        async with cluster(tmp_path) as running:
            return set(remoting(running.broker).handlers)

    assert asyncio.run(work()) | set(ACCESS_ROWS) == set(BROKER_ROWS)


def test_every_request_of_the_name_server_has_a_row() -> None:
    handlers = Processors(NameServerConfig(), RouteTable(), KVConfig(SimDisk(), ""), SystemClock()).table()
    assert set(handlers) | set(ACCESS_ROWS) == set(NAME_SERVER_ROWS)


def test_the_page_is_made_from_the_table() -> None:
    page = PAGE.read_text()
    assert replaced(page) == page, "python -m gantrymq.access.remoting.pages docs/permissions.md"


@pytest.mark.parametrize("rows", [BROKER_ROWS, NAME_SERVER_ROWS])
def test_every_row_needs_something_that_its_header_has(rows: dict[int, Row]) -> None:
    for code, row in rows.items():
        for part in (row.usually, row.otherwise) if isinstance(row, Either) else (row,):
            assert isinstance(part, Is)
            operation = part.operation
            assert operation.on_cluster or operation.rights, code
            for right in operation.rights:
                assert part.sources(right.role), (code, right)
                for source in part.sources(right.role):
                    assert source.text
                    if isinstance(source, Field):
                        assert source.name in REQUEST_HEADERS[Code(code)].__struct_encode_fields__, (code, source)


def test_every_operation_is_reached_by_a_request() -> None:
    known = {value for value in vars(operations).values() if isinstance(value, Operation)}
    rows = [*BROKER_ROWS.values(), *NAME_SERVER_ROWS.values()]
    parts = [part for row in rows for part in ((row.usually, row.otherwise) if isinstance(row, Either) else (row,))]
    assert {part.operation for part in parts if isinstance(part, Is)} == known
    assert len({operation.name for operation in known}) == len(known)


def needs(code: int, **fields: str) -> list[str]:
    row = (BROKER_ROWS if code in BROKER_ROWS else NAME_SERVER_ROWS)[code]
    asked = Asked(Command(code=code), fields, NoPlaces(), "DefaultCluster")
    return sorted(need.text for need in row.needs(asked))


def test_a_retry_topic_belongs_to_its_group() -> None:
    for code, field in (
        (Code.SEND_MESSAGE, "topic"), (Code.SEND_MESSAGE_V2, "b"), (Code.SEND_BATCH_MESSAGE, "b"),
        (Code.SEND_HALVES, "b"),
    ):  # fmt: skip
        assert needs(code, **{field: "%RETRY%G"}) == ["Sub on Group:G"]  # consumers send back what failed
        assert needs(code, **{field: "T"}) == ["Pub on Topic:T"]
    assert needs(Code.PULL_MESSAGE, topic="%RETRY%G", consumerGroup="G") == ["Sub on Group:G", "Sub on Group:G"]
    assert needs(Code.GET_ROUTEINFO_BY_TOPIC, topic="%RETRY%G") == ["Sub or Get on Group:G"]
    assert needs(Code.GET_ROUTEINFO_BY_TOPIC, topic="T") == ["Pub or Sub or Get on Topic:T"]
    assert needs(Code.GET_ROUTEINFO_BY_TOPIC, topic=AUTO_CREATE) == []


def test_a_retry_topic_of_pop_belongs_to_its_group_and_its_topic() -> None:
    for code in (Code.ACK_MESSAGE, Code.CHANGE_MESSAGE_INVISIBLETIME):
        for topic in ("T", "%RETRY%G_T", "%RETRY%G+T"):
            assert needs(code, topic=topic, consumerGroup="G") == ["Sub on Group:G", "Sub on Topic:T"]
        assert needs(code, topic="%RETRY%G", consumerGroup="G") == ["Sub on Group:G", "Sub on Group:G"]
        assert needs(code, topic="%RETRY%X_T", consumerGroup="G") == ["Sub on Group:G", "Sub on Group:X_T"]
        for fields in ({"topic": "T"}, {"consumerGroup": "G"}):
            with pytest.raises(Unclear):
                needs(code, **fields)


def test_a_request_that_names_nothing_is_unclear() -> None:
    for code, fields in (
        (Code.SEND_MESSAGE_V2, {}),
        (Code.PULL_MESSAGE, {"topic": "T"}),
        (Code.GET_TOPIC_CONFIG, {"topic": ""}),
    ):
        with pytest.raises(Unclear):
            needs(code, **fields)
    assert needs(Code.UNREGISTER_CLIENT) == []
    assert needs(Code.GET_CONSUME_STATS, consumerGroup="G", topicList="A;B") == [
        "Get on Group:G", "Get on Topic:A", "Get on Topic:B",
    ]  # fmt: skip
    assert Need(ResourceKind.TOPIC, "T", (Action.PUB,)).text == "Pub on Topic:T"
