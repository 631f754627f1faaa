"""What clusters of tests ask the servers about: routes, and single requests."""

from __future__ import annotations

from contextlib import suppress

from gantrymq.protocol.bodies.route import TopicRoute
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, Header, decode_command, encode_request
from gantrymq.protocol.frame import FrameSplitter
from gantrymq.protocol.headers.nameserver import GetRoute
from tests.interop import guarded, secured
from tests.interop.process import poll

ANSWER_SECONDS = 20.0


def await_route(name_server: str, topic: str, brokers: int = 1) -> None:
    """Wait until a name server knows a topic on that many brokers."""
    poll(lambda: brokers_of(name_server, topic) >= brokers, f"route of {topic} to {brokers} brokers")


def brokers_of(name_server: str, topic: str) -> int:
    """On how many brokers a name server knows a topic; 0 while it does not answer."""
    with suppress(OSError, EOFError):
        answer = ask(name_server, RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRoute(topic=topic))
        return len(TopicRoute.decode(answer.body).broker_datas) if answer.code == ResponseCode.SUCCESS else 0
    return 0


def ask(address: str, code: RequestCode, header: Header | None = None, body: bytes = b"") -> Command:
    """What a server answers to one request on a connection of its own. Raises OSError or EOFError."""
    host, port = address.split(":")
    splitter = FrameSplitter()
    with secured.connection(host, int(port), ANSWER_SECONDS) as connection:
        connection.settimeout(ANSWER_SECONDS)
        connection.sendall(guarded.signed(encode_request(code, 1, header, body)))
        while data := connection.recv(65536):
            for serialization, head, content in splitter.feed(data):
                return decode_command(serialization, head, content)
    raise EOFError(f"{address} closed the connection instead of an answer to {code.name}")
