"""Each rule: the facts that it finds wrong, and their neighbours that it lets pass."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from gantrymq.doctor import Facts, Finding, Severity, findings_of
from gantrymq.doctor.facts import (
    BrokerFacts,
    ClusterFacts,
    DeadLetters,
    MachineFacts,
    NameServerFacts,
    OpenGroup,
    ParkedGroup,
    SelectorConflict,
    StoreFacts,
)
from gantrymq.doctor.judging import RULES
from gantrymq.doctor.rules import brokers, machine, names, settings, stores, transactions

NAME_SERVER = "10.0.0.1:9876"
SAFE = {
    "flushDiskType": "SYNC_FLUSH", "bindAddress": "127.0.0.1", "httpPort": "0", "diskSpaceReserve": "33554432",
    "maxConnections": "20000", "maxBytesInFlight": "2147483648", "autoCreateTopicEnable": "false",
    "autoCreateSubscriptionGroup": "false", "rejectTransactionMessage": "false", "brokerPermission": "6",
    "authenticationEnabled": "false", "authorizationEnabled": "false", "transactionTimeOut": "6000",
    "transactionCheckInterval": "30000", "diskMaxUsedSpaceRatio": "75", "diskSpaceCleanForciblyRatio": "85",
    "cleanFileForciblyEnable": "true",
}  # fmt: skip
BROKER = BrokerFacts(
    "broker-a", "10.0.0.5:10911", "shop", known_to=(NAME_SERVER,), answers_as="broker-a", version="GantryMQ 0.1.0",
    clock_ahead_ms=40, clock_doubt_ms=520, disk_ratio=0.4, log_end=10**9, settings=SAFE, halves=0,
)  # fmt: skip
SILENT = replace(BROKER, error="connection refused", settings={}, answers_as="", version="", log_end=None)
STORE = StoreFacts("/srv/store", owners=("gantry",), file_system="ext4", used=0.4, free_bytes=10**10, free_files=10**6)
MACHINE = MachineFacts("0.1.0", python="CPython 3.13.1", user="gantry", open_files=65_536)
DAY_MS = 86_400_000
NOW_MS = 1_800_000_000_000
HERE, THERE = NameServerFacts(NAME_SERVER), NameServerFacts("b:1")


def facts(
    *found: BrokerFacts, machine: MachineFacts | None = None, store: StoreFacts | None = None, **cluster: Any
) -> Facts:
    """A healthy cluster, but for what is given."""
    values = {
        "at_ms": NOW_MS,
        "name_servers": (HERE,),
        "brokers": found or (BROKER,),
    }
    return Facts(ClusterFacts(**{**values, **cluster}), machine, (store,) if store is not None else ())


def told(**changes: str) -> BrokerFacts:
    """A broker with some other settings."""
    return replace(BROKER, settings={**SAFE, **changes})


def group(**values: Any) -> BrokerFacts:
    """A broker with open transactions of one group."""
    told = {"group": "pay", "open": 3, "producers_online": 0, "oldest_age_ms": 7_200_000}
    return replace(BROKER, open_groups=(OpenGroup(**{**told, **values}),))


def store(**changes: Any) -> Facts:
    return facts(store=replace(STORE, **changes))


ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
REPLICA = replace(BROKER, broker_id=1, address="10.0.0.6:10911")
FOUND: list[tuple[str, Severity, Facts, str]] = [
    # rule, how bad it is, facts, words of the sentence or the advice
    ("name-server-silent", ERROR, facts(name_servers=(replace(HERE, error="refused"),), brokers=()), "NAMESRV_ADDR"),
    ("name-server-silent", WARNING, facts(name_servers=(HERE, replace(THERE, error="x"))), "b:1"),
    ("name-server-denies", WARNING, facts(name_servers=(replace(HERE, error="16", denied=True),)), "GANTRY_ACCESS_KEY"),
    ("no-broker", ERROR, facts(brokers=()), "namesrvAddr"),
    ("name-servers-differ", WARNING, facts(name_servers=(HERE, THERE)), "not at b:1"),
    ("broker-unreachable", ERROR, facts(SILENT), "If it is stopped, start it"),
    ("broker-unreachable", ERROR, facts(replace(SILENT, answers_at="10.0.0.1:10911")), "--host 10.0.0.1"),
    ("broker-unreachable", ERROR, facts(replace(SILENT, address="127.0.0.1:10911")), "only the broker's own machine"),
    ("wrong-broker", ERROR, facts(replace(BROKER, answers_as="broker-b")), "broker-b answers there"),
    ("no-master", ERROR, facts(REPLICA), "brokerId=0"),
    ("writes-refused", ERROR, facts(replace(BROKER, refuses="the disk is 97% full.")), "the disk is 97% full."),
    ("disk-nearly-full", WARNING, facts(replace(BROKER, disk_ratio=0.75)), "75% full"),
    ("disk-nearly-full", ERROR, facts(replace(BROKER, disk_ratio=0.85)), "whether they were read or not"),
    ("replica-behind", WARNING, facts(BROKER, replace(REPLICA, log_end=10**9 - 2**25)), "32 MiB"),
    ("clock-differs", WARNING, facts(replace(BROKER, clock_ahead_ms=-300_000)), "5 min behind that of this machine"),
    ("clock-differs", WARNING,
     facts(replace(BROKER, clock_ahead_ms=9_000), replace(BROKER, name="b", answers_as="b", clock_ahead_ms=9_500)),
     "clock of this machine is 9 s behind that of all 2 brokers"),
    ("not-told", WARNING, facts(replace(BROKER, unseen=("its settings (no permission)",))), "its settings"),
    ("not-told", WARNING, facts(unseen=("dead letters: no permission",)), "dead letters"),
    ("versions-differ", NOTE, facts(replace(BROKER, version="GantryMQ 0.2.0"), machine=MACHINE), "program has 0.1"),
    ("nobody-can-decide", ERROR, facts(group()), "3 open transactions, the oldest 2 h old"),
    ("nobody-can-decide", ERROR, facts(group(open=1)), "1 open transaction, which is 2 h old"),
    ("nobody-decides", WARNING, facts(group(producers_online=2)), "2 of its producers are online"),
    ("more-groups", NOTE, facts(replace(BROKER, open_groups_more=7)), "7 more producer groups"),
    ("parked", WARNING, facts(replace(BROKER, parked=(ParkedGroup("pay", 2),))), "gantry transactions resume"),
    ("dead-letters", WARNING, facts(dead_letters=(DeadLetters("ship", 2, NOW_MS - 3 * DAY_MS),)), "the newest 3 d ago"),
    ("selectors-differ", ERROR, facts(conflicts=(SelectorConflict("ship", "orders", ("a", "b")),)), "a, b"),
    ("async-flush", NOTE, facts(told(flushDiskType="ASYNC_FLUSH")), "--flush SYNC_FLUSH"),
    ("async-flush", WARNING, facts(replace(told(flushDiskType="ASYNC_FLUSH"), halves=1)), "used for transactions"),
    ("open-to-everybody", WARNING, facts(told(bindAddress="0.0.0.0")), "has no users"),
    ("users-without-limits", WARNING, facts(told(authenticationEnabled="true")), "authorizationEnabled=true"),
    ("http-open", WARNING, facts(told(httpPort="8080", httpBindAddress="0.0.0.0")), "httpBindAddress=127.0.0.1"),
    ("no-reserve", WARNING, facts(told(diskSpaceReserve="0")), "no transaction can be ended"),
    ("unlimited-clients", WARNING, facts(told(maxConnections="0")), "maxConnections=0"),
    ("no-transactions", WARNING, facts(told(rejectTransactionMessage="true")), "rejectTransactionMessage=false"),
    ("closed", NOTE, facts(told(brokerPermission="4")), "may not be sent to"),
    ("autocreate", NOTE, facts(told(autoCreateTopicEnable="true")), "autoCreateTopicEnable=false"),
    ("store-unseen", WARNING, store(error="Permission denied"), "as root"),
    ("store-missing", ERROR, store(exists=False), "no store at /srv/store"),
    ("store-missing", ERROR, store(is_directory=False), "not a directory"),
    ("store-read-only", ERROR, store(read_only=True), "read only"),
    ("store-not-writable", ERROR, store(writable=False), "belongs to gantry"),
    ("store-in-memory", ERROR, store(file_system="tmpfs"), "lost when the machine restarts"),
    ("store-in-container", ERROR, store(file_system="overlay"), "Mount a volume"),
    ("store-on-network", WARNING, store(file_system="nfs4"), "local disk"),
    ("store-owners", WARNING, store(owners=("gantry", "root")), "gantry, root"),
    ("store-writable-by-all", ERROR, store(mode=0o777), "chmod o-w"),
    ("secrets-readable", ERROR, store(exposed=("/srv/store/config/auth/users.json",)), "chmod 600"),
    ("store-full", ERROR, store(used=0.95, free_bytes=5 * 2**20), "95% full; 5 MiB are free"),
    ("store-few-files", ERROR, store(free_files=3), "3 more files"),
    ("requirements-unmet", WARNING, facts(machine=replace(MACHINE, unmet=("msgspec 0.18 (>=0.19)",))), "msgspec 0.18"),
    ("few-open-files", NOTE, facts(machine=replace(MACHINE, open_files=256)), "ulimit -n"),
]  # fmt: skip

HEALTHY: dict[str, Facts] = {
    "a cluster": facts(BROKER, replace(REPLICA, log_end=10**9 - 2**20), machine=MACHINE, store=STORE),
    "just below the limits": facts(replace(BROKER, disk_ratio=0.74, clock_ahead_ms=2_500)),
    "transactions within their immunity": facts(group(oldest_age_ms=5_000)),
    "transactions that were asked about twice": facts(group(producers_online=1, oldest_age_ms=66_000)),
    "an Apache broker that does not say who is online": facts(group(producers_online=None)),
    "open to all, with users": facts(
        told(bindAddress="0.0.0.0", authenticationEnabled="true", authorizationEnabled="true", httpPort="8080")
    ),
    "open to all, with accounts of 4.x": facts(told(bindAddress="0.0.0.0", aclEnable="true")),
    "a broker without settings or figures": facts(replace(BROKER, settings={}, disk_ratio=None, clock_ahead_ms=None)),
    "a store on any other file system": store(file_system="xfs", free_files=None),
    "a replica that may lose its newest messages": facts(
        BROKER, replace(REPLICA, settings={**SAFE, "flushDiskType": "ASYNC_FLUSH", "brokerRole": "SLAVE"})
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "severity", "seen", "words"), FOUND, ids=[f"{one[0]}-{number}" for number, one in enumerate(FOUND)]
)
def test_a_rule_finds(rule: str, severity: Severity, seen: Facts, words: str) -> None:
    found = [finding for finding in findings_of(seen) if finding.rule == rule]
    assert len(found) == 1, findings_of(seen)
    assert found[0].severity is severity
    assert words in f"{found[0].sentence} {found[0].advice}"


@pytest.mark.parametrize("rule", sorted({rule for rule, *_ in FOUND}))
def test_nothing_else_is_found_with_it(rule: str) -> None:
    """Facts that are wrong in one way have one finding, or its reader looks for two causes."""
    for known, _, seen, _ in FOUND:
        if known == rule:
            assert {finding.rule for finding in findings_of(seen)} == {rule}


@pytest.mark.parametrize("name", HEALTHY)
def test_nothing_is_wrong_with(name: str) -> None:
    assert findings_of(HEALTHY[name]) == []


def test_every_rule_is_in_the_list_and_finds_something_here() -> None:
    listed = [*names.RULES, *brokers.RULES, *transactions.RULES, *settings.RULES, *stores.RULES, *machine.RULES]
    assert list(RULES) == sorted(listed, key=list(RULES).index)
    for rule in RULES:
        assert any(list(rule(seen)) for _, _, seen, _ in FOUND), rule


def test_the_worst_comes_first() -> None:
    seen = facts(replace(told(autoCreateTopicEnable="true", diskSpaceReserve="0"), refuses="full"))
    assert [finding.severity for finding in findings_of(seen)] == [ERROR, WARNING, NOTE]


def all_findings() -> list[Finding]:
    return [finding for _, _, seen, _ in FOUND for finding in findings_of(seen)]


def test_sentences_end_and_say_no_more_than_thirty_words() -> None:
    for finding in all_findings():
        assert finding.sentence.endswith("."), finding
        for sentence in re.split(r"(?<=[.:;]) ", f"{finding.sentence} {finding.advice}"):
            assert len(sentence.split()) <= 30, sentence


def test_what_could_not_be_looked_at_is_marked() -> None:
    marked = {finding.rule for finding in all_findings() if finding.unseen}
    assert marked == {"name-server-denies", "not-told", "store-unseen"}
