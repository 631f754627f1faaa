"""The messages that a page may show: every page reads them here.

Undecided messages are for those who decide about them. For users of the brokers the brokers decide that themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from starlette.requests import Request

from gantrymq.admin import Admin
from gantrymq.console.identity import Person, Right
from gantrymq.console.parts import console_of, person_of
from gantrymq.console.views import LIST_BODY, PAGE_BODY
from gantrymq.errors import GantryError
from gantrymq.message.message import MessageView
from gantrymq.message.queues import MessageQueue
from gantrymq.message.system_topics import TRANSACTION_TOPICS

if TYPE_CHECKING:
    from gantrymq.admin.body_search import Bounds, Searched
    from gantrymq.admin.traces import TraceSteps

_WHY: Final = (
    "{topic} holds messages whose transactions are undecided. They are shown to those who may decide about them: log "
    "in as somebody with the role {role}. Everybody sees what a transaction is about on its own page"
)


class NotShown(GantryError):
    """The person may not see these messages; the sentence says why, and who may."""


def may_see_undecided(person: Person | None) -> bool:
    """Whether the console shows undecided messages to ``person``."""
    return person is not None and person.may(Right.DECIDE)


@dataclass(frozen=True, slots=True)
class Reading:
    """Reads for one person, and no more of a body than a page shows. Beside what ``Admin`` raises every method raises
    NotShown."""

    admin: Admin
    person: Person | None

    @classmethod
    def of(cls, request: Request) -> Reading:
        return cls(console_of(request).admin, person_of(request))

    def _check(self, topic: str) -> None:
        if topic in TRANSACTION_TOPICS and not may_see_undecided(self.person):
            raise NotShown(_WHY.format(topic=topic, role=Right.DECIDE.role.text))

    async def newest(self, topic: str, count: int) -> list[MessageView]:
        self._check(topic)
        return await self.admin.browsing.newest(topic, count, LIST_BODY)

    async def since(
        self, topic: str, time_ms: int, count: int, only: MessageQueue | None
    ) -> list[MessageView]:  # fmt: skip
        self._check(topic)
        return await self.admin.browsing.since(topic, time_ms, count, LIST_BODY, only)

    async def part(self, queue: MessageQueue, offset: int, count: int) -> tuple[list[MessageView], int, int]:
        """See ``Browsing.at``."""
        self._check(queue.topic)
        return await self.admin.browsing.at(queue, offset, count, LIST_BODY)

    async def at(self, queue: MessageQueue, offset: int) -> MessageView | None:
        self._check(queue.topic)
        return await self.admin.messages.at(queue, offset, PAGE_BODY)

    async def by_place_id(self, message_id: str) -> MessageView | None:
        found = await self.admin.messages.by_place_id(message_id, PAGE_BODY)
        if found is not None:
            self._check(found.topic)
        return found

    async def by_unique_key(self, topic: str, unique_key: str) -> list[MessageView]:
        self._check(topic)
        return await self.admin.messages.by_unique_key(topic, unique_key, LIST_BODY)

    async def by_key(self, topic: str, key: str, count: int) -> list[MessageView]:
        self._check(topic)
        return await self.admin.messages.by_key(topic, key, count=count, body_max=LIST_BODY)

    async def in_bodies(self, topic: str, text: str, from_ms: int, to_ms: int, bounds: Bounds) -> Searched:
        """See ``BodySearch.run``."""
        self._check(topic)
        return await self.admin.body_search.run(topic, text, from_ms, to_ms, bounds, LIST_BODY)

    async def traces(self, topic: str, word: str | None, newest: int) -> TraceSteps:
        """The steps that clients recorded in a trace topic: those of a word, or the newest."""
        self._check(topic)
        traces = self.admin.traces
        return await (traces.newest(newest, topic) if word is None else traces.of(word, topic))
