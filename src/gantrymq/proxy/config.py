"""The settings of a proxy."""

from __future__ import annotations

from dataclasses import dataclass, field

from gantrymq.message.sizes import MAX_BODY_BYTES
from gantrymq.protocol.signature import Account
from gantrymq.runtime.addresses import ANY
from gantrymq.runtime.limits.values import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyConfig:
    """Where it listens, and which cluster it stands before."""

    name_servers: tuple[str, ...]
    bind: str = ANY
    account: Account | None = None
    """Who signs what goes to brokers: a super user. Then clients have to be users of the brokers, too. None: nothing is
    signed, and nobody is judged."""
    grpc_port: int
    """0: any free one."""
    host: str = "127.0.0.1"
    """The address that clients are told which do not say how they reach the proxy."""
    body_max: int = MAX_BODY_BYTES
    """Bytes of a body; brokers have a limit of their own (maxMessageSize)."""
    checks_types: bool = True
    """Whether a topic takes only messages of its type (enableTopicMessageTypeCheck)."""
    call_timeout_ms: int = 3_000
    """How long a broker may take to answer."""
    client_silent_s: float = 120.0
    """A client that has said nothing for so long is gone (channelExpiredTimeout)."""
    limits: Limits = field(default_factory=Limits)
