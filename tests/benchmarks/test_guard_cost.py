"""The benchmark of guards runs, and compares what it says it compares."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from benchmarks.guard_cost import VARIANTS, measure

from tests.runtime.tls.peers import file


def test_each_variant_is_measured(tmp_path: Path) -> None:
    chosen = argparse.Namespace(
        kind="transaction", form="binary", batch=64, size=64, count=512, scrape=512, dir=str(tmp_path),
        cert=file("server.pem"), key=file("server.key"),
    )  # fmt: skip
    found = asyncio.run(measure(chosen))
    assert list(found) == [variant.name for variant in VARIANTS]
    assert found["none"]["ratio"] == 1.0 and all(cost["best_us"] > 0 for cost in found.values())
