"""Settings of a name server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

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
