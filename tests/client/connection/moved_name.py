"""``python -m tests.client.connection.moved_name HOSTS DIRECTORY``, in namespaces of its own where HOSTS is /etc/hosts.

Broker and client know their name server by a name. The name gets another address while both run, and the name server
at the old one ends. Prints ``moved`` when a topic that was made behind that is found.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from gantrymq.aio import Message, Producer
from gantrymq.nameserver.config import NameServerConfig
from gantrymq.nameserver.nameserver import NameServer
from gantrymq.protocol.codes import ResponseCode
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.runtime.network import TcpNetwork
from tests.support.brokers import cluster

PORT = 9876
BEFORE, BEHIND = "127.0.0.1", "127.0.0.2"
NAME = "names.test"


def points_to(hosts: Path, address: str) -> None:
    """Written in place: the file is mounted."""
    hosts.write_text(f"{address} {NAME}\n")


async def name_server(address: str) -> NameServer:
    server = NameServer(
        NameServerConfig(listen_host=address, listen_port=PORT), TcpNetwork(), SystemClock(), OsDisk()
    )  # fmt: skip
    await server.start()
    return server


async def main(hosts: Path, directory: Path) -> None:
    points_to(hosts, BEFORE)
    first, second = await name_server(BEFORE), await name_server(BEHIND)
    async with cluster(directory / "store", namesrv_addr=f"{NAME}:{PORT}") as running:
        assert (await running.create_topic("Before", 1)).code == ResponseCode.SUCCESS
        producer = Producer("movers", name_servers=f"{NAME}:{PORT}")
        await producer.start()
        await producer.send(Message("Before", b"one"))
        points_to(hosts, BEHIND)
        await first.close()
        assert (await running.create_topic("Behind", 1)).code == ResponseCode.SUCCESS
        await producer.send(Message("Behind", b"two"))
        assert running.broker.store.queue_range("Behind", 0)[1] == 1
        await producer.close()
    await second.close()
    sys.stdout.write("moved\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
