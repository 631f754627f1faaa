"""What was seen of a cluster and of this machine. Frozen values, which say nothing about good or bad."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class NameServerFacts:
    """A name server that clients are told of."""

    address: str
    error: str = ""
    """Why it gave no answer; empty: it answered."""
    denied: bool = False
    """It answered that this user may not ask."""


@dataclass(frozen=True, slots=True)
class OpenGroup:
    """The open transactions of one producer group on one broker."""

    group: str
    open: int
    producers_online: int | None
    """Producers that the broker can ask; None: it does not say."""
    oldest_age_ms: int
    """How long ago the oldest half message was stored."""


@dataclass(frozen=True, slots=True)
class ParkedGroup:
    """The parked transactions of one producer group on one broker, as far as they were counted."""

    group: str
    parked: int


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """A broker that name servers know."""

    name: str
    address: str
    """The one that it advertises: clients connect to it."""
    cluster: str = ""
    broker_id: int = 0
    """0: the master; another: a replica."""
    known_to: tuple[str, ...] = ()
    """The name servers that know it."""
    error: str = ""
    """Why nothing answered at its address; empty: it answered."""
    answers_at: str = ""
    """Another address, at which it does answer; looked for only when its own gives no answer or the wrong broker."""
    answers_as: str = ""
    """The name that the broker at its address gives itself; empty: unknown."""
    unseen: tuple[str, ...] = ()
    """What it would not tell, in words, for example ``its settings (no permission)``."""
    version: str = ""
    java: bool = False
    """An Apache broker."""
    clock_ahead_ms: int | None = None
    """Its wall clock less that of this machine; None: unknown."""
    clock_doubt_ms: int = 0
    """By how much ``clock_ahead_ms`` may be wrong, either way."""
    refuses: str = ""
    """Why it takes no messages, in its own words; empty: it takes them, or does not say."""
    disk_ratio: float | None = None
    """Used share of the file system of its log, 0 to 1."""
    log_end: int | None = None
    """Where its log ends, in bytes."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """By key; empty: it would not tell."""
    halves: int | None = None
    """Half messages since its start; None: it does not say."""
    open_groups: tuple[OpenGroup, ...] = ()
    open_groups_more: int = 0
    """Groups with open transactions that are not in ``open_groups``."""
    parked: tuple[ParkedGroup, ...] = ()
    parked_more: bool = False
    """There are more parked transactions than those that were counted."""


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Messages that a consumer group gave up."""

    group: str
    messages: int
    newest_ms: int
    """When the last one was stored, ms since 1970; 0: unknown."""


@dataclass(frozen=True, slots=True)
class SelectorConflict:
    """Members of one group that select different messages of one topic."""

    group: str
    topic: str
    selectors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Everything that was asked over the network."""

    at_ms: int
    """When, ms since 1970 by the clock of this machine."""
    name_servers: tuple[NameServerFacts, ...] = ()
    brokers: tuple[BrokerFacts, ...] = ()
    dead_letters: tuple[DeadLetters, ...] = ()
    conflicts: tuple[SelectorConflict, ...] = ()
    unseen: tuple[str, ...] = ()
    """What could not be looked at, in words."""


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """The directory of a broker's store, seen from this machine."""

    path: str
    broker: str = ""
    """The broker whose settings name it; empty: a person did."""
    exists: bool = True
    is_directory: bool = True
    error: str = ""
    """Why it could not be looked at."""
    writable: bool = True
    """By the user of this process."""
    read_only: bool = False
    """The file system is mounted so."""
    file_system: str = ""
    """For example ``ext4``; empty: unknown."""
    mode: int = 0o755
    owners: tuple[str, ...] = ()
    """Users that own the directory and what is directly in it."""
    exposed: tuple[str, ...] = ()
    """Files with passwords that others may read."""
    used: float = 0.0
    """Share of its file system, 0 to 1."""
    free_bytes: int = 0
    free_files: int | None = None
    """How many files can still be made; None: the file system has no limit."""


@dataclass(frozen=True, slots=True)
class Extra:
    """An optional part of the package."""

    name: str
    missing: tuple[str, ...] = ()
    """Packages that it needs and that are not installed."""


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """This process and what it runs on."""

    version: str
    """Of GantryMQ."""
    core: str = ""
    """Whether the core is compiled."""
    python: str = ""
    user: str = ""
    open_files: int = 0
    """How many files and connections this process may have open."""
    extras: tuple[Extra, ...] = ()
    unmet: tuple[str, ...] = ()
    """Installed packages of the wrong version, in words."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that was looked at."""

    cluster: ClusterFacts
    machine: MachineFacts | None = None
    stores: tuple[StoreFacts, ...] = ()
