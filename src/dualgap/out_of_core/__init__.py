"""Linear machines on data larger than memory, with the same certificate as in memory."""

from __future__ import annotations

from dualgap.out_of_core.run import StreamedResult, solve_streamed

__all__ = ["StreamedResult", "solve_streamed"]
