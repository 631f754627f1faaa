"""The file with users and policies.

JSON: ``users`` and ``acls`` as tools exchange them, and with the secrets. A signature (HMAC) is checked with the same
secret that made it, so a hash of the secret would not do. The file is written with mode 0600, and who can read it can
act as any of its users.
"""

from __future__ import annotations

import os
from typing import Final

import msgspec

from gantrymq.access.directory import Content, Directory
from gantrymq.access.texts import grants_body, grants_of, name_of_subject, user_body, user_of
from gantrymq.errors import ConfigError
from gantrymq.protocol.bodies.access import AclBody, UserBody
from gantrymq.runtime.disk import Disk, read_whole, write_durably

NAME: Final = "users.json"


class _Stored(msgspec.Struct, frozen=True):
    users: list[UserBody] = msgspec.field(default_factory=list)
    acls: list[AclBody] = msgspec.field(default_factory=list)


def open_directory(disk: Disk, folder: str) -> Directory:
    """The users of a folder; there are none when it has no file. Raises ConfigError when the file cannot be used."""
    path = f"{folder}/{NAME}"
    content = _read(disk, path) if disk.exists(path) else Content()
    return Directory(content, lambda changed: _write(disk, path, changed))


def _read(disk: Disk, path: str) -> Content:
    return decoded(read_whole(disk, path), path)


def decoded(data: bytes, path: str) -> Content:
    """What a file holds. ``path``: for the sentence of the ConfigError that is raised when it cannot be used."""
    try:
        stored = msgspec.json.decode(data, type=_Stored)
        users = [user_of(body) for body in stored.users]
        grants = {name_of_subject(body.subject): grants_of(body) for body in stored.acls}
    except (msgspec.MsgspecError, UnicodeDecodeError, ConfigError) as error:
        raise ConfigError(f"the file of users {path} cannot be used: {error}; restore it from a copy") from error
    return Content({user.name: user for user in users}, grants)


def encoded(content: Content) -> bytes:
    """What the file holds: with the secrets."""
    stored = _Stored(
        [user_body(user, with_secret=True) for _, user in sorted(content.users.items())],
        [grants_body(name, grants) for name, grants in sorted(content.grants.items())],
    )
    return msgspec.json.format(msgspec.json.encode(stored), indent=1) + b"\n"


def _write(disk: Disk, path: str, content: Content) -> None:
    disk.make_dirs(os.path.dirname(path))
    write_durably(disk, path, encoded(content), private=True)
