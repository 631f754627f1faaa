"""Makes the guard of a server from its settings, or nothing when it has no users."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gantrymq.access.directory import Content, Directory
from gantrymq.access.file import open_directory
from gantrymq.access.guard import Guard
from gantrymq.access.plain_acl import Accounts, parse
from gantrymq.access.settings import AccessSettings
from gantrymq.access.values import User, UserKind
from gantrymq.errors import ConfigError
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.disk import Disk, read_whole

log = logging.getLogger("gantrymq.access")

PLAIN_ACL: Final = "plain_acl.yml"


@dataclass(frozen=True, slots=True)
class Access:
    """What a server with users has."""

    guard: Guard
    managed: bool
    """Whether tools change users and policies; else a person edits ``plain_acl.yml``."""
    reload: Callable[[], None] | None
    """To be called every few seconds; None: nothing is read again. It logs what is wrong and raises nothing."""
    unsigned: frozenset[int] = frozenset()
    """Request codes of remoting that need no signature; only the door of remoting knows what they are."""
    unjudged: frozenset[int] = frozenset()
    """The same: they need no permission."""


def open_access(
    settings: AccessSettings, disk: Disk, *, folder: str, config_file: str, cluster: str, clock: Clock | None = None
) -> Access | None:  # fmt: skip
    """``folder``: where the users are when ``authConfigPath`` is empty. ``config_file``: the broker.conf, beside which
    ``plain_acl.yml`` is looked for; empty: in ``folder``. Raises ConfigError, which says what to do.
    """
    if settings.acl_enable:
        path = settings.plain_acl_file or os.path.join(os.path.dirname(config_file) or folder, PLAIN_ACL)
        return _of_file(disk, path, cluster, clock)
    if not settings.authentication_enabled:
        return None
    directory = open_directory(disk, settings.auth_config_path or folder)
    for account in (settings.first_user(), settings.inner_account()):
        if account is not None and directory.user(account[0]) is None:
            directory.create(User(account[0], account[1], UserKind.SUPER), None)
    if not directory.users():
        raise ConfigError(
            "authenticationEnabled is true and there is no user, so nobody could ever do anything; name the first one: "
            'initAuthenticationUser={"username":"admin","password":"..."}'
        )
    guard = Guard(
        directory,
        cluster,
        authorize=settings.authorization_enabled,
        clock=clock,
    )
    return Access(guard, True, None, settings.unsigned_codes(), settings.unjudged_codes())


def _of_file(disk: Disk, path: str, cluster: str, clock: Clock | None) -> Access:
    if not disk.exists(path):
        raise ConfigError(f"aclEnable is true and there is no file {path}; make it, or name it by plainAclFile")
    guard = Guard(Directory(Content(), _unchangeable), cluster, authorize=True, clock=clock)
    seen = disk.modified_ms(path)
    _use(guard, parse(read_whole(disk, path), path))

    def reload() -> None:
        nonlocal seen
        try:
            modified = disk.modified_ms(path)
            if modified == seen:
                return
            _use(guard, parse(read_whole(disk, path), path))
        except (ConfigError, OSError) as error:
            log.error("the accounts stay as they were: %s", error)
            return
        seen = modified
        log.warning("the accounts of %s are used as they are now", path)

    return Access(guard, False, reload)


def _use(guard: Guard, accounts: Accounts) -> None:
    guard.open_to = accounts.open_to
    guard.trusted = accounts.trusted
    guard.directory.replace(accounts.content)


def _unchangeable(content: Content) -> None:
    raise ConfigError(f"the accounts are in {PLAIN_ACL}; edit the file, it is read again when it changes")
