"""Kernel formulas, Gram matrices and their caches."""
