"""Settings of a name server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from gantrymq.errors import ConfigError

DEFAULT_PORT: Final = 9876


@dataclass(frozen=True, slots=True)
class NameServerConfig:
    """What one name server is told."""

    listen_host: str = "0.0.0.0"
    listen_port: int = DEFAULT_PORT
    """0: any free port."""
    kv_config_path: str = ""
    """``kvConfigPath``: absolute path of the key-value file; empty: key-values live as long as the process."""
    scan_interval_seconds: float = 5.0
    """How often silent brokers are looked for (``scanNotActiveBrokerInterval``)."""
    order_message_enable: bool = False
    """``orderMessageEnable``: routes carry the topic's entry of ORDER_TOPIC_CONFIG."""
    return_order_topic_config_to_broker: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.listen_port <= 65535:
            raise ConfigError(f"listenPort of the name server is {self.listen_port}; it must be between 0 and 65535")


_SWITCHES: Final = {
    "orderMessageEnable": "order_message_enable",
    "returnOrderTopicConfigToBroker": "return_order_topic_config_to_broker",
}
"""Keys that may change while the name server runs, with their fields."""


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
    """``config`` with other settings, by key. Raises ConfigError saying which cannot be."""
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
