"""Replacing the default network, clock and disk of clients."""

from __future__ import annotations

from gantrymq import Producer
from gantrymq.client.connection.endpoint import Endpoint
from gantrymq.client.connection.outside import Outside, default_outside, replace_default
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.network import TcpNetwork


def test_the_machines_own_are_the_default() -> None:
    assert isinstance(default_outside().network, TcpNetwork)
    assert isinstance(default_outside().clock, SystemClock)


def test_the_last_one_who_replaced_them_makes_them_until_he_ends_it() -> None:
    first, second = Outside(), Outside()
    end_first = replace_default(lambda: first)
    end_second = replace_default(lambda: second)
    assert default_outside() is second
    end_first()
    assert default_outside() is second
    end_second()
    assert default_outside() is not second


def test_each_client_that_starts_is_told_of() -> None:
    started: list[Endpoint] = []
    end = replace_default(lambda: Outside(started=started.append))
    try:
        producer = Producer("p", name_servers="127.0.0.1:1")
        given = Producer("q", name_servers="127.0.0.1:1", outside=Outside())
    finally:
        end()
    with producer, given:
        assert [endpoint.owner for endpoint in started] == ["Producer"]
        assert started[0].running
    assert not started[0].running
