"""How a page answers: to whom, within which time, and what is shown when the cluster does not do it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from gantrymq.console.guard import PAGE
from gantrymq.console.identity import Right
from gantrymq.console.parts import (
    INCOMPLETE,
    address_in,
    console_of,
    old_page_of,
    page,
    person_of,
    session_of,
)
from gantrymq.console.reading import NotShown
from gantrymq.errors import (
    ConfigError,
    GantryError,
    MessageIllegal,
    RequestRejected,
    RouteNotFound,
    TimedOut,
    Unreachable,
)
from gantrymq.protocol.codes import ResponseCode

log = logging.getLogger("gantrymq.console")

Handler = Callable[[Request], Awaitable[Response]]


def on_page(path: str, handler: Handler) -> Handler:
    """The page, noted in the scope of its requests, so that they are counted under its name."""

    async def answer(request: Request) -> Response:
        request.scope[PAGE] = path
        return await handler(request)

    return answer


def guarded(right: Right | None, handler: Handler) -> Handler:
    """The page for those who may see it. Errors become a page that says what to do."""

    async def answer(request: Request) -> Response:
        person = person_of(request)
        if right is not None and person is not None and person.account is not None and not person.may(right):
            text = f"No right of the brokers covers this: {right.text}. Log in with an account of the console."
            return problem(request, HTTPStatus.FORBIDDEN, "Not allowed", text)
        if right is not None and (person is None or not person.may(right)):
            role = right.role.text
            text = f"This needs the role {role} (it may {right.text}). Log in as somebody who has it."
            return problem(request, HTTPStatus.FORBIDDEN, "Not allowed", text)
        try:
            return await bounded(handler, request)
        except HTTPException:
            raise
        except NotShown as error:
            return problem(request, HTTPStatus.FORBIDDEN, "Not shown", str(error))
        except (ConfigError, MessageIllegal) as error:
            return problem(request, HTTPStatus.BAD_REQUEST, "This cannot be done", str(error))
        except RouteNotFound as error:
            if a_broker_is_silent(request):  # its topics are in no route then, which does not mean that they are gone
                return unanswered(request, str(error))
            return problem(request, HTTPStatus.NOT_FOUND, "Not found", str(error))
        except TimeoutError:
            seconds = console_of(request).settings.page_seconds
            return unanswered(request, f"a server of it does not answer within {seconds} s, the setting page_seconds")
        except (Unreachable, TimedOut) as error:
            return unanswered(request, str(error))
        except GantryError as error:
            if person is not None and person.account is not None and is_denied(error):
                text = f"The brokers do not allow this to {person.name}: {error}"
                return problem(request, HTTPStatus.FORBIDDEN, "Not allowed", text)
            return problem(request, HTTPStatus.BAD_GATEWAY, "The cluster did not do it", str(error))
        except Exception:
            log.exception("the page %s hit a defect", request.url.path)
            text = "The console hit a defect; its log says more."
            return problem(request, HTTPStatus.INTERNAL_SERVER_ERROR, "Defect", text)

    return answer


async def bounded(handler: Handler, request: Request) -> Response:
    """The answer within the time that a person waits for a page, which is kept for the time when the cluster is silent.

    A change is never cut short: its record would say less than what happened. Raises TimeoutError.
    """
    console = console_of(request)
    if request.method != "GET":
        return await handler(request)
    async with asyncio.timeout(console.settings.page_seconds):
        answer = await handler(request)
    session, whole = session_of(request), not getattr(request.state, INCOMPLETE, False)
    if session is not None and whole and isinstance(answer, HTMLResponse) and answer.status_code == HTTPStatus.OK:
        console.last_pages.note(session.csrf, address_in(request), bytes(answer.body).decode())
    return answer


def unanswered(request: Request, text: str) -> Response:
    """The page as it was when the cluster answered last; without one, a page that says why there is none."""
    old = old_page_of(request)
    if request.method != "GET" or old is None:
        return problem(request, HTTPStatus.BAD_GATEWAY, "The cluster did not do it", text)
    return page(request, "old_page.html", HTTPStatus.BAD_GATEWAY, old=old, text=text.rstrip("."))


def a_broker_is_silent(request: Request) -> bool:
    sample = console_of(request).samples.newest
    return sample is not None and any(broker.error and not broker.denied for broker in sample.brokers)


def is_denied(error: GantryError) -> bool:
    return isinstance(error, RequestRejected) and error.code == ResponseCode.NO_PERMISSION


def problem(request: Request, status: HTTPStatus, title: str, text: str) -> Response:
    return page(request, "problem.html", status, title=title, text=text)


async def missing(request: Request, error: Exception) -> Response:
    """Answers of the framework: no such path, or not by this method."""
    status = HTTPStatus(error.status_code) if isinstance(error, HTTPException) else HTTPStatus.NOT_FOUND
    return problem(request, status, status.phrase, f"There is nothing at {request.url.path}.")
