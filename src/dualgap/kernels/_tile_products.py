"""Measures of rows against the columns of a tile, summed over the features in registers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from dualgap.kernels._tile_entries import REGISTERS, TILE_ROWS
from dualgap.kernels.vectors import INT64, Vector, beyond

DOT, MANHATTAN, CHI2 = 0, 1, 2


def _times(b: Any, v: Vector, x: Any, z: Any, total: Any) -> Any:
    return v.fma(b, x, z, total)


def _apart(b: Any, v: Vector, x: Any, z: Any, total: Any) -> Any:
    return b.fsub(total, v.absolute(b, b.fsub(x, z)))


def _chi(b: Any, v: Vector, x: Any, z: Any, total: Any) -> Any:
    apart, both = b.fsub(x, z), b.fadd(x, z)
    # 0/0 counts as 0: the divisor is only 0 where the numerator is.
    both = b.select(b.fcmp_ordered("==", both, v.constant(0.0)), v.constant(1.0), both)
    return b.fsub(total, b.fdiv(b.fmul(apart, apart), both))


# Terms of the sums; those of sparse rows are products, since a feature that is not there has to add nothing.
PRODUCTS: dict[int, Callable[..., Any]] = {DOT: _times}
TERMS: dict[int, Callable[..., Any]] = {**PRODUCTS, MANHATTAN: _apart, CHI2: _chi}


def terms_summed(
    b: Any, v: Vector, term: Any, x: Any, z: Any, features: Any, rows: int = TILE_ROWS, tiles: int = 1
) -> list[list[Any]]:
    """Sums of `term` for the first `rows` of `TILE_ROWS` dense rows, `REGISTERS` vectors for each of `tiles`."""
    sums = [[cgutils.alloca_once(b, v.type) for _ in range(tiles * REGISTERS)] for _ in range(rows)]
    for place in (place for row in sums for place in row):
        b.store(v.constant(0.0), place)
    with cgutils.for_range(b, features) as loop:
        x_k = b.gep(x, [b.mul(loop.index, ir.Constant(INT64, TILE_ROWS))])
        ours = [v.load(b, place) for place in registers_of(b, z, loop.index, features, REGISTERS, v.lanes, tiles)]
        for r in range(rows):
            x_r = v.splat(b, b.load(beyond(b, x_k, r)))
            for place, z_c in zip(sums[r], ours, strict=True):
                b.store(term(b, v, x_r, z_c, b.load(place)), place)
    return [[b.load(place) for place in row] for row in sums]


def registers_of(b: Any, z: Any, k: Any, features: Any, registers: int, lanes: int, tiles: int) -> Iterator[Any]:
    """Where the registers of feature k of tiles that follow one another are."""
    for tile in range(tiles):
        number = b.add(k, b.mul(features, ir.Constant(INT64, tile)))
        begin = b.gep(z, [b.mul(number, ir.Constant(INT64, registers * lanes))])
        yield from (beyond(b, begin, c * lanes) for c in range(registers))


def sparse_terms_summed(
    b: Any, v: Vector, term: Any, x: Any, which: Any, begin: Any, end: Any, z: Any, before: Any
) -> list[Any]:
    """What a row of a tile holds at `before`, and the terms of a sparse row from `begin` to `end`."""
    # Two sets of sums: a chain of additions waits four cycles for each.
    chains = [[cgutils.alloca_once(b, v.type) for _ in range(REGISTERS)] for _ in range(2)]
    for c in range(REGISTERS):
        b.store(v.load(b, beyond(b, before, c * v.lanes)), chains[0][c])
        b.store(v.constant(0.0), chains[1][c])

    def add(k: Any, chain: Any) -> None:
        feature = b.sext(b.load(b.gep(which, [k])), INT64)
        z_k = b.gep(z, [b.mul(feature, ir.Constant(INT64, REGISTERS * v.lanes))])
        x_k = v.splat(b, b.load(b.gep(x, [k])))
        for c in range(REGISTERS):
            b.store(term(b, v, x_k, v.load(b, beyond(b, z_k, c * v.lanes)), b.load(chain[c])), chain[c])

    each_by_turns(b, begin, end, lambda k, chain: add(k, chains[chain]))
    return [b.fadd(b.load(chains[0][c]), b.load(chains[1][c])) for c in range(REGISTERS)]


def each_by_turns(b: Any, begin: Any, end: Any, add: Callable[[Any, int], None]) -> None:
    """Code that calls `add(k, 0)` and `add(k, 1)` by turns for k from `begin` to `end`."""
    one, two = ir.Constant(INT64, 1), ir.Constant(INT64, 2)
    paired = b.add(begin, b.mul(b.sdiv(b.sub(end, begin), two), two))
    with cgutils.for_range_slice(b, begin, paired, two, INT64) as (k, _):
        add(k, 0)
        add(b.add(k, one), 1)
    with b.if_then(b.icmp_signed("<", paired, end)):
        add(paired, 0)
