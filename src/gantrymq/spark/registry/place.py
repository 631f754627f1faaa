"""Where a schema registry is, and who asks it. A value: Spark sends it to its workers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from gantrymq.errors import ConfigError
from gantrymq.spark.options.values import Secret

USER: Final = "GANTRY_REGISTRY_USER"
PASSWORD: Final = "GANTRY_REGISTRY_PASSWORD"
CA: Final = "GANTRY_REGISTRY_CA"
CERTIFICATE: Final = "GANTRY_REGISTRY_CERTIFICATE"
KEY: Final = "GANTRY_REGISTRY_KEY"
_URL: Final = re.compile(r"https?://\S+")


@dataclass(frozen=True, slots=True)
class Registry:
    """The address of a registry, and what it asks for."""

    url: str
    """One address, or several with commas between them."""
    user: str | None = None
    password: Secret | None = None
    ca: str | None = None
    """A file with the certificates that are trusted for ``https``. None: those of ``certifi``."""
    certificate: str | None = None
    """A file with the certificate of this client, and its key unless ``key`` has it."""
    key: str | None = None


def registry_of(url: str, environment: Mapping[str, str]) -> Registry:
    """The registry at an address, with the secrets of the environment. Raises ConfigError."""
    if (wrong := wrong_url(url)) is not None:
        raise ConfigError(f"the schema registry {wrong}")
    user, password = environment.get(USER), environment.get(PASSWORD)
    if (user is None) != (password is None):
        raise ConfigError(f"set both {USER} and {PASSWORD}, or neither: one alone opens no registry")
    return Registry(
        url,
        user,
        None if password is None else Secret(password),
        environment.get(CA),
        environment.get(CERTIFICATE),
        environment.get(KEY),
    )


def wrong_url(text: str) -> str | None:
    """What is wrong with the address of a registry; None if nothing is."""
    for one in text.split(","):
        if not _URL.fullmatch(one.strip()):
            return f"{one.strip()!r} is not an address; write one such as http://127.0.0.1:8081"
        if "@" in urlsplit(one.strip()).netloc:
            return f"has a password in its address, which logs would show; set {USER} and {PASSWORD} instead"
    return None
