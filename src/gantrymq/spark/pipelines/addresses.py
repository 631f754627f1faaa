"""Paths that are addresses of object stores and other file systems. No I/O.

As a path of this machine, ``s3://bucket/table`` would be a directory of that name beside the job, and nobody would look
for the data there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.job import DeltaTarget, Job, ParquetTarget

_ADDRESS: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
OF_DELTA: Final = ("s3", "s3a", "gs", "abfs", "abfss", "az", "azure", "adl", "file")
"""The schemes of addresses that the library ``deltalake`` opens by itself."""


def scheme_of(path: str) -> str | None:
    """The scheme of an address such as ``s3://bucket/table``; None for a path."""
    match = _ADDRESS.match(path)
    return match[1].lower() if match else None


def absolute(path: str, directory: str) -> str:
    """A path that begins at ``directory`` when it is relative; an address as it is."""
    return path if scheme_of(path) else os.path.join(directory, path)


def directory_of(path: str, option: str) -> str:
    """The absolute path of a directory or file that ``option`` names. Raises ConfigError for an address."""
    if scheme_of(path):
        raise ConfigError(f"{option}: {_refusal(path)}")
    return os.path.abspath(path)


def wrong_places(job: Job) -> Iterator[tuple[str, str]]:
    """The keys of a job whose place nothing could be written to or read from, each with what to do."""
    if scheme_of(job.checkpoint):
        yield "checkpoint", _refusal(job.checkpoint)
    if job.body.schema_file is not None and scheme_of(job.body.schema_file):
        yield "body.schema_file", _refusal(job.body.schema_file)
    targets = {f"targets.{name}": target for name, target in job.targets.items()}
    for name, target in {**targets, "dead_letters": job.dead_letters}.items():
        if isinstance(target, ParquetTarget) and scheme_of(target.path):
            yield (
                f"{name}.path",
                f"{_refusal(target.path)}. For a table in an object store, use the type delta or iceberg",
            )
        elif isinstance(target, DeltaTarget) and scheme_of(target.path) not in (None, *OF_DELTA):
            yield f"{name}.path", f"{target.path} is not a valid place; give a path, or an address with {_or(OF_DELTA)}"


def _refusal(path: str) -> str:
    return (
        f"{path} is an address, and here a path is needed, on a file system that can lock and rename files. Mount the "
        "store, or give another directory"
    )


def _or(schemes: tuple[str, ...]) -> str:
    return ", ".join(f"{one}://" for one in schemes[:-1]) + f" or {schemes[-1]}://"
