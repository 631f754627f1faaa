"""Messages with a priority, and to lite topics, by an official client of RocketMQ 5: on the gRPC door of our broker,
and on `gantry proxy` before our broker and Apache's.

The clients for Node.js (1.0.8) and Python (5.1.2) have lite consumers, too: no driver here tries them yet.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from gantrymq import Admin
from gantrymq.admin import Admin as AsyncAdmin
from gantrymq.demo.ports import free_port
from gantrymq.protocol.files.groups import LITE_BIND_TOPIC, LITE_EXCLUSIVE, LITE_SUB_MODEL, Group
from tests.interop import guarded, secured
from tests.interop.apache import ApacheCluster
from tests.interop.five_clients import java_client
from tests.interop.jars import NotHere
from tests.interop.ours import READY, GantryCluster
from tests.interop.process import Process, poll
from tests.interop.test_five_clients import started
from tests.interop.test_types_of_messages import LITE

RANKED, PARENT, SHARED, EXCLUSIVE = "Ranked", "Baskets", "shared-readers", "exclusive-readers"


async def make_groups(name_servers: str) -> None:
    async with AsyncAdmin(name_servers) as admin:
        for name, model in ((SHARED, "Shared"), (EXCLUSIVE, LITE_EXCLUSIVE)):
            attributes = {LITE_BIND_TOPIC: PARENT, LITE_SUB_MODEL: model}
            await admin.groups.put(name, lambda now, own=attributes: Group(group_name=now.group_name, attributes=own))


def before(kind: str, directory: Path) -> tuple[GantryCluster | ApacheCluster, int, Process | None]:
    """A name server and a broker, the port of the door, and the proxy, if the door is one."""
    if kind == "broker":
        return *started(directory), None
    cluster: GantryCluster | ApacheCluster
    cluster = GantryCluster(directory) if kind == "proxy of ours" else ApacheCluster("5.5.0", directory)
    cluster.start_name_server()
    cluster.start_broker(**({} if kind == "proxy of ours" else LITE))
    port = free_port()
    command = [sys.executable, "-m", "gantrymq.cli.main", "proxy", "--name-servers", cluster.name_servers,
               "--grpc-port", str(port), "--bind", "127.0.0.1"]  # fmt: skip
    proxy = Process("proxy", command, directory)
    proxy.await_line(READY)
    return cluster, port, proxy


@pytest.mark.parametrize("place", ["broker", "proxy of ours", "proxy of Apache's"])
def test_java_sends_priorities_and_reads_lite_topics(place: str, tmp_path: Path) -> None:
    if guarded.is_on() or secured.is_on():
        pytest.skip("this driver shows no certificate")
    try:
        command = java_client("Types")
        cluster, port, proxy = before(place, tmp_path / "broker")
    except NotHere as reason:
        pytest.skip(str(reason))
    driver: Process | None = None
    try:
        with Admin(cluster.name_servers) as admin:
            admin.create_topic(RANKED, queues=4, message_type="PRIORITY")
            admin.create_topic(PARENT, queues=2, message_type="LITE")
        asyncio.run(make_groups(cluster.name_servers))
        arguments = [f"localhost:{port}", RANKED, PARENT, SHARED, EXCLUSIVE]
        driver = Process("five-types", [*command, *arguments], tmp_path, {**os.environ, "HOME": str(tmp_path)})
        driver.await_step("sent")
        assert texts(driver, "ranked") == [f"priority {number} {number}" for number in (3, 2, 1, 0, 0)]
        of_a = ["one of a 1", "fails of a 1", "fails of a 2", "two of a 1"]
        poll(lambda: of(driver, "shared", "a") == of_a, "all messages of a at the shared group")
        poll(lambda: of(driver, "first", "a") == of_a, "all messages of a at the exclusive group")
        of_b = ["two of b 1"]
        if isinstance(cluster, ApacheCluster):  # it counts back from the offset of the group, and this one has none
            of_b = [text.replace(" a ", " b ") for text in of_a]
        poll(lambda: of(driver, "shared", "b") == of_b, "the last message of b")
        driver.write_line()
        driver.await_step("ready")
        assert texts(driver, "evicted") == ["[]"]
        assert texts(driver, "refused") == ["40020"]
        poll(lambda: texts(driver, "second") == ["three of a 1"], "the message of the one who has a now")
        assert of(driver, "shared", "a") == of_a
        assert of(driver, "first", "a") == of_a
    finally:
        for process in (driver, proxy):
            if process is not None:
                process.kill()
        cluster.close()


def of(driver: Process, step: str, lite_topic: str) -> list[str]:
    return [text for text in texts(driver, step) if f" of {lite_topic} " in text]


def texts(driver: Process, step: str) -> list[str]:
    return [entry["text"] for entry in driver.steps(step)]
