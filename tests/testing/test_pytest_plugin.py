"""The pytest plugin, used as in another project: in a pytest process of its own."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow

INSTALLED = any(point.name == "gantrymq" for point in importlib.metadata.entry_points(group="pytest11"))
"""Else the plugin is named on the command line, as for a checkout that is not installed."""


def run_pytest(directory: Path, *arguments: str, code: str = "", settings: str = "") -> tuple[int, str]:
    """Exit status and output of pytest there."""
    if code:
        (directory / "test_it.py").write_text(textwrap.dedent(code))
        (directory / "pytest.ini").write_text("[pytest]\n" + settings)
    plugin = [] if INSTALLED else ["-p", "gantrymq.testing.pytest_plugin"]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *plugin, *arguments]
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *sys.path])}
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=200, env=paths)
    return done.returncode, done.stdout + done.stderr


def test_the_example_project_runs_its_tests(tmp_path: Path) -> None:
    status, output = run_pytest(ROOT / "examples/shop_with_tests", "-v")
    assert status == 0, output
    assert "5 passed" in output and "UnclosedClientWarning" not in output


def test_the_example_project_runs_in_several_processes() -> None:
    pytest.importorskip("xdist")
    status, output = run_pytest(ROOT / "examples/shop_with_tests", "-n", "2")
    assert status == 0 and "5 passed" in output, output


def test_each_test_has_an_empty_cluster_with_the_settings_of_its_marks(tmp_path: Path) -> None:
    status, output = run_pytest(
        tmp_path, "--strict-markers", settings="gantry_virtual_time = true\n",
        code="""
        import pytest
        from gantrymq import Message

        pytestmark = pytest.mark.gantry(name_servers="ns:1")

        def test_one(gantry):
            gantry.send(Message("orders", b"x"))
            assert gantry.virtual_time and gantry.name_servers == "ns:1"

        @pytest.mark.gantry(virtual_time=False)
        def test_two(gantry):
            assert gantry.messages("orders") == []
            assert not gantry.virtual_time and gantry.name_servers == "ns:1"
        """,
    )  # fmt: skip
    assert status == 0 and "2 passed" in output, output


FORGETS = """
    from gantrymq import Message, Producer

    def test_forgets(gantry):
        producer = Producer("p", name_servers="ns:1")
        producer.start()
        producer.send(Message("orders", b"x"))

    def test_next(gantry):
        assert gantry.messages("orders") == []
"""


def test_a_forgotten_client_is_a_warning_that_names_it(tmp_path: Path) -> None:
    status, output = run_pytest(tmp_path, code=FORGETS)
    assert status == 0 and "2 passed, 1 warning" in output, output
    assert "UnclosedClientWarning: a Producer made at " in output and "test_it.py:5 was not closed" in output


def test_a_forgotten_client_can_be_made_an_error_and_the_next_test_passes(tmp_path: Path) -> None:
    settings = "filterwarnings = error::gantrymq.testing.UnclosedClientWarning\n"
    status, output = run_pytest(tmp_path, code=FORGETS, settings=settings)
    assert status == 1 and "2 passed, 1 error" in output, output


def test_a_ctrl_c_ends_the_run_and_leaves_nothing_behind(tmp_path: Path) -> None:
    status, output = run_pytest(
        tmp_path,
        code="""
        import os, signal, threading
        from gantrymq import Message, PushConsumer

        def test_interrupted(gantry):
            begun = threading.Event()
            gantry.create_topic("orders")
            with PushConsumer("c", name_servers="ns:1", listener=lambda found: begun.set()).subscribe("orders"):
                gantry.send(Message("orders", b"x"))
                begun.wait(60)
                threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
                gantry.wait_until(lambda: False, seconds=60)
        """,
    )
    assert status == int(pytest.ExitCode.INTERRUPTED), output
    assert "KeyboardInterrupt" in output and "Traceback" not in output, output


ASYNC = """
    import pytest
    from gantrymq import Message
    from gantrymq.aio import LitePullConsumer, Producer, PushConsumer

    pytestmark = [pytest.mark.{mark}, pytest.mark.gantry(virtual_time=True)]

    @pytest.fixture
    def anyio_backend():
        return "asyncio"

    async def test_delay(gantry):
        got = []

        async def consume(found):
            got.extend(found)

        gantry.create_topic("orders")
        consumer = PushConsumer("c", name_servers="ns:1", listener=consume).subscribe("orders")
        async with Producer("p", name_servers="ns:1") as producer, consumer:
            await producer.send(Message("orders", b"x", delay_level=3))
            await gantry.advance_async(9)
            assert got == []
            await gantry.advance_async(1.1)
            assert len(got) == 1

    async def test_time_passes_for_the_test(gantry):
        gantry.create_topic("orders")
        async with LitePullConsumer("c", name_servers="ns:1").subscribe("orders") as consumer:
            assert await consumer.poll(60_000) == []
"""


@pytest.mark.parametrize(("package", "mark"), [("pytest_asyncio", "asyncio"), ("anyio", "anyio")])
def test_async_tests_of_other_plugins_use_it(tmp_path: Path, package: str, mark: str) -> None:
    pytest.importorskip(package)
    settings = "asyncio_default_fixture_loop_scope = function\n" if mark == "asyncio" else ""
    status, output = run_pytest(tmp_path, code=ASYNC.replace("{mark}", mark), settings=settings)
    assert status == 0 and "2 passed" in output, output


def test_tests_without_the_fixture_load_no_cluster(tmp_path: Path) -> None:
    code = """
        import sys

        def test_it():
            assert "gantrymq.testing.local.cluster" not in sys.modules
            assert "gantrymq.broker" not in sys.modules
    """
    status, output = run_pytest(tmp_path, code=code)
    assert status == 0, output
