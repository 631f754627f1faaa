"""Settings of brokers that are allowed, and unsafe where messages matter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gantrymq.doctor.facts import BrokerFacts, Facts
from gantrymq.doctor.findings import Finding, Kind, Severity
from gantrymq.runtime.addresses import ANY, is_loopback

READ, WRITE = 4, 2


def async_flush(facts: Facts) -> Iterator[Finding]:
    """An acknowledged message may be lost with the power. With transactions, one half of a pair is lost."""
    for broker in _told(facts):
        if broker.settings.get("flushDiskType") != "ASYNC_FLUSH" or broker.settings.get("brokerRole") == "SLAVE":
            continue
        used = bool(broker.halves) or bool(broker.open_groups)
        yield Finding(
            "async-flush", Severity.WARNING if used else Severity.NOTE, Kind.BROKER, broker.name,
            f"Broker {broker.name} confirms messages before they are on its disk (flushDiskType=ASYNC_FLUSH)"
            f"{', and it is used for transactions' if used else ''}: a power cut loses the newest ones.",
            "Start it with --flush SYNC_FLUSH where a lost message costs money.",
        )  # fmt: skip


def open_to_everybody(facts: Facts) -> Iterator[Finding]:
    """Other machines reach it, and it asks nobody who they are."""
    for broker in _told(facts):
        bound = broker.settings.get("bindAddress", ANY)
        if is_loopback(bound) or _has_users(broker):
            continue
        yield Finding(
            "open-to-everybody", Severity.WARNING, Kind.BROKER, broker.name,
            f"Broker {broker.name} listens on {bound} and has no users: everybody who can connect may read, send and "
            "delete.",
            "Set authenticationEnabled and authorizationEnabled (docs/permissions.md), or let a firewall decide who "
            "connects, or listen on this machine only (--bind 127.0.0.1).",
        )  # fmt: skip


def users_without_limits(facts: Facts) -> Iterator[Finding]:
    """Known users who may do everything."""
    for broker in _told(facts):
        if _on(broker, "authenticationEnabled") and not _on(broker, "authorizationEnabled"):
            yield Finding(
                "users-without-limits", Severity.WARNING, Kind.BROKER, broker.name,
                f"Broker {broker.name} asks who its users are, and lets each of them do everything.",
                "Set authorizationEnabled=true and give each user what it needs (`gantry acl allow`).",
            )  # fmt: skip


def http_open(facts: Facts) -> Iterator[Finding]:
    """Ids, groups and addresses for whoever asks."""
    for broker in _told(facts):
        bound = broker.settings.get("httpBindAddress", "127.0.0.1")
        if broker.settings.get("httpPort", "0") == "0" or is_loopback(bound) or _has_users(broker):
            continue
        yield Finding(
            "http-open", Severity.WARNING, Kind.BROKER, broker.name,
            f"The HTTP endpoint of broker {broker.name} listens on {bound}, and shows everybody ids, groups and "
            "addresses.",
            "Give the broker users, or let only Prometheus and probes reach that port, or set "
            "httpBindAddress=127.0.0.1.",
        )  # fmt: skip


def no_reserve(facts: Facts) -> Iterator[Finding]:
    """On a full disk, decisions about half messages could not be written either."""
    for broker in _told(facts):
        if broker.settings.get("diskSpaceReserve") == "0":
            yield Finding(
                "no-reserve", Severity.WARNING, Kind.BROKER, broker.name,
                f"Broker {broker.name} keeps no reserve (diskSpaceReserve=0): on a full disk no transaction can be "
                "ended.",
                "Remove diskSpaceReserve from its settings; the default takes 32 MiB.",
            )  # fmt: skip


def unlimited_clients(facts: Facts) -> Iterator[Finding]:
    """One client can then take the memory of all."""
    for broker in _told(facts):
        missing = [key for key in ("maxConnections", "maxBytesInFlight") if broker.settings.get(key) == "0"]
        if missing:
            yield Finding(
                "unlimited-clients", Severity.WARNING, Kind.BROKER, broker.name,
                f"Broker {broker.name} has no limit for its clients ({', '.join(f'{key}=0' for key in missing)}): one "
                "of them can take all its memory or files.",
                f"Remove {' and '.join(missing)} from its settings: the defaults are high (docs/security.md).",
            )  # fmt: skip


def closed(facts: Facts) -> Iterator[Finding]:
    """Perhaps on purpose, before it is stopped."""
    for broker in _told(facts):
        text = broker.settings.get("brokerPermission", "6")
        allowed = int(text) if text.isdecimal() else READ | WRITE
        shut = [word for bit, word in ((WRITE, "sent to"), (READ, "read from")) if not allowed & bit]
        if shut:
            yield Finding(
                "closed", Severity.NOTE, Kind.BROKER, broker.name,
                f"Broker {broker.name} may not be {' or '.join(shut)} (brokerPermission={text}).",
                f"If that is over: gantry cluster config set brokerPermission=6 --broker {broker.name}",
            )  # fmt: skip


def no_transactions(facts: Facts) -> Iterator[Finding]:
    """Half messages are refused."""
    for broker in _told(facts):
        if _on(broker, "rejectTransactionMessage"):
            yield Finding(
                "no-transactions", Severity.WARNING, Kind.BROKER, broker.name,
                f"Broker {broker.name} refuses half messages (rejectTransactionMessage=true).",
                "If that is not meant: gantry cluster config set rejectTransactionMessage=false --broker "
                f"{broker.name}",
            )  # fmt: skip


def autocreate(facts: Facts) -> Iterator[Finding]:
    """A misspelt name becomes a new topic, which nobody reads."""
    keys = {"autoCreateTopicEnable": "topics", "autoCreateSubscriptionGroup": "consumer groups"}
    for broker in _told(facts):
        made = [(key, what) for key, what in keys.items() if _on(broker, key)]
        if made:
            yield Finding(
                "autocreate", Severity.NOTE, Kind.BROKER, broker.name,
                f"Broker {broker.name} makes {' and '.join(what for _, what in made)} that clients name: a misspelt "
                "name makes one that nobody reads.",
                "In production make them by command (`gantry topic create`), and set "
                f"{' and '.join(f'{key}=false' for key, _ in made)}.",
            )  # fmt: skip


def _told(facts: Facts) -> Iterator[BrokerFacts]:
    yield from (broker for broker in facts.cluster.brokers if broker.settings)


def _on(broker: BrokerFacts, key: str) -> bool:
    return broker.settings.get(key, "").lower() == "true"


def _has_users(broker: BrokerFacts) -> bool:
    """By the settings of 5.x, or by those of 4.x."""
    return _on(broker, "authenticationEnabled") or _on(broker, "aclEnable")


RULES: Final = (
    async_flush, open_to_everybody, users_without_limits, http_open, no_reserve, unlimited_clients, no_transactions,
    closed, autocreate,
)  # fmt: skip
