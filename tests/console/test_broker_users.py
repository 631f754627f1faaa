"""The console over a broker with users: it acts with its own account, or with that of the person who logged in."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from gantrymq.console.clients import IDLE_S, Clients
from gantrymq.console.guard import COOKIE
from gantrymq.console.parts import Console
from gantrymq.console.sessions import ATTEMPTS
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.signature import Account
from gantrymq.remoting.client import RemotingClient
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.network import TcpNetwork
from gantrymq.runtime.rng import SystemRng
from tests.access.test_broker import ADMIN, Caller
from tests.access.test_broker import SETTINGS as GUARDED
from tests.console.site import ORIGIN, PASSWORD, SETTINGS, Browser, browsers
from tests.console.test_transactions import chosen
from tests.support.brokers import cluster, send_header, until

NAMES = ("GANTRY_ACCESS_KEY", "GANTRY_SECRET_KEY")


async def visited(root: Path, *, with_account: bool) -> None:
    async with cluster(root / "store", with_name_server=True, **GUARDED) as running:
        assert running.name_server is not None
        client = RemotingClient(TcpNetwork(), SystemClock(), SystemRng(), account=ADMIN)
        properties = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01ABC\x02"
        sent = await client.call(
            running.broker.address, RequestCode.SEND_MESSAGE_V2, send_header("Orders", properties), b"paid",
            timeout_ms=10_000,
        )  # fmt: skip
        assert sent.code == 0, sent.remark
        await client.close()
        async with browsers(running.name_server.address, root / "audit.jsonl", SETTINGS) as new_browser:
            browser = new_browser()
            await browser.log_in("otto")
            if not with_account:
                assert "The cluster did not do it" in await browser.get("/transactions", 502)
                assert "does not show its figures" in await browser.get("/")
                return
            page = await browser.get("/transactions")
            assert "ABC" in page
            done = await browser.post("/transactions/carry-out", action="commit", chosen=chosen(page), why="ticket 1")
            assert "Commit: 1 done" in done
            for path in ("/", "/topics/Orders", "/consumers", "/messages?topic=Orders", "/brokers/broker-a"):
                shown = await browser.get(path)
                assert ADMIN.secret_key not in shown


@pytest.mark.parametrize("with_account", [True, False])
def test_the_account_of_the_console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_account: bool) -> None:
    for name, value in zip(NAMES, (ADMIN.access_key, ADMIN.secret_key), strict=True):
        monkeypatch.setenv(name, value) if with_account else monkeypatch.delenv(name, raising=False)
    asyncio.run(visited(tmp_path, with_account=with_account))


BY_BROKERS = replace(SETTINGS, broker_users=True)


@dataclass
class Guarded:
    """A console over a broker with users, where people log in as these."""

    caller: Caller
    new_browser: Callable[[], Browser]
    audit: Path

    async def logged_in(self, account: Account) -> Browser:
        browser = self.new_browser()
        await enter(browser, account)
        return browser


async def enter(browser: Browser, account: Account) -> None:
    await browser.post("/login", 303, name=account.access_key, password=account.secret_key)
    page = await browser.get("/")
    browser.csrf = page.split('name="csrf" value="')[1].split('"')[0]


def console_of(browser: Browser) -> Console:
    found: Console = browser.http._transport.app.state.console  # type: ignore[attr-defined]
    return found


def guarded(work: Callable[[Guarded], Awaitable[None]], root: Path, **broker: object) -> None:
    async def bounded() -> None:
        async with (
            asyncio.timeout(120),
            cluster(root / "store", with_name_server=True, **(broker or GUARDED)) as running,
        ):
            assert running.name_server is not None
            caller = Caller(running.broker.address, ADMIN)
            try:
                async with browsers(running.name_server.address, root / "audit.jsonl", BY_BROKERS) as new_browser:
                    await work(Guarded(caller, new_browser, root / "audit.jsonl"))
            finally:
                await caller.client.close()

    asyncio.run(bounded())


async def half(caller: Caller) -> None:
    properties = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01ABC\x02"
    await caller.fine(RequestCode.SEND_MESSAGE_V2, send_header("Orders", properties), b"paid")


def test_a_user_of_the_brokers_decides(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def work(there: Guarded) -> None:
        await half(there.caller)
        browser = await there.logged_in(ADMIN)
        page = await browser.get("/transactions")
        assert "ABC" in page and "user of the brokers" in page
        done = await browser.post("/transactions/carry-out", action="commit", chosen=chosen(page), why="ticket 1")
        assert "Commit: 1 done" in done
        shown = await browser.get("/transactions/ABC")
        assert "admin (user of the brokers, console): ticket 1" in shown
        assert '"who": "admin (user of the brokers, console)"' in there.audit.read_text()
        for text in (page, done, shown, there.audit.read_text(), caplog.text, str(browser.http.cookies.jar)):
            assert ADMIN.secret_key not in text
        assert ADMIN.secret_key not in repr(console_of(browser).sessions.open())

    guarded(work, tmp_path)


def test_who_gets_in(tmp_path: Path) -> None:
    async def work(there: Guarded) -> None:
        browser = there.new_browser()
        for name, password in (("admin", "wrong"), ("nobody", "wrong"), ("", ADMIN.secret_key), ("admin", ""),
                               ("a b/c", "x"), ("otto", ADMIN.secret_key)):  # fmt: skip
            await browser.post("/login", 401, name=name, password=password)
        assert not browser.http.cookies
        own = there.new_browser()
        await own.log_in("otto")  # an account of the console itself
        assert "operator" in await own.get("/topics")
        assert len(console_of(own).clients) == 0
        await own.get("/metrics", 401, auth=("admin", ADMIN.secret_key), cookies={COOKIE: ""})
        for _ in range(ATTEMPTS):
            await browser.http.post("/login", data={"name": "", "password": "x"}, headers=ORIGIN)
        await browser.post("/login", 429, name="", password="x")
        assert ADMIN.secret_key != PASSWORD

    guarded(work, tmp_path)


def test_what_a_user_may_not_see_is_said(tmp_path: Path) -> None:
    async def work(there: Guarded) -> None:
        await half(there.caller)
        nora = await there.logged_in(await there.caller.make_user("nora"))
        page = await nora.get("/transactions", 403)
        assert "The brokers do not allow this to nora" in page and "ABC" not in page
        overview = await nora.get("/")
        assert "does not show its figures" in overview and "does not answer" not in overview
        assert "no right of the brokers covers this" in (await nora.get("/pipelines", 403)).lower()
        assert "gantry_console" not in await nora.get("/metrics", 403)
        refused = await nora.post("/brokers/broker-a/change", 403, key="transactionCheckMax", value="1", why="x")
        assert "The brokers do not allow this" in refused
        olga = await there.logged_in(await there.caller.make_user("olga", "Cluster:*=Get,List", "Topic:Orders=Get,Sub"))
        assert "transactionCheckMax" in await olga.get("/brokers/broker-a")
        refused = await olga.post("/brokers/broker-a/change", 403, key="transactionCheckMax", value="1", why="x")
        assert "olga needs Update" in refused and '"refused"' in there.audit.read_text()

    guarded(work, tmp_path)


def test_one_client_for_all_pages_of_a_user_until_the_log_out(tmp_path: Path) -> None:
    async def work(there: Guarded) -> None:
        one, other = await there.logged_in(ADMIN), await there.logged_in(ADMIN)
        clients = console_of(one).clients
        await asyncio.gather(*(browser.get("/brokers") for browser in (one, other) * 5))
        assert len(clients) == 1
        await one.post("/logout", 303)
        assert len(clients) == 1, "the same person is still logged in elsewhere"
        await other.post("/logout", 303)
        assert len(clients) == 0
        await other.get("/brokers", 303)

    guarded(work, tmp_path)


def test_brokers_that_check_nobody_let_nobody_in(tmp_path: Path) -> None:
    async def work(there: Guarded) -> None:
        said = await there.new_browser().post("/login", 400, name="admin", password="anything")
        assert "does not check who asks" in said

    guarded(work, tmp_path, authentication_enabled=False)


class Stepped(SystemClock):
    """A clock that goes on when it is told to."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_clients_are_opened_once_and_closed_when_nobody_needs_them() -> None:
    async def work() -> None:
        clock, told, opened, closed = Stepped(), {ADMIN}, 0, 0
        may_open = asyncio.Event()

        @contextlib.asynccontextmanager
        async def client(account: Account) -> AsyncIterator[str]:
            nonlocal opened, closed
            opened += 1
            await may_open.wait()
            yield account.access_key
            closed += 1

        clients = Clients(clock, client, lambda account: account in told)

        async def page(end: asyncio.Event) -> None:
            async with clients.used(ADMIN) as name:
                assert name == "admin"
                await end.wait()

        end = asyncio.Event()
        pages = [asyncio.create_task(page(end)) for _ in range(5)]
        await asyncio.sleep(0)
        may_open.set()
        await until(lambda: opened == 1 and len(clients) == 1)
        told.clear()
        clock.now = 2 * IDLE_S
        clients.sweep()
        assert len(clients) == 1 and closed == 0, "it is in use"
        end.set()
        await asyncio.gather(*pages)
        await until(lambda: closed == 1)
        assert opened == 1 and len(clients) == 0
        told.add(ADMIN)
        async with clients.used(ADMIN):
            pass
        clients.sweep()
        assert opened == 2 and len(clients) == 1
        clock.now += IDLE_S + 1
        clients.sweep()
        await until(lambda: closed == 2)
        async with clients.used(ADMIN):
            pass
        await clients.close()
        assert closed == opened == 3

    asyncio.run(asyncio.wait_for(work(), 60))
