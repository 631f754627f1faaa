"""What every page needs: the cluster, the settings, who is there, and how a page is rendered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse

from gantrymq import __version__
from gantrymq.admin import Admin
from gantrymq.admin.audit import AuditFile
from gantrymq.admin.decisions import Decisions
from gantrymq.admin.many_decisions import ManyDecisions
from gantrymq.admin.overviews import Overview
from gantrymq.console.attention import Attention
from gantrymq.console.changes import Changes
from gantrymq.console.clients import Clients
from gantrymq.console.decision_runs import DecisionRuns
from gantrymq.console.identity import FileIdentities, Identities, Person, Right
from gantrymq.console.lag_history import LagHistory
from gantrymq.console.last_pages import LastPages, OldPage
from gantrymq.console.listing import Kept
from gantrymq.console.metrics import Figures
from gantrymq.console.outboxes import Outboxes
from gantrymq.console.samples import Samples
from gantrymq.console.sessions import Session, Sessions
from gantrymq.console.settings import ConsoleSettings
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.limits.attempts import Attempts

INCOMPLETE: Final = "incomplete"
"""Set in the state of a request whose page lacks what a silent broker has; such a page replaces none of before."""


@dataclass(frozen=True, slots=True)
class Console:
    """Everything of one console process."""

    name_servers: str
    admin: Admin
    settings: ConsoleSettings
    identities: Identities
    own_users: FileIdentities
    clients: Clients[Console]
    """Of users of the brokers."""
    sessions: Sessions
    limit: Attempts
    figures: Figures
    samples: Samples
    attention: Attention
    decisions: Decisions
    many: ManyDecisions
    runs: DecisionRuns
    changes: Changes
    audit: AuditFile
    clock: Clock
    templates: Environment
    only_local_names: bool
    """It listens on the loopback address: see ``guard``."""
    secure_cookies: bool
    lags: LagHistory
    topics: Kept[list[str]]
    groups: Kept[list[str]]
    last_pages: LastPages
    outboxes: Outboxes
    topic_rows: Kept[Overview]
    group_rows: Kept[Overview]


def console_of(request: Request) -> Console:
    """The console; of a user of the brokers, the one that asks as this user."""
    return cast("Console", getattr(request.state, "console", None) or request.app.state.console)


def address_of(request: Request) -> str:
    """The IP address that asks."""
    return request.client.host if request.client is not None else ""


def person_of(request: Request) -> Person | None:
    """Who asks; None for somebody who did not log in and may not look."""
    return cast("Person | None", request.state.person)


def path_in(request: Request) -> str:
    """The path that is asked for, without the prefix of a reverse proxy."""
    return console_of(request).settings.root_path.inside(request.url.path)


def session_of(request: Request) -> Session | None:
    return cast("Session | None", request.state.session)


def address_in(request: Request) -> str:
    """Path and query of a page, without the prefix of a reverse proxy."""
    return f"{path_in(request)}?{request.url.query}"


def old_page_of(request: Request) -> OldPage | None:
    """The page as this session saw it when the cluster answered last; None: it did not see it."""
    session = session_of(request)
    return None if session is None else console_of(request).last_pages.of(session.csrf, address_in(request))


def page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A rendered page."""
    return HTMLResponse(render(request, template, **values), status_code=status)


def render(request: Request, template: str, **values: Any) -> str:
    """A rendered template, which may be a part of a page."""
    console, person, session = console_of(request), person_of(request), session_of(request)
    sample = console.samples.newest
    text: str = console.templates.get_template(template).render(
        **values,
        version=__version__,
        name_servers=console.name_servers,
        person=person,
        logged_in=session is not None,
        broker_users=console.settings.broker_users,
        can_log_in=bool(console.settings.users) or console.settings.broker_users,
        csrf=session.csrf if session is not None else "",
        here=path_in(request),
        refusing=[] if person is None or sample is None else [one for one in sample.brokers if one.refuses],
        may={right.name.lower(): person is not None and person.may(right) for right in Right},
    )
    return text


def text_of(request: Request, name: str) -> str | None:
    """A query parameter without blanks around it; None when it is absent or empty."""
    return request.query_params.get(name, "").strip() or None


def number_of(request: Request, name: str, default: int, highest: int) -> int:
    """A query parameter as a number from 0 on; ``default`` for anything else, at most ``highest``."""
    text = request.query_params.get(name, "")
    return min(int(text), highest) if text.isascii() and text.isdigit() and len(text) < 19 else default
