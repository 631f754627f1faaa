"""The application: the list of pages with the right that each needs, behind the guard."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

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
from gantrymq.admin.many_decisions import ManyDecisions
from gantrymq.console.answers import Handler, guarded, missing, on_page
from gantrymq.console.attention import Attention
from gantrymq.console.broker_users import BrokerIdentities
from gantrymq.console.changes import Changes
from gantrymq.console.clients import Clients
from gantrymq.console.decision_runs import DecisionRuns
from gantrymq.console.guard import Guard
from gantrymq.console.identity import FileIdentities, Right
from gantrymq.console.lag_history import SAMPLES_BETWEEN, LagHistory
from gantrymq.console.last_pages import LastPages
from gantrymq.console.listing import Kept
from gantrymq.console.metrics import Figures
from gantrymq.console.outboxes import Outboxes
from gantrymq.console.pages import (
    audit_trail,
    brokers,
    clients,
    consumers,
    dead_letters,
    decisions,
    live,
    login,
    many_decisions,
    messages,
    metrics,
    overview,
    pipelines,
    replication,
    topic_changes,
    topics,
    traces,
    transactions,
    users,
)
from gantrymq.console.parts import Console
from gantrymq.console.root_path import Prefixed
from gantrymq.console.samples import Samples
from gantrymq.console.sessions import Sessions, login_limit
from gantrymq.console.settings import ConsoleSettings
from gantrymq.console.views import environment
from gantrymq.protocol.signature import Account
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.rng import Rng
from gantrymq.runtime.tasks import TaskGroupOwner

CALL_TIMEOUT_MS: Final = 5_000
UPKEEP_S: Final = 5.0

PAGES: Final[tuple[tuple[str, str, Right | None, Handler], ...]] = (
    ("GET", "/", Right.LOOK, overview.show),
    ("GET", "/parts/needs", Right.LOOK, overview.needs),
    ("GET", "/live/{name}", Right.LOOK, live.stream),
    ("GET", "/transactions", Right.LOOK, transactions.show_list),
    ("POST", "/transactions/plan", Right.DECIDE, decisions.plan),
    ("POST", "/transactions/carry-out", Right.DECIDE, decisions.carry_out),
    ("POST", "/transactions/plan-all", Right.DECIDE, many_decisions.plan),
    ("POST", "/transactions/runs", Right.DECIDE, many_decisions.start),
    ("GET", "/transactions/runs/{run}", Right.DECIDE, many_decisions.show),
    ("GET", "/parts/decision-runs/{run}", Right.DECIDE, many_decisions.progress),
    ("POST", "/transactions/runs/{run}/stop", Right.DECIDE, many_decisions.stop),
    ("GET", "/transactions/{id:path}", Right.LOOK, transactions.show),
    ("GET", "/topics", Right.LOOK, topics.show_list),
    ("GET", "/topics/{topic}", Right.LOOK, topics.show),
    ("POST", "/topics/plan", Right.TOPICS, topic_changes.plan),
    ("POST", "/topics/change", Right.TOPICS, topic_changes.change),
    ("POST", "/topics/{topic}/delete-plan", Right.TOPICS, topic_changes.plan_deletion),
    ("POST", "/topics/{topic}/delete", Right.TOPICS, topic_changes.delete),
    ("GET", "/consumers", Right.LOOK, consumers.show_list),
    ("GET", "/parts/consumers-behind", Right.LOOK, consumers.furthest),
    ("GET", "/consumers/{group}", Right.LOOK, consumers.show),
    ("POST", "/consumers/{group}/plan", Right.RESET, consumers.plan_reset),
    ("POST", "/consumers/{group}/reset", Right.RESET, consumers.reset),
    ("GET", "/messages", Right.LOOK, messages.show_list),
    ("GET", "/parts/messages", Right.LOOK, messages.newest),
    ("GET", "/messages/at", Right.LOOK, messages.show),
    ("POST", "/messages/resend/plan", Right.RESEND, messages.plan_resend),
    ("POST", "/messages/resend", Right.RESEND, messages.resend),
    ("GET", "/traces", Right.LOOK, traces.show),
    ("GET", "/dead-letters", Right.LOOK, dead_letters.show_list),
    ("GET", "/dead-letters/{group}", Right.LOOK, dead_letters.show),
    ("POST", "/dead-letters/{group}/plan", Right.RESEND, dead_letters.plan),
    ("POST", "/dead-letters/{group}/resend", Right.RESEND, dead_letters.resend),
    ("GET", "/brokers", Right.LOOK, brokers.show_list),
    ("GET", "/brokers/{name}", Right.LOOK, brokers.show),
    ("POST", "/brokers/{name}/plan", Right.CONFIGURE, brokers.plan_setting),
    ("POST", "/brokers/{name}/change", Right.CONFIGURE, brokers.change_setting),
    ("GET", "/clients", Right.LOOK, clients.show),
    ("GET", "/replication", Right.LOOK, replication.show),
    ("GET", "/users", Right.USERS, users.show_list),
    ("POST", "/users/plan", Right.USERS, users.plan),
    ("POST", "/users/carry-out", Right.USERS, users.carry_out),
    ("GET", "/users/{user}", Right.USERS, users.show),
    ("GET", "/audit", Right.MACHINE, audit_trail.show),
    ("GET", "/pipelines", Right.MACHINE, pipelines.show),
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
    tasks, figures, own_users = TaskGroupOwner("console"), Figures(), FileIdentities(settings.users)
    audit_file = AuditFile(audit, clock, figures.noted)
    sessions = Sessions(clock, rng, settings.idle_minutes * 60, settings.session_hours * 3600)

    def is_logged_in(account: Account) -> bool:
        return any(session.person.account == account for session in sessions.open())

    async with Admin(name_servers, failed=figures.question_failed, call_timeout_ms=CALL_TIMEOUT_MS) as admin:
        of_users: Clients[Console] = Clients(clock, lambda account: asking_as(console, account), is_logged_in)
        console = Console(
            name_servers=name_servers,
            settings=settings,
            identities=(BrokerIdentities(own_users, name_servers, admin, rng) if settings.broker_users else own_users),
            own_users=own_users,
            clients=of_users,
            sessions=sessions,
            limit=login_limit(clock),
            figures=figures,
            audit=audit_file,
            changes=Changes(audit_file, name_servers),
            clock=clock,
            templates=environment(settings.root_path),
            last_pages=LastPages(clock),
            runs=DecisionRuns(clock, rng),
            outboxes=Outboxes(settings.outboxes, clock),
            only_local_names=only_local_names,
            secure_cookies=secure_cookies,
            **cluster_parts(admin, settings, audit_file, name_servers, clock),
        )
        if settings.users or settings.anonymous is not None:
            tasks.start("samples", console.samples.run())
            tasks.start("lags", console.lags.run())
        tasks.start("upkeep", upkeep(console))
        try:
            yield application(console)
        finally:
            await console.runs.stop()
            await console.attention.close()
            await tasks.stop()
            await of_users.close()


async def upkeep(console: Console) -> None:
    """Forget sessions that are over, and close clients that nobody uses, until it is cancelled."""
    while True:
        await console.clock.sleep(UPKEEP_S)
        console.sessions.open()
        console.clients.sweep()
        console.last_pages.sweep()


def cluster_parts(
    admin: Admin, settings: ConsoleSettings, audit: AuditFile, name_servers: str, clock: Clock
) -> dict[str, Any]:
    """The fields of a Console that ask the cluster, all of them with one account."""
    deciding = Decisions(admin.transactions, audit, name_servers)
    return {
        "admin": admin,
        "attention": Attention(admin, clock),
        "samples": Samples(admin, clock, settings.sample_seconds),
        "decisions": deciding,
        "many": ManyDecisions(admin.transactions, deciding, audit, name_servers, clock),
        "topics": Kept(clock),
        "groups": Kept(clock),
        "topic_rows": Kept(clock),
        "group_rows": Kept(clock),
        "lags": LagHistory(admin, clock, settings.sample_seconds * SAMPLES_BETWEEN),
    }


@asynccontextmanager
async def asking_as(console: Console, account: Account) -> AsyncIterator[Console]:
    """The same console with a connection that signs as a user of the brokers."""
    tasks = TaskGroupOwner("console of a user")
    async with Admin(
        console.name_servers, failed=console.figures.question_failed, call_timeout_ms=CALL_TIMEOUT_MS,
        access_key=account.access_key, secret_key=account.secret_key,
    ) as admin:  # fmt: skip
        parts = cluster_parts(admin, console.settings, console.audit, console.name_servers, console.clock)
        theirs = replace(console, **parts)
        tasks.start("samples", theirs.samples.run())
        tasks.start("lags", theirs.lags.run())
        try:
            yield theirs
        finally:
            await theirs.attention.close()
            await tasks.stop()


def application(console: Console) -> Starlette:
    """All pages."""
    static = StaticFiles(packages=[("gantrymq.console", "static")])
    routes = [
        Route("/health", on_page("/health", health), methods=["GET"]),
        Route("/metrics", on_page("/metrics", metrics.show), methods=["GET"]),
        Mount("/static", static, name="static"),
        *(
            Route(path, on_page(path, guarded(right, handler)), methods=[method])
            for method, path, right, handler in PAGES
        ),
    ]
    made = Starlette(
        routes=routes,
        middleware=[
            Middleware(Prefixed, root_path=console.settings.root_path),
            Middleware(Guard, console=console),
        ],
        exception_handlers={HTTPException: missing},
    )
    made.state.console = console
    return made


async def health(request: Request) -> Response:
    """Whether this process answers; it says nothing about the cluster."""
    return JSONResponse({"status": "ok"})
