"""Users and permissions of a name server. Apache's name servers have none."""

from __future__ import annotations

from collections.abc import Mapping

from gantrymq.access.opening import Access, open_access
from gantrymq.access.places import NoPlaces
from gantrymq.access.remoting.enforcement import guarded
from gantrymq.access.remoting.handler import AccessHandler
from gantrymq.access.remoting.requests import NAME_SERVER_ROWS
from gantrymq.errors import ConfigError
from gantrymq.nameserver.config import NameServerConfig
from gantrymq.remoting.server import Handler
from gantrymq.runtime.disk import Disk


def open_users(config: NameServerConfig, disk: Disk) -> Access:
    """Raises ConfigError, which says what to do."""
    settings = config.access
    if settings.authentication_enabled and not settings.auth_config_path:
        raise ConfigError("authenticationEnabled is true; name the directory of the users of the name server, too: "
                          "authConfigPath=/var/lib/gantry/auth")  # fmt: skip
    if settings.acl_enable and not settings.plain_acl_file:
        raise ConfigError("aclEnable is true; name the file of the accounts: plainAclFile=/etc/gantry/plain_acl.yml")
    access = open_access(
        settings, disk, folder=settings.auth_config_path, config_file="", cluster=config.cluster_name
    )  # fmt: skip
    if access is None:
        raise ConfigError("neither authenticationEnabled nor aclEnable is true, so there are no users")
    return access


def behind_guard(table: Mapping[int, Handler], access: Access, *, manages: bool) -> Mapping[int, Handler]:
    """The handlers of a name server with users. ``manages``: whether tools may change the users here."""
    handlers = {**table, **AccessHandler(access.guard.directory).table()} if manages else table
    return guarded(handlers, access, NAME_SERVER_ROWS, NoPlaces())
