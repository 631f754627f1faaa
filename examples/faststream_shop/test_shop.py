"""Tests of the shop: run ``pytest`` in this directory. No server has to run."""

from __future__ import annotations

import asyncio
import os
import tempfile

import pytest
from faststream import TestApp

from gantrymq.testing import LocalCluster

DIRECTORY = tempfile.TemporaryDirectory()
os.environ["DATABASE_URL"] = f"sqlite+aiosqlite:///{DIRECTORY.name}/shop.db"

from shop import app, broker  # noqa: E402 - it reads DATABASE_URL


@pytest.mark.gantry(virtual_time=True)
def test_who_pays_is_shipped_once_and_who_cannot_pay_is_not(gantry: LocalCluster) -> None:
    async def story() -> None:
        async with TestApp(app):
            await broker.publish({"order": "o-1", "cents": 1999}, "payments")
            await broker.publish({"order": "o-1", "cents": 1999}, "payments")
            await broker.publish({"order": "o-2", "cents": 0}, "payments")
            await gantry.advance_async(5)

    asyncio.run(story())
    assert [message.keys for message in gantry.messages("orders-paid")] == [["o-1"]]
    assert gantry.open_transactions() == []
