"""``python -m tools.website [--to DIRECTORY]``: builds the documentation site, and checks it.

MkDocs builds strictly: a page that is not in docs/index.md, a link without a target and an unknown name in the API
pages end it. Then every link of every built page is followed, also those that MkDocs does not know, such as those
between classes. And every page must be reached from the first one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from .contents import INDEX, ROOT, navigation, pages_in
from .links import broken_links, unreached


def build(target: Path) -> bool:
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(target)]
    return subprocess.run(command, cwd=ROOT, env=environment).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 run.py docs", description="Builds the documentation site.")
    parser.add_argument("--to", type=Path, default=ROOT / "build" / "site", metavar="DIRECTORY")
    target = parser.parse_args().to.resolve()
    if not build(target):
        print("the site cannot be built: the lines above name the pages and what is wrong", file=sys.stderr)
        return 1
    first, navigated = target / "index.html", list(pages_in(navigation(INDEX.read_text("utf-8"))))
    wrong = broken_links(target) + unreached(target, first)
    for line in wrong:
        print(line, file=sys.stderr)
    if wrong:
        return 1
    print(f"{len(navigated)} pages; every link and anchor leads somewhere: {first}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
