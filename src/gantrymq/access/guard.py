"""The one place that decides whether a request is served: who sent it, and whether that user may have it.

Every door asks here before it calls an operation. A server without users has no guard at all: its doors were given
handlers that ask nobody.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import logging
from collections.abc import Callable, Iterable, Mapping
from math import ceil
from typing import Final

from gantrymq.access.addresses import Matcher
from gantrymq.access.counts import Refusals
from gantrymq.access.directory import Directory
from gantrymq.access.judge import judge
from gantrymq.access.operations import Names, Operation
from gantrymq.access.values import Need, User
from gantrymq.errors import GantryError
from gantrymq.protocol.signature import SecretKey
from gantrymq.runtime.clock import Clock, SystemClock
from gantrymq.runtime.limits.attempts import Attempts
from gantrymq.runtime.limits.connections import client_of

log = logging.getLogger("gantrymq.access")

JUDGEMENTS_KEPT: Final = 10_000
"""Judgements that are remembered until users or policies change."""
NAME_KEPT: Final = 300
"""Characters of the longest name for which one is remembered; no topic and no group has a longer one."""
_NOBODY: Final = User("", "")
"""Whose secret a password is compared with when there is no such user, so that both take the same time."""
_NOBODYS_KEY: Final = SecretKey("")
"""The same for signatures."""


class Denied(GantryError):
    """A request is not served. The sentence says who needs which right on what."""


class Unknown(Denied):
    """Nobody knows who sent the request."""


class TooManyGuesses(Unknown):
    """There were too many wrong passwords before."""

    def __init__(self, name: str, wait_s: float) -> None:
        self.wait_s: Final = wait_s
        super().__init__(
            f"too many wrong passwords or signatures for {name[:128]!r}, or from this address; try again in "
            f"{ceil(wait_s)} s, with the right one"
        )


GUESSES: Final = 10
"""Wrong passwords and signatures for one user from one address, until further requests must wait."""
GUESSES_OF_ADDRESS: Final = 50
GUESSES_WITHIN_S: Final = 60.0
_UNJUDGED: Final = Denied("not judged yet")


class Guard:
    """Knows users and policies, and counts what it refuses.

    ``authorize``: whether policies count; else every user may do everything, and a client whose user is not known still
    nothing. ``open_to``: addresses from where everything is served. ``trusted``: users who need no signature from some
    addresses. (Both only RocketMQ 4.x has.)
    """

    def __init__(
        self,
        directory: Directory,
        cluster: str,
        *,
        authorize: bool,
        clock: Clock | None = None,
    ) -> None:
        self.directory: Final = directory
        self.cluster: Final = cluster
        self.refusals: Final = Refusals()
        self.open_to: tuple[Matcher, ...] = ()
        self.trusted: Mapping[str, Matcher] = {}
        self.authorizes = authorize
        self._judged: dict[tuple[str, str, Need], Denied | None] = {}
        self._keys: dict[str, SecretKey] = {}
        self._guesses = Attempts(clock or SystemClock(), GUESSES, GUESSES_OF_ADDRESS, GUESSES_WITHIN_S)
        directory.changed.extend((self._judged.clear, self._keys.clear, self._guesses.clear))

    def is_open_to(self, source: str) -> bool:
        """Whether everything is served to this IP address."""
        return bool(self.open_to) and any(matches(source) for matches in self.open_to)

    def demand_operation(self, user: User | None, operation: Operation, names: Names, source: str) -> None:
        """Raises Denied unless ``user`` may have the operation on all that is named."""
        if self.authorizes:
            self.demand(user, operation.needs(names, self.cluster), source)
        elif user is None:
            raise self._unknown(f"to {operation.name}, a user is needed, and that of this client is not known")

    def demand(self, user: User | None, needs: Iterable[Need], source: str) -> None:
        """Raises Denied unless ``user`` may do everything that is needed, from the IP address ``source``."""
        if user is not None and user.is_super:
            return
        for need in needs:
            if user is None:
                raise self._unknown(f"this needs {need.text}, and the request is not signed")
            key = user.name, source, need
            denied = self._judged.get(key, _UNJUDGED)
            if denied is _UNJUDGED:
                denied = self._judge(user, need, source)
                if len(need.name) <= NAME_KEPT:
                    if len(self._judged) >= JUDGEMENTS_KEPT:
                        self._judged.clear()
                    self._judged[key] = denied
            if denied is not None:
                self.refusals.forbidden += 1
                raise Denied(str(denied))

    def allows(self, user: User | None, need: Need, source: str) -> bool:
        """Whether ``user`` may; nothing is counted."""
        now = None if user is None else self.directory.user(user.name)
        if now is None or not now.enabled:
            return False
        return not self.authorizes or now.is_super or judge(self.directory.grants(now.name), need, source).allowed

    def user_with_password(self, name: str, password: str, source: str) -> User:
        """The user who says so, from the IP address ``source``; for doors that do not sign. Raises Unknown."""
        if not name and not password:
            raise self._unknown("this needs the name and the password of a user")
        self._check_guesses(name, source)
        user = self.directory.user(name)
        known = hmac.compare_digest(password.encode(), (user or _NOBODY).secret.encode())
        if user is None or not known or not user.enabled:
            self._guessed(name, source)
            raise self._unknown("the user name or the password is wrong, or the user is disabled")
        self._guesses.forget(name, _client(source))
        return user

    def _check_guesses(self, name: str, source: str) -> None:
        """Raises TooManyGuesses. Nothing is compared then, so that a right guess is not told from a wrong one."""
        wait_s = self._guesses.wait_s(name, _client(source))
        if wait_s > 0:
            self.refusals.guessed += 1
            raise TooManyGuesses(name, wait_s)

    def _guessed(self, name: str, source: str) -> None:
        client = _client(source)
        self._guesses.attempt(name, client)
        wait_s = self._guesses.wait_s(name, client)
        if wait_s > 0:
            log.warning(
                "too many wrong passwords or signatures for %r from %s: further requests of this user from there are "
                "refused for %.0f s", name[:128], client, wait_s,
            )  # fmt: skip

    def _judge(self, user: User, need: Need, source: str) -> Denied | None:
        judgement = judge(self.directory.grants(user.name), need, source)
        if judgement.allowed:
            return None
        policy = judgement.policy
        why = f"the policy for {policy.resource.text} denies it" if policy is not None else "no policy allows it"
        return Denied(f"the user {user.name} needs {need.text} (from {source}): {why}")

    def demand_super(self, user: User | None, why: str) -> None:
        """Raises Denied unless it is a super user. ``why``: what is said to others."""
        if user is None or not user.is_super:
            self.refusals.forbidden += 1
            raise Denied(why)

    def sender(
        self, name: str | None, signed_by: Callable[[SecretKey], bool], source: str, known: User | None = None
    ) -> User:
        """The user who signed a request. ``name``: who says to have done that; ``signed_by``: whether it was signed
        with a key. ``known``: who signed the one before on this connection, who is not hindered by what others try
        from the same address. Raises Unknown."""
        if not name:
            raise self._unknown("the request is not signed; set the access key and the secret key of a user")
        user = self.directory.user(name)
        trusted = self.trusted.get(name)
        if user is not None and user.enabled and trusted is not None and trusted(source):
            return user
        if known is None or known.name != name:
            self._check_guesses(name, source)
        signed = signed_by(_NOBODYS_KEY if user is None else self._key_of(user))
        if user is None:
            self._guessed(name, source)
            raise self._unknown(f"there is no user {name[:128]!r}")
        if not signed:
            self._guessed(name, source)
            raise self._unknown(f"the signature of {name} is wrong; check the secret key")
        if not user.enabled:
            raise self._unknown(f"the user {name} is disabled")
        if known is None or known.name != name:
            self._guesses.forget(name, _client(source))
        return user

    def proof(self, user: User, text: bytes) -> bytes:
        """What shows that this server has the secret of a user (``SecretKey.proof``)."""
        return self._key_of(user).proof(text)

    def _key_of(self, user: User) -> SecretKey:
        key = self._keys.get(user.name)
        if key is None:
            key = self._keys[user.name] = SecretKey(user.secret)
        return key

    def _unknown(self, reason: str) -> Unknown:
        self.refusals.unauthenticated += 1
        return Unknown(reason)


def _client(source: str) -> str:
    """Who shares the attempts of one address: all of its network, for an address of IPv6."""
    return client_of(f"[{source}]:0" if ":" in source else f"{source}:0")


def basic_credentials(header: str) -> tuple[str, str] | None:
    """Name and password of an ``Authorization: Basic`` header; None when it is none."""
    scheme, _, text = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(text.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return (name, password) if colon else None
