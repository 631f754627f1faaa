"""Tests of the shop, with the fixture ``gantry``: run ``pytest`` in this directory. No server has to run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from shop import PAID, POINTS, app

from gantrymq.testing import LocalCluster


@pytest.fixture
def client(tmp_path: Path, gantry: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    monkeypatch.setenv("NAMESRV_ADDR", gantry.name_servers)
    monkeypatch.setenv("DATABASE_URL", f"sqlite+aiosqlite:///{tmp_path / 'shop.db'}")
    with TestClient(app) as client:
        yield client


def bodies(gantry: LocalCluster, topic: str) -> list[bytes]:
    return [message.body for message in gantry.messages(topic)]


def test_who_pays_is_shipped_and_gets_points(gantry: LocalCluster, client: TestClient) -> None:
    assert client.post("/orders/o-1").status_code == 201
    assert client.post("/orders/o-1/payment", params={"cents": 1999}).json() == {"id": "o-1", "status": "paid"}
    assert bodies(gantry, PAID) == [b"o-1"]
    assert bodies(gantry, POINTS) == [b"o-1 19"]


def test_nobody_hears_of_a_payment_that_failed(gantry: LocalCluster, client: TestClient) -> None:
    client.post("/orders/o-1")
    client.post("/orders/o-1/payment", params={"cents": 1999})
    assert client.post("/orders/o-1/payment", params={"cents": 1999}).status_code == 409
    assert client.post("/orders/o-2/payment", params={"cents": 1999}).status_code == 409
    assert bodies(gantry, PAID) == [b"o-1"]
    assert gantry.open_transactions() == []


def test_the_shop_goes_on_selling_while_its_broker_is_away(gantry: LocalCluster, client: TestClient) -> None:
    for number in (1, 2, 3):
        client.post(f"/orders/o-{number}")
    client.post("/orders/o-1/payment", params={"cents": 1999})
    gantry.stop_broker()
    for number in (2, 3):
        assert client.post(f"/orders/o-{number}/payment", params={"cents": 500}).status_code == 200
    gantry.start_broker()
    deadline = time.monotonic() + 60
    while sorted(bodies(gantry, PAID)) != [b"o-1", b"o-2", b"o-3"] or len(bodies(gantry, POINTS)) != 3:
        assert time.monotonic() < deadline, "the messages did not follow"
        time.sleep(0.05)
