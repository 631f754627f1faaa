"""Counters of what consumers got and gave up, for which nothing else in the broker keeps a figure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass


@dataclass(slots=True)
class Got:
    """What a group got of a topic."""

    messages: int = 0
    size: int = 0
    """bytes"""
    pulls: int = 0


class MessageCounters:
    """Counts since the broker started; a pull is one addition for all its messages."""

    def __init__(self) -> None:
        self.deliveries: dict[tuple[str, str], Got] = {}
        """By topic and group."""
        self.returns: dict[tuple[str, str], int] = {}
        """By topic and group: messages that a consumer could not consume."""
        self.given_up: Counter[tuple[str, str]] = Counter()
        """By topic and group: messages that became dead letters."""
        self.missed = 0
        """Pulls that found nothing."""

    def got(self, topic: str, group: str, messages: int, size: int) -> None:
        """A pull was answered with messages."""
        counter = self.deliveries.get((topic, group))
        if counter is None:
            counter = self.deliveries[topic, group] = Got()
        counter.messages += messages
        counter.size += size
        counter.pulls += 1

    def sent_back(self, topic: str, group: str) -> None:
        """A consumer could not consume a message."""
        self.returns[topic, group] = self.returns.get((topic, group), 0) + 1

    def gave_up(self, topic: str, group: str, messages: int = 1) -> None:
        """Messages of the topic became dead letters of the group."""
        self.given_up[topic, group] += messages

    def forget_topic(self, topic: str) -> None:
        """The topic was deleted."""
        self.deliveries = {key: counter for key, counter in self.deliveries.items() if key[0] != topic}
        self.returns = {key: times for key, times in self.returns.items() if key[0] != topic}
        self.given_up = Counter({key: times for key, times in self.given_up.items() if key[0] != topic})
