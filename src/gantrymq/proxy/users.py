"""The users of a cluster at a proxy: they are the brokers' own, read again every few seconds.

A proxy signs what it sends with an account of its own, whoever its client is. So it judges its clients itself, by the
same table and the same rules as the door of a broker. It serves nobody while it knows no users that are true:

* the account of the proxy is a super user, or else brokers do not give it the secrets of others;
* what a broker says counts only if it knows that account with its secret. Name servers say who is a broker, and
  whoever can register one there could make users up;
* without an answer for ``STALE_SECONDS``, what was read counts no longer.

One broker is asked: the first one by name that answers. Users are the same on all brokers of a cluster.
Source: ProxyAuthenticationMetadataProvider, ProxyAuthorizationMetadataProvider; docs/internals/decisions.md.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gantrymq.access.directory import Content, Directory
from gantrymq.access.file import decoded
from gantrymq.access.guard import Guard
from gantrymq.access.texts import grants_of, user_of
from gantrymq.access.values import Grants, User
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.errors import ConfigError, RemoteProtocolError
from gantrymq.protocol.bodies.access import AclBody, UserBody
from gantrymq.protocol.bodies.copied_tables import CopiedTables, KnownTables
from gantrymq.protocol.body import decode_list
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command
from gantrymq.protocol.headers.access import ListAcls, ListUsers
from gantrymq.protocol.signature import Account
from gantrymq.proxy.cluster import Cluster
from gantrymq.runtime.clock import Clock

log = logging.getLogger("gantrymq.proxy")

READ_SECONDS: Final = 3.0
"""How old users and policies may be, while brokers answer."""
STALE_SECONDS: Final = 60.0
"""How old they may be while no broker answers."""
USERS: Final = "users"
"""The name of their table (``broker.operations.table_copies``)."""


@dataclass(frozen=True, slots=True)
class _Read:
    """What a broker said."""

    content: Content
    authorizes: bool
    """Whether policies count there."""


class ClusterUsers:
    """See above."""

    def __init__(self, cluster: Cluster, account: Account, clock: Clock) -> None:
        self._cluster = cluster
        self._account = account
        self._clock = clock
        self.guard: Final = Guard(Directory(Content(), _unchangeable), "", authorize=True, clock=clock)
        self._good_until = 0.0
        self._problem = "no broker has been asked yet"
        self._versions: dict[str, tuple[str, Content]] = {}
        """By the address of a broker: the version of its users that is known here, and what that is."""

    @property
    def known(self) -> bool:
        """Whether clients can be judged."""
        return self._clock.monotonic() < self._good_until

    def check(self) -> None:
        """Raises Refused when nobody can be judged."""
        if not self.known:
            raise Refused(Refusal.UNAVAILABLE, f"the proxy does not know the users of the cluster: {self._problem}")

    async def keep(self) -> None:
        """Read them again and again."""
        while True:
            await self.read()
            await self._clock.sleep(READ_SECONDS if self.known else 1.0)

    async def read(self) -> None:
        """Read them once, of the first broker that gives them."""
        problems = []
        names = {address: self._cluster.name_at(address) for address in self._cluster.masters()}
        for address in sorted(names, key=lambda address: (names[address] is None, names[address], address)):
            began = self._clock.monotonic()
            try:
                found = await self._read(address)
                self._prove(found.content)
            except (Refused, ConfigError, RemoteProtocolError) as error:
                problems.append(f"broker {self._cluster.name_at(address) or address}: {error}")
            else:
                self._use(found)
                self._good_until = began + STALE_SECONDS
                self._problem = "no broker has answered lately"
                return
        self._failed("; ".join(problems) or "no broker is known yet")

    def _failed(self, problem: str) -> None:
        if problem != self._problem:
            log.warning("the users of the cluster cannot be read: %s", problem)
            self._problem = problem

    def _use(self, found: _Read) -> None:
        guard = self.guard
        if found.content != guard.directory.content or found.authorizes != guard.authorizes:
            guard.authorizes = found.authorizes
            guard.directory.replace(found.content)
            log.info("the cluster has %d users", len(found.content.users))

    def _prove(self, content: Content) -> None:
        """Raises ConfigError unless the account of the proxy is among them, as a super user and with its secret."""
        user, account = content.users.get(self._account.access_key), self._account
        if user is None or not hmac.compare_digest(user.secret.encode(), account.secret_key.encode()):
            raise ConfigError(
                f"it does not know the account of the proxy, {account.access_key}, with its secret; so it may be no "
                "broker of this cluster"
            )
        if not user.is_super or not user.enabled:
            raise ConfigError(
                f"{account.access_key}, the account of the proxy, is not a super user that is enabled; make it one "
                "(gantry user update NAME --super)"
            )

    async def _read(self, address: str) -> _Read:
        settings = await self._cluster.ask_at(address, RequestCode.GET_BROKER_CONFIG, None, what="settings")
        values = dict(line.partition("=")[::2] for line in settings.body.decode(errors="replace").splitlines())
        if values.get("authenticationEnabled", "true") != "true":
            raise ConfigError("it has no users (authenticationEnabled is false); unset GANTRY_ACCESS_KEY at the proxy")
        known = self._versions.get(address)
        body = KnownTables(versions={USERS: known[0]} if known else {}, only=[USERS]).encode()
        answer = await self._cluster.ask_at(
            address, RequestCode.COPY_TABLES, None, body, what="users",
            accept=(ResponseCode.SUCCESS, ResponseCode.REQUEST_CODE_NOT_SUPPORTED),
        )  # fmt: skip
        if answer.code == ResponseCode.SUCCESS:
            content = self._copied(address, answer)
        else:
            content = await self._listed(address)
        return _Read(content, values.get("authorizationEnabled", "true") != "false")

    def _copied(self, address: str, answer: Command) -> Content:
        """Of one of our brokers."""
        table = CopiedTables.decode(answer.body).tables.get(USERS)
        if table is not None:
            self._versions[address] = table.version, decoded(table.content.encode(), "that the broker sent")
        elif address not in self._versions:
            raise ConfigError("it gives out no users; a proxy cannot use accounts of plain_acl.yml")
        return self._versions[address][1]

    async def _listed(self, address: str) -> Content:
        """Of one of Apache's brokers, which give secrets to whoever may see users."""
        users = await self._cluster.ask_at(address, RequestCode.AUTH_LIST_USER, ListUsers(), what="users")
        policies = await self._cluster.ask_at(address, RequestCode.AUTH_LIST_ACL, ListAcls(), what="policies")
        return content_of(decode_list(users.body, UserBody), decode_list(policies.body, AclBody))


def content_of(users: Iterable[UserBody], policies: Iterable[AclBody]) -> Content:
    """What lists of users and policies say. A user with a part that cannot be read is left out: the rest of it might
    allow what that part denies."""
    known: dict[str, User] = {}
    grants: dict[str, Grants] = {}
    for body in users:
        try:
            user = user_of(body)
        except ConfigError as error:
            log.warning("the user %s cannot be read, and is refused: %s", body.username, error)
            continue
        if user.secret:  # an empty one would be known to everybody
            known[user.name] = user
    for acl in policies:
        name = (acl.subject or "").removeprefix("User:")
        try:
            grants[name] = grants_of(acl)
        except ConfigError as error:
            log.warning("a policy of %s cannot be read, so this user is refused: %s", name, error)
            known.pop(name, None)
    return Content(known, grants)


def _unchangeable(content: Content) -> None:
    raise ConfigError("the users of a proxy are those of its brokers; change them there")
