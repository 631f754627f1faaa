"""A bucket of an object store as a place for backups, through the file systems of pyarrow: S3, GCS, Azure.

A request for an object is atomic there: the object is visible when all of it was sent. Who interrupts the program
between the beginning and the only write of an object leaves an empty one, which counts for nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

from gantrymq.errors import ConfigError, StoreError


class ObjectStore:
    """Made of an URL: ``s3://bucket/folder``, perhaps with ``?region=...&endpoint_override=...&scheme=http``."""

    def __init__(self, url: str) -> None:
        """Raises ConfigError when the URL is wrong or pyarrow is missing."""
        try:
            from pyarrow import ArrowException, fs
        except ImportError as error:
            raise ConfigError(
                f"{url} is in an object store, which needs pyarrow: pip install 'gantrymq[backup]'"
            ) from error
        self.place: Final = url.partition("?")[0].rstrip("/")
        self._errors: tuple[type[Exception], ...] = (OSError, ArrowException)
        self._kind = fs.FileType
        self._selector = fs.FileSelector
        try:
            found, path = fs.FileSystem.from_uri(url)
        except (ArrowException, OSError, ValueError) as error:
            raise ConfigError(f"{url} is not the URL of an object store: {error}") from error
        self._files: Any = found
        self._path: Final = path.rstrip("/")

    def sizes(self, folder: str) -> dict[str, int]:
        where = f"{self._path}/{folder.rstrip('/')}"
        with self._refusals("to list", where):
            found = self._files.get_file_info(self._selector(where, allow_not_found=True))
        return {folder + one.base_name: one.size for one in found if one.type == self._kind.File}

    def read(self, name: str) -> bytes:
        with self._refusals("to read", name), self._files.open_input_file(f"{self._path}/{name}") as file:
            return bytes(file.read())

    def write(self, name: str, data: bytes) -> None:
        with self._refusals("to write", name):
            stream = self._files.open_output_stream(f"{self._path}/{name}")
            stream.write(data)
            stream.close()

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError), self._refusals("to remove", name):
            self._files.delete_file(f"{self._path}/{name}")

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Nobody is kept out: two backups at a time store the same objects twice."""
        yield

    @contextlib.contextmanager
    def _refusals(self, what: str, name: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except self._errors as error:
            raise StoreError(f"it was not possible {what} {name} in {self.place}: {error}") from error
