"""Schemas in Protobuf, compiled: the registry has the text of ``.proto`` files, and a reader needs descriptors."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from gantrymq.errors import ConfigError
from gantrymq.runtime.disk import Disk, OsDisk, read_whole
from gantrymq.runtime.guesses.directories import new_temporary_directory
from gantrymq.spark.registry.client import Schema, SchemaUnreadable

_FILE: Final = "schema_of_the_registry.proto"
_SECONDS: Final = 60


@lru_cache(maxsize=1000)
def compiled(schema: Schema) -> bytes:
    """The descriptor set of a schema and of what it imports. Raises SchemaUnreadable for a text that is not
    Protobuf."""
    if importlib.util.find_spec("grpc_tools") is None:
        raise ConfigError(
            "schemas in Protobuf of a registry need their compiler; run: pip install 'gantrymq[registry]'"
        )
    files = {_FILE: schema.text, **dict(_imports(schema))}
    directory = str(new_temporary_directory("gantrymq-protobuf-"))
    disk = OsDisk()
    try:
        for name, text in files.items():
            _write(disk, directory, name, text)
        # Another process: what a registry has cannot harm this one, and what the compiler says can be read.
        ran = subprocess.run(
            [sys.executable, "-m", "grpc_tools.protoc", f"-I{directory}", "--include_imports",
             f"--descriptor_set_out={directory}/out", _FILE],
            capture_output=True, text=True, timeout=_SECONDS, check=False,
        )  # fmt: skip
        if ran.returncode:
            raise SchemaUnreadable(
                f"the schema {schema.id} of the registry is not Protobuf: {ran.stderr.strip()[:300]}"
            )
        return read_whole(disk, f"{directory}/out")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def file_of(descriptors: bytes) -> Any:
    """The file of the schema itself, in a descriptor set of ``compiled``."""
    from google.protobuf import descriptor_pb2

    files = descriptor_pb2.FileDescriptorSet.FromString(descriptors)
    return next(one for one in files.file if one.name == _FILE)


def message_paths(file: Any) -> dict[tuple[int, ...], str]:
    """The full names of the message types of a file, by their indexes in Confluent's wire format."""
    found: dict[tuple[int, ...], str] = {}

    def walk(messages: Any, path: tuple[int, ...], prefix: str) -> None:
        for at, one in enumerate(messages):
            name = f"{prefix}.{one.name}".lstrip(".")
            found[(*path, at)] = name
            walk(one.nested_type, (*path, at), name)

    walk(file.message_type, (), file.package)
    return found


def _imports(schema: Schema) -> Iterator[tuple[str, str]]:
    for name, one in schema.references:
        yield name, one.text
        yield from _imports(one)


def _write(disk: Disk, directory: str, name: str, text: str) -> None:
    if name.startswith("/") or ".." in name.split("/"):
        raise SchemaUnreadable(f"the registry has a schema that imports {name!r}, which is no place of a file")
    disk.make_dirs(f"{directory}/{name}".rpartition("/")[0])
    file = disk.open(f"{directory}/{name}", create=True)
    try:
        file.write(text.encode(), 0)
    finally:
        file.close()
