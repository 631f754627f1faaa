"""Limits of the servers as a person starts them: real processes, real memory."""

from __future__ import annotations

import os
import re
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from gantrymq import Message, Producer, PullConsumer
from gantrymq.errors import RequestRejected
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import encode_request
from gantrymq.protocol.headers.pull import ViewMessage
from gantrymq.runtime.addresses import split_address
from gantrymq.runtime.tls.certificates import client_context
from tests.cli.test_serve import Program, address, program
from tests.runtime.tls.peers import client_tls, file

T = TypeVar("T")
MIB = 1 << 20
CONNECTIONS, REQUESTS = 4, 150
"""600 MiB of answers, if the broker made them all."""
TLS = f"tls.server.certPath={file('server.pem')}\ntls.server.keyPath={file('server.key')}\n"


def memory(running: Program) -> int:
    """Bytes that the process has in memory, without files."""
    status = Path(f"/proc/{running.process.pid}/status").read_text()
    found = re.search(r"RssAnon:\s+(\d+) kB", status)
    assert found
    return int(found.group(1)) * 1024


@pytest.mark.parametrize("with_tls", [False, True], ids=["plain", "tls"])
def test_clients_that_never_read_do_not_fill_the_memory_of_a_broker(with_tls: bool, tmp_path: Path) -> None:
    path = tmp_path / "tls.properties"
    path.write_text(TLS)
    with program(
        "server", "--store", str(tmp_path / "store"), "--listen-port", "0", "--name-server-port", "0",
        "--flush", "async", "--tls-config", str(path),
    ) as running:  # fmt: skip
        ready = running.ready()
        names, broker = address(ready, "name server"), split_address(address(ready, "broker"))
        with Producer("PG", name_servers=names) as producer:
            sent = producer.send(Message("Large", os.urandom(MIB)))
            wanted = b"".join(_question(sent.offset_message_id, number) for number in range(1, REQUESTS + 1))
            before = memory(running)
            greedy = [_connected(broker, with_tls) for _ in range(CONNECTIONS)]
            for each in greedy:
                each.sendall(wanted)
            largest = before
            for _ in range(20):  # it serves others meanwhile
                producer.send(Message("Large", b"small"))
                largest = max(largest, memory(running))
            assert largest - before < 200 * MIB, f"{(largest - before) / MIB:.0f} MiB more"
            for each in greedy:
                each.close()


def test_a_client_that_sends_faster_than_it_may_is_slowed_down_and_loses_nothing(tmp_path: Path) -> None:
    config = tmp_path / "broker.conf"
    config.write_text("maxRequestsPerSecond=150\n")
    with program(
        "server", "--store", str(tmp_path / "store"), "--listen-port", "0", "--name-server-port", "0",
        "--flush", "async", "--config", str(config),
    ) as running:  # fmt: skip
        names = address(running.ready(), "name server")
        with Producer("PG", name_servers=names) as producer, PullConsumer(name_servers=names) as consumer:
            sent = {producer.send(Message("Many", b"%d" % number)).message_id for number in range(300)}
            queues = patiently(lambda: consumer.queues("Many"))
            stored = [
                message
                for queue in queues
                for message in patiently(lambda queue=queue: consumer.pull(queue, 0, 1000).messages)  # type: ignore[misc]
            ]
        assert len(sent) == 300 and sorted(int(message.body) for message in stored) == list(range(300))


def patiently(call: Callable[[], T]) -> T:
    """A single pull that is refused is not tried again by the client: the senders have used up what both may do."""
    for _ in range(200):
        try:
            return call()
        except RequestRejected as refused:
            assert refused.code == ResponseCode.SYSTEM_BUSY
            time.sleep(0.05)
    raise AssertionError("refused for ten seconds")


def _question(message_id: str, opaque: int) -> bytes:
    header = ViewMessage(offset=int(message_id[16:], 16))
    return encode_request(RequestCode.VIEW_MESSAGE_BY_ID, opaque, header)


def _connected(place: tuple[str, int], with_tls: bool) -> socket.socket:
    plain = socket.create_connection(place)
    if not with_tls:
        return plain
    context: ssl.SSLContext = client_context(client_tls())
    return context.wrap_socket(plain)
