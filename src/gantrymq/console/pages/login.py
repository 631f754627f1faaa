"""Log in and log out."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from gantrymq.console.guard import drop_cookie, set_cookie, token_of
from gantrymq.console.logins import TooManyAttempts, identified
from gantrymq.console.parts import address_of, console_of, page, session_of, text_of

log = logging.getLogger("gantrymq.console")

NAME_MAX: Final = 100


async def show(request: Request) -> Response:
    """The form."""
    return page(request, "login.html", to=target(text_of(request, "to")), name="", problem="")


async def log_in(request: Request) -> Response:
    """Begin a session, or say that name or password is wrong."""
    console, form = console_of(request), request.state.form
    name, password = form.get("name", [""])[0][:NAME_MAX], form.get("password", [""])[0]
    to = target(form.get("to", [""])[0])
    address = address_of(request)
    try:
        person = await identified(console, console.identities, name, password, address)
    except TooManyAttempts as error:
        return page(request, "login.html", HTTPStatus.TOO_MANY_REQUESTS, to=to, name=name, problem=str(error))
    if person is None:
        problem = "Name or password is wrong."
        return page(request, "login.html", HTTPStatus.UNAUTHORIZED, to=to, name=name, problem=problem)
    console.sessions.end(token_of(request, console))
    token, _ = console.sessions.begin(person)
    log.info("%s logged in from %s", person.name, address)
    response = RedirectResponse(console.settings.root_path.url(to), HTTPStatus.SEE_OTHER)
    set_cookie(response, console, token)
    return response


async def log_out(request: Request) -> Response:
    """End the session."""
    console, session = console_of(request), session_of(request)
    console.sessions.end(token_of(request, console))
    if session is not None:
        console.last_pages.forget(session.csrf)
    response = RedirectResponse(console.settings.root_path.url("/"), HTTPStatus.SEE_OTHER)
    drop_cookie(response, console)
    return response


def target(text: str | None) -> str:
    """Where to go after the log-in: a path of this console, and never another host."""
    if not text or not text.startswith("/") or text.startswith(("//", "/\\", "/login")):
        return "/"
    # Browsers resolve ".." themselves, so that it would lead out of the prefix of a reverse proxy.
    if any(unquote(segment) in (".", "..") for segment in text.partition("?")[0].split("/")):
        return "/"
    return text if text.isprintable() else "/"
