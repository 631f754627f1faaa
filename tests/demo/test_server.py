"""The demo's server: a real one, killed and brought back on the same store and ports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gantrymq import Admin
from gantrymq.demo.layout import TOPIC, Layout
from gantrymq.demo.ports import free_port
from gantrymq.demo.processes import DemoFailed, Watchdog
from gantrymq.demo.server import DOWN_SECONDS, Outage, Server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    ports = free_port(), free_port()
    layout = Layout(tmp_path)
    layout.make(*ports)
    dog = Watchdog()
    made = Server(layout, *ports, dog)
    made.start()
    try:
        made.wait_until_ready()
        yield made
    finally:
        made.end()
        dog.close()


@pytest.mark.kill
def test_it_comes_back_with_its_topic_after_the_kill(server: Server) -> None:
    server.create_topic()
    outage = Outage(server, at=10)
    assert outage.step(1.0, 9) is None
    assert outage.step(2.0, 10) == "killed the broker after 10 orders"
    assert outage.step(2.0 + DOWN_SECONDS / 2, 10) is None
    assert outage.step(2.0 + DOWN_SECONDS, 10) == "started the broker again on the same store"
    server.wait_until_ready()
    server.create_topic()  # it may need a moment to be known again
    with Admin(server.name_servers) as admin:
        assert TOPIC in admin.topics()
    assert outage.step(9.0, 500) is None
    assert server.kills == 1


@pytest.mark.kill
def test_a_kill_late_in_the_run_is_undone_at_its_end(server: Server) -> None:
    outage = Outage(server, at=1)
    assert outage.step(1.0, 1)
    outage.finish()
    server.wait_until_ready()


@pytest.mark.kill
def test_a_server_that_is_gone_by_itself_ends_the_demo(server: Server) -> None:
    server.child.kill()
    with pytest.raises(DemoFailed, match="server: ended with status -9"):
        Outage(server, at=10).step(1.0, 0)
