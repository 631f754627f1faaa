"""What a server knows of messages that a request names by their place."""

from __future__ import annotations

from typing import Protocol


class Places(Protocol):
    """None: there is nothing."""

    def topic_of_half(self, queue_offset: int, log_offset: int) -> str | None:
        """The topic that consumers would get a half message under."""

    def topics_at(self, log_offset: int) -> tuple[str, ...]:
        """The topics whose rights open a message: those that its sender meant, wherever it waits; of an undecided
        message the topic of the system in which it lies. None: nothing is there.
        """

    def real_topic_at(self, log_offset: int) -> str | None:
        """The topic that the sender meant."""


class NoPlaces:
    """A server without messages."""

    def topic_of_half(self, queue_offset: int, log_offset: int) -> str | None:
        return None

    def topics_at(self, log_offset: int) -> tuple[str, ...]:
        return ()

    def real_topic_at(self, log_offset: int) -> str | None:
        return None
