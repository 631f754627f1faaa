"""Runs every case in three ways: on our broker, on our broker without its fix, and on Apache's brokers.

The first two are part of every test run. The runs on Apache's brokers take minutes, and their results change only when
a scenario does. So they run only with ``GANTRY_INTEROP_CONTROLS=1``:

    GANTRY_INTEROP_CONTROLS=1 python3 -m pytest tests/holes -m interop
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.holes.apache_stage import play_apache
from tests.holes.case import APACHE_VERSIONS, Case, Mutant, NotRepeated, Observed
from tests.holes.stage import play_ours
from tests.interop import jars

CONTROLS = "GANTRY_INTEROP_CONTROLS"
BROKEN_BROKER = pytest.mark.pure("a fix is taken out of the broker while it runs")
PLAYED = pytest.StashKey[dict[str, dict[str, Observed | BaseException]]]()
"""The results by version and name of the case."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "played" not in metafunc.fixturenames:
        return
    params = []
    for case in metafunc.module.CASES:
        params.append(pytest.param((case, None), id=f"{case.name}-ours"))
        params += [
            pytest.param((case, mutant), id=f"{case.name}-without {mutant.name}", marks=BROKEN_BROKER)
            for mutant in case.mutants
        ]
        if not isinstance(case.apache, NotRepeated):
            marks = [pytest.mark.interop, pytest.mark.timeout(900)]
            if not os.environ.get(CONTROLS):
                marks.append(pytest.mark.skip(reason=f"Apache's brokers; {CONTROLS}=1 runs them"))
            params += [
                pytest.param((case, version), id=f"{case.name}-apache {version}", marks=marks)
                for version in APACHE_VERSIONS
            ]
    metafunc.parametrize("played", params, indirect=True)


@pytest.fixture
def played(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], None]:
    """Run one case in one way, and fail when the result is not the expected one."""
    case, how = request.param
    if how is None:
        return lambda: _keeps(case, play_ours(case.play, **case.ours))
    if isinstance(how, Mutant):
        how.patch(monkeypatch)
        return lambda: _breaks(case, how, play_ours(case.play, **case.ours))
    return lambda: _as_written(case, how, _on_apache(request.session, case, how, tmp_path_factory))


def _keeps(case: Case, observed: Observed) -> None:
    assert observed.of > 0, "a scenario tries at least once"
    assert observed.wrong == 0, f"{case.name}: broken in {observed.wrong} of {observed.of} tries; {observed.note}"


def _breaks(case: Case, mutant: Mutant, observed: Observed) -> None:
    assert observed.wrong > 0, f"{case.name} does not notice that {mutant.name} is missing"


def _as_written(case: Case, version: str, observed: Observed) -> None:
    expected = case.apache[version]
    assert expected.fits(observed), (
        f"{case.name}: Apache {version} was said to show '{expected.value}', "
        f"observed in {observed.wrong} of {observed.of} tries; "
        f"{observed.note}"
    )


def _on_apache(session: pytest.Session, case: Case, version: str, factory: pytest.TempPathFactory) -> Observed:
    """The result of a case on that version. The first call runs all selected cases of the session."""
    known = session.stash.setdefault(PLAYED, {})
    if version not in known:
        try:
            jars.check_jdk()
            jars.library(f"server-{version}")
        except jars.NotHere as reason:
            pytest.skip(str(reason))
        known[version] = play_apache(version, _selected(session, version), Path(factory.mktemp(f"holes-{version}")))
        for name, observed in known[version].items():
            print(f"Apache {version}: {name}: {observed}")
    observed = known[version][case.name]
    if isinstance(observed, BaseException):
        raise observed
    return observed


def _selected(session: pytest.Session, version: str) -> list[Case]:
    found = []
    for item in session.items:
        params = getattr(getattr(item, "callspec", None), "params", {})
        case, how = params.get("played", (None, None))
        if how == version:
            found.append(case)
    return found
