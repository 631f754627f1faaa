"""Where Spark's packages are not installed, nothing here can run: the core works without them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.spark.interrupted import JOB_GROUPS, JobGroups

if any(find_spec(name) is None for name in ("pyspark", "pyarrow", "numpy")):
    collect_ignore_glob = ["test_*.py", "*/test_*.py"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, Any]:
    """Behind a test that was interrupted, as by its time limit: see ``interrupted``."""
    if call.excinfo is not None and not isinstance(call.excinfo.value, Exception | pytest.skip.Exception):
        for groups in JOB_GROUPS:
            groups.make_usable()
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test with the session is one of Spark's, whether somebody has marked it or not: the others run in processes
    whose PATH must stay as it is."""
    for item in items:
        given = getattr(getattr(item, "callspec", None), "params", ())
        if "spark" in getattr(item, "fixturenames", ()) and "spark" not in given:
            item.add_marker("spark")


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The one Spark session of the tests, with every Java of the system hidden from it."""
    from gantrymq.spark import spark_session
    from gantrymq.spark.session.session import SHORT_JOBS

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", "no-such-java")
        patch.setenv("PATH", hide_java(os.environ["PATH"]))
        session = spark_session("gantrymq tests", master="local[2]", conf=SHORT_JOBS)
        JOB_GROUPS.append(JobGroups(session))
        yield session
        JOB_GROUPS.clear()
        session.stop()
        shutil.rmtree(os.environ["PATH"])


def hide_java(path: str) -> str:
    """A directory with links to every program of the PATH but java."""
    tools = Path(tempfile.mkdtemp(prefix="gantry-tools-"))
    for directory in filter(os.path.isdir, path.split(os.pathsep)):
        for name in os.listdir(directory):
            if name != "java" and not (tools / name).is_symlink():
                (tools / name).symlink_to(os.path.join(directory, name))
    return str(tools)
