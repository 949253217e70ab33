"""Tables in parts, each maybe on another machine: fits and predictions for Dask collections, and predictions
on Spark.
"""

from craftc.distributed.read import Partitions
from craftc.distributed.spark import spark_predict

__all__ = ["Partitions", "spark_predict"]
