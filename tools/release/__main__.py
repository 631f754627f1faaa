"""``python -m tools.release``: does what a machine can do of docs/releasing.md, and says what remains for a person.

It refuses a tree with changes. It builds the source distribution and the pure wheel from the files of the commit alone,
checks their texts, and installs each of them into an empty environment. There it starts a server, commits a row with
its message, receives the message, and stops the server. Files go to ``dist/`` only when everything passed.

Exit status: 0, everything passed; 1, something did not; 2, a wrong command line; 130, Ctrl-C; 143, SIGTERM.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path
from typing import Final, NoReturn

from .steps import Failed, carry_out, succeeded, table
from .texts import next_steps
from .trial import Trial

ROOT: Final = Path(__file__).resolve().parents[2]


def say(text: str) -> None:
    print(text, flush=True)


def arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.release", description="Tries a version before its release.")
    parser.add_argument("--rehearsal", action="store_true", help="the changelog needs no date, and no file is kept")
    parser.add_argument(
        "--extras", action="store_true", help="also ask pip for versions of what each extra needs (minutes, downloads)"
    )
    parser.add_argument(
        "--out", type=Path, default=ROOT / "dist", metavar="DIRECTORY", help="where the files go (default: dist)"
    )
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    chosen = arguments(words)
    signal.signal(signal.SIGTERM, _terminated)
    target = None if chosen.rehearsal else chosen.out.resolve()
    with tempfile.TemporaryDirectory(prefix="gantry-release-") as scratch:
        trial = Trial(ROOT, Path(scratch), target, chosen.rehearsal, chosen.extras)
        results = carry_out(trial.steps(), say)
    say("\n" + table(results))
    if not succeeded(results):
        say("\nNot everything passed: nothing is to be uploaded. Mend it, commit, and call this again.")
        return 1
    say("\nEverything passed." + ("" if target else " This was a rehearsal: no file is kept."))
    say("Next, by hand (docs/releasing.md):")
    for number, step in enumerate(next_steps((ROOT / "docs" / "releasing.md").read_text("utf-8")), start=1):
        say(f"{number}. {step}")
    return 0


def _terminated(number: int, frame: object) -> NoReturn:
    """So that programs are stopped and directories removed as at Ctrl-C."""
    sys.exit(128 + number)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        print("\nstopped by Ctrl-C: what was started has been stopped, and its directory is removed", file=sys.stderr)
        sys.exit(130)
    except Failed as error:
        print(f"tools.release: {error}", file=sys.stderr)
        sys.exit(1)
