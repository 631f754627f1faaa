"""The sums over clients that live and clients that are gone."""

from __future__ import annotations

import gc
import os
import threading

from gantrymq.client.metrics.declared import metrics_of
from gantrymq.client.metrics.figures import Backlog, ClientFigures, OutboxFigures
from gantrymq.client.metrics.registry import GONE_MAX, Registry

SENT = "gantry_client_messages_sent_total"


class Client:
    """Whatever has figures."""


def test_what_clients_counted_stays_when_they_are_gone() -> None:
    clients = Registry()
    metrics = metrics_of(clients)
    first, second = Client(), Client()
    figures = clients.made(first, "PG")
    figures.of_sends("T").cost_ms.observe(3)
    figures.of_sends("T").batched += 9
    figures.backlogs = lambda: [Backlog("T", 1, 10, 5)]
    figures.outboxes = lambda: [OutboxFigures(4, 2.5)]
    others = clients.made(second, "PG")
    others.of_sends("T").cost_ms.observe(700)
    others.outboxes = lambda: [OutboxFigures(3, 7.5)]
    assert metrics.read(SENT) == {("T", "PG"): 11}
    assert metrics.read("gantry_client_lag_messages") == {("T", "PG"): 5}
    assert metrics.read("gantry_client_outbox_messages") == {("PG",): 4}, "both have counted the same table"
    assert metrics.read("gantry_client_outbox_oldest_seconds") == {("PG",): 7.5}
    del first
    gc.collect()
    assert metrics.read(SENT) == {("T", "PG"): 11}
    (histogram,) = metrics.read("rocketmq_send_cost_time").values()
    assert histogram.counts == [0, 1, 0, 0, 0, 0, 0, 1] and histogram.sum == 703  # type: ignore[union-attr]
    assert len(clients._live) == 1


def test_clients_that_nobody_asks_about_are_added_up() -> None:
    clients = Registry()
    for _ in range(3 * GONE_MAX):
        clients.made(Client(), "PG").of_sends("T").failed += 1
    gc.collect()
    assert len(clients._live) <= GONE_MAX + 2
    assert metrics_of(clients).read("gantry_client_sends_failed_total") == {("T", "PG"): 3 * GONE_MAX}


def test_reading_while_clients_come_go_and_count() -> None:
    clients = Registry()
    metrics, over, errors = metrics_of(clients), threading.Event(), list[BaseException]()

    def count() -> None:
        try:
            while not over.is_set():
                figures = clients.made(Client(), "PG")
                for number in range(50):
                    figures.of_sends(f"T{number}").cost_ms.observe(1)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=count) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(30):
            metrics.total(SENT)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not errors, errors


def test_a_forked_child_begins_anew() -> None:
    clients = Registry()
    client = Client()
    clients.made(client, "PG").of_sends("T").failed += 1
    clients.forget()
    assert clients.by_group() == []
    assert os.getpid()


def test_sums_leave_the_figures_as_they_are() -> None:
    one, other = ClientFigures("G"), ClientFigures("G")
    one.of_reads("T").handled(3, True, 0.001, 0.002)
    other.add(one)
    other.add(one)
    assert (one.reads["T"].consumed, other.reads["T"].consumed) == (3, 6)
    assert sum(one.reads["T"].await_ms.counts) == 1
