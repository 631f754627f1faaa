"""Hashes of passwords: scrypt, as text ``scrypt$n$r$p$salt$hash``, the last two in base64."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final

from gantrymq.errors import ConfigError
from gantrymq.runtime.rng import Rng

N: Final = 2**15
R: Final = 8
P: Final = 1
"""32 MB and about 0.1 s for each check."""
MEMORY_MAX: Final = 128 * 1024 * 1024
SALT_BYTES: Final = 16
HASH_BYTES: Final = 32
PASSWORD_MAX: Final = 1_024
"""Characters."""


def hashed(password: str, rng: Rng) -> str:
    """The text for the settings file."""
    salt = rng.token(SALT_BYTES)
    return _text(salt, _hash(password, salt, N, R, P))


def verify(password: str, stored: str) -> bool:
    """Whether it is this password. Takes the time of a hash in any case."""
    n, r, p, salt, expected = parsed(stored)
    return hmac.compare_digest(_hash(password[:PASSWORD_MAX], salt, n, r, p), expected)


def parsed(stored: str) -> tuple[int, int, int, bytes, bytes]:
    """n, r, p, salt, hash. Raises ConfigError."""
    parts = stored.split("$")
    try:
        if len(parts) != 6 or parts[0] != "scrypt":
            raise ValueError
        n, r, p = (int(part) for part in parts[1:4])
        salt, expected = (base64.b64decode(part, validate=True) for part in parts[4:])
        if not (2 <= n <= 2**17 and n & (n - 1) == 0 and 1 <= r <= 16 and 1 <= p <= 4 and expected):
            raise ValueError
    except (ValueError, binascii.Error):
        raise ConfigError(
            "a password of the console's settings is no hash; `gantry console --new-user NAME` makes one"
        ) from None
    return n, r, p, salt, expected


def _hash(password: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=n, r=r, p=p, maxmem=MEMORY_MAX, dklen=HASH_BYTES)


def _text(salt: bytes, digest: bytes) -> str:
    return f"scrypt${N}${R}${P}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"


NOBODY: Final = _text(bytes(SALT_BYTES), bytes(HASH_BYTES))
"""The hash of no password: for names that are unknown."""
