"""Settings that a name server refuses."""

from __future__ import annotations

import pytest

from gantrymq.errors import ConfigError
from gantrymq.nameserver.config import NameServerConfig


@pytest.mark.parametrize("port", [-1, 65536, 99999])
def test_a_port_that_does_not_exist_is_refused_and_not_wrapped(port: int) -> None:
    with pytest.raises(ConfigError, match=f"listenPort of the name server is {port}; it must be between 0 and 65535"):
        NameServerConfig(listen_port=port)
