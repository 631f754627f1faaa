"""The network of a server process: TCP, with TLS where a file of settings says so."""

from __future__ import annotations

import os
from pathlib import Path

from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.network import Network, TcpNetwork
from gantrymq.runtime.tls.settings import ENVIRONMENT, TlsMode


def demands_tls(network: Network) -> bool:
    """Whether the listening addresses of a network take no connection without TLS."""
    if isinstance(network, TcpNetwork):
        return False  # and the modules of TLS are not loaded
    from gantrymq.runtime.tls.network import TlsNetwork

    return isinstance(network, TlsNetwork) and network.only_tls


def server_network(tls_config: Path | None, *, own_name_server: bool = False) -> Network:
    """``tls_config``: the file; None: the one that the environment names, if any. ``own_name_server``: whether this
    process is a client of its own name server. Raises ConfigError, which says what is wrong with the settings.
    """
    named = tls_config or os.environ.get(ENVIRONMENT)
    if not named:
        return TcpNetwork()
    # Not at the top: a server without TLS starts faster without it.
    from gantrymq.errors import ConfigError
    from gantrymq.runtime.tls.certificates import ServerCertificates, client_context
    from gantrymq.runtime.tls.file import read_tls_file
    from gantrymq.runtime.tls.network import TlsNetwork

    path = Path(named)
    tls = read_tls_file(path)
    mode = tls.server.mode if tls.server is not None else TlsMode.DISABLED
    if own_name_server and mode is TlsMode.ENFORCING and tls.client is None:
        raise ConfigError(
            f"{path}: tls.server.mode is enforcing, and the broker must reach its name server with TLS, too: set "
            "tls.enable=true, and tls.client.trustCertPath to the certificate of the authority"
        )
    certificates = None if tls.server is None or mode is TlsMode.DISABLED else ServerCertificates(tls.server)
    client = None if tls.client is None else client_context(tls.client)
    return TlsNetwork(TcpNetwork(), SystemClock(), server=certificates, mode=mode, client=client)
