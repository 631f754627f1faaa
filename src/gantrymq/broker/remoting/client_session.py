"""A client that came through the remoting door."""

from __future__ import annotations

from gantrymq.broker.remoting.check_back import check_frame
from gantrymq.broker.transactions.check import Check
from gantrymq.protocol.hosts import pack_host
from gantrymq.remoting.server import RemotingServer, Session
from gantrymq.runtime.network import Link


class ClientSession(Session):
    """One connection: to operations a ``broker.client.Client``, to the remoting door a session."""

    __slots__ = ("address", "host")

    def __init__(self, server: RemotingServer, number: int) -> None:
        super().__init__(server, number)
        self.address = ""
        self.host = b""

    def connected(self, link: Link) -> None:
        super().connected(link)
        self.address = link.peer
        self.host = pack_host(link.peer)

    def ask(self, check: Check) -> None:
        self.send(check_frame(check, self.next_opaque()))
