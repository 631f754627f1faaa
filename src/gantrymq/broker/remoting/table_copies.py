"""COPY_TABLES (32044), a request of our own: a replica asks for the tables that have changed, a proxy for the users.

The file of users has their secrets, so it goes to super users alone: a replica signs as one
(``innerClientAuthenticationCredentials``), and so does a proxy. A replica refuses the request, as it refuses writes.
"""

from __future__ import annotations

from gantrymq.access.file import encoded
from gantrymq.broker.operations.table_copies import TableCopies
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.users import Users
from gantrymq.protocol.bodies.copied_tables import CopiedTable, CopiedTables, KnownTables
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response


class CopiesHandler:
    """``users``: None: the broker has none."""

    def __init__(self, copies: TableCopies, users: Users | None) -> None:
        self._copies = copies
        self._users = users

    def changed(self, session: ClientSession, command: Command) -> bytes:
        """COPY_TABLES."""
        asked = KnownTables.decode(command.body)
        users = self._users
        if users is not None and (session.user is None or not session.user.is_super):
            raise Refused(Refusal.NOT_PERMITTED, "only a super user may copy the tables of a broker")
        managed = users is not None and users.access.managed
        directory = None if users is None else users.guard.directory
        secret = None if directory is None or not managed else lambda: encoded(directory.content).decode()
        changed = self._copies.changed(asked.versions, secret, asked.only)
        tables = {name: CopiedTable(version=one.version, content=one.content) for name, one in changed.items()}
        return encode_response(command, ResponseCode.SUCCESS, body=CopiedTables(tables=tables).encode())
