"""The settings of users and permissions, with RocketMQ's keys. Source: AuthConfig, BrokerConfig.aclEnable (4.x)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final, TypeVar

import msgspec

from gantrymq.errors import ConfigError

SECRET_KEYS: Final = frozenset({"initAuthenticationUser", "innerClientAuthenticationCredentials"})
"""Settings that hold a secret: they are never shown and never logged."""
HIDDEN: Final = "******"
"""What is shown in place of a secret."""
_T = TypeVar("_T")


class _FirstUser(msgspec.Struct, frozen=True):
    username: str
    password: str


class _Credentials(msgspec.Struct, frozen=True, rename="camel"):
    access_key: str
    secret_key: str


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """Whether requests must be signed, and what the users who sign them may do."""

    authentication_enabled: bool = False
    """Whether every request must be signed by a user."""
    authorization_enabled: bool = False
    """Whether users may only do what policies allow; needs ``authenticationEnabled``."""
    init_authentication_user: str = field(default="", repr=False)
    """A super user that is made at the start if it is not there: {"username":"...","password":"..."}."""
    inner_client_authentication_credentials: str = field(default="", repr=False)
    """The super user as which this server signs its own requests: {"accessKey":"...","secretKey":"..."}."""
    authentication_whitelist: str = ""
    """Request codes, separated by commas, that need no signature."""
    authorization_whitelist: str = ""
    """Request codes, separated by commas, that need no permission."""
    auth_config_path: str = ""
    """Directory of the file with users and policies; empty: ``config/auth`` in the store."""
    acl_enable: bool = False
    """Accounts of RocketMQ 4.x: they are in ``plainAclFile``."""
    plain_acl_file: str = ""
    """The ``plain_acl.yml``; empty: the one beside the broker.conf. Our own key."""

    def __post_init__(self) -> None:
        if self.authorization_enabled and not self.authentication_enabled:
            raise ConfigError(
                "authorizationEnabled is true and authenticationEnabled is not: permissions mean nothing while nobody "
                "has to say who they are; set both"
            )
        if self.acl_enable and self.authentication_enabled:
            raise ConfigError(
                "aclEnable and authenticationEnabled are both true; choose one: accounts in plain_acl.yml, or users "
                "that `gantry user` makes"
            )
        self.unsigned_codes()
        self.unjudged_codes()
        self.first_user()
        self.inner_account()

    @property
    def is_on(self) -> bool:
        """Whether anything is checked at all."""
        return self.authentication_enabled or self.acl_enable

    @property
    def has_secrets(self) -> bool:
        """Whether the file that these settings come from is to be kept from others."""
        return bool(self.init_authentication_user or self.inner_client_authentication_credentials)

    def unsigned_codes(self) -> frozenset[int]:
        """``authenticationWhitelist`` as numbers."""
        return _codes("authenticationWhitelist", self.authentication_whitelist)

    def unjudged_codes(self) -> frozenset[int]:
        """``authorizationWhitelist`` as numbers."""
        return _codes("authorizationWhitelist", self.authorization_whitelist)

    def first_user(self) -> tuple[str, str] | None:
        """Name and secret of ``initAuthenticationUser``."""
        if not self.init_authentication_user:
            return None
        form = '{"username":"...","password":"..."}'
        user = _read(self.init_authentication_user, _FirstUser, "initAuthenticationUser", form)
        return _complete(user.username, user.password, "initAuthenticationUser", form)

    def inner_account(self) -> tuple[str, str] | None:
        """Name and secret of ``innerClientAuthenticationCredentials``."""
        if not self.inner_client_authentication_credentials:
            return None
        form, key = '{"accessKey":"...","secretKey":"..."}', "innerClientAuthenticationCredentials"
        found = _read(self.inner_client_authentication_credentials, _Credentials, key, form)
        return _complete(found.access_key, found.secret_key, key, form)


def access_settings(values: Mapping[str, str]) -> AccessSettings:
    """The settings of a file, by their keys. Raises ConfigError."""
    given = {KEYS[key].name: truth(key, text) if KEYS[key].type == "bool" else text for key, text in values.items()}
    return AccessSettings(**given)  # type: ignore[arg-type]


def truth(key: str, text: str) -> bool:
    """``true`` or ``false``. Raises ConfigError for another word."""
    if text.lower() not in ("true", "false"):
        raise ConfigError(f"{key} is {text!r}; write true or false")
    return text.lower() == "true"


def _key_of(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


KEYS: Final = {_key_of(each.name): each for each in fields(AccessSettings)}
"""Field by key."""


def _read(text: str, kind: type[_T], key: str, form: str) -> _T:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        # Neither the text nor the parser's sentence, which may quote it: the text holds a secret.
        raise ConfigError(f"{key} cannot be read; write it as {form}") from None


def _complete(name: str, secret: str, key: str, form: str) -> tuple[str, str]:
    if not name.strip() or not secret.strip():
        raise ConfigError(f"{key} has an empty name or secret; write it as {form}")
    return name, secret


def _codes(key: str, text: str) -> frozenset[int]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if not (word.isascii() and word.isdecimal()):
            raise ConfigError(f"{key} is {text!r}; write request codes, separated by commas")
    return frozenset(map(int, words))
