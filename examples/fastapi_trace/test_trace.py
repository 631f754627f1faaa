"""One request is one trace, from HTTP to the row of the consumer: run ``pytest`` in this directory."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from show import recorded, tree


def test_one_request_is_one_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_URL", f"sqlite:///{tmp_path / 'shop.db'}")
    monkeypatch.setenv("SHIPPING_URL", f"sqlite:///{tmp_path / 'shipping.db'}")
    spans = recorded("o-1")
    with sqlite3.connect(tmp_path / "shipping.db") as parcels:
        assert parcels.execute("SELECT id FROM parcels").fetchall() == [("o-1",)]
    assert len({span.context.trace_id for span in spans}) == 1
    by_id = {span.context.span_id: span for span in spans}
    above = {span.name: by_id[span.parent.span_id].name for span in spans if span.parent is not None}
    assert above == {
        "INSERT orders": "POST /orders/{order_id}",
        "local_transaction": "POST /orders/{order_id}",
        "half orders": "local_transaction",
        "commit orders": "half orders",
        "process orders": "half orders",
        "INSERT parcels": "process orders",
    }
    assert len(tree(spans)) == len(spans) == 7
