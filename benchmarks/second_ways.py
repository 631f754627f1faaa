"""``python -m benchmarks.second_ways``: what each second way for speed pays.

A second way does what a general one does as well, for the common case, in less time. ``docs/internals/second-ways.md``
lists them with their figures; one stays only while it pays. This program copies the sources, makes each second way
switchable in the copy, and measures every one with and without it, in turns. The gain is that of the benchmark which
uses it most: a message, a transaction or a request of the broker, or of the client.

``--compiled`` compiles the copy first, which takes minutes. ``--only`` measures a few, by name.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
OFF: Final = "GANTRY_SECOND_WAYS_OFF"
"""The variable that names the second way which a copy does not use."""
ON: Final = "@on@"
"""In an edit: whether the second way is used."""

BROKER, READING, CLIENT = "benchmarks.broker_cost", "benchmarks.consume_cost", "benchmarks.client_cost"
HERE: Final = "benchmarks.second_ways"
PLAIN = (BROKER, "--kind", "plain", "--count", "10000")
PLAIN_JSON = (*PLAIN, "--form", "json")
TRANSACTION = (BROKER, "--kind", "transaction", "--count", "6000")
TRANSACTION_JSON = (*TRANSACTION, "--form", "json")
BATCH = (BROKER, "--kind", "batch", "--batch", "128", "--count", "40000")
HALVES = (BROKER, "--kind", "halves", "--batch", "128", "--count", "40000")
PULL = (READING, "--kind", "pull", "--rounds", "20")
PULL_BINARY = (*PULL, "--form", "binary")
SENDS = (CLIENT, "--kind", "plain", "--count", "10000")
SENDS_OF_TRANSACTIONS = (CLIENT, "--kind", "transaction", "--count", "6000")
LOCAL = (HERE, "--local-transactions")
BY_GRPC = ("benchmarks.grpc_cost", "--kind", "transaction", "--count", "5000")


class Way:
    """One second way."""

    def __init__(self, name: str, file: str, measured: tuple[str, ...], *edits: tuple[str, str]) -> None:
        """``file``: below ``src/gantrymq``. ``measured``: the benchmark that uses it most, with its words. ``edits``:
        texts of the file, and what stands in their place in the copy."""
        self.name = name
        self.file = file
        self.measured = measured
        self.edits = edits


def _if_on(condition: str) -> tuple[str, str]:
    """An edit of an ``if``: the second way is not used when it is off."""
    return condition, condition.replace("if ", f"if {ON} and ", 1)


def _or_off(condition: str) -> tuple[str, str]:
    """An edit of an ``if`` that leads to the general way."""
    return condition, condition.replace("if ", f"if not {ON} or ", 1)


def _before(text: str, added: str) -> tuple[str, str]:
    """An edit that puts something in front of a text."""
    return text, added + text


def _instead(text: str, statement: str) -> tuple[str, str]:
    """An edit by which a statement runs in front of a text when the second way is off."""
    indent = " " * (len(text) - len(text.lstrip()))
    return _before(text, f"{indent}if not {ON}:\n{indent}    {statement}\n")


GENERAL_FRAME: Final = """\
    def _general(self, opaque: int, sys_flag: int, born_ms: int, flag: int, properties: bytes, body: bytes) -> bytes:
        from gantrymq.protocol.command import encode_request
        from gantrymq.protocol.headers.send import SendMessage

        group, queue, default_queues = self._given
        header = SendMessage(
            producer_group=group, topic=queue.topic, default_topic=system_topics.AUTO_CREATE,
            default_topic_queue_nums=default_queues, queue_id=queue.queue_id, sys_flag=sys_flag,
            born_timestamp=born_ms, flag=flag, properties=msgspec.json.decode(properties), reconsume_times=0,
            unit_mode=False, batch=False, bname=queue.broker_name,
        )
        return encode_request(RequestCode.SEND_MESSAGE_V2, opaque, header, body)

"""
WAYS: Final = (
    Way(
        "binary sends", "protocol/connection.py", PLAIN,
        _instead("        self._next_opaque = 0\n", "del self._binary[SEND_V2]"),
    ),
    Way(
        "binary ends", "protocol/connection.py", TRANSACTION,
        _instead("        self._next_opaque = 0\n", "del self._binary[END_TRANSACTION]"),
    ),
    Way(
        "readers of headers", "protocol/command.py", PLAIN_JSON,
        _instead("        if isinstance(ext, msgspec.Raw):\n", "return command.header(kind)"),
    ),
    Way("ASCII maps", "protocol/command.py", PULL_BINARY, _if_on("if entries.isascii() else")),
    Way(
        "answers of success", "protocol/command.py", TRANSACTION_JSON,
        _instead("    if request.serialize is _ROCKETMQ:\n", "return encode_response(request, 0)"),
    ),
    Way(
        "answers to sends, JSON", "broker/remoting/send_answers.py", PLAIN_JSON,
        _if_on("        if json is not None and command.serialize is _JSON"),
    ),
    Way(
        "answers to sends, binary", "broker/remoting/send_answers.py", PLAIN,
        _if_on("        if recall is None and command.serialize is _ROCKETMQ"),
    ),
    Way("answers to pulls", "broker/remoting/pull.py", PULL, _if_on("    if command.serialize is SerializeType.JSON:")),
    Way(
        "ordinary properties", "broker/operations/send.py", PLAIN,
        _if_on(" if len(text) <= FITS_ANYWAY and not target.is_retry else None"),
    ),
    Way("plain records", "store/log/appender.py", PLAIN, _or_off("        if queue is None or self._writer.closed")),
    Way("runs of records", "store/log/appender.py", BATCH, _or_off("        if queue is None or sys_flag &")),
    Way("records with IPv4 hosts", "protocol/stored_message.py", PLAIN, _or_off("    if len(born_host) != 8 or")),
    Way(
        "runs that become visible", "store/dispatch.py", BATCH,
        _if_on("            if at < count and advanced[at][1] is queue:"),
    ),
    Way("runs of half messages", "broker/transactions/half_runs.py", HALVES, _or_off("        if len(unique) <")),
    Way(
        "runs of commits", "broker/transactions/endings.py", HALVES,
        _or_off("        if any([half.state is not _OPEN for half in halves]) or"),
    ),
    Way(
        "commits from memory", "broker/transactions/endings.py", TRANSACTION,
        _if_on("        if half.record is not None and not half.copies and not note:"),
    ),
    Way("hashes of keys", "message/tags.py", PLAIN, _if_on("    if _INTERPRETED and text.isascii()")),
    Way(
        "frames of sends", "client/sending/send_frame.py", SENDS,
        ('    __slots__ = ("_born_ms"', '    __slots__ = ("_given", "_born_ms"'),
        _before("        fixed = {", "        self._given = group, queue, default_queues\n"),
        _instead(
            "        if born_ms != self._born_ms or",
            "return self._general(opaque, sys_flag, born_ms, flag, properties, body)",
        ),
        _before("    def frame(\n", GENERAL_FRAME),
    ),
    Way(
        "frames of ends", "client/sending/half_ends.py", SENDS_OF_TRANSACTIONS,
        _if_on("        if outcome.remark is None:\n            sent"),
    ),
    Way(
        "first attempts", "client/sending/delivery.py", SENDS,
        _or_off("        if publish is None:\n            return None\n        target"),
    ),
    Way(
        "half messages without a task", "client/sending/transaction_sender.py", LOCAL,
        _or_off("        if not self._stamps.complete or"),
    ),
    Way("one message without a task", "broker/grpc/outcome.py", BY_GRPC, _if_on("    if len(works) == 1:")),
    Way("whole answers of gRPC", "grpc/http2/sending.py", BY_GRPC, _or_off("        if size > min(stream.window,")),
)  # fmt: skip


def edited(way: Way, text: str) -> str:
    """The file of a way with its edits. Raises ValueError when a text is not in the file exactly once."""
    switch = f"_ON_{way.name.upper().translate(str.maketrans(' ,', '__'))}"
    for old, new in way.edits:
        if text.count(old) != 1:
            raise ValueError(f"{way.name}: {text.count(old)} times in {way.file}: {old!r}")
        text = text.replace(old, new.replace(ON, switch))
    begin = "from __future__ import annotations\n"
    declared = f'import os as _os\n\n{switch}: bool = _os.environ.get("{OFF}") != "{way.name}"\n'
    return text.replace(begin, f"{begin}\n{declared}", 1)


def copy_to(directory: Path, ways: Sequence[Way]) -> None:
    """The sources, in which the ways can be switched off."""
    for name in ("src", "benchmarks", "tools"):
        shutil.copytree(ROOT / name, directory / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("setup.py", "pyproject.toml"):
        shutil.copy(ROOT / name, directory)
    for way in ways:
        path = directory / "src" / "gantrymq" / way.file
        path.write_text(edited(way, path.read_text()))


def compiled(directory: Path) -> str:
    """Compile a copy; the directory of its core."""
    command = [sys.executable, str(directory / "tools" / "mypyc_build" / "core.py"), str(directory / "compiled")]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1].removeprefix("compiled ")


def cost_us(directory: Path, words: Sequence[str], off: str, core: str | None) -> float:
    """The best round of a benchmark in the copy, in microseconds; of half messages the mean."""
    environment = {**os.environ, "PYTHONPATH": str(directory / "src"), OFF: off}
    environment |= {"GANTRY_PURE": "1"} if core is None else {"GANTRY_COMPILED": core}
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=directory, env=environment, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    return float(found["all_us" if "halves" in words else "best_us"])  # their commits come behind many rounds


def local_transactions(rounds: int = 12, size: int = 150) -> dict[str, float]:
    """Processor time of the client alone for a local transaction with one message, in microseconds. Its server is a
    process of its own."""
    from benchmarks.processes import server
    from gantrymq import Message
    from gantrymq.sql import Transactions

    spent = []
    with tempfile.TemporaryDirectory() as name, server(Path(name, "store"), "async", Path(name, "log")) as running:
        place = os.path.join(name, "rows.db")
        transactions = Transactions("PG", lambda: sqlite3.connect(place), name_servers=running.name_server)
        transactions.create_table()
        with transactions:
            for _ in range(rounds):
                started = time.process_time()
                for _ in range(size):
                    with transactions.begin() as local:
                        local.send(Message("T", b"x" * 128))
                spent.append((time.process_time() - started) / size * 1e6)
    return {"best_us": round(min(spent), 1)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.second_ways", description=__doc__)
    parser.add_argument("--compiled", action="store_true", help="compile the copy first (minutes)")
    parser.add_argument("--only", action="append", default=[], help="the name of a way; may be repeated")
    parser.add_argument("--pairs", type=int, default=5, help="measurements with and without each of them")
    parser.add_argument("--local-transactions", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.local_transactions:
        print(json.dumps(local_transactions()))
        return
    ways = [way for way in WAYS if not chosen.only or way.name in chosen.only]
    with tempfile.TemporaryDirectory(prefix="gantry-ways-") as name:
        directory = Path(name)
        copy_to(directory, ways)
        core = compiled(directory) if chosen.compiled else None
        print(f"| {'second way':36} | with it, us | without, us | it saves |")
        for way in ways:
            pairs = [
                [cost_us(directory, way.measured, off, core) for off in ("", way.name)] for _ in range(chosen.pairs)
            ]
            saves = statistics.median(1 - on / off for on, off in pairs)
            best = [min(side) for side in zip(*pairs, strict=True)]
            print(f"| {way.name:36} | {best[0]:11.1f} | {best[1]:11.1f} | {saves:8.1%} |", flush=True)


if __name__ == "__main__":
    main()
