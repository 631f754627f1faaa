"""Where a run of the demo puts its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.demo.layout import Layout, choose_directory
from gantrymq.errors import ConfigError


def test_a_wanted_directory_may_be_absent_or_empty(tmp_path: Path) -> None:
    assert choose_directory(tmp_path / "new", tmp_path) == tmp_path / "new"
    assert choose_directory(tmp_path, Path.cwd()) == tmp_path


def test_a_directory_with_something_in_it_is_refused_with_advice(tmp_path: Path) -> None:
    (tmp_path / "orders.db").write_text("x")
    with pytest.raises(ConfigError, match="is not empty; choose another --dir"):
        choose_directory(tmp_path, Path.cwd())


def test_the_default_is_the_first_free_name(tmp_path: Path) -> None:
    assert choose_directory(None, tmp_path).name == "gantry-demo-1"
    (tmp_path / "gantry-demo-1").mkdir()
    assert choose_directory(None, tmp_path).name == "gantry-demo-2"


def test_the_brokers_configuration_is_written(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "run")
    layout.make(1111, 2222)
    lines = layout.broker_conf.read_text().splitlines()
    assert f"storePathRootDir={layout.store}" in lines
    assert "listenPort=2222" in lines
    assert "namesrvAddr=127.0.0.1:1111" in lines
    assert "transactionTimeOut=2000" in lines
