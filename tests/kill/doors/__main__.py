"""The long run: ``python -m tests.kill.doors --runs 25 --seed 1``. Exit status 1 when a promise was broken."""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.kill.doors.rounds import FILE, Outcome, run

KILLS = 20


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill a broker and a proxy under clients of remoting and of gRPC.")
    parser.add_argument("--runs", type=int, default=25, help="each has a cluster and a history of its own")
    parser.add_argument("--kills", type=int, default=KILLS, help=f"of each run ({KILLS})")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--minutes", type=float, default=None, help="begin no run behind so many minutes")
    parser.add_argument("--dir", type=Path, help="keep logs and histories here (default: only those of a failed run)")
    options = parser.parse_args()
    root = options.dir or Path(tempfile.mkdtemp(prefix="gantry-doors-"))
    print(f"seed {options.seed}: {options.runs} runs of {options.kills} kills, in {root}", flush=True)
    began, total, broken = time.monotonic(), Counter[str](), Counter[str]()
    for number in range(options.runs):
        if options.minutes is not None and time.monotonic() - began > options.minutes * 60:
            break
        seed, directory = options.seed + number, root / f"run-{options.seed + number}"
        outcome = asyncio.run(run(directory, options.kills, seed))
        _report(outcome, seed, directory)
        total.update(
            runs=1, kills=outcome.kills, transactions=outcome.transactions, plain=outcome.plain, checks=outcome.checks
        )
        broken.update(outcome.broken)
        if not outcome.violations and options.dir is None:
            shutil.rmtree(directory)
    counted = ", ".join(f"{count} {name}" for name, count in total.items())
    print(f"{counted}; broken promises: {dict(broken) or 'none'}", flush=True)
    return 1 if broken else 0


def _report(outcome: Outcome, seed: int, directory: Path) -> None:
    print(
        f"seed {seed}: {outcome.kills} kills, {outcome.transactions} transactions, {outcome.plain} plain messages, "
        f"{outcome.checks} checks, {len(outcome.violations)} violations", flush=True,
    )  # fmt: skip
    for line in outcome.violations[:10]:
        print(f"  {line}", flush=True)
    if outcome.violations:
        print(f"  gantry check-history {directory / FILE}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
