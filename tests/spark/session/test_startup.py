"""Spark's Python processes take PySpark from where it is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import gantrymq
from gantrymq.spark.session.startup.sitecustomize import without_zip

PACKAGE = Path(gantrymq.__file__).resolve().parent
STARTUP = PACKAGE / "spark" / "session" / "startup"


def installed(where: Path) -> Path:
    """A PySpark like that of a package; returns its zip file."""
    for folder in (where / "pyspark", where / "pyspark" / "python" / "lib"):
        folder.mkdir(parents=True, exist_ok=True)
    (where / "pyspark" / "__init__.py").write_text("")
    return where / "pyspark" / "python" / "lib" / "pyspark.zip"


def test_the_zip_file_is_left_out_where_its_own_pyspark_is_found_then(tmp_path: Path) -> None:
    zipped, other = str(installed(tmp_path / "its own")), str(installed(tmp_path / "other"))
    its_own = str(tmp_path / "its own")
    assert without_zip(["", zipped, "py4j.zip", its_own]) == ["", "py4j.zip", its_own]
    for path in ([zipped, "x"], [zipped, str(tmp_path / "other"), its_own], [zipped, other, its_own], [its_own]):
        assert without_zip(path) == path


def test_a_process_finds_the_installed_pyspark_and_runs_the_module_that_is_hidden(tmp_path: Path) -> None:
    zipped = installed(tmp_path / "installed")
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("import sys\nsys.was_run = sys.path[0]\n")
    there = str(tmp_path / "installed")
    path = os.pathsep.join([str(zipped), str(STARTUP), str(hidden), there])
    program = "import pyspark, sys; print(pyspark.__file__); print(sys.was_run)"
    answer = subprocess.run(
        [sys.executable, "-S", "-c", f"import sitecustomize; {program}"],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert answer.stdout.splitlines()[0] == os.path.join(there, "pyspark", "__init__.py")
    assert len(answer.stdout.splitlines()) == 2
