"""Looks for known security problems of the packages in requirements.lock, with pip-audit and the advisories of OSV.

Where the advisories cannot be reached, it says so and succeeds: whether a test passes must not depend on the network.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT_SECONDS = 300
"""For all packages. Each is one question."""


def command(lock: Path) -> list[str]:
    return [
        sys.executable, "-m", "pip_audit", "--requirement", str(lock), "--no-deps", "--disable-pip",
        "--vulnerability-service", "osv", "--format", "json", "--progress-spinner", "off", "--timeout", "15",
    ]  # fmt: skip


def verdict(output: str) -> tuple[bool, list[str]]:
    """Whether the stage succeeds, and what to print, from what pip-audit printed."""
    try:
        found: list[dict[str, Any]] = json.loads(output)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return True, ["advisories: not checked, because they cannot be reached from here"]
    lines = [
        f"{package['name']} {package['version']}: {problem['id']}, mended in "
        f"{', '.join(problem['fix_versions']) or 'none'}"
        for package in found
        for problem in package.get("vulns", ())
    ]
    skipped = sum("skip_reason" in package for package in found)
    if lines:
        return False, [*lines, "take newer versions: python3 run.py lock"]
    return True, [f"advisories: none for {len(found) - skipped} packages" + f"; {skipped} not checked" * bool(skipped)]


def main() -> int:
    try:
        done = subprocess.run(
            command(ROOT / "requirements.lock"), capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS
        )
    except subprocess.TimeoutExpired:
        print(f"advisories: not checked, because there was no answer within {TIMEOUT_SECONDS} s")
        return 0
    if "No module named" in done.stderr:
        print(done.stderr.strip())
        return 1
    good, lines = verdict(done.stdout)
    print("\n".join(lines))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
