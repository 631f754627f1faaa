"""Finishes what a killed driver has left: in any process, as long as the control topic is there.

It answers check-backs (``sink.listener``), and it commits the half messages of batches that are decided and that their
driver did not finish. Any number of checkers may run beside drivers, because every end may be repeated.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from gantrymq.errors import GantryError, RequestRejected
from gantrymq.message.transaction import Resolution
from gantrymq.runtime.clock import SystemClock
from gantrymq.spark.sink.exactly_once import Commit
from gantrymq.spark.sink.ids import BatchId
from gantrymq.spark.sink.ledger import SinkTopicMissing
from gantrymq.spark.sink.options import DEFAULT_GROUP, SinkSettings, parse_sink_options
from gantrymq.spark.sink.processes import SinkProcess
from gantrymq.spark.sink.rules import BatchDecision

log = logging.getLogger("gantrymq.spark")

INTERVAL_S: Final = 5.0
"""How often the control topic is read."""
PATIENCE_S: Final = 30.0
"""How long a driver may take to end the half messages of a decided batch before a checker does it, too."""


class SinkChecker:
    """Answers for the exactly_once sinks of one producer group, from ``start`` to ``close``.

    ``said``: called with a line for people about each batch that it has finished, or could not finish.
    """

    def __init__(
        self,
        name_servers: str,
        group: str = DEFAULT_GROUP,
        *,
        patience_s: float = PATIENCE_S,
        interval_s: float = INTERVAL_S,
        said: Callable[[str], object] = log.info,
    ) -> None:
        """Raises ConfigError for an invalid address or group."""
        self._settings = parse_sink_options({"nameServers": name_servers, "producerGroup": group})
        self._patience_s = patience_s
        self._interval_s = interval_s
        self._said = said
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._process: SinkProcess | None = None

    def start(self) -> None:
        """Join the producer group, and read the control topic once. Raises GantryError when that is not possible."""
        # It tries again by itself, and must be able to end at any time.
        self._process = SinkProcess(self._settings, read_timeout_ms=0)
        self._process.commits  # noqa: B018 - from now on brokers ask this process
        with contextlib.suppress(SinkTopicMissing):  # no sink has written yet
            self._process.ledger.refresh()
        self._thread = threading.Thread(target=self._run, name="gantrymq-sink-checker", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Leave the group."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
        if self._process is not None:
            self._process.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        assert self._process is not None
        late = Late(SystemClock().monotonic, self._patience_s)
        while not self._stopped.is_set():
            try:
                finish_late(late, self._process, self._settings, self._said)
            except SinkTopicMissing as error:
                log.debug("nothing to finish: %s", error)
            except GantryError as error:
                log.warning("the checker of %s tries again: %s", self._settings.group, error)
            self._stopped.wait(self._interval_s)


class Late:
    """Finds the decisions that their driver did not finish in time."""

    def __init__(self, now: Callable[[], float], patience_s: float) -> None:
        self._now = now
        self._patience_s = patience_s
        self._seen: dict[BatchId, float] = {}

    def among(self, unfinished: list[BatchDecision]) -> list[BatchDecision]:
        """Those of ``unfinished`` that have been there for longer than the patience."""
        now = self._now()
        self._seen = {decision.of: self._seen.get(decision.of, now) for decision in unfinished}
        return [decision for decision in unfinished if now - self._seen[decision.of] >= self._patience_s]

    def put_off(self, of: BatchId) -> None:
        """Do not try this one again before the patience is over once more."""
        self._seen[of] = self._now()


def finish_late(late: Late, process: SinkProcess, settings: SinkSettings, said: Callable[[str], object]) -> None:
    """Commit the half messages of late decisions."""
    for decision in late.among(process.ledger.refresh().unfinished()):
        commit = Commit(settings, process)
        what = f"batch {decision.batch} of {decision.query_id or decision.query}"
        try:
            commit.end(decision.winners, Resolution.COMMIT)
            commit.note_end(decision.of)
        except RequestRejected as error:
            said(f"{what}: its messages could not be committed: {error}")
            late.put_off(decision.of)
        else:
            said(f"{what}: committed {sum(winner.rows for winner in decision.winners)} messages for its driver")
