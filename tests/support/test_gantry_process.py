"""What is said when a process of the tests does not start."""

from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.demo.ports import free_port
from tests.support.gantry_process import GantryProcess


@pytest.mark.slow
def test_a_start_that_fails_says_what_the_process_wrote(tmp_path: Path) -> None:
    process = GantryProcess(tmp_path / "broker.log")
    with pytest.raises(RuntimeError, match=r"gantry broker ended with status \d+ .*\n(.*\n)*.*no-such\.conf"):
        process.start("broker", "-c", str(tmp_path / "no-such.conf"))
    assert process.process is None


@pytest.mark.slow
def test_a_server_does_not_act_for_the_account_of_the_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that left its account in the environment kept a proxy from starting in another test."""
    monkeypatch.setenv("GANTRY_ACCESS_KEY", "left")
    monkeypatch.setenv("GANTRY_SECRET_KEY", "behind")
    server = GantryProcess(tmp_path / "names.log")
    server.start("nameserver", "--listen-port", str(free_port()), "--host", "127.0.0.1")
    try:
        assert server.process is not None
        variables = Path(f"/proc/{server.process.pid}/environ").read_bytes()
        assert b"GANTRY_SUPERVISED" in variables
        assert b"left" not in variables and b"behind" not in variables
    finally:
        server.stop()
