"""What waits for a person: transactions that nobody decides, parked ones, dead letters, members that disagree."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from gantrymq.doctor.facts import Facts, OpenGroup
from gantrymq.doctor.findings import Finding, Kind, Severity
from gantrymq.doctor.rules.brokers import length

IMMUNITY_MS: Final = 6_000
"""transactionTimeOut where a broker does not say."""
INTERVAL_MS: Final = 30_000
"""transactionCheckInterval where a broker does not say."""
CHECKS_IN_VAIN: Final = 3
"""Checks after which a group that is online should have answered."""


def nobody_can_decide(facts: Facts) -> Iterator[Finding]:
    """Open transactions past their immunity, and no producer of the group at the broker that keeps them."""
    for group, parts in _late(facts, 0).items():
        alone = [part for part in parts if part.producers_online == 0]
        if alone:
            yield Finding(
                "nobody-can-decide", Severity.ERROR, Kind.GROUP, group,
                f"Producer group {group} has {_open(alone)}, and none of its producers is online to decide.",
                "Start a process of that group; it is asked at once. Services with gantrymq.sql: `gantry checker "
                f"--group {group}`. `gantry transactions list --group {group}` shows them.",
            )  # fmt: skip


def nobody_decides(facts: Facts) -> Iterator[Finding]:
    """Producers are online, were asked some times, and the transactions are open all the same."""
    for group, parts in _late(facts, CHECKS_IN_VAIN).items():
        asked = [part for part in parts if part.producers_online]
        if asked:
            online = max(part.producers_online or 0 for part in asked)
            yield Finding(
                "nobody-decides", Severity.WARNING, Kind.GROUP, group,
                f"Producer group {group} has {_open(asked)}, although {online} of its producers "
                f"{'is' if online == 1 else 'are'} online and can decide.",
                "They answer UNKNOWN, or not at all: `gantry transactions explain ID` says which; "
                f"`gantry transactions list --group {group}` lists the ids.",
            )  # fmt: skip


def more_groups(facts: Facts) -> Iterator[Finding]:
    """A broker tells some hundred groups, those with the oldest transactions."""
    for broker in facts.cluster.brokers:
        if broker.open_groups_more:
            yield Finding(
                "more-groups", Severity.NOTE, Kind.BROKER, broker.name,
                f"Broker {broker.name} has open transactions of {broker.open_groups_more} more producer groups, which "
                "were not looked at.",
                f"`gantry transactions list --broker {broker.name}` shows all.",
            )  # fmt: skip


def _late(facts: Facts, checks: int) -> Mapping[str, list[OpenGroup]]:
    """Groups whose oldest open transaction is past its immunity and this many checks; the parts of each by broker."""
    found: dict[str, list[OpenGroup]] = defaultdict(list)
    for broker in facts.cluster.brokers:
        immunity = _ms(broker.settings, "transactionTimeOut", IMMUNITY_MS)
        interval = _ms(broker.settings, "transactionCheckInterval", INTERVAL_MS)
        for group in broker.open_groups:
            if group.oldest_age_ms > immunity + checks * interval:
                found[group.group].append(group)
    return found


def _ms(settings: Mapping[str, str], key: str, otherwise: int) -> int:
    text = settings.get(key, "")
    return int(text) if text.isdecimal() else otherwise


def _open(parts: list[OpenGroup]) -> str:
    count = sum(part.open for part in parts)
    oldest = length(max(part.oldest_age_ms for part in parts))
    return (
        f"1 open transaction, which is {oldest} old"
        if count == 1
        else f"{count} open transactions, the oldest {oldest} old"
    )


def parked(facts: Facts) -> Iterator[Finding]:
    """Nobody is asked about them any more."""
    counts: Counter[str] = Counter()
    more = any(broker.parked_more for broker in facts.cluster.brokers)
    for broker in facts.cluster.brokers:
        counts.update({group.group: group.parked for group in broker.parked})
    for group, count in sorted(counts.items()):
        yield Finding(
            "parked", Severity.WARNING, Kind.GROUP, group,
            f"Producer group {group} has {f'{count} or more' if more else count} parked "
            f"{'transaction' if count == 1 and not more else 'transactions'}: they were checked in vain, consumers do "
            "not see them, and nobody is asked any more.",
            f"Find out how the local transactions ended (`gantry transactions list --state parked --group {group}`), "
            "then resume them: `gantry transactions resume ID --why ...`.",
        )  # fmt: skip


def dead_letters(facts: Facts) -> Iterator[Finding]:
    """Messages that a group gave up wait for a person, until they are deleted by age."""
    for dead in facts.cluster.dead_letters:
        ago = facts.cluster.at_ms - dead.newest_ms
        newest = f", the newest {length(ago)} ago" if dead.newest_ms and ago >= 0 else ""
        yield Finding(
            "dead-letters", Severity.WARNING, Kind.GROUP, dead.group,
            f"Consumer group {dead.group} gave up {dead.messages} "
            f"{'message' if dead.messages == 1 else 'messages'}{newest}.",
            f"Look at them (`gantry message tail '%DLQ%{dead.group}'`), mend the consumer, and send them again: the "
            "console does it. They are deleted by age like all messages.",
        )  # fmt: skip


def selectors_differ(facts: Facts) -> Iterator[Finding]:
    """One selector counts at a time; the others' messages are skipped for good."""
    for conflict in facts.cluster.conflicts:
        yield Finding(
            "selectors-differ", Severity.ERROR, Kind.GROUP, conflict.group,
            f"Members of consumer group {conflict.group} select different messages of {conflict.topic}: "
            f"{', '.join(conflict.selectors)}. Messages are skipped that only one of them selects.",
            "Give members with another selector a group of their own. "
            f"`gantry consumer connections {conflict.group}` shows which member selects what.",
        )  # fmt: skip


RULES: Final = (nobody_can_decide, nobody_decides, parked, dead_letters, selectors_differ, more_groups)
