"""The headers with which a client opens a call."""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.grpc.http2.hpack import Header
from gantrymq.grpc.http2.stream import Stream
from gantrymq.grpc.serving.call import Call, Line
from gantrymq.grpc.serving.framing import ENCODINGS
from gantrymq.grpc.serving.methods import Method
from gantrymq.grpc.serving.statuses import CallFailed, GrpcStatus, seconds_of


def call_of(line: Line, stream: Stream, headers: list[Header], find: Callable[[str], Method | None]) -> Call:
    """Raises CallFailed for what is no call of a method that ``find`` knows."""
    said = dict(headers)
    if len(said) != len(headers):
        said = _joined(headers)
    path = said.get(":path", "")
    if said.get(":method") != "POST" or not path:
        raise CallFailed(GrpcStatus.INTERNAL, "a call of gRPC has the method POST and a path")
    if not said.get("content-type", "").startswith("application/grpc"):
        raise CallFailed(GrpcStatus.INTERNAL, "a call of gRPC has the content-type application/grpc")
    if said.get("grpc-encoding", ENCODINGS[0]) not in ENCODINGS:
        raise CallFailed(
            GrpcStatus.UNIMPLEMENTED,
            f"grpc-encoding {said['grpc-encoding'][:40]} is unknown; use {' or '.join(ENCODINGS)}",
        )
    method = find(path)
    if method is None:
        raise CallFailed(GrpcStatus.UNIMPLEMENTED, f"the method {path[:200]} is not there")
    call = Call(line, stream, said, method)
    timeout = said.get("grpc-timeout")
    if timeout is not None:
        call.deadline = line.clock.monotonic() + seconds_of(timeout)
    return call


def _joined(headers: list[Header]) -> dict[str, str]:
    """Headers that come several times are one, with commas."""
    said: dict[str, str] = {}
    for name, value in headers:
        said[name] = f"{said[name]},{value}" if name in said else value
    return said
