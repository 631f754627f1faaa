"""The PySpark data source ``rocketmq`` and the pipelines built on it.

Importing this package does not import pyspark. That happens when one of its names is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gantrymq.spark.data_source import RocketMQDataSource
    from gantrymq.spark.monitoring.listener import LagListener
    from gantrymq.spark.session.registration import register
    from gantrymq.spark.session.session import spark_session

__all__ = ["LagListener", "RocketMQDataSource", "register", "spark_session"]

_HOMES = {
    "LagListener": "gantrymq.spark.monitoring.listener",
    "RocketMQDataSource": "gantrymq.spark.data_source",
    "register": "gantrymq.spark.session.registration",
    "spark_session": "gantrymq.spark.session.session",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pyspark", "pyarrow"):
            raise
        raise ImportError(f"{name} needs Spark; run: pip install 'gantrymq[spark]' ({error})") from error
