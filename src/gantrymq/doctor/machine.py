"""Looks at this machine: the process, its packages, and stores that are here."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Iterable
from importlib import metadata
from typing import Final

from gantrymq import __version__
from gantrymq.access import file as users
from gantrymq.build_info import build_info
from gantrymq.doctor.facts import ClusterFacts, Extra, MachineFacts, StoreFacts
from gantrymq.runtime.addresses import host_of, is_loopback
from gantrymq.runtime.directory_state import DirectoryState, directory_state, readable_by_others
from gantrymq.runtime.guesses.open_files import open_files_limit
from gantrymq.runtime.guesses.own_address import numeric_address, own_address
from gantrymq.runtime.guesses.person import user_name

DISTRIBUTION: Final = "gantrymq"
_EXTRA: Final = re.compile(r"extra\s*==\s*[\"']([^\"']+)[\"']")
_PATHS: Final = ("storePathRootDir", "storePathCommitLog")
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
SECRETS: Final = (f"config/auth/{users.NAME}",)
"""Files of a store that only its owner may read."""


def look_at_machine() -> MachineFacts:
    """This process and what is installed for it."""
    needs = _requirements()
    return MachineFacts(
        version=__version__,
        core=str(build_info()),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        user=user_name(),
        open_files=open_files_limit(),
        extras=extras_in(needs, _installed),
        unmet=unmet_in(needs, _installed),
    )


def _requirements() -> list[str]:
    try:
        return metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:  # run from sources that are not installed
        return []


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def extras_in(needs: Iterable[str], installed: Callable[[str], str | None]) -> tuple[Extra, ...]:
    """The extras, and the packages that each of them lacks. ``needs``: as the metadata of the package has them."""
    found: dict[str, list[str]] = {}
    for text in needs:
        extra, name = _EXTRA.search(text), _NAME.match(text)
        if extra is None or name is None or name[0] == DISTRIBUTION:
            continue
        missing = found.setdefault(extra[1], [])
        if installed(name[0]) is None:
            missing.append(name[0])
    return tuple(Extra(name, tuple(missing)) for name, missing in sorted(found.items()))


def unmet_in(needs: Iterable[str], installed: Callable[[str], str | None]) -> tuple[str, ...]:
    """Installed packages of a version that is not allowed, and required ones that are missing.

    Versions are compared by ``packaging``, which nearly every environment has; without it nothing is said.
    """
    try:
        from packaging.requirements import Requirement
    except ImportError:
        return ()
    found = []
    for requirement in map(Requirement, needs):
        optional = _EXTRA.search(str(requirement)) is not None
        if requirement.marker is not None and not optional and not requirement.marker.evaluate():
            continue
        version = installed(requirement.name)
        if version is None and not optional and requirement.name != DISTRIBUTION:
            found.append(f"{requirement.name} is missing")
        elif version is not None and not requirement.specifier.contains(version, prereleases=True):
            found.append(f"{requirement.name} {version} (allowed: {requirement.specifier})")
    return tuple(dict.fromkeys(found))


def look_at_store(path: str, broker: str = "") -> StoreFacts:
    """The directory of a store on this machine. ``broker``: whose settings name it."""
    try:
        seen: DirectoryState = directory_state(path)
    except OSError as error:
        return StoreFacts(path, broker, error=error.strerror or str(error))
    return StoreFacts(
        path, broker, exists=seen.exists, is_directory=seen.is_directory, writable=seen.writable,
        read_only=seen.read_only, file_system=seen.file_system, mode=seen.mode, owners=seen.owners, used=seen.used,
        free_bytes=seen.free_bytes, free_files=seen.free_files,
        exposed=tuple(name for secret in SECRETS if readable_by_others(name := f"{path}/{secret}")),
    )  # fmt: skip


def stores_here(cluster: ClusterFacts) -> list[StoreFacts]:
    """The stores of brokers that run on this machine, as far as their directories are here: a broker in a container has
    a path that means nothing outside."""
    found = []
    for broker in cluster.brokers:
        paths = [path for key in _PATHS if (path := broker.settings.get(key, ""))]
        if not broker.error and _is_here(host_of(broker.address)):
            stores = (look_at_store(path, broker.name) for path in dict.fromkeys(paths))
            found += [store for store in stores if store.exists or store.error]
    return found


def _is_here(host: str) -> bool:
    number = numeric_address(host)
    return number is not None and (is_loopback(number) or number == own_address())
