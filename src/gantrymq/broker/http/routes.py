"""The list of paths that the HTTP endpoint answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

from gantrymq import __version__
from gantrymq.broker.door import Served
from gantrymq.broker.http.messages import Answer, HttpError, Request, answer
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.message_rights import told_to
from gantrymq.broker.metrics.declared import common_labels
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.observability.exposition import CONTENT_TYPE, Exposition
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.stepwise import gathered

LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 1_000
STATES: Final = ("open", "parked")
ALIVE: Final = ("alive",)
ROUTES: Final = {
    "/alive": "that the process works, also while it starts or refuses writes",
    "/health": "whether the broker takes messages",
    "/metrics": "what the broker measures, as Prometheus reads it",
    "/transactions": "undecided transactions; state=open or parked, group=, limit=",
    "/transactions/{id}": "what happened to a transaction, event by event",
}
"""Also what ``/`` answers."""


class Routes:
    """Finds the handler of a request. Raises HttpError when there is none."""

    def __init__(self, config: LiveConfig, clock: Clock, broker: Served) -> None:
        self._config = config
        self._address = broker.place.address
        self._clock = clock
        self._exposition = Exposition(broker.metrics, common_labels(config))
        self._figures = broker.operations.administration.figures
        self._explaining = broker.operations.administration.explaining
        users = broker.operations.users
        self._rights = None if users is None else users.rights
        self._plain: Mapping[tuple[str, ...], Callable[[Request], Awaitable[Answer]]] = {
            (): self._contents,
            ALIVE: self._alive,
            ("health",): self._health,
            ("metrics",): self._measured,
            ("transactions",): self._transactions,
        }

    async def handle(self, request: Request) -> Answer:
        """The answer."""
        plain = self._plain.get(request.path)
        if plain is not None:
            return await plain(request)
        if len(request.path) == 2 and request.path[0] == "transactions":
            return await self._transaction(request)
        known = ", ".join(ROUTES)
        raise HttpError(HTTPStatus.NOT_FOUND, f"there is nothing at /{'/'.join(request.path)}; there are: {known}")

    async def _contents(self, request: Request) -> Answer:
        _only(request)
        return answer({"broker": self._config.identity.broker_name, "version": __version__, "routes": ROUTES})

    async def _alive(self, request: Request) -> Answer:
        return alive(request)

    async def _health(self, request: Request) -> Answer:
        _only(request)
        refusal = self._figures.refusal
        value: dict[str, Any] = {
            "status": "ok" if refusal is None else "refuses writes",
            "reason": None if refusal is None else str(refusal),
            "broker": self._config.identity.broker_name,
            "address": self._address,
            "version": __version__,
            "open_transactions": self._figures.undecided,
        }
        return answer(value, HTTPStatus.OK if refusal is None else HTTPStatus.SERVICE_UNAVAILABLE)

    async def _measured(self, request: Request) -> Answer:
        _only(request)
        pieces = await gathered(self._clock, self._exposition.steps())
        return Answer(HTTPStatus.OK, b"".join(pieces), content_type=CONTENT_TYPE)

    async def _transactions(self, request: Request) -> Answer:
        _only(request, "state", "group", "limit")
        state, text = request.query.get("state"), request.query.get("limit", str(LIMIT_DEFAULT))
        if state is not None and state not in STATES:
            raise HttpError(HTTPStatus.BAD_REQUEST, f"state is {state!r}; write open or parked")
        if not text.isascii() or not text.isdigit() or len(text) > 6 or not 1 <= int(text) <= LIMIT_MAX:
            raise HttpError(HTTPStatus.BAD_REQUEST, f"limit is {text!r}; write a number from 1 to {LIMIT_MAX}")
        limit = int(text)
        rows = await self._explaining.explanations.undecided(
            state=state, group=request.query.get("group"), limit=limit + 1, told=told_to(self._rights, request)
        )  # fmt: skip
        return answer({"transactions": rows[:limit], "more": len(rows) > limit})

    async def _transaction(self, request: Request) -> Answer:
        _only(request)
        try:
            explained = await self._explaining.explanations.explain(request.path[1], told_to(self._rights, request))
        except Refused as refused:
            if refused.reason is not Refusal.NOT_PERMITTED:
                raise
            raise HttpError(HTTPStatus.FORBIDDEN, refused.remark) from None
        if not explained:
            raise HttpError(
                HTTPStatus.NOT_FOUND,
                f"this broker has no transaction {request.path[1]!r}: it is older than the log, another broker has it, "
                "or the id is another one",
            )
        return answer(explained)


def alive(request: Request) -> Answer:
    """Whoever gets it knows that the event loop works. A process that does not answer should be started again; one
    whose disk is full should not."""
    _only(request)
    return answer({"status": "alive", "version": __version__})


def _only(request: Request, *names: str) -> None:
    unknown = sorted(request.query.keys() - set(names))
    if unknown:
        known = ", ".join(names) or "none"
        raise HttpError(HTTPStatus.BAD_REQUEST, f"unknown parameters: {', '.join(unknown)}; there are: {known}")
