"""A whole round of a client whose headers are binary (``rocketmq.serialize.type=ROCKETMQ``)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.apache import JavaClient
from tests.interop.java_clients.conftest import Played, Server
from tests.interop.process import Process

ROUND = ("Sends", "Retries", "LitePull", "Queries", "FastPort")


@pytest.fixture(scope="module")
def binary(java_client: JavaClient, server: Server, prefix: str) -> Iterator[Process]:
    process = java_client.play(
        "Scenarios", server.name_servers, f"B{prefix}", *ROUND, rocketmq_serialize_type="ROCKETMQ"
    )
    yield process
    process.kill()


@pytest.mark.feature("binary headers")
def test_a_whole_round(binary: Process) -> None:
    sends, retries, lite, queries, _ = (Played(binary, name).finished() for name in ROUND)
    got = sends.got()
    assert got["plain"][0]["properties"]["stadt"] == "Zürich 中文 🚀" and got["ü中文🚀"][0]["keys"] == "键"
    assert all(len(entries) == 1 for entries in got.values()) and len(got) == 15
    assert sends.one("refused", what="body too big")["code"] == 13
    assert [entry["times"] for entry in retries.got()["again after the default delay"]] == [0, 1]
    assert {entry["keys"] for entry in retries.steps("got", who="dead")} == {"poison", "straight"}
    assert [entry["keys"] for entry in lite.steps("got", who="goes on")] == ["more"]
    assert queries.one("outcome", what="unique key")["value"] == "query 1"
