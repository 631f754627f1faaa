"""Settings that a name server refuses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gantrymq.broker.config import FIELDS, BrokerConfig, key_of
from gantrymq.broker.config_sections import LIMITS as BROKER_LIMITS
from gantrymq.errors import ConfigError
from gantrymq.nameserver.config import LIMITS, NameServerConfig, changed, from_properties, shown
from gantrymq.runtime.limits.values import Limits


@pytest.mark.parametrize("port", [-1, 65536, 99999])
def test_a_port_that_does_not_exist_is_refused_and_not_wrapped(port: int) -> None:
    with pytest.raises(ConfigError, match=f"listenPort of the name server is {port}; it must be between 0 and 65535"):
        NameServerConfig(listen_port=port)


def test_limits_are_shown_changed_and_read_from_a_file() -> None:
    config, unknown = from_properties(
        "maxConnections=7\nslowReaderTimeout=1500\nlistenPort=1\nrocketmqHome=/x\norderMessageEnable=true\nnone=1\n",
        NameServerConfig(listen_port=9),
    )
    assert unknown == ["none"] and config.listen_port == 1 and config.order_message_enable
    assert config.limits == Limits(connections=7, slow_reader_seconds=1.5)
    assert {shown(config)[key] for key in ("maxConnections", "slowReaderTimeout")} == {"7", "1500"}
    assert shown(config)["maxBytesInFlight"] == str(2 * 1024**3)
    assert changed(config, {"maxRequestsPerSecond": "9", "maxConnections": "7"}).limits.requests_per_second == 9
    for key, value in (("maxConnections", "many"), ("maxConnections", "-1"), ("listenPort", "x")):
        with pytest.raises(ConfigError, match=key):
            from_properties(f"{key}={value}", NameServerConfig())


def test_a_name_server_has_the_limits_of_a_broker_and_the_same_defaults() -> None:
    broker = BrokerConfig()
    assert broker.network.limits == NameServerConfig().limits
    assert set(LIMITS) == {key_of(name) for name in BROKER_LIMITS}
    for key, field in FIELDS.items():
        if key in LIMITS:
            assert shown(NameServerConfig())[key] == str(broker.value(field.name))


def test_the_page_has_every_key_and_its_default() -> None:
    page = (
        (Path(__file__).parents[2] / "docs/settings.md")
        .read_text()
        .partition("## Settings of the name server")[2]
        .partition("\n## ")[0]
    )
    rows = re.findall(r"(?m)^\| (`.*?) \| ([^|]*?) ?\|", page)
    documented = {key: default for keys, default in rows for key in re.findall(r"`(\w+)`", keys)}
    defaults = shown(NameServerConfig())
    assert documented.keys() == defaults.keys()
    for key, default in defaults.items():
        assert documented[key] == ("as a broker's" if key in LIMITS else default), key
