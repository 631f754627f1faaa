"""How a replica proves who it is, before the first byte of an HA protocol. Integers are big-endian.

| from    | bytes                                                                             | when               |
|---------|-----------------------------------------------------------------------------------|--------------------|
| replica | ``int64`` -1                                                                      | first: a question  |
| primary | ``int64`` -1, ``int32`` -1, ``int8`` account needed or not, 16 random bytes       | the answer         |
| replica | ``int16`` n, name of a user in n bytes, 16 random bytes, 32 bytes of proof        | if it is needed    |
| primary | ``int8`` 1, ``int16`` 32, 32 bytes of proof                                       | it is let in       |
| primary | ``int8`` 0, ``int16`` n, n bytes that say why not, for people                     | it is not: the end |

A proof is HMAC-SHA256, with the secret key of the user, of a word for the side, both random values and the name. So
no proof can be used again, no secret travels, and each side knows that the other one has the secret. It is another
hash than that of signed requests: no proof is the signature of a request, whatever the random bytes of a forger are.

No replica of Apache asks, and its bytes stay as they are. Its primaries take -1 for a report that says nothing, and are
silent. Neither HA protocol takes the answer for a frame of its own, because -1 is no size and no kind.

A primary, by what comes first:

| what comes      | no users         | users; may come without an account | users                 |
|-----------------|------------------|------------------------------------|-----------------------|
| the question    | IN, "not needed" | IN, "not needed"                   | ASKED, "needed"       |
| anything else   | IN               | IN                                 | refused               |

Without TLS, whoever is between the two still reads everything, and may speak for a replica that was let in.
"""

from __future__ import annotations

import enum
import hmac
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gantrymq.errors import GantryError, RemoteProtocolError
from gantrymq.protocol.signature import Account, SecretKey

if TYPE_CHECKING:
    from gantrymq.access.guard import Guard
    from gantrymq.access.values import User

ASK: Final = struct.pack(">q", -1)
_CHALLENGE: Final = struct.Struct(">qi?16s")
_START: Final = struct.pack(">qi", -1, -1)
_LENGTH: Final = struct.Struct(">H")
_VERDICT: Final = struct.Struct(">?H")
NONCE_BYTES: Final = 16
PROOF_BYTES: Final = 32
NAME_MAX_BYTES: Final = 1024
REASON_MAX_BYTES: Final = 2048
OF_REPLICA, OF_PRIMARY = b"gantrymq replica\0", b"gantrymq primary\0"
KEY: Final = "innerClientAuthenticationCredentials"
"""Names the account of a broker."""

Token = Callable[[int], bytes]
"""Makes so many random bytes."""


class State(enum.Enum):
    """Of one connection."""

    NEW = "has said nothing"
    ASKED = "must prove who it is"
    IN = "is let in"


class NotLetIn(RemoteProtocolError):
    """A replica did not prove who it is. ``answer``: what it is told; empty: it would not understand."""

    def __init__(self, reason: str, answer: bytes = b"") -> None:
        self.answer: Final = answer
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class Demand:
    """What a primary demands of replicas."""

    guard: Guard | None = None
    """Knows the users; None: there are none, and everybody is let in."""
    without: frozenset[str] = frozenset()
    """IP addresses from where Apache's slaves may come, who have no account."""
    elected: bool = False
    """Whether it is a member of a group: then nobody is let in without an account."""
    token: Token = field(default=bytes)


NOTHING: Final = Demand()


class PrimaryAuthentication:
    """One connection, as a primary lets it in."""

    def __init__(self, demand: Demand, host: str) -> None:
        """``host``: IP address of the replica."""
        self._demand = demand
        self._host = host
        self._rest = b""
        self._nonce = b""
        self.state = State.NEW
        self.user: User | None = None
        """Who it is; None: that is not known, and not needed."""

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """What to answer, and what is for the HA protocol. Raises NotLetIn."""
        if self.state is State.IN:
            return b"", data
        self._rest += data
        return self._first() if self.state is State.NEW else self._proof()

    def gone(self) -> str:
        """Why it may stay no longer; empty: it may. Users change while it is connected."""
        user, guard = self.user, self._demand.guard
        if user is None or guard is None or guard.directory.user(user.name) == user:
            return ""
        return f"the user {user.name} was changed, so it has to prove again who it is"

    def _first(self) -> tuple[bytes, bytes]:
        rest = self._rest
        asks = ASK.startswith(rest[: len(ASK)])
        if asks and len(rest) < len(ASK):
            return b"", b""
        demand = self._demand
        open_to_it = demand.guard is None or (self._host in demand.without and not demand.elected)
        if open_to_it:
            self.state, self._rest = State.IN, b""
            if not asks:
                return b"", rest
            return _CHALLENGE.pack(-1, -1, False, bytes(NONCE_BYTES)), rest[len(ASK) :]
        if not asks:
            raise NotLetIn(_NOT_SAID_IN_GROUP if demand.elected else _NOT_SAID)
        self.state, self._nonce = State.ASKED, demand.token(NONCE_BYTES)
        self._rest = b""
        if len(rest) > len(ASK):
            raise NotLetIn("it went on before it was told what to prove; this is no replica")
        return _CHALLENGE.pack(-1, -1, True, self._nonce), b""

    def _proof(self) -> tuple[bytes, bytes]:
        rest = self._rest
        if len(rest) < _LENGTH.size:
            return b"", b""
        (size,) = _LENGTH.unpack_from(rest)
        if size > NAME_MAX_BYTES:
            raise NotLetIn(f"the name of its user has {size} bytes; this is no replica")
        whole = _LENGTH.size + size + NONCE_BYTES + PROOF_BYTES
        if len(rest) < whole:
            return b"", b""
        name = rest[_LENGTH.size : _LENGTH.size + size]
        nonces = self._nonce + rest[_LENGTH.size + size : whole - PROOF_BYTES]
        guard = self._demand.guard
        assert guard is not None
        try:
            user = _proven(guard, name, OF_REPLICA + nonces + name, rest[whole - PROOF_BYTES : whole], self._host)
        except GantryError as error:
            reason = str(error).encode()[:REASON_MAX_BYTES]
            raise NotLetIn(str(error), _VERDICT.pack(False, len(reason)) + reason) from None
        self.user, self.state, self._rest = user, State.IN, b""
        return _VERDICT.pack(True, PROOF_BYTES) + guard.proof(user, OF_PRIMARY + nonces + name), rest[whole:]


def _proven(guard: Guard, name: bytes, text: bytes, proof: bytes, host: str) -> User:
    """Raises Denied."""
    user = guard.sender(name.decode("utf-8", "replace"), lambda key: key.proves(text, proof), host)
    guard.demand_super(
        user, f"a replica gets every message, so its account has to be a super user, which {user.name} is not"
    )
    return user


_NOT_SAID: Final = (
    f"this broker has users, and it did not say who it is. A replica of GantryMQ needs {KEY} of a super user. A slave "
    "of Apache's has no account for this port: it may come if haAllowedAddresses names its address"
)
_NOT_SAID_IN_GROUP: Final = (
    f"this broker has users, and it did not say who it is. Each broker of a group needs {KEY} of a super user"
)


class ReplicaAuthentication:
    """One connection, as a replica comes in. ``account``: None: it has none. ``other_primaries``: whether a primary may
    be one of Apache's, which is silent."""

    def __init__(self, account: Account | None, token: Token, *, other_primaries: bool) -> None:
        self._account = account
        self._token = token
        self._other_primaries = other_primaries
        self._rest = b""
        self._expected = b""
        """The proof of the primary."""
        self.state = State.NEW

    def ask(self) -> bytes:
        """What comes first."""
        return ASK

    def silent(self) -> None:
        """The primary has not answered for a while. Raises RemoteProtocolError where it has to."""
        if self.state is not State.NEW or self._rest or not self._other_primaries:
            raise RemoteProtocolError("the primary did not say in time whether it lets this replica in")
        self.state = State.IN

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """What to answer, and what is for the HA protocol. Raises RemoteProtocolError."""
        if self.state is State.IN:
            return b"", data
        self._rest += data
        return self._challenge() if self.state is State.NEW else self._verdict()

    def _challenge(self) -> tuple[bytes, bytes]:
        rest = self._rest
        if not rest.startswith(_START[: len(rest)]):
            raise RemoteProtocolError("the primary does not say whether it has users; this is not the HA port of one")
        if len(rest) < _CHALLENGE.size:
            return b"", b""
        _, _, needed, nonce = _CHALLENGE.unpack_from(rest)
        self._rest = b""
        if not needed:
            self.state = State.IN
            return b"", rest[_CHALLENGE.size :]
        account = self._account
        if account is None:
            raise RemoteProtocolError(f"the primary has users: set {KEY} to a super user of it")
        name = account.access_key.encode()
        nonces = nonce + (own := self._token(NONCE_BYTES))
        key = SecretKey(account.secret_key)
        self.state, self._expected = State.ASKED, key.proof(OF_PRIMARY + nonces + name)
        return _LENGTH.pack(len(name)) + name + own + key.proof(OF_REPLICA + nonces + name), b""

    def _verdict(self) -> tuple[bytes, bytes]:
        rest = self._rest
        if len(rest) < _VERDICT.size:
            return b"", b""
        is_in, size = _VERDICT.unpack_from(rest)
        if size > REASON_MAX_BYTES:
            raise RemoteProtocolError(f"an answer of {size} bytes came; this is not the HA port of a primary")
        whole = _VERDICT.size + size
        if len(rest) < whole:
            return b"", b""
        said = rest[_VERDICT.size : whole]
        if not is_in:
            raise RemoteProtocolError(f"the primary does not let this replica in: {said.decode('utf-8', 'replace')}")
        if not hmac.compare_digest(said, self._expected):
            raise RemoteProtocolError(
                f"it is not the primary: it does not know the secret key of {KEY}, which both brokers must have"
            )
        self.state, self._rest = State.IN, b""
        return b"", rest[whole:]
