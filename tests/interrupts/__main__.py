"""Interrupts every blocking call at every place where Python may run a signal handler, and reports broken promises.

Two kinds: one interrupt at each place in turn (``--every K``: at every K-th place only), and storms of real signals
whose times come from a seed. With ``--handler call`` the handler does not raise; it sends a message itself, and with
``--handler close`` it closes the producer.
"""

from __future__ import annotations

import argparse
import faulthandler
import itertools
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from gantrymq.errors import Closed
from gantrymq.message.message import Message
from tests.interrupts import calls, lives
from tests.interrupts.points import Handler, Injector, Interrupt, interrupt
from tests.interrupts.scenario import Scenario
from tests.interrupts.server import Server
from tests.interrupts.storm import Storm

SCENARIOS: Final[tuple[type[Scenario], ...]] = (Scenario, *calls.ALL, *lives.ALL)
HANG_S: Final = 60.0
"""A point that takes longer hangs."""


class Watch:
    """Ends the process, and says where it was, when a point hangs."""

    def __init__(self) -> None:
        self._point = ""
        self._moved = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def at(self, point: str) -> None:
        self._point = point
        self._moved.set()

    def _run(self) -> None:
        while True:
            self._moved.clear()
            if not self._moved.wait(HANG_S) and self._point:
                sys.stderr.write(f"{self._point}: hangs\n")
                faulthandler.dump_traceback(all_threads=True)
                os._exit(3)


class Run:
    """Plays one scenario, point by point."""

    def __init__(self, scenario: Scenario, watch: Watch, handler: Handler) -> None:
        self._scenario = scenario
        self._watch = watch
        self._handler = handler
        self.tried = 0
        self.raised = 0
        self.broken: list[str] = []

    def play(self, points: Iterator[int], seeds: range) -> None:
        """``points``: places of single interrupts, until the call has no more; ``seeds``: of storms."""
        self._watch.at(self._scenario.name)
        self._scenario.open()
        for number in points:
            injector = Injector(number, self._handler)
            self._attempt(f"point {number}", injector)
            if injector.passed <= number:
                break
            self.tried += 1
            self._judge(f"point {number} ({injector.place})", self._scenario.settle)
        for seed in seeds:
            storm = Storm(seed, self._handler)
            self._attempt(f"storm {seed}", storm)
            self.tried += storm.fired
            self._judge(f"storm {seed}", self._scenario.settle)
        self._judge("the end", self._scenario.finish)
        self._watch.at("")

    def _attempt(self, point: str, within: Injector | Storm) -> None:
        self._watch.at(f"{self._scenario.name}, {point}")
        try:
            with within:
                self._scenario.act()
                while not within.fired and isinstance(within, Storm):
                    self._scenario.act()  # too quick for the first signal
        except Interrupt:
            self.raised += 1
        except Closed:
            self._scenario.reopen()
        except Exception as error:
            self._say(f"{point}: the call raised {type(error).__name__}: {error}")

    def _judge(self, point: str, judge: Callable[[], None]) -> None:
        self._watch.at(f"{self._scenario.name}, {point}")
        try:
            judge()
        except Exception as error:
            self._say(f"{point}: {type(error).__name__}: {error}")

    def _say(self, text: str) -> None:
        self.broken.append(text)
        sys.stdout.write(f"  {self._scenario.name}, {text}\n")
        sys.stdout.flush()


def _handler(kind: str, scenario: Scenario) -> Handler:
    """What the signal handler does; it may make a call itself, in the middle of another one."""

    def call() -> None:
        if hasattr(scenario, "producer"):
            scenario.producer.send(Message(scenario.topic, b"from the handler"))

    def close() -> None:
        if hasattr(scenario, "producer"):
            scenario.producer.close()

    return {"raise": interrupt, "call": call, "close": close}[kind]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interrupts", description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="interrupt at every K-th place (default: at each)")
    parser.add_argument("--first", type=int, default=0, help="the first place (default: 0)")
    parser.add_argument("--storms", type=int, default=0, help="instead: so many storms of signals for each call")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first storm")
    parser.add_argument(
        "--handler", choices=("raise", "call", "close"), default="raise", help="what the signal handler does"
    )
    parser.add_argument("--only", default="", help="a part of the name of the scenarios to play")
    options = parser.parse_args(arguments)
    logging.getLogger("gantrymq").setLevel(logging.CRITICAL)
    watch, all_tried, all_broken = Watch(), 0, 0
    with tempfile.TemporaryDirectory() as directory, Server(Path(directory)) as server:
        for kind in SCENARIOS:
            if options.only.lower() not in kind.name.lower():
                continue
            scenario = kind(server)
            play = Run(scenario, watch, _handler(options.handler, scenario))
            points = itertools.count(options.first, options.every) if not options.storms else iter(())
            play.play(points, range(options.seed, options.seed + options.storms))
            all_tried, all_broken = all_tried + play.tried, all_broken + len(play.broken)
            said = f"{play.tried} points, {play.raised} interrupts raised, {len(play.broken)} broken"
            sys.stdout.write(f"{kind.name}: {said}\n")
            sys.stdout.flush()
    sys.stdout.write(f"interrupts: {all_tried} points, {all_broken} broken\n")
    return 1 if all_broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
