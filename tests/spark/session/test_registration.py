"""Spark imports every module named ``pyspark_*``. Ours must not raise, even if dependencies are missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == {package!r}:
            raise {error}("as if it were not installed")
sys.meta_path.insert(0, Missing())
import pyspark_rocketmq
try:
    source = pyspark_rocketmq.DefaultSource({{}})
    print(source.name())
except ImportError as error:
    print(pyspark_rocketmq.DefaultSource.name(), error)
"""


def imported(package: str, error: str = "ImportError") -> str:
    program = WITHOUT.format(package=package, error=error)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def test_the_format_is_found() -> None:
    assert imported("nothing") == "rocketmq"


@pytest.mark.parametrize("error", ["ImportError", "ValueError", "AttributeError"])
def test_what_is_missing_or_broken_is_said_when_the_format_is_used(error: str) -> None:
    said = imported("msgspec", error)
    assert said.startswith(f"rocketmq the format rocketmq cannot be loaded by {sys.executable}: {error}: as if")
    assert "pip install 'gantrymq[spark]'" in said and "PYSPARK_PYTHON" in said


def test_looking_up_formats_loads_no_arrow_and_no_client() -> None:
    heavy = ("gantrymq.client.sync", "uvloop", "pyarrow", "numpy")
    program = f"import sys, pyspark_rocketmq; print([name for name in {heavy} if name in sys.modules])"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[]"
