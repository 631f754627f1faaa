"""Brokers: those that the name servers know, what each says of itself, and its settings."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from gantrymq.admin.brokers import BrokerPlace
from gantrymq.console.disk_use import disk_svg, disk_use
from gantrymq.console.forms import value_of
from gantrymq.console.listing import details, page_of
from gantrymq.console.pages.topics import PAGES_MAX
from gantrymq.console.parts import console_of, number_of, page, person_of, text_of
from gantrymq.console.setting_texts import Setting, check_value, choices, moment, settings_of
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
    """One broker: its disk, its settings with what they mean, and its figures."""
    place = await place_of(request)
    admin = console_of(request).admin
    runtime, values = await asyncio.gather(admin.brokers.runtime(place.address), admin.brokers.config(place.address))
    settings = settings_of(shown(values), ours=is_ours(runtime))
    word, only_changed = text_of(request, "q"), text_of(request, "changed") == "1"
    use = disk_use(runtime, values)
    return page(
        request, "broker.html", place=place, runtime=runtime, settings=fitting(settings, word, only_changed),
        changed=sum(one.changed for one in settings), choices=choices(settings), use=use,
        disk="" if use is None else disk_svg(use), times={key: moment(key, value) for key, value in runtime.items()},
        chosen=next((one for one in settings if one.key == text_of(request, "setting")), None),
        kept={"q": word, "changed": 1 if only_changed else None},
    )  # fmt: skip


def shown(values: Mapping[str, str]) -> dict[str, str]:
    """Settings without secrets."""
    return {key: HIDDEN if SECRET.search(key) and value else value for key, value in values.items()}


def is_ours(runtime: Mapping[str, str]) -> bool:
    """Whether it is a broker of GantryMQ."""
    return runtime.get("brokerVersionDesc", "").startswith("GantryMQ")


def fitting(settings: Sequence[Setting], word: str | None, only_changed: bool) -> list[Setting]:
    """Those with ``word`` in their key or their meaning, in any letter case."""
    low = (word or "").lower()
    return [
        one for one in settings
        if (one.changed or not only_changed)
        and (not low or low in one.key.lower() or (one.text is not None and low in one.text.meaning.lower()))
    ]  # fmt: skip


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
        raise ConfigError(f"broker {place.name} has no setting {key[:80]!r}; choose one from its list")
    if SECRET.search(key):
        raise ConfigError(f"{key} is a secret; change it at the broker, so that it appears in no audit file")
    before = settings[key]
    runtime = await console.admin.brokers.runtime(place.address)
    (setting,) = settings_of({key: before}, ours=is_ours(runtime))
    check_value(setting, value)
    if not dry_run:
        async with console.changes.noted(
            person_of(request), "setting", why, broker=place.name, address=place.address, key=key, before=before,
            after=value,
        ):  # fmt: skip
            await console.admin.brokers.set_config(place.address, {key: value})
    return page(
        request, "setting.html", place=place, key=key, before=before, value=value, dry_run=dry_run, why=why,
        text=setting.text, ours=is_ours(runtime),
    )  # fmt: skip


async def place_of(request: Request) -> BrokerPlace:
    """The master with the name of the path. Raises ConfigError."""
    name = request.path_params["name"]
    for place in await console_of(request).admin.brokers.places():
        if place.name == name and place.broker_id == MASTER:
            return place
    raise ConfigError(f"the name servers know no master of a broker {name!r}")
