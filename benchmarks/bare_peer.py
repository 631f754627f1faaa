"""A process that answers every send at once and stores nothing, with which the broker is compared.

Run it with ``python -m benchmarks.bare_peer PORT``.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import uvloop

from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.frame import join_frame
from gantrymq.remoting.server import RemotingServer
from gantrymq.remoting.session import Session
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.network import TcpNetwork

ROUTE = (
    b'{"brokerDatas":[{"brokerAddrs":{"0":"%s"},"brokerName":"bare","cluster":"bare"}],"filterServerTable":{},'
    b'"queueDatas":[{"brokerName":"bare","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
)


def _accept_send(session: Session, command: Command) -> bytes:
    header = (
        '{"code":0,"extFields":{"MSG_REGION":"DefaultRegion","TRACE_ON":"true",'
        '"msgId":"7F00000100002A9F0000000000000000","queueId":"0","queueOffset":"0"},"flag":1,'
        f'"language":"PYTHON","opaque":{command.opaque},"serializeTypeCurrentRPC":"JSON","version":513}}'
    )
    return join_frame(0, header.encode(), b"")


async def serve(port: int) -> None:
    route = ROUTE % f"127.0.0.1:{port}".encode()
    handlers: dict[int, Callable[[Any, Command], bytes | None]] = {
        RequestCode.SEND_MESSAGE_V2: _accept_send,
        RequestCode.HEART_BEAT: lambda _, command: encode_response(command, 0),
        RequestCode.UNREGISTER_CLIENT: lambda _, command: encode_response(command, 0),
        RequestCode.GET_ROUTEINFO_BY_TOPIC: lambda _, command: encode_response(command, 0, body=route),
    }
    server = RemotingServer(TcpNetwork(), SystemClock(), handlers)
    await server.start("127.0.0.1", port)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
