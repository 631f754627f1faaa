"""The configuration of a broker, and what a ``broker.conf`` says about it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Final, Self

from gantrymq.access.settings import AccessSettings
from gantrymq.broker.config_sections import (
    GIVEN_ID,
    SLAVE,
    SYNC_MASTER,
    DelaySettings,
    GroupSettings,
    Identity,
    NetworkSettings,
    PopSettings,
    PullSettings,
    ReplicationSettings,
    RetentionSettings,
    StoreSettings,
    TopicSettings,
    TransactionSettings,
)
from gantrymq.broker.config_sections import (
    key_of as key_of,
)
from gantrymq.errors import ConfigError
from gantrymq.runtime.properties import parse_properties as parse_properties


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """What one broker is told, by what it is about. Nothing of it ever changes; see ``live_config``."""

    identity: Identity = field(default_factory=Identity)
    network: NetworkSettings = field(default_factory=NetworkSettings)
    replication: ReplicationSettings = field(default_factory=ReplicationSettings)
    topics: TopicSettings = field(default_factory=TopicSettings)
    groups: GroupSettings = field(default_factory=GroupSettings)
    pull: PullSettings = field(default_factory=PullSettings)
    delay: DelaySettings = field(default_factory=DelaySettings)
    pop: PopSettings = field(default_factory=PopSettings)
    transactions: TransactionSettings = field(default_factory=TransactionSettings)
    store: StoreSettings = field(default_factory=StoreSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    access: AccessSettings = field(default_factory=AccessSettings)

    def __post_init__(self) -> None:
        port, role = self.replication.ha_listen_port, self.identity.broker_role
        if role == SYNC_MASTER and not port:
            raise ConfigError("a SYNC_MASTER waits for its replicas, which need a port: set haListenPort, as 10912")
        if self.replication.etcd_addr or self.replication.enable_controller_mode:
            self._check_group()
        elif self.identity.broker_id == GIVEN_ID:
            raise ConfigError(
                "brokerId=-1 is for enableControllerMode=true, where a controller gives it; write another"
            )

    def _check_group(self) -> None:
        """Raises ConfigError when this cannot be a member of a group that elects its primary."""
        key = "enableControllerMode" if self.replication.enable_controller_mode else "etcdAddr"
        if self.replication.etcd_addr and self.replication.enable_controller_mode:
            raise ConfigError("etcdAddr and enableControllerMode are two ways to elect a primary: remove one of them")
        if self.identity.broker_role != SLAVE:
            raise ConfigError(
                f"with {key} no setting says who is primary: write brokerRole=SLAVE instead of "
                f"{self.identity.broker_role}, and a brokerId that no other broker of this name has, from 1 on"
            )
        if not self.replication.ha_listen_port:
            raise ConfigError(f"with {key} each broker may become primary, so it needs haListenPort, as 10912")
        if self.access.is_on and self.access.inner_account() is None:
            raise ConfigError(
                "this broker has users, so each broker of its group proves to the others who it is: set "
                'innerClientAuthenticationCredentials={"accessKey":"...","secretKey":"..."} of a super user, in each'
            )
        if self.replication.ha_master_address:
            raise ConfigError(f"with {key} the record names the primary: remove haMasterAddress")

    @classmethod
    def of(cls, **fields: Any) -> Self:
        """Defaults but for ``fields``, by name (``broker_name="b"``). Raises ConfigError naming the key when a value is
        not allowed.
        """
        return cls().replaced(**fields)

    def replaced(self, **fields: Any) -> Self:
        """The same with other values of some fields. Raises ConfigError naming the key when a value is not allowed."""
        changes: dict[str, dict[str, Any]] = {}
        for name, value in fields.items():
            changes.setdefault(SECTION_OF[name], {})[name] = value
        sections = {name: dataclasses.replace(getattr(self, name), **values) for name, values in changes.items()}
        return dataclasses.replace(self, **sections)

    def value(self, field: str) -> Any:
        """The value of a field, by its name."""
        return getattr(getattr(self, SECTION_OF[field]), field)


_DEFAULTS: Final = BrokerConfig()
_SECTIONS: Final = {part.name: getattr(_DEFAULTS, part.name) for part in dataclasses.fields(BrokerConfig)}
SECTION_OF: Final = {each.name: name for name, section in _SECTIONS.items() for each in dataclasses.fields(section)}
"""Field to section."""
FIELDS: Final = {key_of(each.name): each for section in _SECTIONS.values() for each in dataclasses.fields(section)}
"""Key to field."""
CHANGEABLE: Final = frozenset(each.name for each in FIELDS.values() if each.metadata.get("live"))
"""Fields that may change while the broker runs."""

IGNORED: Final = frozenset({"rocketmqHome"})
"""Keys that need no warning, because they have no meaning outside a Java installation."""


def from_properties(text: str, base: BrokerConfig | None = None) -> tuple[BrokerConfig, list[str]]:
    """A ``broker.conf`` over ``base``; also the keys nobody here knows, in the order of the file.

    Raises ConfigError naming key and value when a known key has an impossible value.
    """
    known: dict[str, Any] = {}
    unknown: list[str] = []
    for key, value in parse_properties(text).items():
        known_field = FIELDS.get(key)
        if known_field is None:
            if key not in IGNORED:
                unknown.append(key)
            continue
        known[known_field.name] = convert(key, value, str(known_field.type))
    return (base or BrokerConfig()).replaced(**known), unknown


def convert(key: str, value: str, kind: str) -> Any:
    """The text of a setting as a value of its field's type. Raises ConfigError."""
    if kind == "int":
        try:
            return int(value)
        except ValueError as error:
            raise ConfigError(f"{key} is {value!r}; write a whole number") from error
    if kind == "bool":
        if value.lower() not in ("true", "false"):
            raise ConfigError(f"{key} is {value!r}; write true or false")
        return value.lower() == "true"
    return value
