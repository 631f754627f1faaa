"""A line: something that an official client of RocketMQ 5 must show at a door. five_plays.py fills the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.interop.five_driver import Play, codes_in

Played = Callable[[Play], str | None]
"""What it returns stands in the page beside "ok"."""


@dataclass(frozen=True, slots=True)
class Line:
    """``play`` raises where the client does not get what it should."""

    name: str
    play: Played
    short: bool
    """Whether the short run has it: nothing in it waits for time to go by."""
    ours_alone: str = ""
    """Why Apache's proxy is no control."""
    restarts: bool = False
    """Whether it restarts the broker; then no other line is played beside it."""
    users: bool = False
    """Whether its broker has users."""


LINES: list[Line] = []
NO_DOOR = "its broker has no door that would end with it"


def line(
    name: str, *, short: bool = True, ours_alone: str = "", restarts: bool = False, users: bool = False
) -> Callable[[Played], Played]:
    """Put a function into the table."""

    def add(play: Played) -> Played:
        LINES.append(Line(name, play, short, ours_alone, restarts, users))
        return play

    return add


def expect(found: object, wanted: object) -> None:
    assert found == wanted, f"{found!r} instead of {wanted!r}"


def code_is(text: str, *codes: str) -> str:
    """A client that tells the code of an answer tells one of these. Some keep it to themselves, some refuse alone."""
    told = codes_in(text)
    assert not told or set(told) & set(codes), f"{text!r} has none of {codes}"
    return ", ".join(told)
