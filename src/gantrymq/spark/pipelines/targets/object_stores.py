"""Object stores as a ``Disk``, by the file systems of pyarrow. Addresses such as ``s3://bucket/directory`` are paths.

A file appears whole when it is closed. A rename is a copy and a deletion: a crash between the two leaves both files.
Nobody can lock an object store, so one job at a time is the duty of the one who starts it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlsplit

from gantrymq.errors import ConfigError
from gantrymq.runtime.disk import Disk, Syncable, Usage
from gantrymq.spark.pipelines.describe.addresses import scheme_of

if TYPE_CHECKING:
    import pyarrow.fs as pa_fs

SAME: Final = {"s3a": "s3"}
"""Names that only Hadoop has."""
GOOGLES_SERVER: Final = "STORAGE_EMULATOR_HOST"
"""The variable of the environment that names another server with the API of Google's, such as one for tests. It gets
no credentials."""
_LOOK_SECONDS: Final = 20
"""So long Google's library looks for credentials. It would do so for 15 minutes."""
_TRY_SECONDS: Final = 120
"""So long it tries again, once it has found them: as long as a broker or a database may be away."""
_CREDENTIALS: Final = {
    "s3": "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "abfss": "AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET",
}
"""The variables of the environment by which a program says who it is. On machines of the store's owner none is
needed."""
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")


def disk_of(path: str, disk: Disk) -> Disk:
    """The disk for a path of this machine, or the object store for an address."""
    return ObjectStore() if scheme_of(path) else disk


def arrow_files(path: str) -> tuple[pa_fs.FileSystem, str]:
    """The file system of pyarrow for a path or an address, and the path there. Raises ConfigError."""
    import pyarrow as pa
    import pyarrow.fs as pa_fs

    scheme = scheme_of(path)
    if scheme is None:
        return pa_fs.LocalFileSystem(), path
    rest = path.split("://", 1)[-1]
    container, _, below = rest.partition("/")
    try:
        files, root = _store(f"{SAME.get(scheme, scheme)}://{container}")
    except (pa.ArrowException, OSError) as error:
        raise not_opened(path, error) from error
    return files, f"{root}/{below}".rstrip("/")


@cache
def _store(address: str) -> Any:
    """Kept for the life of the process: opening one asks the store for its region, or looks for credentials."""
    import pyarrow.fs as pa_fs

    scheme = scheme_of(address)
    if scheme in ("gs", "abfss"):
        # Without credentials, the first question fails, and not to open it.
        files, root = pa_fs.FileSystem.from_uri(_with_options(address, _LOOK_SECONDS))
        files.get_file_info(f"{root}/_gantry")
    return pa_fs.FileSystem.from_uri(_with_options(address, _TRY_SECONDS))


def _with_options(address: str, seconds: int) -> str:
    """The address of a bucket as pyarrow must have it."""
    if scheme_of(address) != "gs":
        return address
    options = {"retry_limit_seconds": str(seconds)}
    server = os.environ.get(GOOGLES_SERVER)
    if server:
        parts = urlsplit(server if "://" in server else f"http://{server}")
        options |= {"scheme": parts.scheme, "endpoint_override": parts.netloc}
        address = address.replace("://", "://anonymous@", 1)
    return f"{address}?{urlencode(options)}"


def not_opened(path: str, error: Exception) -> ConfigError:
    """What to say of an address that a library cannot open."""
    scheme = SAME.get(scheme_of(path) or "", scheme_of(path) or "")
    lines = [line.strip(" ↳\t") for line in _COLOURS.sub("", str(error)).splitlines()]
    said = "; ".join([line for line in lines if line][:2])
    names = _CREDENTIALS.get("abfss" if scheme.startswith(("abfs", "az")) else scheme)
    hint = f". The environment says who asks, by {names}" if names else ""
    return ConfigError(f"{path} cannot be opened: {said}{hint}")


class ObjectStore:
    """All object stores that pyarrow knows. Credentials are in the environment, as for the tools of each store."""

    cache_bytes = 0

    def open(self, path: str, *, create: bool = False) -> _Object:
        files, inner = arrow_files(path)
        if not create and not self.exists(path):
            raise FileNotFoundError(path)
        return _Object(path, files, inner)

    def exists(self, path: str) -> bool:
        return self._info(path).type.name != "NotFound"

    def list(self, path: str) -> list[str]:
        import pyarrow.fs as pa_fs

        files, inner = arrow_files(path)
        return sorted(one.base_name for one in files.get_file_info(pa_fs.FileSelector(inner, allow_not_found=True)))

    def is_dir(self, path: str) -> bool:
        return bool(self._info(path).type.name == "Directory")

    def size(self, path: str) -> int:
        found = self._info(path)
        if found.size is None:
            raise FileNotFoundError(path)
        return int(found.size)

    def make_dirs(self, path: str, *, durable: bool = True) -> None:
        """A directory is there with its first file."""

    def remove(self, path: str) -> None:
        files, inner = arrow_files(path)
        try:
            files.delete_file(inner)
        except FileNotFoundError:
            return

    def remove_dir(self, path: str) -> None:
        """A directory is gone with its last file."""

    def rename(self, source: str, target: str) -> None:
        files, inner = arrow_files(source)
        files.move(inner, arrow_files(target)[1])

    def protect(self, path: str) -> None:
        """The store itself says who can read."""

    def sync_dir(self, path: str) -> None:
        """Everything is durable at once."""

    def open_dir(self, path: str) -> _Nothing:
        return _Nothing()

    def modified_ms(self, path: str) -> int:
        return int(self._info(path).mtime_ns // 1_000_000)

    def lock(self, path: str) -> _Nothing:
        return _Nothing()

    def usage(self, path: str) -> Usage:
        return Usage(0, 0, 0)

    def sync_later(self, files: Sequence[Syncable], done: Callable[[BaseException | None], None]) -> None:
        done(None)

    def close(self) -> None:
        """Nothing is open."""

    def _info(self, path: str) -> Any:
        files, inner = arrow_files(path)
        return files.get_file_info(inner)


class _Nothing:
    """A directory that needs no sync, or a lock that nobody can take."""

    def sync(self) -> None:
        """Everything is durable at once."""

    def close(self) -> None:
        """Nothing is open."""

    def release(self) -> None:
        """Nothing is held."""


class _Object:
    """One object: read at any offset, or written from its begin to its end."""

    def __init__(self, path: str, files: Any, inner: str) -> None:
        self.path = path
        self._files = files
        self._inner = inner
        self._stream: Any = None

    def read(self, size: int, offset: int) -> bytes:
        with self._files.open_input_file(self._inner) as file:
            return bytes(file.read_at(size, offset))

    def write(self, data: bytes, offset: int) -> None:
        if self._stream is None:
            self._stream = self._files.open_output_stream(self._inner)
        if offset != self._stream.tell():
            raise ValueError(f"{self.path} can only be written in order")
        self._stream.write(data)

    def truncate(self, size: int) -> None:
        """What is written replaces the object."""

    def allocate(self, size: int) -> None:
        """Space is not limited."""

    def size(self) -> int:
        found = self._files.get_file_info(self._inner).size
        if found is None:
            raise FileNotFoundError(self.path)
        return int(found)

    def next_data(self, offset: int) -> int | None:
        return offset

    def sync(self) -> None:
        """Everything is durable when the file is closed."""

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
