"""HTTP requests and responses as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from gantrymq.access.values import User

JSON: Final = "application/json; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Request:
    """A GET or HEAD request that was understood; both are answered alike, and HEAD gets no body."""

    path: tuple[str, ...]
    """Its segments, decoded; none for ``/``."""
    query: dict[str, str] = field(default_factory=dict)
    authorization: str = field(default="", repr=False)
    """The header of this name; empty: there is none."""
    address: str = ""
    """``ip:port`` of the client."""
    user: User | None = None
    """Who asks; None: nobody knows, or the broker has no users. With ``address`` a ``broker.client.Reader``."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole response. ``headers``: in addition to type and length."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = JSON


class HttpError(Exception):
    """A request that is answered with an error; nothing is wrong with the broker."""

    def __init__(self, status: HTTPStatus, reason: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        self.status = status
        self.reason = reason
        self.headers = headers
        super().__init__(reason)


def answer(value: Any, status: int = HTTPStatus.OK) -> Answer:
    """A value as JSON."""
    return Answer(status, msgspec.json.encode(value) + b"\n")


def problem(refused: HttpError) -> Answer:
    """An error as JSON: ``{"error": {"status", "reason"}}``."""
    value = {"error": {"status": int(refused.status), "reason": refused.reason}}
    return Answer(refused.status, msgspec.json.encode(value) + b"\n", refused.headers)


def parse_target(target: str) -> Request:
    """A request target like ``/transactions?state=open``. Raises HttpError when it is none."""
    try:
        parts = urlsplit(target)
        path = tuple(unquote(part, errors="strict") for part in parts.path.split("/") if part)
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query), errors="strict")
    except ValueError as error:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"the address cannot be read: {error}") from error
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise HttpError(HTTPStatus.BAD_REQUEST, "a parameter is given twice")
    return Request(path, dict(pairs))
