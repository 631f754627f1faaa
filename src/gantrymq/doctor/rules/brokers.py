"""Brokers: whether they are where they say, take messages, and agree about time and versions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gantrymq.doctor.facts import BrokerFacts, Facts
from gantrymq.doctor.findings import Finding, Kind, Severity
from gantrymq.doctor.rules.names import NOT_ASKED
from gantrymq.runtime.addresses import host_of, is_loopback

CLOCK_LIMIT_MS: Final = 2_000
"""A difference below it is what a machine without NTP has after a day or two; nothing here depends on less."""
BEHIND_LIMIT_BYTES: Final = 16 * 1024 * 1024
"""A replica that copies is always a little behind."""
EARLY_DELETION: Final = 75
"""Percent; diskMaxUsedSpaceRatio where a broker does not say."""
FORCED_DELETION: Final = 85
"""Percent; diskSpaceCleanForciblyRatio where a broker does not say."""
_VERSION: Final = re.compile(r"GantryMQ (\d+\.\d+)")


def broker_unreachable(facts: Facts) -> Iterator[Finding]:
    """Its advertised address, as this machine reaches it; that the broker reaches it says nothing."""
    elsewhere = [host_of(server.address) for server in facts.cluster.name_servers if not server.error]
    far = bool(elsewhere) and not any(is_loopback(host) for host in elsewhere)
    for broker in facts.cluster.brokers:
        if not broker.error:
            continue
        start = f"Broker {broker.name} advertises {broker.address}, and nothing answers there: {broker.error}."
        if broker.answers_at:
            said = f"{start} It does answer at {broker.answers_at}."
            advice = f"Start it with --host {host_of(broker.answers_at)} (or brokerIP1 in its settings): {_CLIENTS}."
        elif far and is_loopback(host_of(broker.address)):
            said = f"{start} That is an address which only the broker's own machine reaches."
            advice = (
                f"Start it with --host and the address by which others reach its machine (or brokerIP1): {_CLIENTS}."
            )
        else:
            said = start
            advice = (
                "If it is stopped, start it: its messages wait in its store. If it runs, check that --host "
                f"(brokerIP1) is an address that this machine reaches, and that no firewall is between: {_CLIENTS}."
            )
        yield Finding("broker-unreachable", Severity.ERROR, Kind.BROKER, broker.name, said, advice)


_CLIENTS: Final = "clients connect to what it advertises"


def wrong_broker(facts: Facts) -> Iterator[Finding]:
    """Another broker answers at the address."""
    for broker in facts.cluster.brokers:
        if broker.error or broker.answers_as in ("", broker.name):
            continue
        found = f" {broker.name} itself answers at {broker.answers_at}." if broker.answers_at else ""
        yield Finding(
            "wrong-broker", Severity.ERROR, Kind.BROKER, broker.name,
            f"Broker {broker.name} advertises {broker.address}, and broker {broker.answers_as} answers there.{found}",
            "Give each broker an address and a port of its own (--host, --listen-port). Until then clients send one "
            "broker's messages to the other.",
        )  # fmt: skip


def not_told(facts: Facts) -> Iterator[Finding]:
    """What could not be looked at may be wrong as well."""
    for broker in facts.cluster.brokers:
        if broker.unseen:
            yield Finding(
                "not-told", Severity.WARNING, Kind.BROKER, broker.name,
                f"Broker {broker.name} did not tell {'; '.join(broker.unseen)}.", _NOT_TOLD, unseen=True,
            )  # fmt: skip
    if facts.cluster.unseen:
        yield Finding(
            "not-told", Severity.WARNING, Kind.BROKER, "all",
            f"These could not be looked at: {'; '.join(facts.cluster.unseen)}.", _NOT_TOLD, unseen=True,
        )  # fmt: skip


_NOT_TOLD: Final = f"Mend what the reason names. {NOT_ASKED}"


def writes_refused(facts: Facts) -> Iterator[Finding]:
    """The broker says why, and mostly what to do."""
    for broker in facts.cluster.brokers:
        if broker.refuses:
            yield Finding(
                "writes-refused", Severity.ERROR, Kind.BROKER, broker.name,
                f"Broker {broker.name} takes no messages: {broker.refuses.rstrip('.')}.",
                f"Make room, or mend what it names, on the machine of {broker.address}. It takes messages again by "
                "itself when the reason was a full disk; for any other reason read its log and start it again.",
            )  # fmt: skip


def disk_nearly_full(facts: Facts) -> Iterator[Finding]:
    """Before messages are refused, old ones are deleted: first those that are due, then any."""
    for broker in facts.cluster.brokers:
        if broker.disk_ratio is None or broker.refuses:
            continue
        used = round(broker.disk_ratio * 100)
        early = _percent(broker, "diskMaxUsedSpaceRatio", EARLY_DELETION)
        forced = _percent(broker, "diskSpaceCleanForciblyRatio", FORCED_DELETION)
        where = f"The disk of broker {broker.name} is {used}% full."
        if used >= forced and broker.settings.get("cleanFileForciblyEnable", "true") == "true":
            yield Finding(
                "disk-nearly-full", Severity.ERROR, Kind.BROKER, broker.name,
                f"{where} From {forced}% on it deletes its oldest messages, whether they were read or not.",
                "Make room now: a larger disk, or fewer hours in fileReservedTime. "
                f"`gantry cluster status {broker.name}` shows the disk.",
            )  # fmt: skip
        elif used >= early:
            yield Finding(
                "disk-nearly-full", Severity.WARNING, Kind.BROKER, broker.name,
                f"{where} From {early}% on old messages are deleted at any hour, and from {forced}% on whatever their "
                "age.",
                "Give it a larger disk, or keep messages for fewer hours (fileReservedTime).",
            )  # fmt: skip


def _percent(broker: BrokerFacts, key: str, otherwise: int) -> int:
    text = broker.settings.get(key, "")
    return int(text) if text.isdecimal() else otherwise


def clock_differs(facts: Facts) -> Iterator[Finding]:
    """Waits do not depend on the wall clock, but times that people see and ask for do."""
    known = [broker for broker in facts.cluster.brokers if broker.clock_ahead_ms is not None]
    wrong = [broker for broker in known if _off(broker)]
    ahead = [broker.clock_ahead_ms or 0 for broker in known]
    if len(wrong) > 1 and len(wrong) == len(known) and max(ahead) - min(ahead) <= CLOCK_LIMIT_MS:
        yield Finding(
            "clock-differs", Severity.WARNING, Kind.MACHINE, "clock",
            f"The clock of this machine is {_difference(-ahead[0])} that of all {len(known)} brokers.", _TIME,
        )  # fmt: skip
        return
    for broker in wrong:
        yield Finding(
            "clock-differs", Severity.WARNING, Kind.BROKER, broker.name,
            f"The clock of broker {broker.name} is {_difference(broker.clock_ahead_ms or 0)} that of this "
            "machine.", _TIME,
        )  # fmt: skip


_TIME: Final = (
    "Have all machines follow a time server (for example chrony, systemd-timesyncd). Until then times of messages, "
    "resets to a time, and messages with a time of delivery are off by that much; a restart makes waits longer or "
    "shorter."
)


def _off(broker: BrokerFacts) -> bool:
    return abs(broker.clock_ahead_ms or 0) > CLOCK_LIMIT_MS + broker.clock_doubt_ms


def _difference(ahead_ms: int) -> str:
    return f"{length(abs(ahead_ms))} {'ahead of' if ahead_ms > 0 else 'behind'}"


def length(time_ms: int) -> str:
    """A length of time for people, in its largest unit: ``3 min``."""
    for unit, size_ms in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000)):
        if time_ms >= 2 * size_ms:
            return f"{time_ms // size_ms} {unit}"
    return f"{time_ms / 1000:.0f} s"


def no_master(facts: Facts) -> Iterator[Finding]:
    """Replicas alone answer reads, and take nothing."""
    masters = {(broker.cluster, broker.name) for broker in facts.cluster.brokers if broker.broker_id == 0}
    for cluster, name in sorted({(broker.cluster, broker.name) for broker in facts.cluster.brokers} - masters):
        yield Finding(
            "no-master", Severity.ERROR, Kind.BROKER, name,
            f"Broker {name} of cluster {cluster} has replicas and no master: it takes no messages and ends no "
            "transactions.",
            "Start its master (brokerId=0).",
        )  # fmt: skip


def replica_behind(facts: Facts) -> Iterator[Finding]:
    """What it lacks is lost if its master's disk is lost now."""
    ends = {(broker.cluster, broker.name): broker.log_end for broker in facts.cluster.brokers if broker.broker_id == 0}
    for broker in facts.cluster.brokers:
        end = ends.get((broker.cluster, broker.name))
        if broker.broker_id == 0 or end is None or broker.log_end is None or end - broker.log_end <= BEHIND_LIMIT_BYTES:
            continue
        yield Finding(
            "replica-behind", Severity.WARNING, Kind.BROKER, broker.name,
            f"Replica {broker.broker_id} of broker {broker.name} ({broker.address}) is "
            f"{(end - broker.log_end) / 2**20:.0f} MiB of log behind its master.",
            "Check that it reaches the master's replication port, and that its disk is not slower than the master's.",
        )  # fmt: skip


def versions_differ(facts: Facts) -> Iterator[Finding]:
    """Of our brokers, and of this program."""
    found = {broker.name: match[1] for broker in facts.cluster.brokers if (match := _VERSION.match(broker.version))}
    mine = _VERSION.match(f"GantryMQ {facts.machine.version}") if facts.machine is not None else None
    versions = set(found.values()) | ({mine[1]} if mine is not None else set())
    if found and len(versions) > 1:
        listed = ", ".join(f"{name} has {version}" for name, version in sorted(found.items()))
        yield Finding(
            "versions-differ", Severity.NOTE, Kind.BROKER, min(found),
            f"Versions of GantryMQ differ: {listed}{f', this program has {mine[1]}' if mine is not None else ''}.",
            "Bring them to one version when you can; the changelog says what a newer broker does that an older client "
            "does not know.",
        )  # fmt: skip


RULES: Final = (
    broker_unreachable, wrong_broker, no_master, writes_refused, disk_nearly_full, replica_behind, clock_differs,
    not_told, versions_differ,
)  # fmt: skip
