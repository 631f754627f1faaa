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


@pytest.mark.slow
def test_bank_transfer_is_decided_by_check_back() -> None:
    scenario = tell("bank_transfer.py")
    assert "Alice sends 100: UNKNOWN, not decided yet" in scenario
    assert "Alice sends 5000: ROLLBACK, decided" in scenario
    assert "what became of the transfer of 100?  database says: COMMIT" in scenario
    assert "what became of the transfer of 50?  database says: ROLLBACK" in scenario
    assert "Alice has 900, Bob has 100, together 1000." in scenario


@pytest.mark.slow
def test_order_payment_reaches_every_service_once() -> None:
    scenario = tell("order_payment.py")
    assert "order o-3 (99): ROLLBACK" in scenario and "ship o-3" not in scenario
    assert "order o-4 (45): UNKNOWN" in scenario and "check-back: order o-4 is paid" in scenario
    for order in ("o-1", "o-2", "o-4", "o-5"):
        assert scenario.count(f"logistics: ship {order}") == scenario.count(f"cart: cleared after {order}") == 1


def test_the_first_program_of_the_readme_commits_a_message_and_sees_it(tmp_path: Path) -> None:
    code = (EXAMPLES / "first_message.py").read_text()
    assert f"```python\n{code}```" in (EXAMPLES.parent / "README.md").read_text(), "README.md shows this program"
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join([str(EXAMPLES.parent / "src"), *sys.path])}
    command = [sys.executable, "-m", "gantrymq.cli.main", "server", "--store", str(tmp_path / "store")]
    ports = ["--listen-port", "0", "--name-server-port", "0"]
    with subprocess.Popen([*command, *ports], stdout=subprocess.PIPE, text=True, env=paths) as server:
        try:
            assert server.stdout is not None
            where = re.search(r"name server (\S+:\d+)", server.stdout.readline())
            assert where is not None
            code = code.replace("127.0.0.1:9876", where[1])
            with subprocess.Popen(
                [sys.executable, "-u", "-c", code],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=paths, cwd=tmp_path,
            ) as program:  # fmt: skip
                assert program.stdin is not None and program.stdout is not None
                said = [program.stdout.readline().strip() for _ in range(3)]
                program.stdin.write("\n")
        finally:
            server.terminate()
    assert sorted(said) == ["COMMIT", "Press Enter to stop.", "ship the order o-1"]
    assert program.returncode == 0


@pytest.mark.parametrize("name", ["bank_transfer.py", "first_message.py", "order_payment.py", "own_server.py"])
def test_an_example_is_short(name: str) -> None:
    assert len((EXAMPLES / name).read_text().splitlines()) < 100


def test_help_says_what_the_example_shows() -> None:
    assert "Money moves between two banks" in tell("bank_transfer.py", "--help")
