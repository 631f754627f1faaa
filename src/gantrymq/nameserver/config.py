"""Settings of a name server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from gantrymq.errors import ConfigError

DEFAULT_PORT: Final = 9876


@dataclass(frozen=True, slots=True)
class NameServerConfig:
    """The settings of one name server."""

    listen_host: str = "0.0.0.0"
    listen_port: int = DEFAULT_PORT
    """0: any free port."""
    kv_config_path: str = ""
    """``kvConfigPath``: absolute path of the key-value file; empty: key-values are lost when the process ends."""
    scan_interval_seconds: float = 5.0
    """How often the name server removes silent brokers (``scanNotActiveBrokerInterval``)."""
    order_message_enable: bool = False
    """``orderMessageEnable``: routes contain the topic's entry of ORDER_TOPIC_CONFIG."""
    return_order_topic_config_to_broker: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.listen_port <= 65535:
            raise ConfigError(f"listenPort of the name server is {self.listen_port}; it must be between 0 and 65535")


_SWITCHES: Final = {
    "orderMessageEnable": "order_message_enable",
    "returnOrderTopicConfigToBroker": "return_order_topic_config_to_broker",
}
"""The settings that may change while the name server runs: fields by key."""


def shown(config: NameServerConfig) -> dict[str, str]:
    """The settings by RocketMQ's keys."""
    return {
        "bindAddress": config.listen_host,
        "kvConfigPath": config.kv_config_path,
        "listenPort": str(config.listen_port),
        "orderMessageEnable": str(config.order_message_enable).lower(),
        "returnOrderTopicConfigToBroker": str(config.return_order_topic_config_to_broker).lower(),
        "scanNotActiveBrokerInterval": str(round(config.scan_interval_seconds * 1000)),
    }


def changed(config: NameServerConfig, wanted: Mapping[str, str]) -> NameServerConfig:
    """``config`` with changed settings, by key. Raises ConfigError, which names the setting that cannot be changed."""
    now = shown(config)
    fields: dict[str, bool] = {}
    for key, value in wanted.items():
        if key not in now:
            raise ConfigError(f"{key} is not a setting of this name server; its settings are {', '.join(now)}")
        if value == now[key]:
            continue
        if key not in _SWITCHES:
            raise ConfigError(f"{key} cannot be changed while the name server runs; restart it")
        if value.lower() not in ("true", "false"):
            raise ConfigError(f"{key} is {value!r}; write true or false")
        fields[_SWITCHES[key]] = value.lower() == "true"
    return replace(config, **fields)  # type: ignore[arg-type]
