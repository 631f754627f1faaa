"""The application: the list of pages with the right that each needs, behind the guard."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from gantrymq.admin import Admin
from gantrymq.admin.audit import AuditFile
from gantrymq.admin.decisions import Decisions
from gantrymq.console.changes import Changes
from gantrymq.console.guard import Guard
from gantrymq.console.identity import FileIdentities, Right
from gantrymq.console.listing import Kept
from gantrymq.console.pages import (
    brokers,
    consumers,
    dead_letters,
    decisions,
    live,
    login,
    messages,
    overview,
    pipelines,
    topics,
    transactions,
)
from gantrymq.console.parts import Console, page, person_of
from gantrymq.console.samples import Samples
from gantrymq.console.sessions import LoginLimit, Sessions
from gantrymq.console.settings import ConsoleSettings
from gantrymq.console.views import environment
from gantrymq.errors import ConfigError, GantryError, MessageIllegal, RouteNotFound
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.rng import Rng
from gantrymq.runtime.tasks import TaskGroupOwner

log = logging.getLogger("gantrymq.console")

CALL_TIMEOUT_MS: Final = 5_000
Handler = Callable[[Request], Awaitable[Response]]

PAGES: Final[tuple[tuple[str, str, Right | None, Handler], ...]] = (
    ("GET", "/", Right.LOOK, overview.show),
    ("GET", "/live/{name}", Right.LOOK, live.stream),
    ("GET", "/transactions", Right.LOOK, transactions.show_list),
    ("POST", "/transactions/plan", Right.DECIDE, decisions.plan),
    ("POST", "/transactions/carry-out", Right.DECIDE, decisions.carry_out),
    ("GET", "/transactions/{id:path}", Right.LOOK, transactions.show),
    ("GET", "/topics", Right.LOOK, topics.show_list),
    ("GET", "/topics/{topic}", Right.LOOK, topics.show),
    ("GET", "/consumers", Right.LOOK, consumers.show_list),
    ("GET", "/parts/consumers-behind", Right.LOOK, consumers.furthest),
    ("GET", "/consumers/{group}", Right.LOOK, consumers.show),
    ("POST", "/consumers/{group}/plan", Right.RESET, consumers.plan_reset),
    ("POST", "/consumers/{group}/reset", Right.RESET, consumers.reset),
    ("GET", "/messages", Right.LOOK, messages.show_list),
    ("GET", "/parts/messages", Right.LOOK, messages.newest),
    ("GET", "/messages/at", Right.LOOK, messages.show),
    ("POST", "/messages/resend", Right.RESEND, messages.resend),
    ("GET", "/dead-letters", Right.LOOK, dead_letters.show_list),
    ("GET", "/dead-letters/{group}", Right.LOOK, dead_letters.show),
    ("POST", "/dead-letters/{group}/resend", Right.RESEND, dead_letters.resend),
    ("GET", "/brokers", Right.LOOK, brokers.show_list),
    ("GET", "/brokers/{name}", Right.LOOK, brokers.show),
    ("POST", "/brokers/{name}/plan", Right.CONFIGURE, brokers.plan_setting),
    ("POST", "/brokers/{name}/change", Right.CONFIGURE, brokers.change_setting),
    ("GET", "/pipelines", Right.LOOK, pipelines.show),
    ("GET", "/login", None, login.show),
    ("POST", "/login", None, login.log_in),
    ("POST", "/logout", Right.LOOK, login.log_out),
)
"""Method, path, the right that is needed (None: of nobody), and the page."""


@asynccontextmanager
async def opened(
    name_servers: str,
    settings: ConsoleSettings,
    audit: Path,
    clock: Clock,
    rng: Rng,
    *,
    only_local_names: bool,
    secure_cookies: bool,
) -> AsyncIterator[Starlette]:
    """The application with its connection to the cluster, until the block ends."""
    tasks = TaskGroupOwner("console")
    async with Admin(name_servers, call_timeout_ms=CALL_TIMEOUT_MS) as admin:
        samples = Samples(admin, clock, settings.sample_seconds)
        console = Console(
            name_servers=name_servers,
            admin=admin,
            settings=settings,
            identities=FileIdentities(settings.users),
            sessions=Sessions(clock, rng, settings.idle_minutes * 60, settings.session_hours * 3600),
            limit=LoginLimit(clock),
            samples=samples,
            decisions=Decisions(admin.transactions, AuditFile(audit, clock), name_servers),
            changes=Changes(AuditFile(audit, clock), name_servers),
            topics=Kept(clock),
            groups=Kept(clock),
            behind=Kept(clock),
            clock=clock,
            templates=environment(),
            only_local_names=only_local_names,
            secure_cookies=secure_cookies,
        )
        tasks.start("samples", samples.run())
        try:
            yield application(console)
        finally:
            await tasks.stop()


def application(console: Console) -> Starlette:
    """All pages."""
    static = StaticFiles(packages=[("gantrymq.console", "static")])
    routes = [
        Route("/health", health, methods=["GET"]),
        Mount("/static", static, name="static"),
        *(Route(path, guarded(right, handler), methods=[method]) for method, path, right, handler in PAGES),
    ]
    made = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, console=console)],
        exception_handlers={HTTPException: missing},
    )
    made.state.console = console
    return made


def guarded(right: Right | None, handler: Handler) -> Handler:
    """The page for those who may see it. Errors become a page that says what to do."""

    async def answer(request: Request) -> Response:
        person = person_of(request)
        if right is not None and (person is None or not person.may(right)):
            role = right.role.text
            text = f"This needs the role {role} (it may {right.text}). Log in as somebody who has it."
            return problem(request, HTTPStatus.FORBIDDEN, "Not allowed", text)
        try:
            return await handler(request)
        except HTTPException:
            raise
        except (ConfigError, MessageIllegal) as error:
            return problem(request, HTTPStatus.BAD_REQUEST, "This cannot be done", str(error))
        except RouteNotFound as error:
            return problem(request, HTTPStatus.NOT_FOUND, "Not found", str(error))
        except GantryError as error:
            return problem(request, HTTPStatus.BAD_GATEWAY, "The cluster did not do it", str(error))
        except Exception:
            log.exception("the page %s hit a defect", request.url.path)
            text = "The console hit a defect; its log says more."
            return problem(request, HTTPStatus.INTERNAL_SERVER_ERROR, "Defect", text)

    return answer


def problem(request: Request, status: HTTPStatus, title: str, text: str) -> Response:
    return page(request, "problem.html", status, title=title, text=text)


async def missing(request: Request, error: Exception) -> Response:
    """Answers of the framework: no such path, or not by this method."""
    status = HTTPStatus(error.status_code) if isinstance(error, HTTPException) else HTTPStatus.NOT_FOUND
    return problem(request, status, status.phrase, f"There is nothing at {request.url.path}.")


async def health(request: Request) -> Response:
    """Whether this process answers; it says nothing about the cluster."""
    return JSONResponse({"status": "ok"})
