"""The users of a server that has a broker and a name server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gantrymq.access.settings import AccessSettings
from gantrymq.broker.broker import USERS_FOLDER
from gantrymq.broker.config import BrokerConfig
from gantrymq.errors import ConfigError
from gantrymq.runtime.disk import OsDisk

if TYPE_CHECKING:
    from gantrymq.access.opening import Access

PLAIN_ACL: Final = "plain_acl.yml"


def check_inner_account(config: BrokerConfig) -> None:
    """Raises ConfigError when the broker could not register with the name server, which has the same users."""
    if config.access.is_on and config.access.inner_account() is None:
        raise ConfigError(
            "this server has users, so its broker must sign what it asks its name server; name a super user for that: "
            'innerClientAuthenticationCredentials={"accessKey":"...","secretKey":"..."}'
        )


def users_of(config: BrokerConfig, file: Path | None) -> Access | None:
    """The users that broker and name server of one process share; None: there are none."""
    if not config.access.is_on:
        return None
    from gantrymq.access.opening import open_access  # loaded only where there are users

    folder = f"{config.store.store_path_root_dir}/{USERS_FOLDER}"
    path = "" if file is None else str(file.resolve())
    return open_access(
        config.access, OsDisk(), folder=folder, config_file=path, cluster=config.identity.broker_cluster_name
    )


def access_of_name_server(config: BrokerConfig, root: Path, file: Path | None) -> AccessSettings:
    """The settings of a name server before several brokers, each of which has users of its own. Raises ConfigError."""
    access = config.access
    if access.authentication_enabled and access.auth_config_path:
        raise ConfigError(
            "authConfigPath names one directory, and with --brokers or --replicas each broker keeps its users in its "
            "own store; remove authConfigPath"
        )
    if access.acl_enable and not access.plain_acl_file:
        beside = root if file is None else file.resolve().parent
        return replace(access, plain_acl_file=str(beside / PLAIN_ACL))
    return replace(access, auth_config_path=str(root / USERS_FOLDER)) if access.is_on else access
