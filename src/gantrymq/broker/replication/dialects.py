"""How the two sides of a HA connection talk: by the default protocol, or by AutoSwitch within a group.

Both sides of both have the same few calls, so that ``port.py`` and ``replica.py`` know neither.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from gantrymq.broker.replication import auto_switch, frames
from gantrymq.broker.replication.auto_switch import Hello, Welcome
from gantrymq.broker.replication.frames import Frame
from gantrymq.errors import RemoteProtocolError


@dataclass(frozen=True, slots=True)
class Pace:
    """Times in seconds."""

    beat: float = frames.HEARTBEAT_S
    """Between two signs of life."""
    silence: float = frames.SILENCE_S
    """A peer that says nothing for so long is gone."""
    again: float = 1.0
    """Between two attempts to follow."""


DEFAULT_PACE: Final = Pace()


class PrimarySide(Protocol):
    """One connection, as a primary talks."""

    knows_replicas: bool
    """Whether a replica says who it is; else its IP address is all that is known."""

    def feed(self, data: bytes) -> list[Hello | int]:
        """Greetings and reports. Raises RemoteProtocolError."""

    def welcome(self, end: int) -> bytes:
        """The answer to a greeting. ``end``: of the log."""

    def frame(self, place: int, data: bytes) -> bytes: ...


class ReplicaSide(Protocol):
    """One connection, as a replica talks."""

    def hello(self) -> bytes:
        """What comes first; empty: the first report does."""

    def feed(self, data: bytes) -> list[Welcome | Frame]:
        """Raises RemoteProtocolError, also for a primary that is one no more."""

    def report(self, end: int) -> bytes: ...

    def followed(self) -> None:
        """The log is the primary's, as far as it goes: what the frames have said of it counts."""


class DefaultPrimary:
    """See ``frames.py``."""

    knows_replicas = False

    def __init__(self) -> None:
        self._reader = frames.ReportReader()

    def feed(self, data: bytes) -> list[Hello | int]:
        return [*self._reader.feed(data)]

    def welcome(self, end: int) -> bytes:
        raise RemoteProtocolError(f"nobody greets in this protocol (the log ends at {end})")

    def frame(self, place: int, data: bytes) -> bytes:
        return frames.encode_frame(place, data)


class DefaultReplica:
    """See ``frames.py``."""

    def __init__(self) -> None:
        self._reader = frames.FrameReader()

    def hello(self) -> bytes:
        return b""

    def feed(self, data: bytes) -> list[Welcome | Frame]:
        return [*self._reader.feed(data)]

    def report(self, end: int) -> bytes:
        return frames.encode_report(end)

    def followed(self) -> None: ...


class GroupPrimary:
    """See ``auto_switch.py``. ``start``: log offset at which the epoch began."""

    knows_replicas = True

    def __init__(self, epoch: int, start: int, confirmed: Callable[[], int]) -> None:
        self._reader = auto_switch.ReplicaReader()
        self._epoch = epoch
        self._start = start
        self._confirmed = confirmed

    def feed(self, data: bytes) -> list[Hello | int]:
        return self._reader.feed(data)

    def welcome(self, end: int) -> bytes:
        return auto_switch.encode_welcome(end, self._epoch)

    def frame(self, place: int, data: bytes) -> bytes:
        return auto_switch.encode_data(place, data, self._epoch, self._start, self._confirmed())


class GroupReplica:
    """See ``auto_switch.py``. ``disk``: its own. ``least_epoch``: older primaries are refused. ``confirmed``: called
    with what is confirmed of a log that is the primary's."""

    def __init__(self, disk: int, least_epoch: Callable[[], int], confirmed: Callable[[int], None]) -> None:
        self._reader = auto_switch.PrimaryReader()
        self._disk = disk
        self._least_epoch = least_epoch
        self._tell = confirmed
        self._confirmed = 0
        self._follows = False
        self.start_of_epoch: int | None = None
        """As the primary says; None: it has not yet."""

    def hello(self) -> bytes:
        return auto_switch.encode_hello(self._disk)

    def feed(self, data: bytes) -> list[Welcome | Frame]:
        found: list[Welcome | Frame] = []
        for item in self._reader.feed(data):
            if isinstance(item, Welcome):
                self._check(item.epoch)
                found.append(item)
                continue
            frame, confirmed = item
            self._check(confirmed.epoch)
            found.append(frame)
            self.start_of_epoch = confirmed.start
            self._confirmed = max(self._confirmed, confirmed.position)
        if self._follows:
            self._tell(self._confirmed)
        return found

    def _check(self, epoch: int) -> None:
        if epoch < self._least_epoch():
            raise RemoteProtocolError(
                f"it is primary of epoch {epoch}, and the record of the group names one of epoch {self._least_epoch()}"
            )

    def report(self, end: int) -> bytes:
        return auto_switch.encode_report(end)

    def followed(self) -> None:
        self._follows = True
        self._tell(self._confirmed)
