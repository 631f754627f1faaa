"""A client at a port that speaks something else says what is spoken there, and what to change."""

from __future__ import annotations

import asyncio

import pytest

from gantrymq.admin import Admin
from gantrymq.errors import Unreachable
from gantrymq.remoting.other_protocols import other_protocol

HTTP = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
ALERT = bytes.fromhex("15030300020246")
CASES = {
    "HTTP": (HTTP, False, ("it speaks HTTP on this port", "9876")),
    "TLS": (ALERT, False, ("it speaks TLS on this port", "GANTRY_TLS_CONFIG", "tls.enable=true", "tls=True")),
    "closed at once, as by an enforcing port": (b"", False, ("before it answered anything", "GANTRY_TLS_CONFIG")),
    "TLS at HTTP": (HTTP, True, ("does not use TLS on this port", "tls.enable=false", "HTTP")),
    "TLS at a port that closes": (b"", True, ("before both sides agreed on TLS", "tls.enable=false")),
}


async def said(address: str, *, tls: bool) -> str:
    with pytest.raises(Unreachable) as raised:
        async with Admin(address, tls=tls, call_timeout_ms=5_000) as admin:
            await admin.topics()
    return str(raised.value)


@pytest.mark.parametrize("case", CASES)
def test_the_error_says_what_is_spoken_there(case: str) -> None:
    answer, tls, words = CASES[case]

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4)
        writer.write(answer)
        await writer.drain()
        writer.close()

    async def bounded() -> str:
        async with asyncio.timeout(20), await asyncio.start_server(peer, "127.0.0.1", 0) as server:
            return await said(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", tls=tls)

    text = asyncio.run(bounded())
    assert all(word in text for word in words), text
    assert "gantry server`" not in text, "a server is there, so starting one is not the advice"


def test_a_frame_is_never_taken_for_a_stranger() -> None:
    """Every length that a frame may have."""
    assert not any(other_protocol(length.to_bytes(4, "big")) for length in (0, 12, 1 << 16, (1 << 24) - 1, 1 << 24))
