"""A program that calls the stream reader as Spark's engine does, and dies at each point of ``points``.

    python -m tests.spark.source.engine NAME_SERVERS DIRECTORY POINT [POINT ...]

For each POINT a child process runs the query until it dies there; then another one runs it to its end with the same
files, which are what a checkpoint is for Spark: ``offsets/N``, the end of batch N before it runs, and ``commits/N``
after it. The exit codes of the children are printed as JSON. Only Spark's transport between processes is not here;
``kill_spark.py`` has that.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from gantrymq.spark.options.settings import parse_options
from gantrymq.spark.source.reading import RangeReader  # noqa: F401 - imported before the forks, as Spark's workers do
from tests.spark.source.points import COLUMNS, MARK, OPTIONS, POINT, FaultyReader, FaultyTables, Struck


class Log:
    """Numbered files, each of which appears whole. The last one counts."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def last(self) -> int:
        return max((int(file.name) for file in self._directory.iterdir() if file.name.isdigit()), default=-1)

    def get(self, number: int) -> Any:
        return json.loads((self._directory / str(number)).read_text())

    def put(self, number: int, value: Any) -> None:
        written = self._directory / f".{number}"
        written.write_text(json.dumps(value))
        written.rename(self._directory / str(number))


def run(name_servers: str, directory: Path) -> None:
    """The query, from its last batch to the end of the topic. The steps of Spark's MicroBatchExecution."""
    settings = parse_options({"nameServers": name_servers, **OPTIONS}).for_stream()
    reader = FaultyReader(settings, COLUMNS)
    offsets, commits, tables = Log(directory / "offsets"), Log(directory / "commits"), FaultyTables(directory)
    reader.prepareForTriggerAvailableNow()
    while True:
        number = commits.last() + 1
        start = offsets.get(number - 1) if number else reader.initialOffset()
        if offsets.last() < number:
            if number:
                reader.commit(start)
            end = reader.latestOffset(start, reader.getDefaultReadLimit())
            if end == start:
                return
            offsets.put(number, end)
        end = offsets.get(number)
        parts = reader.partitions(start, end)
        tables.add(number, pa.concat_tables([in_task(reader, part) for part in parts]))
        commits.put(number, {})


def in_task(reader: FaultyReader, part: Any) -> pa.Table:
    """The rows of a task. A task that raises is tried again."""
    shipped = pickle.dumps((reader_for_tasks(reader), part))
    for _ in range(2):
        mine, partition = pickle.loads(shipped)
        try:
            return pa.Table.from_batches(mine.read(partition))
        except Struck:
            continue
    raise RuntimeError("a task failed twice")


def reader_for_tasks(reader: FaultyReader) -> FaultyReader:
    """Spark pickles another reader than the one that plans."""
    return FaultyReader(reader._settings, reader._columns)


def in_child(work: Callable[[], None]) -> int:
    """Run in a process of its own. Returns its exit code; negative when a signal has killed it."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    name_servers, root = sys.argv[1], Path(sys.argv[2])
    codes: dict[str, list[int]] = {}
    for point in sys.argv[3:]:
        directory = root / point.replace(" ", "-")
        directory.mkdir()
        os.environ |= {POINT: point, MARK: str(directory / "mark")}
        codes[point] = [in_child(lambda: run(name_servers, directory)) for _ in range(2)]  # noqa: B023
    print(json.dumps(codes))


if __name__ == "__main__":
    main()
