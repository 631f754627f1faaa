"""Who runs this program, and on which machine, as records for people name them."""

from __future__ import annotations

import getpass
import os
import socket


def user_name() -> str:
    """The login name; ``uid 12345`` where the user has none, as in most containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # OSError from Python 3.13 on
        return f"uid {os.getuid()}"


def user_name_of(number: int) -> str:
    """The login name of another user; ``uid 12345`` where it has none."""
    try:
        import pwd  # not on every system

        return pwd.getpwuid(number).pw_name
    except (ImportError, KeyError):
        return f"uid {number}"


def user_number() -> int:
    return os.getuid()


def host_name() -> str:
    return socket.gethostname()
