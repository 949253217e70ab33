"""Rows in parts on several machines: predictions of fitted models for Dask collections and on Spark."""

from craftc.distributed.spark import spark_predict

__all__ = ["spark_predict"]
