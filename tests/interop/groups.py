"""Which interop tests run in one process, and in which order the groups begin.

The tests of a group share servers, a Spark session or a JVM of drivers, and run one after the other in one process.
Groups run beside each other, each with servers of its own: a test mostly waits for servers.
"""

from __future__ import annotations

import enum
from pathlib import Path

import pytest

HERE = Path(__file__).parent
AT_ONCE = 3
"""Groups at a time. On two cores three of them keep both cores busy. With more, single steps come too close to the time
limits of the official clients, 3 s, and a test fails now and then."""


class Group(enum.Enum):
    """The groups, in the order in which they begin: the longest first, so that none is left alone at the end."""

    OWN_SERVERS = "own-servers"
    GANTRY = "gantry"
    APACHE_4 = "apache-4"
    STORE_SWAP = "store-swap"
    APACHE_5 = "apache-5"
    JAVA_5 = "java-5"
    JAVA_4 = "java-4"
    SPARK = "spark"
    """Behind the others, beside the last of them: see YIELDING in compatibility.py."""
    DOCUMENT = "document"
    """Last: the document is compared with what the other tests have shown."""


OF_FILE = {
    "test_spark_source.py": Group.SPARK,
    "test_spark_sink.py": Group.SPARK,
    "test_mixed_cluster.py": Group.SPARK,
    "test_store_swap.py": Group.STORE_SWAP,
    "test_pop_swap.py": Group.OWN_SERVERS,
    "test_five_proxy.py": Group.OWN_SERVERS,
    "test_same_name.py": Group.OWN_SERVERS,
    "test_backup.py": Group.OWN_SERVERS,
    "test_accounts.py": Group.OWN_SERVERS,
    "test_tls.py": Group.OWN_SERVERS,
    "test_permissions.py": Group.OWN_SERVERS,
    "test_replication.py": Group.APACHE_4,
    "test_java_checks.py": Group.OWN_SERVERS,
    "test_compatibility.py": Group.DOCUMENT,
}
OF_CLIENT = {"4.9.8": Group.JAVA_4, "5.5.0": Group.JAVA_5}
OF_SERVER = {
    "apache_4": Group.APACHE_4, "4.9.7": Group.APACHE_4, "apache_5": Group.APACHE_5, "5.5.0": Group.APACHE_5,
    "gantry": Group.GANTRY,
}  # fmt: skip
BY_CLIENT = {"test_filter_and_reply.py", "test_java_plain.py"}
"""Files whose tests a Java client plays: they form a group with the scenarios of that client (``java_clients/``)."""


def is_about_ours_alone(item: pytest.Item) -> bool:
    """Whether a test is about clients of a server of ours, and about no other server."""
    if item.path.name == "test_accounts.py":  # its servers are Apache's
        return False
    names = {*getattr(item, "fixturenames", ())}
    callspec = getattr(item, "callspec", None)
    params = " ".join(map(str, getattr(callspec, "params", {}).values()))
    ours = "gantry" in names or "gantry" in params
    return ours and not any("apache" in word for word in (*names, params))


def in_order(items: list[pytest.Item]) -> list[pytest.Item]:
    """The tests in the order of their groups: each server is started once, also when one process runs all of them."""
    rank = {group: number for number, group in enumerate(Group)}
    return sorted(items, key=lambda item: rank[group_of(item)])


def group_of(item: pytest.Item) -> Group:
    """By its file, else by the Java client that plays it, else by the server that it needs."""
    found = OF_FILE.get(item.path.name)
    if found is not None:
        return found
    params = getattr(getattr(item, "callspec", None), "params", {})
    if item.path.parent != HERE or item.path.name in BY_CLIENT:
        client = params["java_client"] if "java_client" in params else params["pair"][0]
        return OF_CLIENT[client]
    named = [params.get("server"), params.get("apache"), *sorted(getattr(item, "fixturenames", ()))]
    return next((OF_SERVER[name] for name in named if name in OF_SERVER), Group.GANTRY)
