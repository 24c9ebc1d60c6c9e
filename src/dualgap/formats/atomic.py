"""Replacing a file all at once: `dualgap.atomic`, which checkpoints need below this layer."""

from dualgap.atomic import atomic_write

__all__ = ["atomic_write"]
