"""The examples run as documented, print the expected output and succeed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def tell(name: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        capture_output=True,
        text=True,
        timeout=90,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(EXAMPLES.parent / "src"), *sys.path])},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr
    return done.stdout


@pytest.mark.kill
@pytest.mark.slow
def test_a_bank_that_is_killed_neither_loses_nor_makes_money() -> None:
    scenario = tell("bank_transfer.py")
    assert scenario.count("killed: ") == 3
    assert "Alice has 0, Bob has 1000, together 1000." in scenario


@pytest.mark.slow
def test_the_classic_listener_does_what_the_first_message_does(tmp_path: Path) -> None:
    first = _run_beside_a_server((EXAMPLES / "first_message.py").read_text(), tmp_path / "first")
    classic = _run_beside_a_server((EXAMPLES / "classic_listener.py").read_text(), tmp_path / "classic")
    assert first == ["Press Enter to stop.", "ship the order o-1", "the order o-1 is paid"]
    assert classic == ["COMMIT", "Press Enter to stop.", "ship the order o-1"]


@pytest.mark.slow
def test_workers_that_receive_share_one_queue_and_repeat_what_failed() -> None:
    lines = tell("simple_consumer.py").splitlines()
    read = sorted(line for line in lines if line.startswith("read "))
    assert read == [f"read scan-{number}, attempt {2 if number == 4 else 1}" for number in range(6)]
    assert lines[-1] == "every scan is read"


@pytest.mark.slow
def test_order_payment_reaches_every_service_once() -> None:
    scenario = tell("order_payment.py")
    assert "order o-3: the card was declined, nothing is sent" in scenario
    assert "order o-4: paid, and its process crashed before it could tell the broker" in scenario
    for service in ("logistics", "points", "cart"):
        assert f"{service} has o-1 o-2 o-4 o-5\n" in scenario


# Whole lines, as a terminal shows them. With `python -u`, or PYTHONUNBUFFERED as in CI, each argument of print() is a
# write of its own, and the listener's thread and the main thread print into one another's lines.
_AS_A_TERMINAL = "import sys; sys.stdout.reconfigure(line_buffering=True, write_through=False)\n"


def _run_beside_a_server(code: str, directory: Path) -> list[str]:
    """Run a program for a server of its own, press Enter at its end, and return the lines that it printed, sorted."""
    directory.mkdir()
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join([str(EXAMPLES.parent / "src"), *sys.path])}
    command = [sys.executable, "-m", "gantrymq.cli.main", "server", "--store", str(directory / "store")]
    ports = ["--listen-port", "0", "--name-server-port", "0"]
    with subprocess.Popen([*command, *ports], stdout=subprocess.PIPE, text=True, env=paths) as server:
        try:
            assert server.stdout is not None
            where = re.search(r"name server (\S+:\d+)", server.stdout.readline())
            assert where is not None
            with subprocess.Popen(
                [sys.executable, "-c", _AS_A_TERMINAL + code.replace("127.0.0.1:9876", where[1])],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=paths, cwd=directory,
            ) as program:  # fmt: skip
                assert program.stdin is not None and program.stdout is not None
                said = [program.stdout.readline().strip() for _ in range(3)]
                program.stdin.write("\n")
        finally:
            server.terminate()
    assert program.returncode == 0
    return sorted(said)


@pytest.mark.parametrize("page", ["README.md", "docs/start.md"])
def test_the_first_pages_show_the_first_program(page: str) -> None:
    code = (EXAMPLES / "first_message.py").read_text()
    assert f"```python\n{code}```" in (EXAMPLES.parent / page).read_text()


@pytest.mark.parametrize(
    "name", ["bank_transfer.py", "classic_listener.py", "first_message.py", "order_payment.py", "own_server.py"]
)
def test_an_example_is_short(name: str) -> None:
    assert len((EXAMPLES / name).read_text().splitlines()) < 100


def test_help_says_what_the_example_shows() -> None:
    assert "Money moves between two banks" in tell("bank_transfer.py", "--help")
