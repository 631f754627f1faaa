"""Each guess where the machine has what it asks for, and where it does not."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from gantrymq.errors import ConfigError
from gantrymq.runtime.guesses import directories, own_address, person
from tests.support import namespaces

OWN = "import json; from gantrymq.runtime.guesses.own_address import own_address; print(json.dumps(own_address()))"


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without HOME, who is in no list of users."""
    for name in ("HOME", "LOGNAME", "USER", "LNAME", "USERNAME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda number: (_ for _ in ()).throw(KeyError(number)))


def test_directories_of_a_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert directories.home_directory("") == tmp_path
    assert directories.state_directory("") == tmp_path / ".local" / "state"
    assert directories.expanded(Path("~/x"), "offset_dir") == tmp_path / "x"
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert directories.state_directory("") == Path("/state")
    assert directories.cache_directories("g")[0] == Path("/cache/g")


@pytest.mark.usefixtures("nobody")
def test_a_user_without_a_home_is_told_what_to_do() -> None:
    with pytest.raises(ConfigError, match="give --store"):
        directories.home_directory("give --store")
    with pytest.raises(ConfigError, match="set GANTRY_AUDIT, or set XDG_STATE_HOME"):
        directories.state_directory("set GANTRY_AUDIT")
    with pytest.raises(ConfigError, match=r"offset_dir is ~/x.*without ~"):
        directories.expanded(Path("~/x"), "offset_dir")
    assert directories.expanded(Path("/x"), "offset_dir") == Path("/x")
    assert all("gantry-" in str(path) for path in directories.cache_directories("gantry"))
    assert person.user_name().startswith("uid ")


def test_no_temporary_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(ConfigError, match="set TMPDIR"):
        directories.new_temporary_directory("x-")


def test_what_a_name_stands_for() -> None:
    assert own_address.numeric_address("10.0.0.1") == "10.0.0.1"
    assert own_address.numeric_address("localhost") == "127.0.0.1"
    assert own_address.numeric_address("no-such-name.invalid") is None
    assert own_address.numeric_address("x" * 300) is None


@pytest.mark.parametrize(
    ("setup", "address"),
    [
        (namespaces.NO_NETWORK, None),
        (namespaces.LOOPBACK_ONLY, None),
        (namespaces.NO_DEFAULT_ROUTE, "10.9.8.7"),
        (namespaces.IPV6_ONLY, "2001:db8::5"),
    ],
)
def test_the_own_address(setup: tuple[str, ...], address: str | None) -> None:
    assert json.loads(namespaces.output(setup, sys.executable, "-c", OWN)) == address
