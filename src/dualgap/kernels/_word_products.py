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

from dualgap.kernels._tile_entries import REGISTERS, TILE_ROWS
from dualgap.kernels.vectors import INT64, Vector, Words, beyond

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


def _put(b: Any, v: Vector, sums: Any, out: Any, *, add: bool) -> None:
    """Write sums to the tile, or add them to what it holds."""
    kind = Words.type if v.bits == 32 else ir.VectorType(v.element, _LANES)
    place = b.bitcast(out, kind.as_pointer())
    value = sums if v.bits == 32 else b.sitofp(sums, kind)
    if add:
        before = b.load(place)
        before.align = v.bits // 8
        value = b.add(before, value) if v.bits == 32 else b.fadd(before, value)
    b.store(value, place).align = v.bits // 8


def sum_words(b: Any, v: Vector, product: Any, x: Any, z: Any, words: Any, out: Any) -> None:
    """Products of `TILE_ROWS` dense rows with the columns of a tile, to the tile at `out`."""
    registers = _registers(v)
    sums = [[cgutils.alloca_once(b, Words.type) for _ in range(registers)] for _ in range(TILE_ROWS)]
    for place in (place for row in sums for place in row):
        b.store(_ZERO, place)
    with cgutils.for_range(b, words) as loop:
        z_k = b.gep(z, [b.mul(loop.index, ir.Constant(INT64, registers * _LANES))])
        x_k = b.gep(x, [b.mul(loop.index, ir.Constant(INT64, TILE_ROWS))])
        ours = [Words.load(b, beyond(b, z_k, c * _LANES)) for c in range(registers)]
        for r in range(TILE_ROWS):
            x_r = Words.splat(b, b.load(beyond(b, x_k, r)))
            for c in range(registers):
                b.store(product(b, x_r, ours[c], b.load(sums[r][c])), sums[r][c])
    for r in range(TILE_ROWS):
        for c in range(registers):
            _put(b, v, b.load(sums[r][c]), beyond(b, out, (r * registers + c) * _LANES), add=False)


def add_sparse_words(
    b: Any, v: Vector, product: Any, x: Any, which: Any, begin: Any, end: Any, z: Any, out: Any
) -> None:
    """Add the nonzero words of a row, from `begin` to `end`, times the columns of a tile to the row at `out`."""
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
    for c in range(registers):
        total = b.add(b.load(chains[0][c]), b.load(chains[1][c]))
        _put(b, v, total, beyond(b, out, c * _LANES), add=True)


def each_by_turns(b: Any, begin: Any, end: Any, add: Callable[[Any, int], None]) -> None:
    """Code that calls `add(k, 0)` and `add(k, 1)` by turns for k from `begin` to `end`."""
    one, two = ir.Constant(INT64, 1), ir.Constant(INT64, 2)
    paired = b.add(begin, b.mul(b.sdiv(b.sub(end, begin), two), two))
    with cgutils.for_range_slice(b, begin, paired, two, INT64) as (k, _):
        add(k, 0)
        add(b.add(k, one), 1)
    with b.if_then(b.icmp_signed("<", paired, end)):
        add(paired, 0)
