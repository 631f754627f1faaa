"""Users of the brokers and what they may do: shown, made, changed and deleted. A password is never shown, and is in no
audit file: it is typed in the last step, and goes to the brokers only."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from gantrymq.access.values import Action, UserKind
from gantrymq.admin.access import NoUsers
from gantrymq.console.access_changes import ACTIONS, AccessChange, change_of, grants_rows, user_rows
from gantrymq.console.forms import value_of
from gantrymq.console.listing import page_of
from gantrymq.console.pages.topics import PAGES_MAX
from gantrymq.console.parts import console_of, number_of, page, person_of, text_of
from gantrymq.errors import ConfigError

WORDS: Final = tuple(one.value for one in Action if one is not Action.ANY)
KINDS: Final = tuple(one.value for one in UserKind)


async def show_list(request: Request) -> Response:
    """One page of the users; or why there are none."""
    admin, word = console_of(request).admin, text_of(request, "q")
    try:
        rows = {row.name: row for row in user_rows(await admin.access.users())}
    except NoUsers as error:
        return page(
            request, "users.html", without=str(error), rows=[], found=page_of([], word, 1), kept={}, kinds=KINDS
        )
    found = page_of(sorted(rows), word, number_of(request, "page", 1, PAGES_MAX))
    return page(
        request, "users.html", without="", rows=[rows[name] for name in found.names], found=found, kept={"q": word},
        kinds=KINDS,
    )  # fmt: skip


async def show(request: Request) -> Response:
    """One user with its policies."""
    admin, name = console_of(request).admin, request.path_params["user"]
    rows = [row for row in user_rows(await admin.access.users(name)) if row.name == name]
    if not rows:
        raise ConfigError(f"no server has a user {name[:80]!r}; the list of users shows those there are")
    grants = [row for row in grants_rows(await admin.access.policies(name)) if row.user == name]
    return page(request, "user.html", user=rows[0], rows=rows, grants=grants, words=WORDS, kinds=KINDS)


async def plan(request: Request) -> Response:
    """The dry run: what would change, and where. Nothing is done."""
    form = request.state.form
    change, admin = change_of(form), console_of(request).admin
    known = {row.name for row in user_rows(await admin.access.users(change.user))}
    if change.action == "create" and change.user in known:
        raise ConfigError(f"there is a user {change.user!r} already; open its page to change it")
    if change.action != "create" and change.user not in known:
        raise ConfigError(f"no server has a user {change.user[:80]!r}")
    servers = list(await admin.access.users(change.user))
    return _page(request, change, servers, dry_run=True)


async def carry_out(request: Request) -> Response:
    """Do it at every server, and note it."""
    form, console = request.state.form, console_of(request)
    change, why = change_of(form), value_of(form, "why")
    if change.action == "delete" and value_of(form, "name") != change.user:
        raise ConfigError(f"write the name of the user, {change.user}, to delete it; nothing was deleted")
    password = new_password(form) if change.needs_password else None
    async with console.changes.noted(person_of(request), ACTIONS[change.action], why, **change.facts()):
        servers = await change.apply(console.admin.access, password)
    return _page(request, change, servers, dry_run=False)


def new_password(form: dict[str, list[str]]) -> str:
    """What was typed twice. Raises ConfigError, without the password."""
    first, second = form.get("password", [""])[0], form.get("again", [""])[0]
    if not first:
        raise ConfigError("type a password; nothing was changed")
    if first != second:
        raise ConfigError("the two passwords differ; go back and type it again, nothing was changed")
    return first


def _page(request: Request, change: AccessChange, servers: list[str], *, dry_run: bool) -> Response:
    values: dict[str, Any] = {"change": change, "servers": servers, "dry_run": dry_run}
    return page(request, "user_change.html", **values)
