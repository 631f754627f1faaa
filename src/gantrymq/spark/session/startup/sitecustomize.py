"""What Spark's Python processes do first: they take PySpark from where it is installed, and not from its zip file.

Spark puts that zip file in front of their path. It has no byte code, so each process that plans a query compiled all of
PySpark anew: two thirds of the time until a stream begins. The same modules lie unpacked beside the zip file.

Python runs the first module of this name that it finds. One that this one hides is run, too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder

ZIP = os.path.join("python", "lib", "pyspark.zip")
"""Within an installed PySpark."""


def without_zip(path: Sequence[str]) -> list[str]:
    """A search path without the zip file, if the PySpark that is found then is the one beside it."""
    zips = [entry for entry in path if entry.endswith(os.sep + ZIP)]
    others = [entry for entry in path if entry not in zips]
    spec = PathFinder.find_spec("pyspark", others) if zips else None
    if spec is None or spec.origin is None:
        return list(path)
    home = os.path.dirname(os.path.realpath(spec.origin))
    same = all(os.path.realpath(entry) == os.path.join(home, ZIP) for entry in zips)
    return others if same else list(path)


def run_hidden(path: Sequence[str]) -> None:
    """Run the module of this name that this one hides, as Python would have done."""
    here = os.path.dirname(os.path.realpath(__file__))
    spec = PathFinder.find_spec("sitecustomize", [entry for entry in path if os.path.realpath(entry) != here])
    if spec is not None and spec.loader is not None:
        from importlib.util import module_from_spec

        spec.loader.exec_module(module_from_spec(spec))


if __name__ == "sitecustomize":
    sys.path[:] = without_zip(sys.path)
    run_hidden(sys.path)
