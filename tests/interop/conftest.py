"""Clusters that the interop tests share, and the record of what works with whom."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop import guarded, jars, secured
from tests.interop.apache import OPS_AT_ONCE, ApacheCluster, JavaClient
from tests.interop.compatibility import RESULTS, Outcome, Result, known, save
from tests.interop.groups import Group, group_of, in_order, is_about_ours_alone
from tests.interop.ours import GantryCluster

HERE = Path(__file__).parent
FAST = {"transactionTimeOut": "2000", "transactionCheckInterval": "3000", "flushDiskType": "ASYNC_FLUSH"}
"""Checks come soon, so that tests need not wait; but the next one not before a busy JVM has answered: tests count them.
What differs by server is in the fixtures.
"""


ALONE = ("test_simple_consumer.py",)
CONTROLS = "GANTRY_INTEROP_CONTROLS"
"""Variable with which the long run is asked for."""
COLLECTED = pytest.StashKey[list[Result]]()
"""What the tests have shown."""
PARTIAL = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    names = [group.value for group in Group]
    parser.addoption("--group", choices=names, help="of the interop tests only one group (groups.py)")
    parser.addoption("--go5", action="store_true", help="the Go client of RocketMQ 5, too; it is long in compiling")
    parser.addoption("--guarded", action="store_true", help="interop tests of our servers with users and rights")
    parser.addoption("--tls", action="store_true", help="interop tests of our servers with TLS that is enforced")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[COLLECTED] = []
    if config.getoption("--tls", False):
        directory = tempfile.TemporaryDirectory()
        config.add_cleanup(directory.cleanup)
        secured.switch_on(Path(directory.name))
    if config.getoption("--guarded", False):
        guarded.switch_on()
    config.stash[PARTIAL] = bool(config.getoption("lf", False))  # which leaves files out before anything here sees them


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    ours = [item for item in items if HERE in item.path.parents]
    for item in ours:
        item.add_marker(pytest.mark.interop)
        if not os.environ.get(CONTROLS) and _is_control(item):
            item.add_marker(pytest.mark.skip(reason=f"a control; {CONTROLS}=1 runs it"))
        item.add_marker(pytest.mark.timeout(600))
        for mark in item.iter_markers("feature"):
            for row in mark.args:
                assert known(row), f"{item.nodeid}: no row {row!r} in tests/interop/features.py"
    group = config.getoption("--group", None)
    left_out = [item for item in ours if group not in (None, group_of(item).value)]
    switches = [one for one in (secured, guarded) if one.is_on()]
    if switches:
        left_out += [item for item in ours if item not in left_out and not is_about_ours_alone(item)]
    for switch in switches:
        left_out += [item for item in ours if item not in left_out and not switch.takes_part(item)]
    items[:] = [item for item in items if item not in ours] + [item for item in in_order(ours) if item not in left_out]
    if left_out:
        config.hook.pytest_deselected(items=left_out)


def _is_control(item: pytest.Item) -> bool:
    """Whether it shows what an official client does with Apache's server: what our server is measured by.

    Such tests say whether a driver expects the right thing. That changes with the drivers only, so the short run leaves
    them out. Those of ALONE keep the broker that all tests share busy for minutes.
    """
    params = getattr(getattr(item, "callspec", None), "params", {})
    if item.path.name in ALONE and "apache_5" in params.values():
        return True
    names = getattr(item, "fixturenames", ())
    official = any(name in names for name in ("java_client", "go")) and not _is_about_ours(item)
    if not official or any("column" in mark.kwargs for mark in item.iter_markers("feature")):
        return False
    return "apache" in " ".join(map(str, (*params.keys(), *params.values())))


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.config.stash[PARTIAL] = True


def pytest_sessionfinish(session: pytest.Session) -> None:
    directory, group = os.environ.get(RESULTS), session.config.getoption("--group", None)
    if directory is not None and group is not None:
        save(session.config.stash[COLLECTED], Path(directory, f"{group}.json"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note what a test with the mark ``feature`` has shown."""
    report = yield
    if report.when == "call" or (report.when == "setup" and not report.passed):
        for mark in item.iter_markers("feature"):
            good = Outcome.REFUSED if mark.kwargs.get("refused") else Outcome.WORKS
            outcome = good if report.passed else Outcome.SKIPPED if report.skipped else Outcome.FAILED
            if report.skipped and _is_control(item):
                continue
            column = mark.kwargs.get("column") or _column(item)
            item.config.stash[COLLECTED] += [Result(row, column, outcome, item.path.name) for row in mark.args]
    return report


def _is_about_ours(item: pytest.Item) -> bool:
    """Whether it shows what our client does, even beside an official one."""
    return item.path.name.startswith("test_our_client")


def _column(item: pytest.Item) -> str:
    """Client and server as the fixtures say."""
    used = getattr(item, "funcargs", {})
    server = next(
        (used[name].label for name in ("server", "apache", "apache_5", "apache_4", "gantry") if name in used), ""
    )
    if "tool" in used:  # our command line
        return f"on {server}"
    clients = {} if _is_about_ours(item) else {"java_client": "Java", "go": "Go"}
    client = next((f"{kind} {used[name].version}" for name, kind in clients.items() if name in used), "GantryMQ")
    return f"{client} on {server}"


@pytest.fixture(scope="session")
def jdk() -> None:
    """A JDK and Maven are here, and Maven reaches what it needs; else skipped, saying what is missing."""
    try:
        jars.check_jdk()
        for name in ("client-4.9.8", "client-5.5.0", "server-4.9.7", "server-5.5.0"):
            jars.library(name)
    except jars.NotHere as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def gantry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GantryCluster]:
    """Our name server and broker, shared by all tests: use topics and groups of your own."""
    cluster = GantryCluster(tmp_path_factory.mktemp("gantry"))
    try:
        cluster.start_name_server()
        cluster.start_broker(**FAST, recallMessageEnable="true", enablePropertyFilter="true")
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="session")
def apache_5(jdk: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheCluster]:
    """Apache's name server and broker 5.5.0, shared by all tests."""
    yield from _apache(
        "5.5.0", tmp_path_factory, **OPS_AT_ONCE, recallMessageEnable="true", mappedFileSizeTimerLog="52000",
        metricsExporterType="PROM",
        # Looks through the whole wheel, a million slots, each time.
        timerFlushIntervalMs="10000",
    )  # fmt: skip


@pytest.fixture(scope="session")
def apache_4(jdk: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheCluster]:
    """Apache's name server and broker 4.9.7, shared by all tests."""
    yield from _apache("4.9.7", tmp_path_factory)


def _apache(version: str, factory: pytest.TempPathFactory, **more: str) -> Iterator[ApacheCluster]:
    cluster = ApacheCluster(version, factory.mktemp(f"apache-{version}"))
    try:
        cluster.start_name_server()
        cluster.start_broker(**FAST, **more, enablePropertyFilter="true")
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The one Spark session of these tests; it ends with them."""
    pytest.importorskip("pyspark", reason="Spark's packages are not installed: pip install 'gantrymq[spark]'")
    from gantrymq.spark.session.session import SHORT_JOBS, spark_session

    session = spark_session("gantrymq interop", master="local[2]", conf=SHORT_JOBS)
    yield session
    session.stop()


@pytest.fixture(scope="session", params=["4.9.7", "5.5.0"], ids=["apache-4.9.7", "apache-5.5.0"])
def apache(request: pytest.FixtureRequest) -> ApacheCluster:
    """Each of Apache's servers in turn."""
    cluster = request.getfixturevalue("apache_4" if request.param == "4.9.7" else "apache_5")
    assert isinstance(cluster, ApacheCluster)
    return cluster


@pytest.fixture(scope="session", params=["4.9.8", "5.5.0"], ids=["java-4.9.8", "java-5.5.0"])
def java_client(request: pytest.FixtureRequest, jdk: None, tmp_path_factory: pytest.TempPathFactory) -> JavaClient:
    """Each of the official Java clients in turn."""
    return JavaClient(request.param, tmp_path_factory.mktemp("java"))


@pytest.fixture(
    scope="session", params=["gantry", "apache_4", "apache_5"], ids=["gantrymq", "apache-4.9.7", "apache-5.5.0"]
)
def server(request: pytest.FixtureRequest) -> GantryCluster | ApacheCluster:
    """Ours, and each of Apache's servers in turn."""
    cluster = request.getfixturevalue(request.param)
    assert isinstance(cluster, GantryCluster | ApacheCluster)
    return cluster
