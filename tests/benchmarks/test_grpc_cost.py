"""`python -m benchmarks.grpc_cost` measures each kind; every call is answered with OK, or it ends."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from pathlib import Path

import pytest
from benchmarks.broker_cost import ROUND
from benchmarks.grpc_cost import KINDS, HeaderEncoder, measure

from gantrymq.grpc.http2.hpack import HeaderDecoder


@pytest.mark.parametrize("kind", KINDS)
def test_every_call_is_answered(kind: str, tmp_path: Path) -> None:
    chosen = Namespace(kind=kind, batch=8, size=100, count=ROUND, dir=str(tmp_path))
    found = asyncio.run(measure(chosen, None))
    assert found["kind"] == kind
    assert float(str(found["best_us"])) > 0


def test_headers_are_written_with_a_table_and_read_again() -> None:
    encoder, decoder = HeaderEncoder(), HeaderDecoder(1 << 14)
    sizes = []
    for number in range(200):
        headers = [(":method", "POST"), (":path", "/a/b"), ("x-id", f"{number:0100}"), ("te", "trailers")]
        block = encoder.block(headers)
        sizes.append(len(block))
        assert decoder.decode(block) == headers
    assert sizes[1] < sizes[0]
