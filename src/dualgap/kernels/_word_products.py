"""Inner products of levels by the CPU's dot-product instructions (AVX-512 VNNI), for the tiles of `kernels.fused`.

A word of 32 bits holds four levels of a byte or two of 16 bits. One instruction multiplies the words of 16 columns with
one of a row and adds the products to int32 sums: 64 (or 32) multiplications where float32 numbers have 16.

- Bytes (``vpdpbusd``) are multiplied as unsigned by signed ones. Columns are the signed side, ``l - 128``, which makes
  ``k'(l - 128) = k'l - 128 1'k``: the sums of a row lack ``128 1'k``, which `kernels.word_source` gives with the row's
  norm. Zeros of rows stay zeros, so that sparse rows have their nonzero words alone.
- 16-bit numbers (``vpdpwssd``) are signed on both sides, and lack nothing.

Both wrap and never saturate, and nothing wraps here: rows have ``|k|^2 < 2^30`` and at most 2^14 features, so that
``0 <= k'l < 2^30`` and ``128 1'k <= 128 * 255 * 2^14 < 2^30``. Sums are exact.

A float32 tile holds the sums as int32 numbers, a float64 tile as float64 ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from dualgap.kernels._tile_entries import REGISTERS, TILE_ROWS, whole
from dualgap.kernels._tile_products import each_by_turns, registers_of
from dualgap.kernels.vectors import INT32, INT64, Vector, Words, beyond

# Words of a register.
_LANES = Words.lanes
_ZERO = ir.Constant(Words.type, [0] * _LANES)

# Measures beside those of `kernels.fused`: of four bytes a word, and of two 16-bit numbers.
WORDS: dict[int, Callable[..., Any]] = {
    3: lambda b, x, z, total: Words.add_products(b, "vpdpbusd", x, z, total),
    4: lambda b, x, z, total: Words.add_products(b, "vpdpwssd", x, z, total),
}


def _registers(v: Vector) -> int:
    """Registers of words for the columns of a tile, whose numbers are those of `v`."""
    return REGISTERS * v.lanes // _LANES


def _of_tile(b: Any, v: Vector, sums: list[Any]) -> list[Any]:
    """Sums as a tile holds them: int32 numbers, or float64 ones in twice as many registers."""
    if v.bits == 32:
        return sums
    parts = []
    for total in sums:
        for half in range(2):
            lanes = ir.Constant(ir.VectorType(INT32, v.lanes), [half * v.lanes + lane for lane in range(v.lanes)])
            parts.append(b.sitofp(b.shuffle_vector(total, total, lanes), v.type))
    return parts


def words_summed(
    b: Any, v: Vector, product: Any, x: Any, z: Any, words: Any, rows: int = TILE_ROWS, tiles: int = 1
) -> list[list[Any]]:
    """Products of the first `rows` of `TILE_ROWS` dense rows with the columns of so many tiles."""
    registers = _registers(v)
    sums = [[cgutils.alloca_once(b, Words.type) for _ in range(tiles * registers)] for _ in range(rows)]
    for place in (place for row in sums for place in row):
        b.store(_ZERO, place)
    with cgutils.for_range(b, words) as loop:
        x_k = b.gep(x, [b.mul(loop.index, ir.Constant(INT64, TILE_ROWS))])
        ours = [Words.load(b, place) for place in registers_of(b, z, loop.index, words, registers, _LANES, tiles)]
        for r in range(rows):
            x_r = Words.splat(b, b.load(beyond(b, x_k, r)))
            for place, z_c in zip(sums[r], ours, strict=True):
                b.store(product(b, x_r, z_c, b.load(place)), place)
    return [_of_tile(b, v, [b.load(place) for place in row]) for row in sums]


def sparse_words_summed(
    b: Any, v: Vector, product: Any, x: Any, which: Any, begin: Any, end: Any, z: Any, before: Any
) -> list[Any]:
    """What a row of a tile holds at `before`, and its nonzero words from `begin` to `end` times the columns."""
    registers = _registers(v)
    # Two sets of sums: a chain of additions waits four cycles for each.
    chains = [[cgutils.alloca_once(b, Words.type) for _ in range(registers)] for _ in range(2)]
    for place in (place for chain in chains for place in chain):
        b.store(_ZERO, place)

    def add(k: Any, chain: int) -> None:
        word = b.sext(b.load(b.gep(which, [k])), INT64)
        z_k = b.gep(z, [b.mul(word, ir.Constant(INT64, registers * _LANES))])
        x_k = Words.splat(b, b.load(b.gep(x, [k])))
        for c, place in enumerate(chains[chain]):
            b.store(product(b, x_k, Words.load(b, beyond(b, z_k, c * _LANES)), b.load(place)), place)

    each_by_turns(b, begin, end, add)
    sums = _of_tile(b, v, [b.add(b.load(one), b.load(other)) for one, other in zip(*chains, strict=True)])
    added = []
    for c, total in enumerate(sums):
        place = beyond(b, before, c * v.lanes)
        added.append(b.add(whole(b, v, place), total) if v.bits == 32 else b.fadd(v.load(b, place), total))
    return added
