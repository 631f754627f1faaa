"""Asks a listener again that could not tell an outcome for a reason that soon passes, such as a database that is away.

A broker asks again only after its ``transactionCheckInterval`` (30 s by default), and until then the message is
neither delivered nor dropped. So the producer, which has answered UNKNOWN, asks its own listener before that.

| the listener says                      | then                                                          |
|----------------------------------------|---------------------------------------------------------------|
| COMMIT or ROLLBACK                     | the broker is told, as an answer to its last check            |
| UNKNOWN, ``ask_again``, a wait is left | it is asked again after the wait                              |
| UNKNOWN otherwise                      | nothing: the next check of the broker begins from the start   |
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from gantrymq.client.connection.endpoint import Endpoint
from gantrymq.client.listener import ListenerAnswer
from gantrymq.message.transaction import LocalTransactionState

WAITS_S: Final[tuple[float, ...]] = (0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0)
"""Together a little longer than a broker waits by default, so that nothing is left out in between."""

Ask = Callable[[], Awaitable[ListenerAnswer]]
Tell = Callable[[ListenerAnswer], None]
Key = tuple[str, int]
"""Broker name and log offset: a half message."""


class CheckAgain:
    """The half messages whose outcome this process asks for again on its own."""

    def __init__(self, endpoint: Endpoint, most: int) -> None:
        """``most``: so many half messages at the same time; the others wait for their broker."""
        self._endpoint = endpoint
        self._most = most
        self._waiting: dict[Key, object] = {}
        """To the plan that counts: one that a later answer to the broker has overtaken is no longer here."""

    def later(self, key: Key, ask: Ask, tell: Tell) -> None:
        """Ask about this half message again, unless that is already planned. ``ask`` raises nothing but what ends the
        task; ``tell`` is called at most once, with COMMIT or ROLLBACK."""
        if key in self._waiting or len(self._waiting) >= self._most:
            return
        plan = self._waiting[key] = object()
        task = self._endpoint.tasks.start("check again", self._ask(key, plan, ask, tell))
        task.add_done_callback(lambda _: self._end(key, plan))

    def told(self, key: Key) -> None:
        """The broker was told the outcome of this half message: it need not be asked for again."""
        self._waiting.pop(key, None)

    def _end(self, key: Key, plan: object) -> None:
        if self._waiting.get(key) is plan:
            del self._waiting[key]

    async def _ask(self, key: Key, plan: object, ask: Ask, tell: Tell) -> None:
        for wait in WAITS_S:
            await self._endpoint.clock.sleep(wait)
            if self._waiting.get(key) is not plan:
                return
            outcome = await ask()
            if outcome.state is not LocalTransactionState.UNKNOWN and self._waiting.get(key) is plan:
                tell(outcome)
            if not outcome.ask_again:
                return
