"""The path under which browsers see the console, behind a reverse proxy that gives it only a part of a host.

``RootPath.url`` makes every path that leaves the console: of links, forms, redirects and event streams. A path that
comes in may carry the prefix or not, because some proxies strip it and some do not; ``Prefixed`` makes both the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from gantrymq.errors import ConfigError

_VALID: Final = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+/?")
"""No part is ``.`` or ``..``, and none needs to be quoted anywhere."""


OWN: Final = frozenset({
    "audit", "brokers", "clients", "consumers", "dead-letters", "health", "live", "login", "logout", "messages",
    "metrics", "parts", "pipelines", "replication", "static", "topics", "traces", "transactions", "users",
})  # fmt: skip
"""The first parts of the console's own paths (a test compares them with ``app.PAGES``)."""


@dataclass(frozen=True, slots=True)
class RootPath:
    """A prefix of paths: "" or ``/gantry``, without a slash at its end."""

    text: str = ""

    def url(self, path: str) -> str:
        """A path of the console (``/topics``) as browsers must ask for it."""
        return self.text + path

    def inside(self, path: str) -> str:
        """The path of the console that a request means, whether its proxy stripped the prefix or not."""
        if self.text and (path == self.text or path.startswith(f"{self.text}/")):
            return path[len(self.text) :] or "/"
        return path

    @property
    def of_cookie(self) -> str:
        """Other programs behind the same host do not get the cookie."""
        return self.text or "/"


NO_PREFIX: Final = RootPath()


def parse_root_path(text: str) -> RootPath:
    """Raises ConfigError.

    A prefix that begins like a page would be ambiguous: ``/topics/x`` is a topic, or the page ``/x`` below ``/topics``.
    """
    if text in ("", "/"):
        return NO_PREFIX
    if not _VALID.fullmatch(text):
        raise ConfigError(
            f"{text!r} is not a valid root path: write one such as /gantry, of letters, digits, '-', '_', '.' and '~'"
        )
    if (first := text.split("/")[1]) in OWN:
        raise ConfigError(f"{text!r} is not a valid root path: the console has pages under /{first} itself")
    return RootPath(text.rstrip("/"))


class Prefixed:
    """ASGI middleware: whatever the proxy did, ``path`` begins with ``root_path``, as ASGI has it."""

    def __init__(self, app: ASGIApp, root_path: RootPath) -> None:
        self._app = app
        self._root_path = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path = self._root_path.url(self._root_path.inside(scope["path"]))
            scope = {**scope, "root_path": self._root_path.text, "path": path}
        await self._app(scope, receive, send)
