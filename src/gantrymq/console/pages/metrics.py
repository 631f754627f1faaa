"""``/metrics``: for Prometheus, which has no session and gives name and password with each request."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from gantrymq.access.guard import basic_credentials
from gantrymq.console.identity import Person, Right
from gantrymq.console.logins import TooManyAttempts, identified
from gantrymq.console.metrics import common_labels, metrics_of
from gantrymq.console.parts import address_of, console_of, person_of
from gantrymq.observability.exposition import CONTENT_TYPE, Exposition

CHALLENGE: Final = {"WWW-Authenticate": 'Basic realm="GantryMQ console", charset="UTF-8"'}


async def show(request: Request) -> Response:
    """All metrics, for whoever may look at the console."""
    console = console_of(request)
    try:
        person = person_of(request) or await _by_password(request)
    except TooManyAttempts as error:
        return PlainTextResponse(f"{error}\n", HTTPStatus.TOO_MANY_REQUESTS)
    if person is None:
        text = "give name and password of a user of the console (basic authentication)\n"
        return PlainTextResponse(text, HTTPStatus.UNAUTHORIZED, CHALLENGE)
    if not person.may(Right.MACHINE):
        return PlainTextResponse("this user may not read them\n", HTTPStatus.FORBIDDEN)
    body = Exposition(metrics_of(console.figures, console.sessions), common_labels()).text()
    return Response(body, media_type=CONTENT_TYPE)


async def _by_password(request: Request) -> Person | None:
    given = basic_credentials(request.headers.get("authorization", ""))
    if given is None:
        return None
    console = console_of(request)
    return await identified(console, console.own_users, *given, address_of(request))
