"""Tables in partitions: Dask collections, and parts in this process."""

from craftc.distributed.read import Partitions

__all__ = ["Partitions"]
