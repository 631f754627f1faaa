"""A web process is killed at random moments: rows and messages agree exactly."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.django.processes import SHOP, Shop, kill
from tests.sql.databases import Place

PAYMENTS = 60
CLIENTS = 3


class Clients:
    """They pay all orders, each once; an answer that does not come is not asked for again."""

    def __init__(self, shop: Shop, names: list[str]) -> None:
        self._shop = shop
        self._names: Iterator[tuple[int, str]] = iter(list(enumerate(names)))
        self._lock = threading.Lock()
        self._up = threading.Event()
        self._life = 0
        self.attempts = 0
        self.answered: set[str] = set()
        self.threads = [threading.Thread(target=self._pay, daemon=True) for _ in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def web_is_up(self) -> None:
        self._life += 1
        self._up.set()

    @property
    def done(self) -> bool:
        return not any(thread.is_alive() for thread in self.threads)

    def _pay(self) -> None:
        while True:
            self._up.wait()
            with self._lock:
                life = self._life
                number, name = next(self._names, (0, ""))
                self.attempts += 1
            if not name:
                return
            status = self._shop.post(f"orders/{name}/pay" + ("?card=declined" if number % 7 == 0 else ""))
            if status == 200:
                self.answered.add(name)
            elif status is None and life == self._life:
                self._up.clear()  # it is dead: pay no more before it is up again


@pytest.mark.kill
@pytest.mark.parametrize("database", ["postgresql", "sqlite"], indirect=True)
def test_rows_and_messages_agree_however_often_the_web_process_is_killed(tmp_path: Path, database: Place) -> None:
    seed = int(os.environ.get("GANTRY_SEED") or random.randrange(1_000_000))
    print(f"GANTRY_SEED={seed}")
    chance = random.Random(seed)
    names = [f"o-{number:03}" for number in range(PAYMENTS)]
    declined = {name for number, name in enumerate(names) if number % 7 == 0}
    kills = 0
    with Shop(tmp_path, database) as shop:
        shop.order(names)
        clients = Clients(shop, names)
        while not clients.done:
            web = shop.web()
            clients.web_is_up()
            enough = clients.attempts + chance.randint(3, 12)
            while clients.attempts < enough and not clients.done:
                time.sleep(0.001)
            if clients.done:
                break
            time.sleep(chance.random() * 0.02)
            kill(web)
            kills += 1
        if web.poll() is not None:  # the last answer came while it was killed: somebody must be there to be asked
            shop.web()
        shop.settle()
        paid, delivered = shop.paid(), shop.delivered()
        assert paid == delivered, f"after {kills} kills"
        assert clients.answered <= {*paid} and not declined & {*paid}
        print(f"{kills} kills, {len(paid)} of {PAYMENTS} orders paid")
        assert kills >= 4

        shop.process("manage.py", "ship")
        deadline = time.monotonic() + 60
        shipped = "SELECT COUNT(*) FROM shop_order WHERE status = 'shipped'"
        while shop.place.execute(shipped) != [(len(paid),)]:
            assert time.monotonic() < deadline, shop.log.read_text()
            time.sleep(0.05)


@pytest.mark.kill
@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_checker_answers_when_all_web_processes_are_gone(tmp_path: Path, database: Place) -> None:
    names = [f"o-{number}" for number in range(20)]
    with Shop(tmp_path, database) as shop:
        shop.order(names)
        checker = shop.process("manage.py", "gantrymq_checker")
        shop.wait_for("answers check-backs")
        web = shop.web()
        clients = Clients(shop, names)
        clients.web_is_up()
        while clients.attempts < 9:
            time.sleep(0.001)
        kill(web)
        shop.settle()
        assert shop.paid() == shop.delivered()
        assert checker.poll() is None
        checker.terminate()
        assert checker.wait(30) == 0


PREFORK = """
import os, sys
from shop.wsgi import application  # what gunicorn --preload does in the parent
from django.db import transaction, connections
from gantrymq import Message
from gantrymq.django import close, send
from shop.models import Order

connections.close_all()
children = []
for worker in range(3):
    if not (child := os.fork()):
        try:
            for number in range(5):
                with transaction.atomic():
                    Order.objects.create(name=f"{worker}-{number}", status="paid")
                    send(Message("orders-paid", f"{worker}-{number}"))
            close()
        finally:
            os._exit(int(sys.exc_info()[0] is not None))
    children.append(child)
codes = [os.waitpid(child, 0)[1] for child in children]
with transaction.atomic():
    Order.objects.create(name="parent", status="paid")
    send(Message("orders-paid", "parent"))
sys.exit(any(codes))
"""


@pytest.mark.slow
@pytest.mark.parametrize("database", ["postgresql", "sqlite"], indirect=True)
def test_workers_that_are_forked_behind_the_start(tmp_path: Path, database: Place) -> None:
    with Shop(tmp_path, database) as shop:
        assert shop.process("-c", PREFORK).wait(60) == 0, shop.log.read_text()
        assert len(shop.paid()) == 16 and shop.paid() == shop.delivered()
        assert "Traceback" not in shop.log.read_text()


@pytest.mark.slow
def test_the_example_tests_itself(tmp_path: Path, sqlite: Place) -> None:
    with Shop(tmp_path, sqlite) as shop:
        shop.manage("test")
        shop.manage("makemigrations", "--check")
    assert sum(len(path.read_text().splitlines()) for path in SHOP.rglob("*.py")) < 150
