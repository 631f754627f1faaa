"""Entry point of the command ``gantry``."""

from __future__ import annotations

import sys

from gantrymq.cli import plain_start as quick_start

INTERRUPTED = 130
"""Exit status after Ctrl-C, as everywhere in the command line."""


def main() -> None:
    """Run what the words of the command line say."""
    start = quick_start.plain_start(sys.argv[1:])
    if start is None:
        # Not at the top: a server that starts plainly does without it, which saves 0.13 s of 0.41 s and 13 MB of 44 MB.
        from gantrymq.cli.commands import app

        app()
        return
    try:
        start()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
