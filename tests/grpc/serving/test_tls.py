"""TLS and plain on one port, told apart by the first byte."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import grpc.aio
import pytest

import grpc
from gantrymq.runtime.tls.settings import TlsMode
from tests.grpc.serving.service import SECONDS, Caller, Service, serving
from tests.runtime.tls.peers import file, server_side, server_tls

AUTHORITY = grpc.ssl_channel_credentials(Path(file("authority.pem")).read_bytes())
BIG = b"x" * 3_000_000


async def echoed(channel: grpc.aio.Channel) -> bytes:
    async with channel:
        return bytes((await Caller(channel).one("Echo", BIG)).body)


def test_a_port_takes_clients_with_tls_and_without() -> None:
    async def work() -> None:
        async with asyncio.timeout(60), serving(Service(), server_side(server_tls())) as (_, address):
            port = address.rpartition(":")[2]
            assert await echoed(grpc.aio.secure_channel(f"localhost:{port}", AUTHORITY)) == BIG
            assert await echoed(grpc.aio.insecure_channel(address)) == BIG

    asyncio.run(work())


def test_a_port_may_take_only_clients_with_tls() -> None:
    async def work() -> None:
        network = server_side(server_tls(mode=TlsMode.ENFORCING))
        async with asyncio.timeout(60), serving(Service(), network) as (_, address):
            port = address.rpartition(":")[2]
            assert await echoed(grpc.aio.secure_channel(f"localhost:{port}", AUTHORITY)) == BIG
            async with grpc.aio.insecure_channel(address) as channel:
                with pytest.raises(grpc.aio.AioRpcError) as failed:
                    await Caller(channel).one("Echo", timeout=SECONDS)
                assert failed.value.code() == grpc.StatusCode.UNAVAILABLE

    asyncio.run(work())


@pytest.mark.parametrize(
    ("asked", "spoken"), [(["h2"], "h2"), (["h2", "http/1.1"], "http/1.1"), (["other"], None), ([], None)]
)
def test_a_client_of_grpc_is_told_that_http_2_is_spoken_and_a_browser_that_http_1_is(
    asked: list[str], spoken: str | None
) -> None:
    async def work() -> None:
        async with asyncio.timeout(60), serving(Service(), server_side(server_tls())) as (_, address):
            context = ssl.create_default_context(cafile=file("authority.pem"))
            context.check_hostname = False
            if asked:
                context.set_alpn_protocols(asked)
            host, port = address.split(":")
            _, writer = await asyncio.open_connection(host, int(port), ssl=context)
            assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == spoken
            writer.close()

    asyncio.run(work())
