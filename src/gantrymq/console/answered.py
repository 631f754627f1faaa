"""Whose figures a sum contains: the words beside a figure, so that a zero is never shown of what nobody could count."""

from __future__ import annotations

from dataclasses import dataclass

from gantrymq.console.samples import Sample
from gantrymq.runtime.calendar import iso


@dataclass(frozen=True, slots=True)
class Answered:
    """How many brokers answered with figures of their transactions, and why others did not."""

    answering: int = 0
    silent: int = 0
    """Brokers that could not be reached."""
    denied: int = 0
    """Brokers that do not show it to this person."""
    other: int = 0
    """Brokers that have no such figures: Apache's."""
    oldest_ms: int | None = None
    """Since when the part of a silent broker in a sum is old; None: every silent broker is missing from it."""

    @classmethod
    def of(cls, sample: Sample | None) -> Answered:
        brokers = sample.brokers if sample is not None else ()
        return cls(
            answering=sum(broker.known is not None and broker.known.summary is not None for broker in brokers),
            silent=sum(bool(broker.error) and not broker.denied for broker in brokers),
            denied=sum(broker.denied for broker in brokers),
            other=sum(broker.summary is None and not broker.error for broker in brokers),
            oldest_ms=min((broker.last.at_ms for broker in brokers if broker.last is not None), default=None),
        )

    @property
    def why(self) -> str:
        """Why not every broker tells; "" when every one does."""
        if not (self.answering or self.silent or self.denied or self.other):
            return "the cluster cannot be reached"
        reasons = (
            (self.silent, "cannot be reached"), (self.denied, "may not be asked"), (self.other, "cannot tell"),
        )  # fmt: skip
        return ", ".join(f"{count} {'broker' if count == 1 else 'brokers'} {why}" for count, why in reasons if count)

    def hint(self, text: str) -> str:
        """``text`` (of the brokers that tell), with what is missing from it."""
        if not self.answering:
            return f"unknown, because {self.why}"
        old = "" if self.oldest_ms is None else f"; its part is from {clock_time(self.oldest_ms)}"
        return f"{text}; {self.why}{old}" if self.why else text

    def of_none(self, text: str) -> str:
        """The same for a text that says that there is nothing: not said while a broker may have some."""
        return self.hint(text if not self.why else "the rest is unknown")


def clock_time(at_ms: int) -> str:
    """A time of today as people say it, in UTC."""
    return f"{(iso(at_ms) or '')[11:19]} UTC"
