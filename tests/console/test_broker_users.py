"""The console over a broker with users: it acts with its own account, and says so when that account may not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gantrymq.protocol.codes import RequestCode
from gantrymq.remoting.client import RemotingClient
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.network import TcpNetwork
from gantrymq.runtime.rng import SystemRng
from tests.access.test_broker import ADMIN
from tests.access.test_broker import SETTINGS as GUARDED
from tests.console.site import SETTINGS, browsers
from tests.console.test_transactions import chosen
from tests.support.brokers import cluster, send_header

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
                assert "does not answer" in await browser.get("/")
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
