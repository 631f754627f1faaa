"""Apache's controller elects among three brokers of ours, and the primary is lost again and again under load.

``python -m tests.interop.controller_failover --losses 20 --seed 7`` judges each transaction as ``tests.kill.election``
does, and prints how long it took. Needs a JDK and Apache's jars (tests/interop/jars.py).
"""

from __future__ import annotations

import argparse
import asyncio
import random
import secrets
import sys
import tempfile
from pathlib import Path
from typing import cast

from tests.interop.controller_group import ControllerGroup
from tests.kill.election import NOTHING, Times, Watched, _tell, play
from tests.kill.group import Group
from tests.kill.takeover import COMMIT, FIRST

WAYS = ("kill", "stop", "handover")


def run(root: Path, seed: int, ways: list[str]) -> tuple[Watched, list[Times]]:
    """One group. Raises AssertionError when a promise is broken."""
    rng = random.Random(seed)
    book = Watched(rng)
    with ControllerGroup(root) as group:
        limit_s = 120 + 60 * len(ways)
        times, found = asyncio.run(asyncio.wait_for(play(cast(Group, group), book, rng, ways, NOTHING, None), limit_s))
    del found[FIRST]
    lost = book.due() - found.keys()
    assert not lost, f"acknowledged commits are lost: {sorted(lost)[:5]}"
    doubled = {body: count for body, count in found.items() if count > 1}
    assert not doubled, f"delivered twice: {doubled}"
    assert all(book.outcomes.get(body) is COMMIT for body in found), "something was delivered that is not committed"
    assert not book.again, f"decided transactions were asked again: {sorted(book.again)[:5]}"
    return book, times


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interop.controller_failover", description=__doc__)
    parser.add_argument("--losses", type=int, default=10, help="how often the group loses its primary")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    parser.add_argument("--way", choices=WAYS, default="kill", help="how the primary is lost")
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        book, times = run(Path(directory), given.seed, [given.way] * given.losses)
    print(f"{given.way}: {len(times)} losses, {len(book.answered)} decided transactions, {book.refused} refused")
    _tell("another primary was elected after", [one.elected_s for one in times if one.elected_s is not None])
    _tell("no transaction was decided for", [one.decided_s for one in times])
    return 0


if __name__ == "__main__":
    sys.exit(main())
