"""Prints the figures of the house; exits with 1 when there is a circle, or when a change touches too many rooms.

With ``--trips`` also how many files and calls a message needs (``python -m tools.trips``), which takes seconds.
"""

from __future__ import annotations

import subprocess
import sys

from . import PACKAGE, arrows, arrows_up, beyond_the_disk, circles, doors_named, layers, lines
from .changes import CHANGES, rooms


def main() -> int:
    drawn = arrows()
    around = circles(drawn)
    print(f"{len(drawn)} modules, {sum(map(len, drawn.values()))} arrows")
    print(f"circles of imports: {len(around)}")
    for circle in around:
        print("   ", " - ".join(circle))
    up = arrows_up(drawn, layers())
    print(f"arrows up: {len(up)}", *up, sep="\n    ")
    print(f"doors that broker.py names: {len(doors_named(drawn))}")
    beyond = beyond_the_disk(drawn)
    print(f"rules that import protocol beyond the disk format: {len(beyond)}", *beyond, sep="\n    ")
    print(f"lines of gantrymq.testing: {lines('testing')}, of gantrymq.simulation: {lines('simulation')}")
    far = 0
    print("rooms that a change touches, and how many it may touch:")
    for change in CHANGES:
        touched = rooms(change, PACKAGE)
        far += len(touched) > change.limit
        print(f"    {len(touched)} of {change.limit}  {change.title}: {', '.join(touched)}")
    if "--trips" in sys.argv:
        print("files and calls that one message needs:", flush=True)
        subprocess.run([sys.executable, "-m", "tools.trips"], check=True)
    return 1 if around or up or far else 0


if __name__ == "__main__":
    sys.exit(main())
