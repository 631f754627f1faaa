"""The directory of a store, seen from its own machine."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from typing import Final

from gantrymq.doctor.facts import Facts, StoreFacts
from gantrymq.doctor.findings import Finding, Kind, Severity

IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
OF_CONTAINERS: Final = frozenset({"overlay", "overlayfs", "aufs"})
OF_NETWORKS: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs"})
FEW_FILES: Final = 1_000
FULL: Final = 0.9
"""Used share at which a broker with RocketMQ's default refuses messages."""


def _finding(
    rule: str, severity: Severity, store: StoreFacts, sentence: str, advice: str, *, unseen: bool = False
) -> Finding:
    return Finding(rule, severity, Kind.STORE, store.path, sentence, advice, unseen)


def store_missing(facts: Facts) -> Iterator[Finding]:
    """No directory, or something else in its place."""
    for store in facts.stores:
        if store.error:
            yield _finding(
                "store-unseen", Severity.WARNING, store, f"The store {store.path} cannot be looked at: {store.error}.",
                "Run gantry doctor as the user of the broker, or as root.", unseen=True,
            )  # fmt: skip
        elif not store.exists:
            yield _finding(
                "store-missing", Severity.ERROR, store, f"There is no store at {store.path}.",
                "Check the path (storePathRootDir, --store), and that its volume is mounted.",
            )  # fmt: skip
        elif not store.is_directory:
            yield _finding(
                "store-missing", Severity.ERROR, store, f"{store.path} is not a directory.",
                "Give the directory of the store (storePathRootDir).",
            )  # fmt: skip


def store_not_writable(facts: Facts) -> Iterator[Finding]:
    """By the file system, or by permissions."""
    for store in _there(facts):
        if store.read_only:
            yield _finding(
                "store-read-only", Severity.ERROR, store,
                f"The file system of store {store.path} is read only: a broker can store nothing there.",
                "Look into the kernel's log: a file system becomes read only when its disk fails. Else mount it for "
                "writing.",
            )  # fmt: skip
        elif not store.writable:
            yield _finding(
                "store-not-writable", Severity.ERROR, store,
                f"This user may not write to store {store.path}, which belongs to {', '.join(store.owners)}.",
                "Run the broker, and gantry doctor, as the owner of the store, or change the owner with chown -R.",
            )  # fmt: skip


def store_is_lost(facts: Facts) -> Iterator[Finding]:
    """A place that does not outlive its machine or its container, or that may not keep what it confirms."""
    for store in _there(facts):
        if store.file_system in IN_MEMORY:
            yield _finding(
                "store-in-memory", Severity.ERROR, store,
                f"Store {store.path} is in memory ({store.file_system}): all messages are lost when the machine "
                "restarts.",
                "Put it on a disk (storePathRootDir, --store).",
            )  # fmt: skip
        elif store.file_system in OF_CONTAINERS:
            yield _finding(
                "store-in-container", Severity.ERROR, store,
                f"Store {store.path} is in the layer of a container ({store.file_system}): all messages are lost when "
                "the container is removed.",
                "Mount a volume there.",
            )  # fmt: skip
        elif store.file_system in OF_NETWORKS:
            yield _finding(
                "store-on-network", Severity.WARNING, store,
                f"Store {store.path} is on a network file system ({store.file_system}), where locks and syncs may not "
                "mean what they mean on a disk.",
                "Use a local disk or a block device.",
            )  # fmt: skip


def store_owners(facts: Facts) -> Iterator[Finding]:
    """Somebody once started the broker as another user."""
    for store in _there(facts):
        if len(store.owners) > 1:
            yield _finding(
                "store-owners", Severity.WARNING, store,
                f"Files of store {store.path} belong to several users: {', '.join(store.owners)}. A broker that may "
                "not write one of them stops.",
                "Stop the broker, give all files to its user (chown -R), and start it as that user only.",
            )  # fmt: skip


def store_open_to_others(facts: Facts) -> Iterator[Finding]:
    """Who can write the directory of a store can replace its files."""
    for store in _there(facts):
        if store.mode & stat.S_IWOTH:
            yield _finding(
                "store-writable-by-all", Severity.ERROR, store,
                f"Every user of this machine may write to store {store.path} (mode {store.mode:o}).",
                f"chmod o-w {store.path}",
            )  # fmt: skip
        for path in store.exposed:
            yield _finding(
                "secrets-readable", Severity.ERROR, store, f"Other users of this machine may read {path}, which has "
                "secrets.",
                f"chmod 600 {path}",
            )  # fmt: skip


def store_full(facts: Facts) -> Iterator[Finding]:
    """Bytes, or the number of files."""
    for store in _there(facts):
        if store.used >= FULL:
            yield _finding(
                "store-full", Severity.ERROR, store,
                f"The file system of store {store.path} is {store.used:.0%} full; {store.free_bytes / 2**20:.0f} MiB "
                "are free.",
                "Make room, or give it a larger disk: at diskSpaceWarningLevelRatio (90%) a broker refuses messages.",
            )  # fmt: skip
        if store.free_files is not None and store.free_files < FEW_FILES:
            yield _finding(
                "store-few-files", Severity.ERROR, store,
                f"The file system of store {store.path} has room for {store.free_files} more files only.",
                "Delete files there, or make a file system with more inodes.",
            )  # fmt: skip


def _there(facts: Facts) -> Iterator[StoreFacts]:
    yield from (store for store in facts.stores if store.exists and store.is_directory and not store.error)


RULES: Final = (store_missing, store_not_writable, store_is_lost, store_owners, store_open_to_others, store_full)
