"""A check: the question of a broker to a producer about an undecided half message, independent of any protocol."""

from __future__ import annotations

from msgspec import Struct


class Check(Struct, frozen=True, gc=False):
    """One question. The answer is an ``EndRequest`` with the same offsets; no answer at all is waited for in vain."""

    group: str
    """The producer group of the half. Any of its members may answer."""
    unique_key: str
    """UNIQ_KEY of the half, which is its transaction id."""
    queue_offset: int
    """Of the half, in the half queue."""
    log_offset: int
    """Of the half, in the log."""
    topic: str
    """Where the message goes with a commit, not the half topic. Clients copy it into their answer (hole 22)."""
    queue_id: int
    times_asked: int
    """How many checks of this half there were since the broker started, with this one."""
    early: bool
    """Whether the half is still immune: its sender is gone, and its checkers are decisive."""
    broker_name: str
    store_host: bytes
    """Packed address of the broker that stored the half."""
    message: bytes
    """The message as a checker gets it: a log record at the place of the half, under the topic and queue above."""
