"""Transactions are closed while a local transaction is running."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import event

from gantrymq import Message
from gantrymq.errors import Closed
from tests.sql.traps import Shop, level, shop

__all__ = ["level", "shop"]


def test_close_waits_for_a_transaction(shop: Shop) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def work() -> None:
        with shop.transactions.begin() as tx:
            shop.pay(tx, 1)
            inside.set()
            go_on.wait(30)

    with ThreadPoolExecutor(2) as pool:
        working = pool.submit(work)
        inside.wait(30)
        closing = pool.submit(shop.transactions.close)
        go_on.set()
        working.result()
        closing.result()
    with pytest.raises(Closed, match="create new ones"), shop.transactions.begin():
        pytest.fail("not reached")
    shop.check(1)


@pytest.mark.parametrize("when", ["before the commit", "during the commit"])
def test_a_service_that_is_closed_in_a_transaction(shop: Shop, when: str) -> None:
    """A transaction that outlasts the close either rolls back, or is committed and settled by a sibling. Its commit
    does not raise when the database has committed."""
    settings: dict[str, Any] = {"close_timeout_ms": 100}
    with shop.sibling():
        closed = shop.sibling(**settings)
        if when == "before the commit":
            with pytest.raises(Closed), closed.begin() as tx:
                shop.pay(tx, 1)
                closed.close()
                tx.send(Message("orders", "2"))
            shop.check()
        else:
            event.listen(closed._sessions.class_, "before_commit", lambda session: closed.close())
            with closed.begin() as tx:
                shop.pay(tx, 1)
            shop.check(1)
