"""Who uses the console, and what each role may do.

``Identities`` is the one place where a name and a password become a person: today the users of the settings file.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from gantrymq.console.passwords import NOBODY, verify
from gantrymq.protocol.signature import Account

CHECKS_AT_ONCE: Final = 2
"""Passwords that are checked at the same time; each takes 32 MB for a moment."""


class Role(enum.IntEnum):
    """What a person may do; each role may also do what the ones before it may."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def text(self) -> str:
        return self.name.lower()


ROLES: Final = {role.text: role for role in Role}


class Right(enum.Enum):
    """What is done in the console, and the role that it needs."""

    LOOK = (Role.VIEWER, "look at everything")
    DECIDE = (Role.OPERATOR, "commit, roll back and resume transactions")
    RESEND = (Role.OPERATOR, "send messages again")
    RESET = (Role.OPERATOR, "move the offsets of groups")
    MACHINE = (Role.VIEWER, "see what the console's own machine knows: pipelines, metrics")
    TOPICS = (Role.ADMIN, "create, change and delete topics")
    USERS = (Role.ADMIN, "change the users of the brokers and their policies")
    CONFIGURE = (Role.ADMIN, "change settings of brokers")

    @property
    def role(self) -> Role:
        return self.value[0]

    @property
    def text(self) -> str:
        return self.value[1]


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who uses the console."""

    name: str
    role: Role
    account: Account | None = field(default=None, repr=False)
    """A user of the brokers, who signs what the console asks for this person. Then the brokers decide what is allowed,
    and nothing is shown that they do not know."""

    def may(self, right: Right) -> bool:
        if self.account is not None:
            return right is not Right.MACHINE
        return self.role >= right.role

    @property
    def kind(self) -> str:
        """What this person is, in words."""
        return self.role.text if self.account is None else "user of the brokers"

    @property
    def in_records(self) -> str:
        """The name in audit files."""
        return f"{self.name} (console)" if self.account is None else f"{self.name} (user of the brokers, console)"


class Identities(Protocol):
    """Knows the persons."""

    async def person(self, name: str, password: str) -> Person | None:
        """The person with this name and password; None when there is none."""


@dataclass(frozen=True, slots=True)
class User:
    """An entry of the settings file."""

    role: Role
    password: str
    """A hash that ``passwords.hashed`` made."""


class FileIdentities:
    """The users of the settings file."""

    def __init__(self, users: Mapping[str, User]) -> None:
        self._users = dict(users)
        self._turns = asyncio.Semaphore(CHECKS_AT_ONCE)

    def knows(self, name: str) -> bool:
        return name in self._users

    async def person(self, name: str, password: str) -> Person | None:
        user = self._users.get(name)
        # An unknown name takes as long as a wrong password, so that nobody finds out which names there are.
        async with self._turns:
            right = await asyncio.to_thread(verify, password, user.password if user is not None else NOBODY)
        return Person(name, user.role) if user is not None and right else None
