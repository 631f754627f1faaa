"""How long the process takes to start that plans the batches of a stream: Spark starts a new one for each query.

    python -m benchmarks.spark_planning [--rounds 9]

Spark puts the zip file of PySpark in front of the search path of this process. ``gantrymq.spark.session.startup``
lets it take PySpark from where it is installed. Both ways are measured in turns, without Spark itself: the import of
Spark's module for this process, and of our source. The last line is the ratio of the medians.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pyspark

import gantrymq

PROGRAM = "import pyspark.sql.streaming.python_streaming_source_runner, gantrymq.spark.data_source"


def seconds(path: list[Path]) -> float:
    """From the start of the process to its end."""
    begin = time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, env=environment)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="of each way; the median counts")
    rounds = parser.parse_args().rounds
    package = Path(gantrymq.__file__).resolve().parent
    zips = sorted((Path(pyspark.__file__).parent / "python" / "lib").glob("*.zip"), reverse=True)
    ways = {
        "from the zip file": [*zips, package.parent],
        "as it is installed": [*zips, package / "spark" / "startup", package.parent],
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds + 1):
        for name, path in ways.items():
            taken = seconds(path)
            if turn:
                found[name].append(taken)
    medians = {name: statistics.median(times) for name, times in found.items()}
    for name, median in medians.items():
        print(f"PySpark {name}: {median:.3f} s (best {min(found[name]):.3f} s)   load {os.getloadavg()[0]:.1f}")
    before, after = medians.values()
    print(f"ratio: {after / before:.2f}")


if __name__ == "__main__":
    main()
