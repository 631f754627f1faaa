"""Brokers: those that the name servers know, what each says of itself, and its settings."""

from __future__ import annotations

import re
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from gantrymq.admin.brokers import BrokerPlace
from gantrymq.console.forms import value_of
from gantrymq.console.listing import details, page_of
from gantrymq.console.pages.topics import PAGES_MAX
from gantrymq.console.parts import console_of, number_of, page, person_of, text_of
from gantrymq.errors import ConfigError, GantryError

MASTER: Final = 0
SECRET: Final = re.compile("password|secret|credential|initAuthenticationUser|token", re.IGNORECASE)
"""Keys whose values are not shown."""
HIDDEN: Final = "(not shown)"


async def show_list(request: Request) -> Response:
    """One page of the brokers, replicas included. Only those that are shown are asked about."""
    admin = console_of(request).admin
    places = {f"{place.name} {place.address}": place for place in await admin.brokers.places()}
    word = text_of(request, "q")
    found = page_of(list(places), word, number_of(request, "page", 1, PAGES_MAX))

    async def figures(name: str) -> dict[str, Any]:
        place = places[name]
        row = {"place": place, "error": "", "table": {}}
        try:
            return {**row, "table": await admin.brokers.runtime(place.address)}
        except GantryError as error:
            return {**row, "error": str(error)}

    return page(request, "brokers.html", rows=await details(found.names, figures), found=found, kept={"q": word})


async def show(request: Request) -> Response:
    """One broker: figures and settings."""
    place = await place_of(request)
    admin = console_of(request).admin
    runtime = await admin.brokers.runtime(place.address)
    settings = await admin.brokers.config(place.address)
    shown = {key: HIDDEN if SECRET.search(key) and value else value for key, value in settings.items()}
    return page(request, "broker.html", place=place, runtime=runtime, settings=shown)


async def plan_setting(request: Request) -> Response:
    """The dry run of a change: before and after."""
    return await _set(request, dry_run=True)


async def change_setting(request: Request) -> Response:
    """Change one setting of a running broker."""
    return await _set(request, dry_run=False)


async def _set(request: Request, *, dry_run: bool) -> Response:
    console, form, place = console_of(request), request.state.form, await place_of(request)
    key, value, why = value_of(form, "key"), value_of(form, "value"), value_of(form, "why")
    settings = await console.admin.brokers.config(place.address)
    if key not in settings:
        raise ConfigError(f"broker {place.name} has no setting {key!r}")
    if SECRET.search(key):
        raise ConfigError(f"{key} is a secret; change it at the broker, so that it appears in no audit file")
    before = settings[key]
    if not dry_run:
        async with console.changes.noted(
            person_of(request), "setting", why, broker=place.name, address=place.address, key=key, before=before,
            after=value,
        ):  # fmt: skip
            await console.admin.brokers.set_config(place.address, {key: value})
    return page(
        request, "setting.html", place=place, key=key, before=before, value=value, dry_run=dry_run, why=why
    )  # fmt: skip


async def place_of(request: Request) -> BrokerPlace:
    """The master with the name of the path. Raises ConfigError."""
    name = request.path_params["name"]
    for place in await console_of(request).admin.brokers.places():
        if place.name == name and place.broker_id == MASTER:
            return place
    raise ConfigError(f"the name servers know no master of a broker {name!r}")
