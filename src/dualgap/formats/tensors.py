"""Named arrays in a file: `dualgap.tensors`, which checkpoints need below this layer."""

from dualgap.tensors import ModelFileError, read_tensors, write_tensors

__all__ = ["ModelFileError", "read_tensors", "write_tensors"]
