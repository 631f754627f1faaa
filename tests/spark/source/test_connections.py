from __future__ import annotations

import os

from gantrymq.message.queues import MessageQueue
from gantrymq.spark.options.access import Access
from gantrymq.spark.source.connections import ProcessConnections
from tests.spark.fakes import FakeBroker
from tests.spark.log_server import LogServer

QUEUE = MessageQueue("orders", "broker-a", 0)


def test_connections_are_kept_and_never_carried_through_a_fork() -> None:
    """A forked worker that used its parent's connection would steal the parent's answers."""
    broker = FakeBroker()
    broker.fill(QUEUE, 7)
    with LogServer(broker) as server:
        connections = ProcessConnections()
        reader = connections.reader(server.address, Access())
        assert reader.max_offset(QUEUE) == 7
        assert connections.reader(server.address, Access()) is reader
        child = os.fork()
        if child == 0:
            mine = connections.reader(server.address, Access())
            good = mine is not reader and mine.max_offset(QUEUE) == 7
            os._exit(0 if good else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert connections.reader(server.address, Access()).max_offset(QUEUE) == 7
        assert connections.lister(server.address, Access()).topics() == ["orders"]
        connections.close()
        assert connections.reader(server.address, Access()) is not reader
        connections.close()
