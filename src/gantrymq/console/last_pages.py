"""Pages as they were when the cluster answered last: shown, marked as old, while it does not answer.

So nobody loses sight of a cluster at the moment when it breaks. A page is kept for its session only, because another
person may have other rights.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from gantrymq.runtime.clock import Clock

PAGES_MAX: Final = 300
PAGE_BYTES_MAX: Final = 100_000
"""Of a page, compressed; larger ones are not kept."""
KEPT_S: Final = 3_600.0
_BEGIN: Final = '<main id="main" tabindex="-1">'
_END: Final = "</main>"


@dataclass(frozen=True, slots=True)
class OldPage:
    """The main part of a page."""

    html: str
    at_ms: int
    """When it was made, ms since 1970."""


@dataclass(frozen=True, slots=True)
class _Kept:
    packed: bytes
    at_ms: int
    until: float


@dataclass(slots=True)
class LastPages:
    """By session and address; those that were not looked at for longest are forgotten first."""

    clock: Clock
    _kept: OrderedDict[tuple[str, str], _Kept] = field(default_factory=OrderedDict)

    def note(self, session: str, address: str, html: str) -> None:
        """Keep a page that shows what the cluster says now."""
        main = html.partition(_BEGIN)[2].rpartition(_END)[0]
        packed = zlib.compress(main.encode(), level=1)
        if not main or len(packed) > PAGE_BYTES_MAX:
            return
        self._kept[session, address] = _Kept(packed, self.clock.wall_ms(), self.clock.monotonic() + KEPT_S)
        self._kept.move_to_end((session, address))
        while len(self._kept) > PAGES_MAX:
            self._kept.popitem(last=False)

    def of(self, session: str, address: str) -> OldPage | None:
        """The page as it was; None when there is none."""
        found = self._kept.get((session, address))
        if found is None or self.clock.monotonic() > found.until:
            return None
        return OldPage(zlib.decompress(found.packed).decode(), found.at_ms)

    def forget(self, session: str) -> None:
        """All pages of a session that has ended."""
        for key in [key for key in self._kept if key[0] == session]:
            del self._kept[key]

    def sweep(self) -> None:
        """Drop what is too old to be shown."""
        now = self.clock.monotonic()
        for key in [key for key, kept in self._kept.items() if now > kept.until]:
            del self._kept[key]
