"""Rows that come in blocks: from files, streams, clusters and devices."""

from grayzone.blocks._given import given_blocks
from grayzone.blocks._labelled import LabelledBlocks, Rows, label_blocks
from grayzone.blocks._source import Block, HeldSource, Source

__all__ = [
    "Block",
    "HeldSource",
    "LabelledBlocks",
    "Rows",
    "Source",
    "given_blocks",
    "label_blocks",
]
