"""Users and permissions at the remoting door: the guard before its handlers, and the requests about users."""

from __future__ import annotations

from collections.abc import Mapping

from gantrymq.access.remoting.enforcement import guarded
from gantrymq.access.remoting.handler import AccessHandler
from gantrymq.access.remoting.requests import BROKER_ROWS
from gantrymq.broker.users import Users
from gantrymq.remoting.server import Handler


def behind_guard(table: Mapping[int, Handler], users: Users) -> Mapping[int, Handler]:
    """The handlers of a broker with users."""
    handlers = {**table, **AccessHandler(users.guard.directory).table()} if users.access.managed else table
    return guarded(handlers, users.access, BROKER_ROWS, users.places)
