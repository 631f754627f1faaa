"""Can this Spark write Delta and Iceberg with their own libraries, by MERGE in the cluster? Asked by command.

    python -m tests.spark.pipelines.merge_in_cluster

Maven fetches the newest of their jars that there are (60 MB, into its own cache). For each, a session makes a table,
inserts, merges and reads; what Spark says is printed. Exit status 0 when one of them can do everything: then
docs/internals/decisions.md, "Delta and Iceberg in the cluster", must be decided again.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.interop.jars import FETCH_SECONDS, NotHere

SHOWN: Final = 160


@dataclass(frozen=True)
class Library:
    """Jars, and what a session needs for them."""

    kind: str
    coordinates: str
    conf: dict[str, str]
    table: str
    """The directory is put into it."""


LIBRARIES: Final = (
    Library(
        "delta", "io.delta:delta-spark_4.2_2.13:4.4.0",
        {"spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
         "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"},
        "delta.`{directory}/table`",
    ),
    Library(
        "iceberg", "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
        {"spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
         "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
         "spark.sql.catalog.lake.type": "hadoop", "spark.sql.catalog.lake.warehouse": "{directory}"},
        "lake.shop.orders",
    ),
)  # fmt: skip
"""Of the versions that Maven had on Nov 29, 2026, those for the newest Spark: none is for Spark 4.3."""


def jars_of(coordinates: str, directory: Path) -> list[str]:
    """The jars of a library and of what it needs, without Spark's own. Raises NotHere."""
    maven = shutil.which("mvn")
    if maven is None:
        raise NotHere("no mvn on the PATH")
    group, artefact, version = coordinates.split(":")
    (directory / "pom.xml").write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>g</groupId><artifactId>a</artifactId><version>1</version>"
        f"<dependencies><dependency><groupId>{group}</groupId><artifactId>{artefact}</artifactId>"
        f"<version>{version}</version></dependency></dependencies></project>"
    )
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
    ran = subprocess.run(
        [maven, "-q", "-B", "-f", str(directory / "pom.xml"), goal, "-DincludeScope=runtime",
         f"-DoutputDirectory={directory}/jars"],
        capture_output=True, text=True, timeout=FETCH_SECONDS, check=False,
    )  # fmt: skip
    if ran.returncode:
        raise NotHere(f"Maven cannot fetch {coordinates}: {ran.stdout[-300:]}")
    return sorted(map(str, (directory / "jars").glob("*.jar")))


def steps(table: str, kind: str) -> Iterator[tuple[str, str]]:
    """What a job would do, as statements."""
    rows = "SELECT id, CAST(id AS string) AS note FROM range(5)"
    yield "create", f"CREATE TABLE {table} (id bigint, note string) USING {kind}"
    yield "insert", f"INSERT INTO {table} {rows} WHERE id < 3"
    what = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    yield "merge", f"MERGE INTO {table} t USING ({rows}) s ON t.id = s.id {what}"
    yield "read", f"SELECT assert_true(count(*) = 5) FROM {table}"


def tried(library: Library) -> bool:
    """Whether everything worked. In a process of its own: a session keeps its jars."""
    from gantrymq.spark import spark_session

    with tempfile.TemporaryDirectory(prefix="gantry-merge-") as name:
        directory = Path(name)
        conf = {key: value.format(directory=directory) for key, value in library.conf.items()}
        conf["spark.jars"] = ",".join(jars_of(library.coordinates, directory))
        spark = spark_session("merge", master="local[1]", conf=conf)
        spark.sparkContext.setLogLevel("OFF")
        print(f"{library.coordinates} on Spark {spark.version}:")
        good = True
        for what, statement in steps(library.table.format(directory=directory), library.kind):
            said = "works"
            try:
                spark.sql(statement).collect()
            except Exception as error:  # whatever it is, it is the answer
                lines = [line for line in str(error).splitlines() if "Error" in line or "Exception" in line]
                said, good = (lines or [type(error).__name__])[0].removeprefix(": ")[:SHOWN], False
            print(f"  {what:7} {said}", flush=True)
        spark.stop()
        return good


def main() -> int:
    if len(sys.argv) > 1:
        return 0 if tried(next(one for one in LIBRARIES if one.kind == sys.argv[1])) else 1
    runs = [subprocess.run([sys.executable, "-m", __spec__.name, one.kind], check=False) for one in LIBRARIES]
    return min(run.returncode for run in runs)


if __name__ == "__main__":
    sys.exit(main())
