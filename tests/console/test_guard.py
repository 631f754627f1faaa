"""Who gets in, what a form needs, and what the browser is told: asked of the whole application."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gantrymq.console.app import PAGES
from gantrymq.console.guard import COOKIE, HEADERS
from gantrymq.console.identity import Right, Role
from gantrymq.console.pages.login import target
from gantrymq.console.sessions import ATTEMPTS
from gantrymq.console.settings import OPEN_TO_LOOK
from tests.console.site import ORIGIN, PASSWORD, USERS, Site, on_site


def test_nobody_sees_a_page_without_log_in(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        for method, path, right, _ in PAGES:
            if right is None:
                continue
            path = path.replace("{", "").replace("}", "")
            answer = await there.browser.http.request(method, path, headers=ORIGIN if method == "POST" else {})
            assert answer.status_code in (303, 401), path
            if method == "GET" and not path.startswith(("/live", "/parts")):
                assert answer.headers["location"].startswith("/login?to="), path
        assert "Log in" in await there.browser.get("/login")
        assert await there.browser.get("/health") == '{"status":"ok"}'

    on_site(work, tmp_path)


def test_every_answer_says_what_a_browser_may_do(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        for path in ("/login", "/", "/nothing", "/static/console.css", "/static/nothing"):
            answer = await there.browser.http.get(path)
            for name, value in HEADERS.items():
                assert answer.headers[name] == value, (path, name)
        policy = HEADERS["Content-Security-Policy"]
        assert "unsafe" not in policy and "default-src 'none'" in policy

    on_site(work, tmp_path)


def test_pages_have_no_inline_script_or_style(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        await there.half("ABC")
        await there.browser.log_in("otto")
        paths = [path for method, path, _, _ in PAGES if method == "GET" and "{" not in path and "/parts/" not in path]
        for path in [*paths, "/transactions/ABC"]:
            answer = await there.browser.http.get(path)
            assert not re.search(r"\son\w+=|\sstyle=|<style|javascript:|hx-on", answer.text), path
            assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", answer.text)), path

    on_site(work, tmp_path)


def test_a_change_needs_the_token_of_the_session_and_one_of_our_pages(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        await there.half("ABC")
        await there.browser.log_in("otto")
        http, form = there.browser.http, {"csrf": there.browser.csrf, "action": "commit", "chosen": "broker-a/x"}
        for headers in ({}, {"Origin": "http://localhost:1"}, {"Origin": "null"},
                        {**ORIGIN, "Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}):  # fmt: skip
            answer = await http.post("/transactions/plan", data=form, headers=headers)
            assert answer.status_code == 403 and "not sent by a page" in answer.text, headers
        for csrf in ("", "0" * 64, there.browser.csrf[:-1]):
            answer = await http.post("/transactions/plan", data={**form, "csrf": csrf}, headers=ORIGIN)
            assert answer.status_code == 403 and "another session" in answer.text
        other = there.new_browser()
        await other.log_in("otto")
        stolen = {**form, "csrf": other.csrf}
        assert (await http.post("/transactions/plan", data=stolen, headers=ORIGIN)).status_code == 403
        assert (await http.post("/transactions/plan", data=form, headers=ORIGIN)).status_code == 200
        assert (await http.request("DELETE", "/", headers=ORIGIN)).status_code == 405
        assert (await http.post("/logout", content=b"x" * 600_000, headers=ORIGIN)).status_code == 413

    on_site(work, tmp_path)


def test_roles(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        await there.half("ABC")
        await there.browser.log_in("vera")
        shown = await there.browser.get("/transactions")
        assert "ABC" in shown and "checkbox" not in shown and "Commit…" not in shown
        assert "The message" not in await there.browser.get("/transactions/ABC")
        for method, path, right, _ in PAGES:
            if method == "POST" and right not in (None, Right.LOOK):
                assert "needs the role" in await there.browser.post(path, 403), path
        otto = there.new_browser()
        await otto.log_in("otto")
        shown = await otto.get("/transactions")
        assert "checkbox" in shown and "Commit…" in shown
        assert "&#34;order&#34;: 7" in await otto.get("/transactions/ABC"), "the message, for who decides"

    on_site(work, tmp_path)


def test_each_right_has_its_role() -> None:
    assert {right: right.role for right in Right} == {
        Right.LOOK: Role.VIEWER, Right.DECIDE: Role.OPERATOR, Right.RESEND: Role.OPERATOR, Right.RESET: Role.OPERATOR,
        Right.MACHINE: Role.VIEWER, Right.TOPICS: Role.ADMIN, Right.USERS: Role.ADMIN, Right.CONFIGURE: Role.ADMIN,
    }  # fmt: skip


def test_log_in_log_out_and_the_cookie(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        http = there.browser.http
        answer = await http.post(
            "/login", data={"name": "otto", "password": PASSWORD, "to": "/brokers?x=1"}, headers=ORIGIN
        )
        assert (answer.status_code, answer.headers["location"]) == (303, "/brokers?x=1")
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie and "samesite=strict" in cookie and "path=/" in cookie
        before = http.cookies[COOKIE]
        await there.browser.log_in("otto")
        assert http.cookies[COOKIE] != before, "every log-in has a session of its own"
        after = http.cookies[COOKIE]
        await there.browser.post("/logout", 303)
        http.cookies.set(COOKIE, after)
        assert (await http.get("/transactions")).status_code == 303, "the session is over, whatever the cookie says"

    on_site(work, tmp_path)


def test_wrong_passwords_are_limited(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        for _ in range(ATTEMPTS):
            assert "is wrong" in await there.browser.post("/login", 401, name="otto", password="guess")
        assert "Too many" in await there.browser.post("/login", 429, name="otto", password=PASSWORD)
        assert "is wrong" in await there.browser.post("/login", 401, name="nobody", password=PASSWORD)
        await there.browser.log_in("vera")  # others are not locked out

    on_site(work, tmp_path)


def test_foreign_names_are_refused(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        for host, status in (("evil.example", 421), ("evil.example:8088", 421), ("localhost:8088", 200),
                             ("[::1]:8088", 200)):  # fmt: skip
            answer = await there.browser.http.get("/login", headers={"Host": host})
            assert answer.status_code == status, host

    on_site(work, tmp_path)


def test_without_users_everybody_looks_and_nobody_changes(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        await there.half("ABC")
        shown = await there.browser.get("/transactions")
        assert "ABC" in shown and "read only" in shown
        await there.browser.post("/transactions/plan", 403, action="commit", chosen="broker-a/x")
        assert "No users" in await there.browser.get("/login")
        await there.browser.post("/login", 401, name="otto", password=PASSWORD)

    on_site(work, tmp_path, settings=OPEN_TO_LOOK)


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        ("/transactions?a=1", "/transactions?a=1"), ("//evil.example/x", "/"), ("/\\evil.example", "/"), (None, "/"),
        ("http:evil", "/"), ("/login", "/"), ("/a\r\nb", "/"),
    ],
)  # fmt: skip
def test_a_log_in_leads_to_this_console_only(to: str | None, expected: str) -> None:
    assert target(to) == expected


def test_the_users_of_this_test_have_every_role() -> None:
    assert {user.role for user in USERS.values()} == set(Role)
