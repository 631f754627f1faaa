"""The compiled core of a checkout: ``core.py DIRECTORY`` brings it up to date there and prints where it lies.
``core.py --check`` only translates to C, in seconds and without a C compiler: does mypyc take these sources?

``run.py compile`` calls this with the Python of ``.venv``. A build lies in a directory named by what it was made from:
the sources, this Python, the version of mypy and the rules beside this file. As long as these stay, nothing is done.
``src/`` is not touched; ``gantrymq.build_info`` finds the modules where GANTRY_COMPILED says.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import version
from pathlib import Path
from typing import Final

import chosen

MANIFEST: Final = "manifest.json"
KEPT: Final = 2
"""Builds that stay: a process that started a while ago may still import from the one before."""


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sources() -> dict[str, str]:
    """Every source whose text is part of the compiled core, with its SHA-256, by its path below the package.

    Not only the compiled modules: mypyc copies constants and the shapes of classes from the modules that these import.
    """
    package = chosen.SOURCE / "gantrymq"
    by_name = {chosen.module_name(path): path for path in sorted(package.rglob("*.py"))}
    todo = [module.name for module in chosen.compiled()]
    reached: set[str] = set()
    while todo:
        name = todo.pop()
        if name in by_name and name not in reached:
            reached.add(name)
            todo += _imports(by_name[name])
            todo.append(name.rpartition(".")[0])
    return {by_name[name].relative_to(package).as_posix(): digest(by_name[name]) for name in sorted(reached)}


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes(), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def key(manifest: dict[str, object]) -> str:
    tools = [digest(Path(__file__).with_name(name)) for name in ("chosen.py", "docstrings.py", "extensions.py")]
    return hashlib.sha256(json.dumps([manifest, tools, version("mypy")], sort_keys=True).encode()).hexdigest()[:16]


def build(target: Path) -> None:
    """Compile into ``target``, in a directory beside it that takes its name when it is whole."""
    from extensions import SideBySide, extensions
    from setuptools import Distribution

    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="unfinished-", dir=target.parent))
    try:
        report(0, 0, "translating to C")
        made = extensions(work / "c")
        distribution = Distribution({"name": "gantrymq", "package_dir": {"": "src"}, "ext_modules": made})
        command = SideBySide(distribution)
        command.build_lib, command.build_temp = str(work / "lib"), str(work / "objects")
        command.report = report
        command.ensure_finalized()
        command.run()
        shutil.move(work / "lib", target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def report(done: int, total: int, what: str) -> None:
    print(f"progress {done} {total} {what}", flush=True)


def make(home: Path) -> Path:
    manifest: dict[str, object] = {"python": EXTENSION_SUFFIXES[0], "sources": sources()}
    target = home / key(manifest)
    if not (target / MANIFEST).exists():
        shutil.rmtree(target, ignore_errors=True)
        build(target)
        (target / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    os.utime(target)
    finished = sorted((path.parent for path in home.glob(f"*/{MANIFEST}")), key=lambda path: path.stat().st_mtime)
    for old in finished[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return target


def main() -> int:
    os.chdir(chosen.SOURCE.parent)
    if sys.argv[1] == "--check":
        from extensions import extensions

        with tempfile.TemporaryDirectory() as directory:
            print(f"mypyc takes {len(extensions(Path(directory)))} extension modules")
        return 0
    print(f"compiled {make(Path(sys.argv[1]).resolve())}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
