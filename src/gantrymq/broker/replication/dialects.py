"""How the two sides of a HA connection talk: by the default protocol, or by AutoSwitch within a group.

Both sides of both have the same few calls, so that ``port.py`` and ``replica.py`` know neither.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from gantrymq.broker.replication import auto_switch, frames
from gantrymq.broker.replication.auto_switch import Hello, Welcome
from gantrymq.broker.replication.epochs import Epoch, Epochs, common_end
from gantrymq.broker.replication.following import Diverged
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

    def stop(self, place: int) -> int | None:
        """Where a frame that begins at this log offset has to end; None: anywhere."""


class ReplicaSide(Protocol):
    """One connection, as a replica talks."""

    def hello(self) -> bytes:
        """What comes first; empty: the first report does."""

    def feed(self, data: bytes) -> list[Welcome | Frame]:
        """Raises RemoteProtocolError, also for a primary that is one no more."""

    def report(self, end: int) -> bytes: ...

    @property
    def compares_all(self) -> bool:
        """Whether all of the log has to be compared, because nothing says how much of it may be the primary's."""

    def common(self, own_end: int) -> int | None:
        """How far this log may be the primary's, as its greeting says; None: it does not. Raises Diverged."""

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

    def stop(self, place: int) -> int | None:
        return None


class DefaultReplica:
    """See ``frames.py``."""

    compares_all = False

    def __init__(self) -> None:
        self._reader = frames.FrameReader()

    def common(self, own_end: int) -> int | None:
        return None

    def hello(self) -> bytes:
        return b""

    def feed(self, data: bytes) -> list[Welcome | Frame]:
        return [*self._reader.feed(data)]

    def report(self, end: int) -> bytes:
        return frames.encode_report(end)

    def followed(self) -> None: ...


class GroupPrimary:
    """See ``auto_switch.py``. ``start``: log offset at which the epoch began. ``epochs``: all of them, where Apache's
    controller elects: there a frame names the epoch of its records, and has those of one only."""

    knows_replicas = True

    def __init__(self, epoch: int, start: int, confirmed: Callable[[], int], epochs: Epochs | None = None) -> None:
        self._reader = auto_switch.ReplicaReader()
        self._epoch = epoch
        self._start = start
        self._confirmed = confirmed
        self._epochs = epochs

    def feed(self, data: bytes) -> list[Hello | int]:
        return self._reader.feed(data)

    def welcome(self, end: int) -> bytes:
        return auto_switch.encode_welcome(end, self._epoch, () if self._epochs is None else self._epochs.entries)

    def frame(self, place: int, data: bytes) -> bytes:
        epoch, start = (self._epoch, self._start) if self._epochs is None else self._epochs.at(place)[0]
        return auto_switch.encode_data(place, data, epoch, start, self._confirmed())

    def stop(self, place: int) -> int | None:
        return None if self._epochs is None else self._epochs.at(place)[1]


class GroupReplica:
    """See ``auto_switch.py``. ``disk``: its own. ``least_epoch``: older primaries are refused. ``confirmed``: called
    with what is confirmed of a log that is the primary's. ``epochs``: of this log, where Apache's controller elects;
    ``end``: of it. A frame names the epoch of its records then, which may be an old one."""

    def __init__(
        self, disk: int, least_epoch: Callable[[], int], confirmed: Callable[[int], None],
        epochs: Epochs | None = None, end: Callable[[], int] = lambda: 0,
    ) -> None:  # fmt: skip
        self._reader = auto_switch.PrimaryReader()
        self._disk = disk
        self._least_epoch = least_epoch
        self._tell = confirmed
        self._confirmed = 0
        self._follows = False
        self._epochs = epochs
        self._end = end
        self._theirs: Welcome | None = None
        self.start_of_epoch: int | None = None
        """As the primary says; None: it has not yet."""

    def hello(self) -> bytes:
        return auto_switch.encode_hello(self._disk)

    def feed(self, data: bytes) -> list[Welcome | Frame]:
        found: list[Welcome | Frame] = []
        for item in self._reader.feed(data):
            if isinstance(item, Welcome):
                self._check(item.epoch)
                self._theirs = item
                found.append(item)
                continue
            frame, confirmed = item
            self._check(confirmed.epoch)
            if self._epochs is not None and self._follows:
                self._epochs.learn(confirmed.epoch, confirmed.start)
            found.append(frame)
            self.start_of_epoch = confirmed.start
            self._confirmed = max(self._confirmed, confirmed.position)
        if self._follows:
            self._tell(self._confirmed)
        return found

    @property
    def compares_all(self) -> bool:
        return self._epochs is not None and not self._epochs.entries

    def common(self, own_end: int) -> int | None:
        own, theirs = self._epochs, self._theirs
        if own is None or theirs is None or not own.entries or not own_end:
            return None
        found = common_end(own.entries, own_end, [Epoch(*entry) for entry in theirs.epochs], theirs.end)
        if found is None:
            raise Diverged("no epoch began at the same log offset here and at the primary: nothing is taken from it")
        return found

    def _check(self, epoch: int) -> None:
        if self._epochs is None and epoch < self._least_epoch():
            raise RemoteProtocolError(
                f"it is primary of epoch {epoch}, and the record of the group names one of epoch {self._least_epoch()}"
            )

    def report(self, end: int) -> bytes:
        return auto_switch.encode_report(end)

    def followed(self) -> None:
        self._follows = True
        if self._epochs is not None and self._theirs is not None:
            self._epochs.take([Epoch(*entry) for entry in self._theirs.epochs], self._end())
        self._tell(self._confirmed)
