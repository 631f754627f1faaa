"""Everything that fits a filter is decided: first the list of it as a dry run, then, with a reason, step by step."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from gantrymq.admin.many_decisions import LISTED_MAX, Fate, ManyDecisions
from gantrymq.admin.transaction_pages import Filter
from gantrymq.console.decision_runs import Phase, Run
from gantrymq.console.forms import value_of
from gantrymq.console.pages.decisions import WHY_MAX, action_of
from gantrymq.console.parts import console_of, page, person_of, render
from gantrymq.errors import ConfigError

EXAMPLES: Final = 5
"""The oldest and the newest ones that a dry run shows."""
GROUPS_SHOWN: Final = 20


async def plan(request: Request) -> Response:
    """The dry run: how many fit, of whom, and examples. Nothing is done."""
    console, form, person = console_of(request), request.state.form, person_of(request)
    assert person is not None  # the right was checked
    action, age = action_of(value_of(form, "action")), value_of(form, "min_age")
    if age and not (age.isascii() and age.isdigit() and len(age) < 10):
        raise ConfigError(f"{age!r} is not a valid age; write whole seconds")
    wanted = Filter(
        group=value_of(form, "group") or None, topic=value_of(form, "topic") or None,
        broker=value_of(form, "broker") or None, min_age_ms=int(age or 0) * 1000,
    )  # fmt: skip
    made = await console.many.plan(action, wanted)
    name = console.runs.keep(made, person) if made.rows else ""
    groups = made.by_group()
    return page(
        request, "decision_plan.html", plan=made, name=name, action=action, groups=groups[:GROUPS_SHOWN],
        groups_more=max(len(groups) - GROUPS_SHOWN, 0), first=made.rows[:EXAMPLES],
        last=made.rows[EXAMPLES:][-EXAMPLES:], listed_max=LISTED_MAX,
    )  # fmt: skip


async def start(request: Request) -> Response:
    """Carry a plan out, and lead to the page that shows how far it is."""
    console, form, person = console_of(request), request.state.form, person_of(request)
    assert person is not None
    account = person.account

    @contextlib.asynccontextmanager
    async def deciding() -> AsyncIterator[ManyDecisions]:
        if account is None:
            yield console.many
            return
        async with console.clients.used(account) as theirs:  # its connection stays open after the log-out
            yield theirs.many

    run = console.runs.start(value_of(form, "plan"), person, value_of(form, "why")[:WHY_MAX], deciding)
    return RedirectResponse(console.settings.root_path.url(f"/transactions/runs/{run.id}"), HTTPStatus.SEE_OTHER)


async def show(request: Request) -> Response:
    """How far a run is, and what was not done."""
    return page(request, "decision_run.html", run=run_of(request), fates=Fate, phases=Phase)


async def progress(request: Request) -> Response:
    """The part of the page that refreshes itself."""
    return HTMLResponse(
        render(request, "parts/decision_progress.html", run=run_of(request), fates=Fate, phases=Phase)
    )  # fmt: skip


async def stop(request: Request) -> Response:
    """Take no further step; the one that is under way is finished."""
    run = run_of(request)
    run.is_stopping = True
    path = console_of(request).settings.root_path.url(f"/transactions/runs/{run.id}")
    return RedirectResponse(path, HTTPStatus.SEE_OTHER)


def run_of(request: Request) -> Run:
    run = console_of(request).runs.of(request.path_params["run"], person_of(request))
    if run is None:
        raise HTTPException(HTTPStatus.NOT_FOUND)
    return run
