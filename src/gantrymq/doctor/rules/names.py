"""Name servers: whether they answer, and whether they know the same brokers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gantrymq.doctor.facts import Facts
from gantrymq.doctor.findings import Finding, Kind, Severity

NOT_ASKED: Final = (
    "The commands of gantry sign as GANTRY_ACCESS_KEY with GANTRY_SECRET_KEY; `gantry acl list` shows what it may."
)


def name_server_silent(facts: Facts) -> Iterator[Finding]:
    """Clients try the next one; without any, nobody finds a broker."""
    servers = facts.cluster.name_servers
    alone = not any(not server.error for server in servers)
    for server in servers:
        if not server.error or server.denied:
            continue
        yield Finding(
            "name-server-silent", Severity.ERROR if alone else Severity.WARNING, Kind.NAME_SERVER, server.address,
            f"Name server {server.address} does not answer: {server.error}.",
            "Check the address (--name-servers, or NAMESRV_ADDR), that it runs (`gantry server` or `gantry "
            "nameserver`), and that no firewall is between it and this machine.",
        )  # fmt: skip


def name_server_denies(facts: Facts) -> Iterator[Finding]:
    """It is there, and may not be asked."""
    for server in facts.cluster.name_servers:
        if server.denied:
            yield Finding(
                "name-server-denies", Severity.WARNING, Kind.NAME_SERVER, server.address,
                f"Name server {server.address} does not let this user ask: {server.error}.", NOT_ASKED, unseen=True,
            )  # fmt: skip


def no_broker(facts: Facts) -> Iterator[Finding]:
    """Name servers answer, and know nobody."""
    answered = [server.address for server in facts.cluster.name_servers if not server.error]
    if answered and not facts.cluster.brokers:
        yield Finding(
            "no-broker", Severity.ERROR, Kind.NAME_SERVER, answered[0],
            f"No broker is registered at {', '.join(answered)}, so nobody can send or receive.",
            "Start one (`gantry server` or `gantry broker`). If one runs: its namesrvAddr must name these name "
            "servers, and its ready line says REFUSED when another broker has its name.",
        )  # fmt: skip


def name_servers_differ(facts: Facts) -> Iterator[Finding]:
    """Which brokers a client finds then depends on whom it asks."""
    answered = [server.address for server in facts.cluster.name_servers if not server.error]
    for broker in facts.cluster.brokers:
        missing = [address for address in answered if address not in broker.known_to]
        if missing and broker.known_to:
            yield Finding(
                "name-servers-differ", Severity.WARNING, Kind.NAME_SERVER, missing[0],
                f"Broker {broker.name} ({broker.address}) is registered at {', '.join(broker.known_to)}, and not at "
                f"{', '.join(missing)}: clients that ask there do not find it.",
                "Give the broker all name servers (namesrvAddr, separated by ';'), and check that it reaches each of "
                "them.",
            )  # fmt: skip


RULES: Final = (name_server_silent, name_server_denies, no_broker, name_servers_differ)
