"""What a service is for the server: its methods, and what they know of a call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from google.protobuf.message import Message


class Context(Protocol):
    """A call, as its method sees it."""

    @property
    def headers(self) -> Mapping[str, str]:
        """What the client said about the call; names in lower case."""

    @property
    def peer(self) -> str:
        """``ip:port`` of the client."""

    @property
    def remaining_s(self) -> float | None:
        """Seconds until the client gives the call up; None: it waits for ever."""

    def begin(self) -> None:
        """Send the headers of the answer now. Without this they go with the first message."""


Unary: TypeAlias = Callable[[Any, Context], Awaitable[Message]]
Stream: TypeAlias = Callable[[Any, Context], AsyncIterator[Message]]


@dataclass(frozen=True, slots=True)
class Method:
    """One method. ``answer`` gets a request, or the stream of requests, and the call."""

    request: type[Message]
    answer: Unary | Stream
    requests_stream: bool = False
    answers_stream: bool = False
