"""Rows that come in blocks: from files, streams and clusters."""

from grayzone.sources.arrow import open_parquet
from grayzone.sources.batches import from_batches
from grayzone.sources.dask import DaskSource
from grayzone.sources.npy import open_npy
from grayzone.sources.source import Block, Source

__all__ = ["Block", "DaskSource", "Source", "from_batches", "open_npy", "open_parquet"]
