"""The console under a path prefix: behind a proxy that strips it, and behind one that does not."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import httpx
import pytest
from starlette.responses import Response

from gantrymq.console.app import PAGES
from gantrymq.console.guard import set_cookie
from gantrymq.console.pages.login import target
from gantrymq.console.parts import Console
from gantrymq.console.root_path import OWN, RootPath, parse_root_path
from gantrymq.console.settings import ConsoleSettings, parse_settings
from gantrymq.errors import ConfigError
from tests.console.reverse_proxy import ANOTHER, reverse_proxy
from tests.console.scene import scene
from tests.console.site import PASSWORD
from tests.console.test_cluster_down import PATHS
from tests.console.walk import Page, Walk

PREFIX = "/tools/gantry"
WHILE_IT_RUNS = {("GET", "/parts/decision-runs/{run}"), ("POST", "/transactions/runs/{run}/stop")}
"""What the page of a run shows before it has ended."""
OF_USERS = {("POST", "/users/plan"), ("POST", "/users/carry-out"), ("GET", "/users/{user}")}
"""The brokers of the walk have no users; tests/console/test_users.py goes through these pages."""
LOGGED_IN = {("GET", "/login"), ("POST", "/login"), ("POST", "/logout")}
"""What ``log_in`` and ``log_out`` look at."""
TEMPLATES = Path(__file__).parents[2] / "src/gantrymq/console/templates"


def test_paths_go_out_with_the_prefix_and_come_in_with_it_or_without() -> None:
    root = parse_root_path("/tools/gantry/")
    assert root == RootPath("/tools/gantry")
    assert (root.url("/topics"), root.of_cookie) == ("/tools/gantry/topics", "/tools/gantry")
    for path, inside in (
        ("/tools/gantry/topics", "/topics"), ("/topics", "/topics"), ("/tools/gantry", "/"), ("/tools/gantry/", "/"),
        ("/tools/gantryx", "/tools/gantryx"), ("/", "/"),
    ):  # fmt: skip
        assert root.inside(path) == inside
    bare = parse_root_path("/")
    assert bare == RootPath() and (bare.url("/topics"), bare.of_cookie, bare.inside("/x")) == ("/topics", "/", "/x")


@pytest.mark.parametrize(
    "text", ["gantry", "//evil.example", "/a/../b", "/a b", "/a?b", "/{{x}}", "/topics", "/live/x"]
)
def test_a_root_path_that_could_not_work_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a valid root path"):
        parse_root_path(text)


@pytest.mark.parametrize(
    ("secure", "text", "name"),
    [(False, "/x", "gantry_console"), (True, "", "__Host-gantry_console"), (True, "/x", "__Secure-gantry_console")],
)
def test_a_cookie_of_a_path_has_a_name_that_browsers_accept(secure: bool, text: str, name: str) -> None:
    settings = ConsoleSettings(root_path=parse_root_path(text))
    response = Response()
    set_cookie(response, cast("Console", SimpleNamespace(secure_cookies=secure, settings=settings)), "t")
    said = response.headers["set-cookie"]
    assert said.startswith(f"{name}=t;") and f"Path={text or '/'};" in said and ("Secure" in said) == secure


def test_the_setting_is_read_from_the_file() -> None:
    assert parse_settings({"root_path": "/gantry"}).root_path == RootPath("/gantry")
    for wrong in (7, "/topics"):
        with pytest.raises(ConfigError, match="root"):
            parse_settings({"root_path": wrong})


def test_the_own_paths_are_those_of_the_pages() -> None:
    assert {page.split("/")[1] for _, page, _, _ in PAGES if page != "/"} | {"health", "metrics", "static"} == OWN


def test_every_path_in_a_template_is_made_by_url() -> None:
    """Also in what no walk shows."""
    for path in TEMPLATES.rglob("*.html"):
        found = re.findall(r"""[\w-]+=["'](?:/|https?:)[^"']*""", path.read_text())
        assert not found, (path.name, found)


@pytest.mark.parametrize("to", ["/../other", "/topics/../../other", "/%2e%2e/other", "/./x", "//evil.example"])
def test_a_log_in_leads_nowhere_else(to: str) -> None:
    assert target(to) == "/"


@pytest.mark.slow
def test_nothing_on_any_page_leads_out_of_the_prefix(tmp_path: Path) -> None:
    async def work() -> None:
        async with asyncio.timeout(120), scene(tmp_path, open_count=60, busy=False, root_path=PREFIX) as console:
            async with through(console, strip=False) as walk:
                for path in ("/", *PATHS):
                    await walk.from_page(f"{walk.address}{PREFIX}{path}")
                assert walk.left == []
                waived = LOGGED_IN | WHILE_IT_RUNS | OF_USERS
                missing = {(method, page) for method, page, _, _ in PAGES} - walk.pages - waived
                assert not missing, "no link, form or part leads to these pages"
            async with through(console, strip=True) as walk:  # what leaves is the same, so nothing is followed
                for path in (*PATHS, "/static/console.css", "/live/overview"):
                    await walk.look_at(f"{walk.address}{PREFIX}{path}")
                assert walk.left == []

    asyncio.run(work())


@contextlib.asynccontextmanager
async def through(console: str, *, strip: bool) -> AsyncIterator[Walk]:
    """Somebody who is logged in, through a proxy."""
    async with (
        reverse_proxy(console, PREFIX, strip=strip) as address,
        httpx.AsyncClient(timeout=60, base_url=address + PREFIX) as http,
    ):
        assert (await http.get(f"{address}/topics")).text == ANOTHER
        walk = Walk(http, address, PREFIX)
        await log_in(walk)
        yield walk
        await log_out(walk)


async def log_in(walk: Walk) -> None:
    """First every page without a session: it leads to the log-in, and from there back."""
    http, begin = walk.http, {"Origin": walk.address}
    for path in ("/topics?q=x", "/live/overview", "/parts/messages?topic=x"):
        answer = await http.get(path)
        told = answer.headers.get("location") or answer.headers["hx-redirect"]
        assert told.startswith(f"{PREFIX}/login"), (path, told)
    page = await http.get("/topics?q=x", follow_redirects=True)
    assert page.url.path == f"{PREFIX}/login" and 'name="to" value="/topics?q=x"' in page.text
    answer = await http.post("/login", data={"name": "ada", "password": PASSWORD, "to": "/topics?q=x"}, headers=begin)
    assert (answer.status_code, answer.headers["location"]) == (303, f"{PREFIX}/topics?q=x")
    assert [cookie.path for cookie in http.cookies.jar] == [PREFIX], "other programs of this host do not get it"


async def log_out(walk: Walk) -> None:
    (form,) = (one for one in Page((await walk.http.get("/")).text).forms if one.action.endswith("/logout"))
    answer = await walk.http.post(f"{walk.address}{form.action}", data=form.sent()[0], headers={"Origin": walk.address})
    assert (answer.status_code, answer.headers["location"]) == (303, f"{PREFIX}/")
    assert not list(walk.http.cookies.jar)
