"""How long a wait may last when clocks step. Knows nothing of how the system works.

While a process runs, a step of its wall clock changes no wait. Over a restart the wall clock is all that says how much
time has passed. When it is wrong by another amount than at the stop, or than at the beginning of the wait, the wait may
begin anew, once for each such start, or end early. The same holds while the clock is behind a time that it has shown
before, because stored times never go back. While the process is down nothing ends, and nothing gets longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from gantrymq.simulation.judging.history import Event
from gantrymq.simulation.judging.violation import Violation

NO_LONGER: Final = "no wait grows"
NO_SHORTER: Final = "no wait shrinks"
EARLY_MS: Final = 300
"""Two looks at two clocks, the network, and a step that is too small to be seen as one."""


@dataclass(slots=True)
class Host:
    """What is known of a process that waits are kept by, up to now."""

    skew_ms: int = 0
    """How wrong its wall clock is."""
    furthest_ms: int = 0
    """The latest time that it has shown."""
    skew_at_stop_ms: int = 0
    down_since: int | None = None

    def shows(self, at: int) -> int | None:
        """How wrong the clock is; None when it shows less than it did before."""
        shown = at + self.skew_ms
        self.furthest_ms = max(self.furthest_ms, shown)
        return self.skew_ms if shown == self.furthest_ms else None


@dataclass(slots=True)
class Wait:
    """One wait, as far as the history has come."""

    begin: Event
    skew_ms: int | None
    """Of its host's clock at its beginning; None: that was behind a time that it had shown before."""
    latest: int
    earliest: int
    events: list[Event] = field(default_factory=list)

    def started(self, event: Event, host: Host) -> None:
        """Its host started again."""
        self.events.append(event)
        if host.down_since is None or host.down_since > self.latest + self.begin["slack_ms"]:
            return  # it should have been over before
        if not host.skew_ms == self.skew_ms == host.skew_at_stop_ms:
            self.earliest = self.begin["at"]
            self.latest = max(self.latest, event["at"] + self.begin["ms"])
        else:
            self.latest = max(self.latest, event["at"])

    def stopped(self, event: Event) -> None:
        """Its host ends."""
        self.events.append(event)
        if not self.begin["kept"]:
            self.earliest = self.begin["at"]


def check_waits(events: Iterable[Event]) -> Iterator[Violation]:
    """Every wait that lasted too long, or not long enough."""
    hosts: dict[str, Host] = {}
    open_waits: dict[str, Wait] = {}
    now = 0
    for event in events:
        kind, now = event["event"], event.get("at", now)
        if kind in ("clock", "stopped", "started"):
            host = hosts.setdefault(event["host"], Host())
            _happens(host, event, [wait for wait in open_waits.values() if wait.begin["host"] == event["host"]])
        elif kind == "waits":
            skew = hosts.setdefault(event["host"], Host()).shows(event["at"])
            end = event["at"] + event["ms"]
            open_waits[event["wait"]] = Wait(event, skew, end, end if event["exact"] else 0, [event])
        elif kind == "over" and (wait := open_waits.pop(event["wait"], None)) is not None:
            if hosts[wait.begin["host"]].down_since is not None:  # it is about to have started
                wait.started(event, hosts[wait.begin["host"]])
            yield from _judge(wait, event["at"], [event])
    for wait in open_waits.values():
        yield from _judge(wait, now, [])


def _happens(host: Host, event: Event, waits: list[Wait]) -> None:
    match event["event"]:
        case "clock":
            host.shows(event["at"])
            host.skew_ms = event["skew_ms"]
            for wait in waits:
                wait.events.append(event)
        case "stopped":
            host.down_since, host.skew_at_stop_ms = event["at"], host.skew_ms
            for wait in waits:
                wait.stopped(event)
        case "started" if host.down_since is not None:
            for wait in waits:
                wait.started(event, host)
            host.down_since = None


def _judge(wait: Wait, at: int, end: list[Event]) -> Iterator[Violation]:
    begin = wait.begin
    evidence = tuple(wait.events + end)
    if at > wait.latest + begin["slack_ms"]:
        said = "lasted" if end else "lasts for ever; it lasted"
        text = f"its wait of {begin['ms']} ms ({begin['kind']}) {said} {at - wait.latest} ms too long"
        yield Violation(NO_LONGER, begin["wait"], text, evidence)
    elif end and at < wait.earliest - EARLY_MS:
        text = f"its wait of {begin['ms']} ms ({begin['kind']}) was over {wait.earliest - at} ms too early"
        yield Violation(NO_SHORTER, begin["wait"], text, evidence)
