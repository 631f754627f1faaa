"""Places that are addresses of object stores. No I/O.

As a path of this machine, ``s3://bucket/table`` would be a directory of that name beside the job, and nobody would look
for the data there. So each kind of place has the addresses that its writer can open.
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


OF_PARQUET: Final = ("s3", "s3a", "gs", "abfss")
"""Those of ``pyarrow``."""
OF_CHECKPOINT: Final = ("s3a", "gs", "abfss")
"""Those that Spark opens by a library of Hadoop, and this package by ``pyarrow``."""
LIBRARIES: Final = {
    "s3a": ("org.apache.hadoop.fs.s3a.S3AFileSystem", "org.apache.hadoop:hadoop-aws"),
    "gs": ("com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem", "com.google.cloud.bigdataoss:gcs-connector"),
    "abfss": ("org.apache.hadoop.fs.azurebfs.AzureBlobFileSystem", "org.apache.hadoop:hadoop-azure"),
}
"""The class by which Spark opens addresses with this scheme, and the package of Maven that has it."""


def scheme_of(path: str) -> str | None:
    """The scheme of an address such as ``s3://bucket/table``; None for a path."""
    match = _ADDRESS.match(path)
    return match[1].lower() if match else None


def absolute(path: str, directory: str) -> str:
    """A path that begins at ``directory`` when it is relative; an address as it is."""
    return path if scheme_of(path) else os.path.join(directory, path)


def absolute_place(path: str) -> str:
    """An absolute path, or an address as it is."""
    return path if scheme_of(path) else os.path.abspath(path)


def directory_of(path: str, option: str) -> str:
    """The absolute path of a directory or file that ``option`` names. Raises ConfigError for an address."""
    if scheme_of(path):
        raise ConfigError(f"{option}: {_refusal(path)}")
    return os.path.abspath(path)


def wrong_places(job: Job) -> Iterator[tuple[str, str]]:
    """The keys of a job whose place nothing could be written to or read from, each with what to do."""
    scheme = scheme_of(job.checkpoint)
    if scheme in ("s3", "s3n"):
        yield "checkpoint", f"{job.checkpoint} is not a valid place: Spark's library for S3 has the addresses s3a://"
    elif scheme not in (None, *OF_CHECKPOINT):
        yield "checkpoint", _other(job.checkpoint, OF_CHECKPOINT)
    if job.body.schema_file is not None and scheme_of(job.body.schema_file):
        yield "body.schema_file", _refusal(job.body.schema_file)
    targets = {f"targets.{name}": target for name, target in job.targets.items()}
    for name, target in {**targets, "dead_letters": job.dead_letters}.items():
        valid = OF_PARQUET if isinstance(target, ParquetTarget) else OF_DELTA
        if isinstance(target, ParquetTarget | DeltaTarget) and scheme_of(target.path) not in (None, *valid):
            yield f"{name}.path", _other(target.path, valid)


def _other(path: str, schemes: tuple[str, ...]) -> str:
    return f"{path} is not a valid place; give a path, or an address with {_or(schemes)}"


def _refusal(path: str) -> str:
    return f"{path} is an address, and here a path of this machine is needed. Copy the file, or mount the store"


def _or(schemes: tuple[str, ...]) -> str:
    return ", ".join(f"{one}://" for one in schemes[:-1]) + f" or {schemes[-1]}://"
