"""Rows that come in blocks: from files, streams and clusters."""

from grayzone.blocks._arrow import open_parquet
from grayzone.blocks._batches import from_batches
from grayzone.blocks._dask import DaskSource
from grayzone.blocks._npy import open_npy
from grayzone.blocks._source import Block, Source

__all__ = ["Block", "DaskSource", "Source", "from_batches", "open_npy", "open_parquet"]
