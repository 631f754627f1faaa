"""Log-in with a user of the brokers: whoever signs as the brokers expect it is this user.

A broker that does not check signatures accepts everybody. So each broker is asked twice, the first time with a secret
that is certainly wrong; a broker that accepts this one, too, knows no users, and then nobody gets in.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from gantrymq.admin import Admin
from gantrymq.console.identity import FileIdentities, Person, Role
from gantrymq.errors import ConfigError, GantryError, TimedOut, Unreachable
from gantrymq.protocol.signature import Account
from gantrymq.runtime.rng import Rng

SECRET_BYTES: Final = 24
CALL_TIMEOUT_MS: Final = 5_000


@dataclass(frozen=True, slots=True)
class BrokerIdentities:
    """The console's own users, and for every other name the users of the brokers."""

    own: FileIdentities
    name_servers: str
    admin: Admin
    """The console's own client, which knows where brokers are."""
    rng: Rng

    async def person(self, name: str, password: str) -> Person | None:
        """Raises Unreachable when no broker can be asked, ConfigError when one of them does not check who asks."""
        if self.own.knows(name):
            return await self.own.person(name, password)
        if not name or not password:
            return None
        try:
            client = Admin(
                self.name_servers, access_key=name, secret_key=password, call_timeout_ms=CALL_TIMEOUT_MS
            )  # fmt: skip
        except ConfigError:  # no account can have such a name
            return None
        wrong = self.rng.token(SECRET_BYTES).hex()
        stranger = Admin(self.name_servers, access_key=name, secret_key=wrong, call_timeout_ms=CALL_TIMEOUT_MS)
        masters = await self.admin.brokers.addresses()
        async with client, stranger:
            found = await asyncio.gather(*(recognised(client, stranger, *place) for place in masters.items()))
        answers = [one for one in found if not isinstance(one, GantryError)]
        if not answers:
            raise Unreachable(", ".join(masters.values()), "no broker could be asked for this user")
        return Person(name, Role.ADMIN, Account(name, password)) if any(answers) else None


async def recognised(client: Admin, stranger: Admin, name: str, address: str) -> bool | GantryError:
    """Whether a broker knows the user; the error when it cannot be asked. Raises ConfigError when it checks nobody."""
    try:
        if await stranger.access.recognises(address):
            raise ConfigError(
                f"the broker {name} does not check who asks (authenticationEnabled), so nobody can log in with a user "
                "of the brokers"
            )
        return await client.access.recognises(address)
    except (Unreachable, TimedOut) as error:
        return error
