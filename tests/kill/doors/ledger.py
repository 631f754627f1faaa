"""What the clients know of each message, and the history that they write."""

from __future__ import annotations

import time
from dataclasses import dataclass

from gantrymq.simulation.judging.history import Event, History

TOPIC = "Doors"
COMMIT, ROLLBACK, UNKNOWN = "COMMIT", "ROLLBACK", "UNKNOWN"
ROWS = {"committed": COMMIT, "rolled back": ROLLBACK, "": UNKNOWN}


@dataclass(slots=True)
class Sent:
    """A message, or a transaction."""

    name: str
    transaction: bool
    row: str = ""
    """How the local transaction ended: ``committed``, ``rolled back``; empty: it runs."""
    acknowledged: bool = False
    delivered: bool = False

    @property
    def must_arrive(self) -> bool:
        return self.row == "committed" if self.transaction else self.acknowledged


class Ledger:
    """All messages of a run, by their names, which are their keys."""

    def __init__(self) -> None:
        began = time.monotonic()
        self.history = History(lambda: int((time.monotonic() - began) * 1000))
        self.sent: dict[str, Sent] = {}
        self.checks = 0
        self.processed: dict[str, set[str]] = {}
        """By group."""

    @property
    def events(self) -> list[Event]:
        return self.history.events

    def group(self, name: str) -> None:
        self.processed[name] = set()
        self.history.add("group", group=name, topic=TOPIC, orderly=False, retries=True)

    def new(self, *, transaction: bool) -> Sent:
        made = Sent(f"{'t' if transaction else 'p'}{len(self.sent)}", transaction)
        self.sent[made.name] = made
        if transaction:
            self.history.add("begin", tx=made.name)
        return made

    def plain(self, sent: Sent, confirmed: bool) -> None:
        """An ordinary message was acknowledged, or may be lost."""
        sent.acknowledged |= confirmed
        self.history.add("plain", tx=sent.name, confirmed=confirmed)
        self._is_sent(sent, confirmed)

    def half(self, sent: Sent, confirmed: bool) -> None:
        self.history.add("half", tx=sent.name, confirmed=confirmed)

    def end_row(self, sent: Sent, state: str) -> None:
        """The local transaction ends for good."""
        sent.row = state
        self.history.add("row", tx=sent.name, state=state)

    def asks_for(self, sent: Sent, decision: str) -> None:
        """An end is about to be sent."""
        self.history.add("end", tx=sent.name, decision=decision, confirmed=False)

    def ended(self, sent: Sent, decision: str) -> None:
        """A broker acknowledged it."""
        self.history.add("end", tx=sent.name, decision=decision, confirmed=True)
        if decision == COMMIT:
            self._is_sent(sent, confirmed=True)

    def answer(self, name: str) -> str:
        """What a checker says."""
        self.checks += 1
        decision = ROWS[self.sent[name].row]
        self.history.add("check", tx=name, answer=decision)
        return decision

    def delivered(self, name: str, broker: str, queue: int, offset: int) -> None:
        self.sent[name].delivered = True
        self.history.add("delivered", tx=name, broker=broker, topic=TOPIC, queue=queue, offset=offset)

    def done(self, name: str, group: str, broker: str, queue: int, offset: int) -> None:
        """A consumer has processed it."""
        self.processed[group].add(name)
        self.history.add(
            "processed", message=name, group=group, member=group, broker=broker, topic=TOPIC, queue=queue, offset=offset
        )

    def _is_sent(self, sent: Sent, confirmed: bool) -> None:
        self.history.add("sent", message=sent.name, topic=TOPIC, confirmed=confirmed)

    def missing(self) -> list[str]:
        """What must arrive, and did not yet, at the reader or at a group."""
        return [
            name
            for name, sent in self.sent.items()
            if sent.must_arrive
            and (not sent.delivered or any(name not in processed for processed in self.processed.values()))
        ]
