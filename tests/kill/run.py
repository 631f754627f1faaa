"""The long run: ``python -m tests.kill.run --rounds 50 --seed 1``. Exit status 1 when an invariant broke."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import sys
import tempfile
from pathlib import Path

from tests.kill.rounds import run


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill `gantry server` under load, again and again.")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--flush", choices=["SYNC_FLUSH", "ASYNC_FLUSH"], default="SYNC_FLUSH")
    parser.add_argument("--dir", type=Path, help="keep store and log here (default: a temporary directory)")
    parser.add_argument("--json", type=Path, help="also write the result to this file")
    options = parser.parse_args()
    root = options.dir or Path(tempfile.mkdtemp(prefix="gantry-kill-"))
    print(f"seed {options.seed}, {options.rounds} rounds, {options.flush}, in {root}", flush=True)
    try:
        outcome = asyncio.run(
            run(root, options.rounds, options.seed, flush=options.flush, say=lambda line: print(line, flush=True))
        )
    except KeyboardInterrupt:
        print("interrupted; the server was killed", flush=True)
        return 130
    print(json.dumps(outcome.as_dict(), indent=2))
    if options.json is not None:
        options.json.write_text(json.dumps(outcome.as_dict(), indent=2))
    if not outcome.violations and options.dir is None:
        shutil.rmtree(root)
    return 1 if outcome.violations else 0


if __name__ == "__main__":
    sys.exit(main())
