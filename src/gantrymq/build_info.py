"""Chooses between the core that is compiled with mypyc and the one in pure Python, and tells which of them runs.

Python prefers a compiled module to the source beside it, so by default this module is not needed. Two environment
variables change that. When one of them is set, ``gantrymq/__init__.py`` calls ``choose`` before any other import:

``GANTRY_PURE=1``
    The ``.py`` files run, even if there are compiled modules beside them.
``GANTRY_COMPILED=<directory>``
    The compiled modules are loaded from this directory (``run.py`` makes it), because ``src/`` of a checkout contains
    only sources. They are used only if the sources from which they were compiled are equal to those in ``src/`` now.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, FileFinder, ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any, Final

PURE: Final = "GANTRY_PURE"
COMPILED: Final = "GANTRY_COMPILED"
MANIFEST: Final = "manifest.json"
"""A file in the directory of ``GANTRY_COMPILED``: ``python`` (the ABI) and ``sources`` (SHA-256 by path below the
package)."""

_PACKAGE: Final = Path(__file__).resolve().parent
_INSIDE: Final = f"{_PACKAGE.name}."
SHARED_LIBRARY: Final = f"{_PACKAGE.name}__mypyc"
"""The library with the code of all compiled modules. Each compiled module only refers to it."""


@dataclass(frozen=True)
class Core:
    """What runs in this process."""

    compiled: tuple[str, ...]
    """Names of the modules that are compiled, or would be when they are imported; empty: pure Python."""
    why_pure: str = ""
    """Why existing compiled modules are not used; empty when there are none, or when they are used."""

    def __str__(self) -> str:
        if self.compiled:
            return "compiled"
        return f"pure Python ({self.why_pure})" if self.why_pure else "pure Python"


class _Sources(MetaPathFinder):
    """Finds the ``.py`` files of this package, and ignores compiled modules beside them."""

    def __init__(self) -> None:
        self._directories: dict[str, FileFinder] = {}

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        if not fullname.startswith(_INSIDE) or path is None:
            return None
        for directory in path:
            finder = self._directories.get(directory)
            if finder is None:
                finder = self._directories[directory] = FileFinder(directory, (SourceFileLoader, [".py"]))
            if spec := finder.find_spec(fullname):
                return spec
        return None


class _CompiledModules(MetaPathFinder):
    """Finds compiled modules in a directory of their own."""

    def __init__(self, directory: Path) -> None:
        self.found = dict(_extensions(directory))

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        place = self.found.get(fullname)
        if place is None:
            return None
        return spec_from_file_location(fullname, place, loader=ExtensionFileLoader(fullname, str(place)))


def choose() -> None:
    """Apply the environment variables. Call this before any other module of the package is imported."""
    if _wants_pure():
        sys.meta_path.insert(0, _Sources())
    elif directory := os.environ.get(COMPILED):
        if problem := why_unusable(Path(directory)):
            print(f"gantrymq: the compiled core is not used, pure Python runs: {problem}", file=sys.stderr)  # noqa: T201
        else:
            sys.meta_path.insert(0, _CompiledModules(Path(directory)))


def why_unusable(directory: Path) -> str:
    """Why the compiled modules of a directory must not be used instead of the sources; empty when they may."""
    try:
        manifest = json.loads((directory / MANIFEST).read_bytes())
        if manifest["python"] != EXTENSION_SUFFIXES[0]:
            return "it was made for another Python"
        for below, digest in manifest["sources"].items():
            if hashlib.sha256((_PACKAGE / below).read_bytes()).hexdigest() != digest:
                return f"{below} has changed since it was compiled"
    except (OSError, ValueError, KeyError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def require_pure(what: str) -> None:
    """Make this process, and those that it starts, run pure Python, because ``what`` replaces parts of modules at run
    time.

    Raises:
        RuntimeError: compiled modules are loaded already.
    """
    if loaded := sorted(name for name in sys.modules if name.startswith(_INSIDE) and _is_compiled(sys.modules[name])):
        raise RuntimeError(
            f"{what} replaces parts of gantrymq's modules while they run, which compiled modules do not allow, and "
            f"{loaded[0]} is loaded in its compiled form already. Set {PURE}=1 in the environment and start again"
        )
    if not _wants_pure():
        os.environ[PURE] = "1"
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _CompiledModules)]
        sys.meta_path.insert(0, _Sources())


def build_info() -> Core:
    """Which core runs in this process. This reads directories, so it is too slow for frequent calls."""
    beside = tuple(sorted(name for name, _ in _extensions(_PACKAGE.parent) if name.startswith(_INSIDE)))
    apart = next((finder for finder in sys.meta_path if isinstance(finder, _CompiledModules)), None)
    if _wants_pure():
        return Core((), f"{PURE} is set" if beside or os.environ.get(COMPILED) else "")
    if apart is not None:
        return Core(tuple(sorted(name for name in apart.found if name.startswith(_INSIDE))))
    return Core(beside)


def _extensions(directory: Path) -> Iterator[tuple[str, Path]]:
    """Name and place of the extension modules of this package below ``directory``, made for this Python."""
    for suffix in EXTENSION_SUFFIXES[:1]:
        for place in [*(directory / _PACKAGE.name).rglob(f"*{suffix}"), *directory.glob(f"{SHARED_LIBRARY}{suffix}")]:
            below = place.relative_to(directory).as_posix().removesuffix(suffix)
            yield below.removesuffix("/__init__").replace("/", "."), place


def _wants_pure() -> bool:
    return os.environ.get(PURE, "0") not in ("", "0")


def _is_compiled(module: Any) -> bool:
    return str(getattr(module, "__file__", "")).endswith(tuple(EXTENSION_SUFFIXES))
