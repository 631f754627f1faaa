"""Host names instead of addresses: those of containers, which appear late and move."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gantrymq import Admin, Message, Producer, PullConsumer
from tests.cli.test_serve import program
from tests.cli.tool import Tool


@pytest.mark.slow
def test_a_broker_that_is_known_by_a_name(tmp_path: Path) -> None:
    """Clients are given the name, ids of messages contain the address, and tools find a message by such an id."""
    with program("nameserver", "--listen-port", "0") as names:
        port = names.ready().rpartition(":")[2]
        servers = f"127.0.0.1:{port}"
        with program(
            "broker", "--store", str(tmp_path / "store"), "--listen-port", "0", "-n", servers, "--host", "localhost"
        ) as broker:
            assert re.search(r"broker \S+ localhost:\d+,", broker.ready())
            with Producer("p", name_servers=servers) as producer:
                sent = producer.send(Message("T", "hello"))
            assert sent.offset_message_id.startswith("7F000001")
            tool = Tool(servers, tmp_path / "audit.jsonl")
            assert tool.json("message", "show", sent.offset_message_id)[0]["body"] == "hello"
            with Admin(servers) as admin:
                (info,) = admin.cluster_info().broker_addr_table.values()
                assert info.broker_addrs[0].startswith("localhost:")
            with PullConsumer(name_servers=servers) as consumer:
                assert [len(consumer.pull(queue, 0).messages) for queue in [sent.queue]] == [1]


@pytest.mark.slow
def test_a_broker_whose_own_name_has_no_address_yet(tmp_path: Path) -> None:
    with program(
        "broker", "--store", str(tmp_path), "--listen-port", "0", "--host", "broker-0.not-ready.invalid"
    ) as running:
        assert "broker-0.not-ready.invalid:" in running.ready()
        running.process.terminate()
        said = running.ended()[2]
    assert "this name has no address here yet" in said and "correct brokerIP1" in said, said
