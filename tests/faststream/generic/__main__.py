"""Run FastStream's generic tests of brokers against ``gantrymq.faststream``.

    git clone --depth 1 --branch 0.7.4 https://github.com/ag2ai/faststream
    python -m tests.faststream.generic faststream [arguments of pytest]

The packages that pip downloads hold no tests, so the command needs a checkout. It copies FastStream's ``tests`` and the
cases of this directory into a temporary directory, and runs pytest there.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CASES = Path(__file__).parent / "cases"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="a checkout of FastStream")
    known, further = parser.parse_known_args()
    base = known.source / "tests" / "brokers" / "base"
    if not base.is_dir():
        parser.error(f"{base} is not there; give a checkout of FastStream, of the tag that fits the installed version")
    with tempfile.TemporaryDirectory() as directory:
        there = Path(directory)
        shutil.copytree(known.source / "tests", there / "tests")
        shutil.copytree(CASES, there / "cases", ignore=shutil.ignore_patterns("__pycache__"))
        (there / "pytest.ini").write_text("[pytest]\nmarkers =\n  asyncio\n  all\n  slow\n  connected\n")
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "--import-mode=importlib",
            "cases",
            *further,
        ]
        return subprocess.run(
            command,
            cwd=there,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(
                    filter(None, [directory, str(there / "cases"), os.environ.get("PYTHONPATH")])
                ),
            },
            check=False,
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
