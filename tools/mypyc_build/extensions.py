"""The extension modules of a compiled build, and a ``build_ext`` that compiles their C files side by side.

Used by ``setup.py`` (wheels) and by ``core.py`` (a checkout). It needs mypy and setuptools: import it only when a
compiled build is wanted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import chosen
import docstrings
from setuptools import Extension
from setuptools.command.build_ext import build_ext

GROUP: Final = "gantrymq"
"""Names the shared library, ``gantrymq__mypyc``; ``gantrymq.build_info`` knows it under this name."""

Report = Callable[[int, int, str], None]
"""Told of every C file that is compiled: how many are done, of how many, which."""


def extensions(c_files: Path) -> list[Extension]:
    """Translate the chosen modules to C files below ``c_files``. To be called in the root of the repository.

    A warning on standard error names the docstrings that got lost.

    One C file per module: a single one for all grows to 170 MB, which takes gcc nine minutes instead of three.
    """
    from mypyc.build import mypycify

    root = chosen.SOURCE.parent
    modules = chosen.compiled()
    paths = [module.path.relative_to(root).as_posix() for module in modules]
    options = [f"--config-file={root / 'pyproject.toml'}", "--hide-error-context"]
    made: list[Extension] = mypycify(
        [*options, *paths], group_name=GROUP, target_dir=str(c_files), multi_file=True, opt_level="3", debug_level="0"
    )
    if homeless := docstrings.keep(c_files, modules):
        print(f"warning: these have no docstring in the compiled core: {', '.join(homeless)}", file=sys.stderr)
    return made


class SideBySide(build_ext):
    """Compiles as many C files at a time as there are cores; setuptools alone takes one after another."""

    report: Report = staticmethod(lambda done, total, what: None)

    def build_extensions(self) -> None:
        first, *entrances = self.extensions
        total = len(first.sources) + len(entrances)
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            self._library(first, threads, total)
            for done, name in enumerate(threads.map(self._entrance, entrances), start=len(first.sources) + 1):
                self.report(done, total, name)

    def _library(self, library: Extension, threads: ThreadPoolExecutor, total: int) -> None:
        """The code of all modules, in one shared library."""

        def one(source: str) -> str:
            self.compiler.compile(
                [source],
                output_dir=self.build_temp,
                include_dirs=library.include_dirs,
                extra_postargs=library.extra_compile_args,
                depends=library.depends,
            )
            return source

        for done, source in enumerate(threads.map(one, library.sources), start=1):
            self.report(done, total, Path(source).stem.rpartition("___")[2])
        objects = self.compiler.object_filenames(library.sources, output_dir=self.build_temp)
        target = self.get_ext_fullpath(library.name)
        self.compiler.link_shared_object(objects, target, build_temp=self.build_temp, target_lang="c")

    def _entrance(self, extension: Extension) -> str:
        """The small module that stands in for one Python module, and asks the library for its contents."""
        self.build_extension(extension)
        return str(extension.name)


def arguments(c_files: Path) -> dict[str, Any]:
    """What ``setup`` is given for a compiled build."""
    return {"ext_modules": extensions(c_files), "cmdclass": {"build_ext": SideBySide}}
