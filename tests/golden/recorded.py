"""The recorded frames of real RocketMQ processes (traffic/README.md)."""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from gantrymq.protocol.command import Command, decode_command
from gantrymq.protocol.frame import FrameSplitter

TRAFFIC = Path(__file__).parent / "traffic"
SCENARIOS = sorted(path.name.removesuffix(".jsonl.gz") for path in TRAFFIC.glob("*.jsonl.gz"))

Bytes = bytes
"""``Recorded`` has a property of that name."""


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a scenario."""

    n: int
    conn: int
    sender: str = msgspec.field(name="from")
    receiver: str = msgspec.field(name="to")
    kind: str
    code: int
    opaque: int
    header: dict[str, Any]
    body_len: int
    frame: str
    request_code: int | None = None

    @property
    def asked(self) -> int:
        """The request code: of the request itself, or of the one that this response answers."""
        return self.code if self.request_code is None else self.request_code

    @property
    def is_response(self) -> bool:
        return self.kind == "response"

    @property
    def bytes(self) -> Bytes:
        return Bytes.fromhex(self.frame)

    @property
    def body(self) -> Bytes:
        return self.bytes[len(self.frame) // 2 - self.body_len :]

    def command(self) -> Command:
        ((serialization, header, body),) = FrameSplitter().feed(self.bytes)
        return decode_command(serialization, header, body)


@cache
def scenario(name: str) -> tuple[Recorded, ...]:
    lines = gzip.decompress((TRAFFIC / f"{name}.jsonl.gz").read_bytes()).splitlines()
    decoder = msgspec.json.Decoder(Recorded)
    return tuple(decoder.decode(line) for line in lines)


def everything() -> list[Recorded]:
    return [recorded for name in SCENARIOS for recorded in scenario(name)]
