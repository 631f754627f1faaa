"""Official clients of RocketMQ 5, unchanged, on the gRPC door of our broker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gantrymq import Admin
from gantrymq.demo.ports import free_port
from tests.interop import guarded
from tests.interop.five_clients import CLIENTS
from tests.interop.jars import NotHere
from tests.interop.ours import GantryCluster
from tests.interop.process import Process, poll

EVERYTHING = {"normal 0", "normal 1", "normal 2", "ordered", "delayed", "committed", "checked"}
FIRST_CHECK_MS = 2000
UNKNOWN_TOPIC = {"python": "failed to fetch topic:Nothing route."}
"""What a client says that keeps the code of the answer to itself."""


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[GantryCluster, str]]:
    if guarded.server_settings(tmp_path_factory.mktemp("users")):
        pytest.skip("the gRPC door has no TLS yet")
    cluster = GantryCluster(tmp_path_factory.mktemp("five"))
    port = free_port()
    try:
        cluster.start_name_server()
        cluster.start_broker(grpcPort=port, transactionTimeOut=FIRST_CHECK_MS, transactionCheckInterval=FIRST_CHECK_MS)
        yield cluster, f"127.0.0.1:{port}"
    finally:
        cluster.close()


@pytest.mark.parametrize("client", CLIENTS)
def test_what_a_client_sends_is_consumed_and_its_transactions_end(
    client: str, endpoint: tuple[GantryCluster, str], tmp_path: Path
) -> None:
    cluster, address = endpoint
    try:
        command = CLIENTS[client]()
    except NotHere as reason:
        pytest.skip(str(reason))
    topic = f"Five{client.title()}"
    with Admin(cluster.name_servers) as admin:
        admin.create_topic(topic, queues=2)
    home = {**os.environ, "HOME": str(tmp_path)}  # two of the clients write their logs there
    driver = Process(f"five-{client}", [*command, address, topic], tmp_path, home)
    try:
        driver.await_step("ready")
        for consumer in ("push", "simple"):
            poll(lambda who=consumer: said(driver, who) == EVERYTHING, f"all messages at the {consumer} consumer")
        assert said(driver, "check") == {"checked"}
        assert said(driver, "refused") == {UNKNOWN_TOPIC.get(client, "40402")}
        assert len(said(driver, "as sent")) == 1
        assert all("five" in text and "k0" in text and "a" in text for text in said(driver, "as sent"))
        for consumer in ("push", "simple"):
            bodies = [entry["text"] for entry in driver.steps(consumer)]
            assert len(bodies) == len(set(bodies)), "none came twice"
    finally:
        driver.kill()


def said(driver: Process, step: str) -> set[str]:
    return {entry["text"] for entry in driver.steps(step)}
