"""The compiled wheel: built here, installed into an empty environment, and asked which core runs."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
NEEDED = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")
HIDDEN = ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME", "GANTRY_PURE", "GANTRY_COMPILED")

COMPILER = any(shutil.which(name) for name in ("cc", "gcc", "clang"))
HEADERS = Path(sysconfig.get_path("include"), "Python.h").exists()

pytestmark = [
    pytest.mark.packaging,
    pytest.mark.compiled,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not COMPILER, reason="no C compiler is on the PATH"),
    pytest.mark.skipif(not HEADERS, reason="the headers of this Python (Python.h) are not installed"),
]


def run(*command: str | Path, cwd: Path, **more: str) -> str:
    environment = {key: value for key, value in os.environ.items() if key not in HIDDEN} | more
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, f"{command}: {done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, and once for all tests: it takes minutes. ``GANTRY_TEST_WHEEL`` names one that is there."""
    if given := os.environ.get("GANTRY_TEST_WHEEL"):
        return Path(given)
    root = tmp_path_factory.getbasetemp()
    return built(root.parent if "PYTEST_XDIST_WORKER" in os.environ else root)


def built(root: Path) -> Path:
    """The wheel in this directory. Of the processes of a run, which share it, one builds, and the others wait."""
    out, sources = root / "wheel", root / "sources-of-the-wheel"
    with (root / "wheel.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not out.exists():
            shutil.rmtree(sources, ignore_errors=True)  # of a process whose build failed
            sources.mkdir()
            for name in NEEDED:
                shutil.copy(ROOT / name, sources)
            for name in ("src", "tools"):
                shutil.copytree(ROOT / name, sources / name, ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
            done = root / "wheel-done"
            build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", done, sources]
            run(*build, cwd=root, GANTRY_COMPILE="1")
            done.rename(out)
    (wheel,) = out.glob("gantrymq-*.whl")
    return wheel


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    home = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", home / "venv", cwd=home)
    locked = re.sub(r" \\\n(?:.*--hash=.*\n?)+", "\n", (ROOT / "requirements.lock").read_text())
    (home / "constraints.txt").write_text(locked)
    pip = [home / "venv" / "bin" / "python", "-m", "pip", "install", "--disable-pip-version-check"]
    run(*pip, "--constraint", home / "constraints.txt", wheel, cwd=home)
    return home


def test_the_wheel_is_of_this_platform_and_holds_every_source_beside_its_compiled_form(wheel: Path) -> None:
    assert not wheel.name.endswith("py3-none-any.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    suffix = EXTENSION_SUFFIXES[0]
    compiled = {name.removesuffix(suffix) for name in names if name.endswith(suffix) and name.startswith("gantrymq/")}
    assert len(compiled) > 100
    assert {f"{name}.py" for name in compiled} <= names
    assert f"gantrymq__mypyc{suffix}" in names
    assert not {name for name in compiled if name.split("/")[1] in ("cli", "testing", "spark", "demo")}


@pytest.mark.parametrize("pure, said", [("", "compiled"), ("0", "compiled"), ("1", "pure Python (GANTRY_PURE is set)")])
def test_the_command_says_which_core_runs(environment: Path, pure: str, said: str) -> None:
    shown = run(environment / "venv" / "bin" / "gantry", "--version", cwd=environment, GANTRY_PURE=pure)
    assert f", {said}, " in shown


@pytest.mark.parametrize("pure", ["0", "1"])
def test_the_switch_decides_what_is_imported(environment: Path, pure: str) -> None:
    code = (
        "import sys, gantrymq.broker.broker;"
        "files = [m.__file__ for n, m in list(sys.modules.items()) if n.startswith('gantrymq.')];"
        "print(sum(not f.endswith('.py') for f in files), sum(f.endswith('.py') for f in files))"
    )
    shown = run(environment / "venv" / "bin" / "python", "-c", code, cwd=environment, GANTRY_PURE=pure)
    compiled, _ = map(int, shown.split())
    assert compiled > 50 if pure == "0" else compiled == 0


def test_help_shows_the_docstring_of_a_compiled_class(environment: Path) -> None:
    code = (
        "import sys, gantrymq; s = gantrymq.SendStatus;"
        "print(sys.modules[s.__module__].__file__.endswith('.py')); help(s)"
    )
    shown = run(environment / "venv" / "bin" / "python", "-c", code, cwd=environment)
    assert shown.startswith("False") and "How safely a message was stored." in shown


def test_the_simulation_runs_pure_python_in_a_compiled_installation(environment: Path) -> None:
    gantry = environment / "venv" / "bin" / "gantry"
    assert "1 seeds" in run(gantry, "simulate", "--seed", "1", "--orders", "5", cwd=environment)
