"""``python -m benchmarks apache``: Apache's broker and ours under the same load, in turns, as ratios.

The load comes from Apache's own benchmark programs (with binary headers, their default, and with JSON headers) and from
our client, which has a process for each core of the client. Two set-ups are measured, each with brokers of its own: in
``shared``, broker and client share two cores; in ``pinned``, each has one core, as on two machines. All brokers of a
set-up run all the time, with the same settings. Each row is measured on one broker after the other, as often as there
are turns, and its figures are the medians. Each pair of flush mode and body size begins with empty stores. Each kind
begins with a turn that is not counted, because a JVM first compiles its code.

Our broker runs in pure Python; ``--compiled`` measures the compiled core as well. Brokers that are not being measured
are stopped (SIGSTOP), and transactions are measured last. The reason is that Apache's 5.5.0, once it has ended a
transaction, keeps a core busy in the thread that writes op messages, even without load.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from benchmarks import apache, machine, own_broker, ratios
from benchmarks.apache import SECONDS_PER_LINE, NotPossible
from benchmarks.comparison import Plan, Report, compare, console
from benchmarks.rows import chosen_rows
from gantrymq.build_info import build_info


def show(report: Report) -> None:
    """Print the machine, the rows and the processes. Figures that miss their goal are marked."""
    for table in ratios.tables(report):
        console.print(table)
    for line in (*ratios.machine_lines(report), ratios.turns_line(report), ratios.LEGEND, *ratios.sizes(report)):
        console.print(line, markup=False)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench apache", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="WORDS",
        help="rows with all these words, e.g. 'java plain async 128'; may be given again. 'core': the ones goals are "
             "about. Threads are 1t, 32t, 64t",
    )  # fmt: skip
    parser.add_argument(
        "--setup", choices=("both", *machine.SETUPS), default="both",
        help="shared: broker and client share two cores; pinned: a core for each of them; default: both",
    )  # fmt: skip
    parser.add_argument("--compiled", action="store_true", help="measure the compiled core beside pure Python")
    parser.add_argument(
        "--short", action="store_true",
        help="rough figures of most core rows (or of those of --only) in minutes: a turn measures 1.2 s, by the number "
             "of messages that the broker has, and no latencies",
    )  # fmt: skip
    parser.add_argument("--seconds", type=int, default=20, help="length of a turn: 10 (not warm), 20, 30, ...")
    parser.add_argument("--turns", type=int, help="how often each row is measured on each broker; default: 3, short: 1")
    parser.add_argument("--json", type=Path, help="write everything measured to this file, after every row")
    parser.add_argument("--markdown", type=Path, help="write the ratios to this file, as tables in Markdown")
    parser.add_argument("--dir", type=Path, help="where stores are made (and removed); default: a temporary directory")
    parser.add_argument("--list", action="store_true", help="print which rows would be measured, and how long it takes")
    return parser


def plan_of(chosen: argparse.Namespace) -> Plan:
    """The plan for the command line. Raises NotPossible."""
    if chosen.seconds < SECONDS_PER_LINE:
        raise NotPossible(f"--seconds: Apache's programs report every {SECONDS_PER_LINE} seconds only")
    return Plan(
        rows=chosen_rows(chosen.only or (["short"] if chosen.short else [])),
        setups=machine.SETUPS if chosen.setup == "both" else (chosen.setup,),
        seconds=chosen.seconds,
        turns=chosen.turns or (1 if chosen.short else 3),
        short=chosen.short,
        compiled=own_broker.compiled_environment(os.environ) if chosen.compiled else None,
    )


def _speed(report: Report, moment: str) -> None:
    speed = machine.calibrate()
    report["machine"] |= {moment: str(speed), f"{moment}_figures": asdict(speed)}
    console.print(f"the machine's speed at the {moment}: {speed}", markup=False)


def measure(plan: Plan, directory: Path | None, save: Callable[[], None], report: Report) -> None:
    """Measure everything, including the speed of the machine. Raises NotPossible."""
    lib = apache.jars(programs=any(row.client != "ours" for row in plan.rows))
    console.print(f"our client runs {build_info()} against all brokers", markup=False)
    _speed(report, "start")
    try:
        with tempfile.TemporaryDirectory(prefix="gantry-bench-", dir=directory) as scratch:
            compare(plan, lib, Path(scratch), save, report)
    except KeyboardInterrupt:
        console.print("stopped; this is what was measured until then")
    finally:
        _speed(report, "end")
        save()


def main(arguments: list[str]) -> int:
    chosen = _parser().parse_args(arguments)
    report: Report = {"rows": []}
    status = 0
    try:
        plan = plan_of(chosen)
        report |= {
            "seconds": plan.seconds, "turns": plan.turns, "short": plan.short, "machine": machine.description(),
            "processes": [],
        }  # fmt: skip
        console.print(
            f"{len(plan.rows)} rows, {' and '.join(plan.setups)}, on {', '.join(plan.names)}, turns: {plan.turns}: "
            f"about {plan.minutes():.0f} minutes; {ratios.machine_lines(report)[0]}",
            markup=False,
        )
        if chosen.list:
            for row in plan.rows:
                console.print(f"  {row}")
            return 0

        def save() -> None:
            if chosen.json:
                chosen.json.write_text(json.dumps(report, indent=2))

        measure(plan, chosen.dir, save, report)
    except NotPossible as error:
        console.print(f"bench apache: {error}", markup=False)
        status = 1
    if report["rows"]:
        show(report)
        if chosen.markdown:
            chosen.markdown.write_text(ratios.markdown(report))
    return status
