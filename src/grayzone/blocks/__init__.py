"""Rows that come in blocks: from files, streams, clusters and devices."""

from grayzone.blocks._arrow import ArrowSource, open_parquet
from grayzone.blocks._batches import BatchSource, from_batches
from grayzone.blocks._dask import DaskSource
from grayzone.blocks._given import given_blocks, in_blocks, refuse_blocks
from grayzone.blocks._labelled import LabelledBlocks, Rows, label_blocks
from grayzone.blocks._npy import NpySource, open_npy
from grayzone.blocks._source import Block, HeldSource, Source

__all__ = [
    "ArrowSource",
    "BatchSource",
    "Block",
    "DaskSource",
    "HeldSource",
    "LabelledBlocks",
    "NpySource",
    "Rows",
    "Source",
    "from_batches",
    "given_blocks",
    "in_blocks",
    "label_blocks",
    "open_npy",
    "open_parquet",
    "refuse_blocks",
]
