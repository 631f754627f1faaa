"""``python -m tools.pages``: writes the pages that are made from the code. ``--check``: says which are stale."""

from __future__ import annotations

import sys

from .all import stale, write


def main() -> int:
    if sys.argv[1:] not in ([], ["--check"]):
        print("usage: python -m tools.pages [--check]", file=sys.stderr)
        return 2
    changed = stale()
    if not sys.argv[1:]:
        write()
    for name in changed:
        print(f"{name} {'is stale; run: python -m tools.pages' if sys.argv[1:] else 'is written'}")
    return 1 if sys.argv[1:] and changed else 0


if __name__ == "__main__":
    sys.exit(main())
