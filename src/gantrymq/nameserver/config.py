"""Settings of a name server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gantrymq.access.settings import KEYS as ACCESS_KEYS
from gantrymq.access.settings import AccessSettings, access_settings
from gantrymq.errors import ConfigError
from gantrymq.runtime.limits.values import Limits
from gantrymq.runtime.properties import parse_properties

DEFAULT_PORT: Final = 9876


@dataclass(frozen=True, slots=True)
class NameServerConfig:
    """The settings of one name server."""

    listen_host: str = "0.0.0.0"  # nosec B104 # RocketMQ's default
    listen_port: int = DEFAULT_PORT
    """0: any free port."""
    kv_config_path: str = ""
    """``kvConfigPath``: absolute path of the key-value file; empty: key-values are lost when the process ends."""
    scan_interval_seconds: float = 5.0
    """How often the name server removes silent brokers (``scanNotActiveBrokerInterval``)."""
    order_message_enable: bool = False
    """``orderMessageEnable``: routes contain the topic's entry of ORDER_TOPIC_CONFIG."""
    return_order_topic_config_to_broker: bool = True
    limits: Limits = field(default_factory=Limits)
    """What clients and brokers may take."""
    cluster_name: str = "DefaultCluster"
    """``clusterName``: the cluster of which a user needs rights to change something here."""
    access: AccessSettings = field(default_factory=AccessSettings)

    def __post_init__(self) -> None:
        if not 0 <= self.listen_port <= 65535:
            raise ConfigError(f"listenPort of the name server is {self.listen_port}; it must be between 0 and 65535")


_SWITCHES: Final = {
    "orderMessageEnable": "order_message_enable",
    "returnOrderTopicConfigToBroker": "return_order_topic_config_to_broker",
}
"""The switches that may change while the name server runs: fields by key."""
LIMITS: Final = {
    "firstRequestTimeout": ("first_request_seconds", 1000),
    "maxBytesInFlight": ("bytes_in_flight", 1),
    "maxBytesInFlightPerHost": ("bytes_in_flight_of_client", 1),
    "maxConnections": ("connections", 1),
    "maxConnectionsPerHost": ("connections_of_client", 1),
    "maxRequestsPerSecond": ("requests_per_second", 1),
    "slowReaderTimeout": ("slow_reader_seconds", 1000),
}
"""The limits, which have the keys of a broker and may change, too: fields by key, and how much of the setting's unit is
one of the field's."""
_IGNORED: Final = frozenset({"rocketmqHome"})


def shown(config: NameServerConfig) -> dict[str, str]:
    """The settings by RocketMQ's keys."""
    limits = {key: str(round(getattr(config.limits, name) * scale)) for key, (name, scale) in LIMITS.items()}
    shown = {
        "bindAddress": config.listen_host,
        "kvConfigPath": config.kv_config_path,
        "listenPort": str(config.listen_port),
        "orderMessageEnable": str(config.order_message_enable).lower(),
        "returnOrderTopicConfigToBroker": str(config.return_order_topic_config_to_broker).lower(),
        "scanNotActiveBrokerInterval": str(round(config.scan_interval_seconds * 1000)),
        **limits,
    }
    return dict(sorted(shown.items()))


def changed(config: NameServerConfig, wanted: Mapping[str, str]) -> NameServerConfig:
    """``config`` with changed settings, by key. Raises ConfigError, which names the setting that cannot be changed."""
    now = shown(config)
    fields: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    for key, value in wanted.items():
        if key not in now:
            raise ConfigError(f"{key} is not a setting of this name server; its settings are {', '.join(now)}")
        if value == now[key]:
            continue
        if key in LIMITS:
            name, scale = LIMITS[key]
            limits[name] = _number(key, value) / scale if scale > 1 else _number(key, value)
        elif key in _SWITCHES:
            fields[_SWITCHES[key]] = _switch(key, value)
        else:
            raise ConfigError(f"{key} cannot be changed while the name server runs; restart it")
    return replace(config, limits=replace(config.limits, **limits), **fields)


def from_properties(text: str, base: NameServerConfig) -> tuple[NameServerConfig, list[str]]:
    """A ``namesrv.conf`` over ``base``; also the keys nobody here knows, in the order of the file.

    Raises ConfigError naming key and value when a known key has an impossible value.
    """
    wanted = parse_properties(text)
    fields: dict[str, Any] = {
        "access": access_settings({key: value for key, value in wanted.items() if key in ACCESS_KEYS})
    }
    if "clusterName" in wanted:
        fields["cluster_name"] = wanted["clusterName"]
    if "listenPort" in wanted:
        fields["listen_port"] = _number("listenPort", wanted["listenPort"])
    if "bindAddress" in wanted:
        fields["listen_host"] = wanted["bindAddress"]
    if "kvConfigPath" in wanted:
        fields["kv_config_path"] = wanted["kvConfigPath"]
    if "scanNotActiveBrokerInterval" in wanted:
        milliseconds = _number("scanNotActiveBrokerInterval", wanted["scanNotActiveBrokerInterval"])
        fields["scan_interval_seconds"] = max(milliseconds, 1) / 1000
    config = changed(
        replace(base, **fields), {key: value for key, value in wanted.items() if key in LIMITS or key in _SWITCHES}
    )
    known = {*shown(config), *ACCESS_KEYS, *_IGNORED, "clusterName"}
    return config, [key for key in wanted if key not in known]


def _number(key: str, value: str) -> int:
    if not (value.isascii() and value.isdecimal()):
        raise ConfigError(f"{key} is {value!r}; write a whole number, 0 or larger")
    return int(value)


def _switch(key: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise ConfigError(f"{key} is {value!r}; write true or false")
    return value.lower() == "true"
