"""A small vocabulary of vector instructions for compiled code, as LLVM builds them.

Numba's own loops are left scalar by LLVM where they search for a minimum or keep a tile of sums in registers, and on
many Intel CPUs they get half-width vectors. The intrinsics of `kernels.fused` and of the block solver say instead
what they want, in vectors of `lanes` numbers, and LLVM turns it into whatever the CPU has (AVX-512, AVX2, NEON, SSE).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba.core import cgutils, config, types

INT8, INT32, INT64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)


def _features() -> str:
    """What Numba compiles for: the CPU's features, or those its user has asked for."""
    if config.CPU_FEATURES is not None:
        return str(config.CPU_FEATURES)
    if config.CPU_NAME == "generic":
        return ""
    return str(get_host_cpu_features().flatten())


_FOUND = set(_features().split(","))
AVX512 = "+avx512f" in _FOUND
FMA = AVX512 or {"+avx2", "+fma"} <= _FOUND
# Tiles of bf16 numbers and of bytes; whether the system lets a process use them is for `kernels.matrix_unit` to ask.
MATRIX_UNIT = {"+amx-tile", "+amx-bf16", "+amx-int8"} <= _FOUND
# Sums of products of four bytes, or of two 16-bit numbers, into each 32-bit lane: `vpdpbusd` and `vpdpwssd` (VNNI).
WORD_PRODUCTS = AVX512 and "+avx512vnni" in _FOUND
# Bytes of the widest register; 16 (SSE, NEON) is what every 64-bit CPU has.
_BYTES = 64 if AVX512 else 32 if "+avx2" in _FOUND else 16


@dataclass(frozen=True)
class Vector:
    """A vector of floats of `bits` bits that fills one register."""

    bits: int

    @cached_property
    def lanes(self) -> int:
        """Numbers in it."""
        return 8 * _BYTES // self.bits

    @cached_property
    def element(self) -> ir.Type:
        """LLVM type of one number."""
        return ir.FloatType() if self.bits == 32 else ir.DoubleType()

    @cached_property
    def type(self) -> ir.Type:
        """LLVM type of the vector."""
        return ir.VectorType(self.element, self.lanes)

    @cached_property
    def integers(self) -> ir.Type:
        """The vector of integers with the same bits."""
        return ir.VectorType(ir.IntType(self.bits), self.lanes)

    def constant(self, value: float) -> ir.Constant:
        """The same number in every lane."""
        value = float(np.float32(value)) if self.bits == 32 else float(value)
        return ir.Constant(self.type, [value] * self.lanes)

    def integer(self, value: int) -> ir.Constant:
        """The same integer in every lane."""
        return ir.Constant(self.integers, [value] * self.lanes)

    def splat(self, b: Any, value: Any) -> Any:
        """One scalar in every lane."""
        nothing = ir.Constant(self.type, ir.Undefined)
        first = b.insert_element(nothing, value, ir.Constant(INT32, 0))
        return b.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(INT32, self.lanes), [0] * self.lanes))

    def load(self, b: Any, pointer: Any) -> Any:
        """A vector from memory, aligned like its elements."""
        value = b.load(b.bitcast(pointer, self.type.as_pointer()))
        value.align = self.bits // 8
        return value

    def store(self, b: Any, value: Any, pointer: Any) -> None:
        """A vector to memory, aligned like its elements."""
        b.store(value, b.bitcast(pointer, value.type.as_pointer())).align = self.bits // 8

    def fma(self, b: Any, x: Any, y: Any, z: Any) -> Any:
        """``x y + z``, rounded once where the CPU can (LLVM's own fma calls a library where it cannot)."""
        name = "fma" if FMA else "fmuladd"
        kind = ir.FunctionType(self.type, [self.type] * 3)
        function = cgutils.get_or_insert_function(b.module, kind, f"llvm.{name}.v{self.lanes}f{self.bits}")
        return b.call(function, [x, y, z])

    def absolute(self, b: Any, x: Any) -> Any:
        """``|x|``."""
        mask = self.integer((1 << (self.bits - 1)) - 1)
        return b.bitcast(b.and_(b.bitcast(x, self.integers), mask), self.type)

    def extreme(self, b: Any, x: Any, larger: bool) -> Any:
        """The largest (or least) lane, by halving."""
        width = self.lanes
        while width > 1:
            width //= 2
            turned = ir.Constant(
                ir.VectorType(INT32, self.lanes), [(i + width) % self.lanes for i in range(self.lanes)]
            )
            x = choose(b, x, b.shuffle_vector(x, ir.Constant(x.type, ir.Undefined), turned), larger)
        return b.extract_element(x, ir.Constant(INT32, 0))


SINGLE, DOUBLE = Vector(32), Vector(64)


def vector_of(array: types.Array) -> Vector:
    """The vector that fits an array of float32 or float64."""
    return SINGLE if array.dtype == types.float32 else DOUBLE


def choose(b: Any, x: Any, y: Any, larger: bool) -> Any:
    """The larger (or smaller) number of each lane."""
    return b.select(b.fcmp_ordered(">" if larger else "<", x, y), x, y)


def pointer(context: Any, b: Any, kind: types.Array, array: Any, offset: Any) -> Any:
    """The address of an element of a flat array."""
    return b.gep(context.make_array(kind)(context, b, array).data, [offset])


def beyond(b: Any, start: Any, offset: int) -> Any:
    """An address a constant number of elements further."""
    return b.gep(start, [ir.Constant(INT64, offset)])


def _powers_of_two(degree: int, reach: float = 0.5) -> list[float]:
    """Coefficients, highest first, of a polynomial for 2^f on [-reach, reach] that is exactly 1 at 0.

    Interpolation at Chebyshev nodes of (2^f - 1) / f: within a factor of two of the best polynomial.
    """
    nodes = reach * np.cos(np.pi * (np.arange(degree) + 0.5) / degree)
    values = np.expm1(nodes * np.log(2.0)) / nodes
    return [*np.polynomial.polynomial.polyfit(nodes, values, degree - 1)[::-1].tolist(), 1.0]


# Degree 5 leaves 2.4e-7 of relative error (two units of float32's last place), degree 10 less than 1e-15.
_EXP2 = {32: _powers_of_two(5), 64: _powers_of_two(10)}
# Adding 1.5 * 2^mantissa rounds to a whole number and leaves it in the low bits.
# Below 2^-100 (2^-1000) a result stays there: nothing to a sum of ones, and its products with small weights are still
# normal numbers (with the least normal number they were not, and every denormal one cost some CPUs 150 cycles).
_SHIFTER = {32: (1.5 * 2.0**23, -100.0, 23), 64: (1.5 * 2.0**52, -1000.0, 52)}


# Where a register holds the powers of two of eight eighths, one of which an instruction takes for each lane, a
# polynomial up to 1/16 is enough in float64: degree 7 leaves 2e-16, rounding included, for two multiplications less.
_EIGHTHS = [2.0 ** (k / 8.0) for k in range(8)]
_EXP2_NEAR = _powers_of_two(7, 1.0 / 16.0)


def exp2(b: Any, v: Vector, exponents: list[Any]) -> list[Any]:
    """``2^x`` for x up to the largest exponent; 2^-100 (2^-1000 in float64) for what is below that.

    Of several vectors, step by step: each step waits for the one before it, and a CPU looks ahead only so far.
    """
    if AVX512 and v.bits == 64:
        return _exp2_by_eighths(b, v, exponents)
    magic, least, mantissa = _SHIFTER[v.bits]
    shifted, fractions = _rounded(b, v, exponents, magic, least)
    values = _polynomial(b, v, _EXP2[v.bits], fractions)
    # The product with a power of two by its exponent: whole numbers are added where nothing waits for a multiplier.
    powers = [b.shl(b.bitcast(s, v.integers), v.integer(mantissa)) for s in shifted]
    scaled = [b.add(b.bitcast(y, v.integers), power) for y, power in zip(values, powers, strict=True)]
    return [b.bitcast(y, v.type) for y in scaled]


def _exp2_by_eighths(b: Any, v: Vector, exponents: list[Any]) -> list[Any]:
    """`exp2` in float64 as ``2^whole 2^(eighth / 8) 2^f`` with f up to 1/16, where a register can be looked up in."""
    magic, least, mantissa = _SHIFTER[64]
    magic /= 8.0  # rounds to eighths, and leaves their number in the low bits
    shifted, fractions = _rounded(b, v, exponents, magic, least)
    numbers = [b.bitcast(s, v.integers) for s in shifted]
    kind = ir.FunctionType(v.type, [v.type, v.integers])
    # Looks up by the lowest three bits.
    eighth = cgutils.get_or_insert_function(b.module, kind, "llvm.x86.avx512.permvar.df.512")
    eighths = [b.call(eighth, [ir.Constant(v.type, _EIGHTHS), number]) for number in numbers]
    values = _polynomial(b, v, _EXP2_NEAR[:-1], fractions)
    # e + e (2^f - 1): the power of an eighth is rounded once more, and no digit is lost to the 1.
    off = [b.fmul(y, f) for y, f in zip(values, fractions, strict=True)]
    values = [v.fma(b, e, y, e) for e, y in zip(eighths, off, strict=True)]
    wholes = [b.and_(number, v.integer(-8)) for number in numbers]
    powers = [b.shl(whole, v.integer(mantissa - 3)) for whole in wholes]
    scaled = [b.add(b.bitcast(y, v.integers), power) for y, power in zip(values, powers, strict=True)]
    return [b.bitcast(y, v.type) for y in scaled]


def _rounded(b: Any, v: Vector, exponents: list[Any], magic: float, least: float) -> tuple[list[Any], list[Any]]:
    """Exponents plus `magic`, which rounds them, and what is left of them; those below `least` are that."""
    exponents = [choose(b, x, v.constant(least), larger=True) for x in exponents]
    shifted = [b.fadd(x, v.constant(magic)) for x in exponents]
    wholes = [b.fsub(s, v.constant(magic)) for s in shifted]
    return shifted, [b.fsub(x, whole) for x, whole in zip(exponents, wholes, strict=True)]


def _polynomial(b: Any, v: Vector, coefficients: list[float], fractions: list[Any]) -> list[Any]:
    """Its values, the coefficients highest first."""
    first, *rest = coefficients
    values: list[Any] = [v.constant(first)] * len(fractions)
    for coefficient in rest:
        values = [v.fma(b, y, f, v.constant(coefficient)) for y, f in zip(values, fractions, strict=True)]
    return values


class Words:
    """A register of 16 words of 32 bits, each four bytes or two 16-bit numbers: where `WORD_PRODUCTS` are to be had."""

    lanes = 16
    type = ir.VectorType(INT32, lanes)

    @classmethod
    def load(cls, b: Any, place: Any) -> Any:
        """Words from memory, aligned like one of them."""
        value = b.load(b.bitcast(place, cls.type.as_pointer()))
        value.align = 4
        return value

    @classmethod
    def store(cls, b: Any, value: Any, place: Any) -> None:
        """Words to memory, aligned like one of them."""
        b.store(value, b.bitcast(place, cls.type.as_pointer())).align = 4

    @classmethod
    def splat(cls, b: Any, word: Any) -> Any:
        """One word in every lane."""
        first = b.insert_element(ir.Constant(cls.type, ir.Undefined), word, ir.Constant(INT32, 0))
        return b.shuffle_vector(first, first, ir.Constant(cls.type, [0] * cls.lanes))

    @classmethod
    def add_products(cls, b: Any, name: str, x: Any, z: Any, total: Any) -> Any:
        """``total`` and the sum of each word's products: unsigned x by signed z bytes (``vpdpbusd``), or ``vpdpwssd``.

        LLVM's types for the operands were words of 32 bits up to version 21; later ones still read these.
        """
        kind = ir.FunctionType(cls.type, [cls.type] * 3)
        function = cgutils.get_or_insert_function(b.module, kind, f"llvm.x86.avx512.{name}.512")
        return b.call(function, [total, x, z])
