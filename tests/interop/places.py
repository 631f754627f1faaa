"""Ports and routes that clusters of tests share."""

from __future__ import annotations

import random
import socket
from contextlib import suppress

from gantrymq.protocol.bodies.route import TopicRoute
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import decode_command, encode_request
from gantrymq.protocol.frame import FrameSplitter
from gantrymq.protocol.headers.nameserver import GetRoute
from tests.interop.process import poll

FIRST_PORT, LAST_PORT = 12000, 31000
"""Below the ports that Linux gives to outgoing connections, so that no client takes one first."""
_chance = random.Random()


def free_port() -> int:
    """A free port, and so are those that Apache's broker takes beside it: 2 below (fast port), 1 above (HA)."""
    while True:
        port = _chance.randrange(FIRST_PORT, LAST_PORT)
        if all(map(_is_free, (port - 2, port, port + 1))):
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe, suppress(OSError):
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
        return True
    return False


def await_route(name_server: str, topic: str, brokers: int = 1) -> None:
    """Wait until a name server knows a topic on that many brokers."""
    poll(lambda: brokers_of(name_server, topic) >= brokers, f"route of {topic} to {brokers} brokers")


def brokers_of(name_server: str, topic: str) -> int:
    """On how many brokers a name server knows a topic; 0 while it does not answer."""
    host, port = name_server.split(":")
    splitter = FrameSplitter()
    with suppress(OSError), socket.create_connection((host, int(port)), 5) as connection:
        connection.settimeout(5)
        connection.sendall(encode_request(RequestCode.GET_ROUTEINFO_BY_TOPIC, 1, GetRoute(topic=topic)))
        while data := connection.recv(65536):
            for serialization, header, body in splitter.feed(data):
                answer = decode_command(serialization, header, body)
                found = answer.code == ResponseCode.SUCCESS
                return len(TopicRoute.decode(answer.body).broker_datas) if found else 0
    return 0
