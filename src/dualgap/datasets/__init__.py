"""Data sets: read from files in the formats people have them in."""

from __future__ import annotations

from dualgap.datasets.dataset import Dataset
from dualgap.datasets.errors import DataFileError
from dualgap.datasets.files import find, load
from dualgap.datasets.libsvm_text import read_libsvm_blocks

__all__ = ["DataFileError", "Dataset", "find", "load", "read_libsvm_blocks"]
