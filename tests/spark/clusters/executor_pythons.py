"""Pythons for executors that cannot see the files of the driver, as on another machine."""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
from pathlib import Path
from typing import Final

import gantrymq

ROOT = Path(gantrymq.__file__).resolve().parent.parent

SITE = """
import os, sys
from importlib.machinery import PathFinder

def visible():
    mine = os.environ.get("OWN_PACKAGES", "")
    return [mine] if mine else [path for path in sys.path if "gantrymq" in path and path.endswith(".zip")]

class OfThisMachine:
    '''Finds the package only where this executor got it: in its own packages, or in a shipped archive.'''
    def find_spec(self, name, path=None, target=None):
        if name not in ("gantrymq", "pyspark_rocketmq"):
            return None
        spec = PathFinder.find_spec(name, visible())
        if spec is None:
            raise ModuleNotFoundError("No module named " + name, name=name)
        return spec

sys.meta_path.insert(0, OfThisMachine())
"""
"""``sitecustomize.py`` of such a Python. The base interpreter has pyspark, pyarrow, numpy and msgspec."""

PYTHON = """#!/bin/sh
unset PYTHONHOME
here=$(cd "$(dirname "$0")" && pwd)
export PYTHONPATH="$here/../startup:$PYTHONPATH"
{own}
exec {base} "$@"
"""

NO_OTHER: Final = {"spark.executorEnv.PYTHONHOME": "/the/driver/is/on/another/machine"}
"""Settings of Spark with which no other Python starts on an executor: that of the driver is there only because driver
and executors of these tests have one file system."""


def make_python(directory: Path, *, with_package: bool) -> str:
    """Make ``directory/bin/python``. ``with_package``: this package is installed in it. Returns its path."""
    (directory / "bin").mkdir(parents=True)
    (directory / "startup").mkdir()
    (directory / "startup" / "sitecustomize.py").write_text(SITE)
    if with_package:
        target = directory / "packages"
        shutil.copytree(ROOT / "gantrymq", target / "gantrymq", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyspark_rocketmq.py", target)
    own = 'export OWN_PACKAGES="$here/../packages"' if with_package else "unset OWN_PACKAGES"
    python = directory / "bin" / "python"
    python.write_text(PYTHON.format(own=own, base=sys.executable))
    python.chmod(0o755)
    return str(python)


def packed(directory: Path) -> str:
    """The directory of a Python as an archive for ``spark.archives``, as venv-pack or conda-pack make one."""
    archive = f"{directory}.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as file:
        for name in sorted(os.listdir(directory)):
            file.add(directory / name, name)
    return archive
