"""What settings and environment say about the security of a client: TLS, and the account that signs requests."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from gantrymq.client.connection.outside import Outside
from gantrymq.protocol.signature import Account
from gantrymq.runtime.network import Network, TcpNetwork
from gantrymq.runtime.tls.settings import ENVIRONMENT

if TYPE_CHECKING:
    from gantrymq.client.config import ClientConfig


def network_of(config: ClientConfig, outside: Outside) -> Network:
    """Raises ConfigError, which names the file that is wrong. The environment counts only for the real network, since a
    cluster in memory has no TLS."""
    wanted = config.tls_settings()
    path = os.environ.get(ENVIRONMENT)
    if wanted is None and config.tls is None and path and isinstance(outside.network, TcpNetwork):
        from gantrymq.runtime.tls.file import read_tls_file

        wanted = read_tls_file(Path(path)).client
    if wanted is None:
        return outside.network
    # Not at the top: most clients have no TLS, and start faster without it.
    from gantrymq.runtime.tls.certificates import client_context
    from gantrymq.runtime.tls.network import TlsNetwork

    return TlsNetwork(outside.network, outside.clock, client=client_context(wanted))


def account_of(config: ClientConfig) -> Account | None:
    """Who signs the requests; None: they are not signed."""
    access_key, secret_key = config.access_key, config.secret_key
    if access_key is None:
        access_key, secret_key = os.environ.get("GANTRY_ACCESS_KEY"), os.environ.get("GANTRY_SECRET_KEY")
    return Account(access_key, secret_key) if access_key and secret_key else None
