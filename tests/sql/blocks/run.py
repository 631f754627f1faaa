"""Try blocks of a local transaction by chance, on real databases with every way in, and compare rows with messages.

``python -m tests.sql.blocks.run --seed 1 --blocks 10000 --ways sessions,django --databases postgresql,sqlite``. Exit
status 1 when a block broke a rule; each is printed after it was made as short as it goes, and ``--block`` plays it
again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tests.django  # noqa: F401 - configures Django
from tests.sql.blocks.grounds import Ground, grounds
from tests.sql.blocks.harness import Harness, Outcome, Violation
from tests.sql.blocks.kills import Kills
from tests.sql.blocks.plan import Block
from tests.sql.blocks.shrink import shrink
from tests.sql.blocks.sites import WAYS, combinations
from tests.sql.database_servers import SERVERS, DatabaseServer
from tests.sql.databases import KINDS, Place

SHOWN = 20
"""Violations that are made shorter and printed, one of each kind first."""


@contextmanager
def own_grounds(kinds: list[str]) -> Iterator[dict[str, Ground]]:
    """Databases on servers of our own, which end with us."""
    memory = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(prefix="gantry-blocks-", dir=memory if memory.is_dir() else None))
    servers: list[DatabaseServer] = []

    def server(kind: str) -> Place:
        servers.append(SERVERS[kind](root / kind))
        servers[-1].start()
        return Place.at(servers[-1])

    made: dict[str, Ground] = {}
    try:
        made = grounds(kinds, server, root)
        yield made
    finally:
        for ground in made.values():
            ground.close()
        for each in servers:
            each.kill()
        shutil.rmtree(root, ignore_errors=True)


def shorter(harness: Harness, violation: Violation) -> Violation:
    """The same rule broken by a block that is as short as it goes."""
    found = violation

    def fails(block: Block) -> bool:
        nonlocal found
        got = harness.play([block], Outcome()).violations
        same = next((one for one in got if one.verdict == violation.verdict), None)
        found = same or found
        return same is not None

    shrink(violation.block, fails, WAYS[violation.block.way].forms[0])
    return found


def one_of_each(violations: list[Violation]) -> list[Violation]:
    """The violations in an order in which new kinds come first."""
    seen: Counter[tuple[str, ...]] = Counter()
    ranked: list[tuple[int, int, Violation]] = []
    for one in violations:
        kind = (one.verdict, one.block.way, one.block.database)
        ranked.append((seen[kind], len(ranked), one))
        seen[kind] += 1
    return [one for _, _, one in sorted(ranked, key=lambda entry: entry[:2])]


def report(outcome: Outcome, seed: int) -> dict[str, Any]:
    """What a run found, for a program."""
    return {
        "seed": seed,
        "blocks": outcome.tried,
        "blocks_by_way": {f"{way} on {kind}": count for (way, kind), count in sorted(outcome.blocks.items())},
        "refused_settings": dict(sorted(outcome.refused.items())),
        "ended_with_an_error": outcome.raised,
        "killed": dict(sorted(outcome.killed.items())),
        "units": dict(sorted(outcome.units.items())),
        "violations": dict(Counter(one.verdict for one in outcome.violations)),
        "violations_by_way": {
            " ".join(kind): count
            for kind, count in sorted(
                Counter((one.verdict, one.block.way, one.block.database) for one in outcome.violations).items()
            )
        },
        "seconds": round(outcome.seconds, 1),
    }


def progress() -> Callable[[Outcome], None]:
    """Prints one line that changes, and for a file one line in a thousand blocks."""
    said = 0

    def say(outcome: Outcome) -> None:
        nonlocal said
        if sys.stderr.isatty() or outcome.tried - said >= 1000:
            said = outcome.tried
            speed = outcome.tried / max(outcome.seconds, 0.1)
            line = f"{outcome.tried} blocks, {speed:.0f} a second, {len(outcome.violations)} violations"
            print(line, end="\r" if sys.stderr.isatty() else "\n", file=sys.stderr, flush=True)

    return say


def play_again(given: str) -> int:
    """Play one block that was printed by another run."""
    block = Block.from_json(json.loads(given))
    with own_grounds([block.database]) as made, Harness(made) as harness:
        outcome = harness.play([block], Outcome())
    print("\n".join(block.lines()))
    for violation in outcome.violations:
        print(violation.text())
    print(f"units: {dict(outcome.units)}")
    return int(bool(outcome.violations))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--blocks", type=int, default=1000)
    parser.add_argument("--seconds", type=float, help="end earlier, when so many seconds are over")
    parser.add_argument("--ways", default=",".join(WAYS), help="of: %(default)s")
    parser.add_argument("--databases", default=",".join(KINDS), help="of: %(default)s")
    parser.add_argument("--json", type=Path, help="write what was found into this file")
    parser.add_argument(
        "--kills", type=int, default=0, help="instead: kill so many processes, each in a block of its own"
    )
    parser.add_argument("--block", help="play this one block, as an earlier run has printed it")
    parser.add_argument("--slow", type=int, default=0, help="also print so many of the blocks that took longest")
    parser.add_argument("--shown", type=int, default=SHOWN, help="violations that are made shorter and printed")
    chosen = parser.parse_args()
    if chosen.block:
        return play_again(chosen.block)
    kinds = chosen.databases.split(",")
    pairs = combinations(chosen.ways.split(","), kinds)
    print(f"seed {chosen.seed}", flush=True)
    if chosen.kills:
        return _finish(killed(kinds, pairs, chosen.kills, chosen.seed), chosen)
    with own_grounds(kinds) as made, Harness(made) as harness:
        outcome = harness.run(pairs, chosen.blocks, chosen.seed, seconds=chosen.seconds, say=progress())
        for violation in one_of_each(outcome.violations)[: chosen.shown]:
            small = shorter(harness, violation)
            print(f"\n{small.text()}\n  --block '{json.dumps(small.block.as_json())}'", flush=True)
    for seconds, block in sorted(outcome.slow, key=lambda found: -found[0])[: chosen.slow]:
        print(f"\n{seconds:.1f} s\n  --block '{json.dumps(block.as_json())}'")
    return _finish(outcome, chosen)


def killed(kinds: list[str], pairs: list[tuple[str, str]], kills: int, seed: int) -> Outcome:
    """Processes killed around their commits, and siblings that answer for them."""
    with own_grounds(kinds) as made, tempfile.TemporaryDirectory(prefix="gantry-blocks-kills-") as root:
        outcome = Kills(made, Path(root)).run(pairs, kills, seed)
    for violation in outcome.violations[:SHOWN]:
        print(violation.text())
    return outcome


def _finish(outcome: Outcome, chosen: argparse.Namespace) -> int:
    found = report(outcome, chosen.seed)
    print(json.dumps(found, indent=2))
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=2))
    print(f"{outcome.tried} blocks tried, {len(outcome.violations)} units or blocks broke a rule")
    return int(bool(outcome.violations))


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
