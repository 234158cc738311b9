"""Public data sets by name, from a folder or, when asked, from the network; and generators.

Nothing is downloaded unless ``download=True`` says so. Every set is checked against the fingerprint
of its contents before it is used.
"""

from grayzone.datasets._catalogue import list_datasets
from grayzone.datasets._generators import make_four_clusters, make_mixture, make_twonorm
from grayzone.datasets._load import load_dataset

__all__ = [
    "list_datasets",
    "load_dataset",
    "make_four_clusters",
    "make_mixture",
    "make_twonorm",
]
