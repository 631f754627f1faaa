"""The micro benchmark of the client does what it says: every message is answered, in forms that brokers were recorded
answering in."""

from __future__ import annotations

import argparse
import asyncio
import re

import pytest
from benchmarks.client_cost import ANSWERS, ROUND, measure

from tests.golden.recorded import scenario


@pytest.mark.parametrize(
    ("kind", "peer"), [("plain", "ours"), ("transaction", "apache-5"), ("transaction", "apache-4")]
)
def test_a_round(kind: str, peer: str) -> None:
    chosen = argparse.Namespace(kind=kind, peer=peer, batch=16, width=32, size=128, count=ROUND)
    found = asyncio.run(measure(chosen))
    assert found["kind"] == kind
    assert isinstance(found["best_us"], float) and found["best_us"] > 0


@pytest.mark.parametrize(("peer", "generation", "keys"), [("apache-5", "v5", (b"C0",)), ("apache-4", "v4", ())])
def test_answers_are_recorded_ones(peer: str, generation: str, keys: tuple[bytes, ...]) -> None:
    sends = [r for r in scenario(f"{generation}-producer-plain") if r.is_response and r.asked == 310 and r.code == 0]
    assert _shape(ANSWERS[peer] % (3, *keys, 3000, 0, 5)) in {_shape(r.bytes[8:]) for r in sends}


def _shape(header: bytes) -> bytes:
    """Without what differs from message to message: ids and numbers in quotes, and the opaque."""
    return re.sub(rb':"[0-9A-F]+"|"opaque":\d+', b":", header)
