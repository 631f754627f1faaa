"""What every test may count on."""

from __future__ import annotations

import gc
import importlib.util
import os
import signal
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from gantrymq.build_info import COMPILED, PURE, build_info
from gantrymq.client.connection import portals
from tests.support import slow_disk, watched

# A busy machine may stop us at any time for longer than the 200 ms that an example is given by default.
settings.register_profile("gantrymq", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("short", settings.get_profile("gantrymq"), max_examples=20)  # for the stage unit
settings.register_profile("long", settings.get_profile("gantrymq"), max_examples=2_000)
settings.load_profile("gantrymq")

# A shell that starts us in the background makes us ignore Ctrl-C, and our children inherit that; the tests that
# interrupt would test the shell.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it, for the servers that the tests start as well

NEEDED = {"spark": "pyspark", "packaging": "build"}
"""Marks whose tests need a package that a small environment may lack; ``python3 run.py test`` has all of them."""

SLOW_SECONDS = 1.0
"""A test that takes longer on a machine with nothing else to do gets the mark ``slow``."""
LAST_PLACES = 12
"""Of a failed test: so many lines of code, the last one that it reached at the end."""
APART = ("slow", "interop", "compiled", "clusters", *NEEDED, "kill")
"""Marks of tests that ``python3 run.py test quick`` leaves out."""


@pytest.fixture(scope="module", autouse=True)
def clients_are_closed(request: pytest.FixtureRequest) -> Iterator[None]:
    """A blocking client that a module leaves open keeps the thread of all of them alive, and disturbs later modules.

    Tests with a Spark session run in a process of their own, whose connections stay open from task to task.
    """
    yield
    if any(item.get_closest_marker("spark") for item in request.session.items):
        return
    left = [(one, user) for one in portals.portals() for user in one.forgotten]
    for one, user in left:
        one.post(one.leave, user)
    assert not left, f"clients that were not closed: {left}"


@pytest.fixture(autouse=True)
def environment_is_put_back() -> Iterator[None]:
    """A command that a test calls in this process may set variables, as if the process were its own. Left behind, they
    change what later tests start."""
    before = _our_variables()
    yield
    for name in _our_variables().keys() - before.keys():
        del os.environ[name]
    os.environ.update(before)


@pytest.fixture(autouse=True)
def ctrl_c_stays_ctrl_c() -> Iterator[None]:
    """No test leaves a handler of signals behind: a later one that presses Ctrl-C would wait in vain, far from here.
    Spark's stays, as long as its session does, and raises KeyboardInterrupt as Python's does."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    left = {number: found for number, was in before.items() if (found := signal.getsignal(number)) is not was}
    left = {number: found for number, found in left.items() if not _is_sparks(found)}
    for number in left:
        signal.signal(number, before[number])
    woken = signal.set_wakeup_fd(-1)
    assert not left, f"this test left {left}"
    assert woken == -1, "this test left a file to which the numbers of signals are written; its number gets a new owner"


def _is_sparks(handler: object) -> bool:
    return str(getattr(handler, "__module__", "")).startswith("pyspark")


def _our_variables() -> dict[str, str]:
    """All but the one that says which modules this process has loaded: that cannot be undone."""
    ours = ("GANTRY", "NAMESRV", "DJANGO")
    return {name: value for name, value in os.environ.items() if name.startswith(ours) and name != PURE}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow-disk", type=float, metavar="SECONDS", help="each sync of a file takes so much longer")


def pytest_configure(config: pytest.Config) -> None:
    """Never test pure Python where the compiled core was asked for: a source that is edited meanwhile would do that."""
    if (seconds := config.getoption("--slow-disk", None)) is not None:
        slow_disk.make_slow(seconds)
    core = build_info()
    if os.environ.get(COMPILED) and not core.compiled and not core.why_pure:
        raise pytest.UsageError(f"{COMPILED} is set, and pure Python runs")


def on_mariadb(item: pytest.Item) -> bool:
    """Whether a test needs MariaDB, which takes ten seconds to start, and half a second to make a database."""
    fixtures = getattr(item, "fixturenames", ())
    return "mariadb" in fixtures or ("mariadb" in item.name and not {"database", "level"}.isdisjoint(fixtures))


def pytest_collection_finish() -> None:
    """The garbage collector need not look at 14,000 tests again and again: a third of a second for each whole run of
    it, and tests of what is forgotten call for hundreds."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow because of MariaDB, and leave out, by name, what this environment cannot run. On CI nothing is
    left out: there it fails instead."""
    for item in filter(on_mariadb, items):
        item.add_marker(pytest.mark.slow)
    for item in items if build_info().compiled else ():
        if (mark := item.get_closest_marker("pure")) is not None:
            item.add_marker(pytest.mark.skip(reason=mark.args[0]))
    if os.environ.get("CI"):
        return
    for mark, package in NEEDED.items():
        found = importlib.util.find_spec(package)
        if found is not None and found.origin is not None:  # a directory "build" alone is no package
            continue
        for item in items:
            if item.get_closest_marker(mark) is not None:
                item.add_marker(pytest.mark.skip(reason=f"{package} is not installed; python3 run.py test has it"))


def pytest_runtest_logstart(nodeid: str) -> None:
    watched.begins(nodeid)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    limit = item.get_closest_marker("timeout")
    watched.limited(item.nodeid, float(limit.args[0] if limit is not None else item.config.getini("timeout") or 0))
    try:
        return (yield)
    finally:
        watched.over()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        watched.failed(report.nodeid, (_places(report) or ["an unknown place"])[-1])


def _places(report: pytest.TestReport) -> list[str]:
    """The way to the line at which a failed test stood."""
    entries = getattr(getattr(report.longrepr, "reprtraceback", None), "reprentries", [])
    return [f"{place.path}:{place.lineno}" for one in entries if (place := getattr(one, "reprfileloc", None))]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the tests that lack the mark ``slow``. Nothing fails: on a busy machine every test is slow.

    Behind that, the way to the line at which each failed test stood: of a long log, CI shows the end.
    """
    _show_unmarked(terminalreporter)
    for report in terminalreporter.stats.get("failed", []):
        if places := _places(report):
            terminalreporter.section(f"where {report.nodeid} stood")
            terminalreporter.write_line("\n".join(places[-LAST_PLACES:]))


def _show_unmarked(terminalreporter: pytest.TerminalReporter) -> None:
    unmarked = [
        f"{report.duration:6.1f} s  {report.nodeid}"
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        if report.duration > SLOW_SECONDS and not any(mark in report.keywords for mark in APART)
    ]
    if unmarked:
        terminalreporter.section(f"over {SLOW_SECONDS:g} s and without the mark slow")
        terminalreporter.write_line("\n".join(sorted(unmarked, reverse=True)))
