"""The CPU's matrix unit (Intel's AMX): whether there is one that may be used, and how exact its sums are.

The unit multiplies tiles of 16 x 64 bytes: bf16 numbers into float32 sums, bytes into int32 sums. Kernel entries in
float32 are made of such sums in one of two forms (`kernels.matrix_source` chooses, `_matrix_unit_tiles` computes):

- **levels**: where all data are ``low + k step`` with whole k from 0 to 255 (images, one-hot rows, counts), the k are
  multiplied as bytes; up to 16 383 (numbers with three decimals) as two digits of a byte each, by three products.
  Sums are exact, and so are the squared distances ``|k|^2 + |l|^2 - 2 k'l``, taken in int32 before anything is rounded.
- **pieces**: any other number is split into two bf16 numbers, whose four products are added up in float32.

On any other CPU or system, or where the system refuses the unit, `available` says no and `kernels.fused` does the work:
levels by dot-product instructions (AVX-512 VNNI, `kernels.word_source`) where `has_word_products`, all else in float32.
`DUALGAP_MATRIX_UNIT=0` in the environment turns off both: results then do not depend on what there is.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from functools import cache

from dualgap.kernels.vectors import AVX512, MATRIX_UNIT, WORD_PRODUCTS

# Linux, x86-64: arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) asks for the unit's registers (eight kilobytes that
# are saved with every thread's state), once a process and for all its threads; ARCH_GET_XCOMP_PERM reads what it has.
_ARCH_PRCTL, _GET_PERMISSION, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1022, 0x1023, 18

# Unit roundoff of float32 and bf16 (24 and 8 bits).
_SINGLE, _BF16 = 2.0**-24, 2.0**-8
# Features of one instruction over bf16 numbers.
_STEP = 32
# Rows are taken for levels when they are off by at most this share of their norm. Images in float32 are off by 2^-24,
# images written with six digits by some 4e-7; it is less than what splitting into pieces leaves out.
LEVEL_ERROR = 2.0**-20
# And for exact ones, fit for proofs, when that is no more than rounding in float64: k / 255 is.
EXACT_LEVEL_ERROR = 2.0**-51


@cache
def available() -> bool:
    """Whether this process may use a matrix unit; asked of the system once."""
    # What Numba compiles for counts, not what the CPU has: LLVM cannot translate instructions it has been denied.
    return _wanted() and AVX512 and MATRIX_UNIT and _permitted()


@cache
def has_word_products() -> bool:
    """Whether this process may use dot-product instructions (`kernels.word_source`), which need no permission."""
    return _wanted() and WORD_PRODUCTS


def _wanted() -> bool:
    return os.environ.get("DUALGAP_MATRIX_UNIT", "1") != "0"


def _permitted() -> bool:
    """Ask Linux for the registers; other systems have no such call."""
    if sys.platform != "linux" or platform.machine() != "x86_64" or sys.maxsize < 2**32:
        return False
    try:
        call = ctypes.CDLL(None).syscall
    except (OSError, AttributeError):  # a libc that cannot be opened or has no such function
        return False
    call.restype = ctypes.c_long
    call.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p]
    if call(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA) != 0:
        return False
    granted = ctypes.c_uint64(0)
    if call(_ARCH_PRCTL, _GET_PERMISSION, ctypes.addressof(granted)) != 0:
        return False
    return bool(granted.value >> _TILE_DATA & 1)


def pieces_error(features: int) -> float:
    """A constant c with ``|computed x'z - x'z| <= c |x| |z|`` for products of pieces, x and z being the scaled data.

    Notes
    -----
    A number is ``x = h + l + r``: h is x rounded to bf16, l the rest rounded to bf16. With u = 2^-8,
    ``|x - h| <= u |x|`` and ``|r| <= u |x - h| <= u^2 |x|``. All four products of ``(h_x + l_x)(h_z + l_z)`` are added
    up, so that only

        x z - (h_x + l_x)(h_z + l_z) = r_x z + x r_z - r_x r_z

    is left out, at most ``u^2 (2 + u^2) |x z|``. (Without ``l_x l_z`` squared distances would all be too small by
    ``|l_x - l_z|^2``; with it entries are those of data moved by at most 2^-16 of each number, whatever cancels.)

    The products are exact (8 + 8 bits). An instruction adds up 16 of them in each of two chains, then both chains, then
    that and the sum so far: at most 17 roundings for a product's own instruction and one for each of those that follow,
    four for 32 features, with unit v = 2^-24. The absolute values of what is added are at most ``(1 + u)^4`` of
    ``|x z|``, since ``|h| + |l| <= (1 + u)^2 |x|``. Rounding the data to float32 before they are split is another
    ``2 v + v^2``. Summed over the features, ``sum |x_i z_i| <= |x| |z|`` gives the constant.

    The unit counts numbers below 2^-126 as zero, which is no part of c: it changes a sum by at most
    ``2^-126 (|x|_1 + |z|_1 + 4 d)``.
    """
    left_out = _BF16**2 * (2.0 + _BF16**2)
    depth = (17 + 4 * -(-features // _STEP)) * _SINGLE
    return left_out + depth / (1.0 - depth) * (1.0 + _BF16) ** 4 + 2.0 * _SINGLE + _SINGLE**2


def levels_error(error: float) -> float:
    """The same constant for levels, x and z being the data less `low`, scaled.

    ``x = k step + e`` with ``|e| <= error |k step|`` for every row, which has been looked at. The sum of all ``k l`` is
    exact; making it a float32 number, the factor ``step^2`` and the product with it round once each. Squared distances
    are ``|k|^2 + |l|^2 - 2 k'l`` in whole numbers, so that nothing is lost where they cancel, and a point's distance
    from itself is 0.
    """
    data = error / (1.0 - error)
    return 2.0 * data + data**2 + 4.0 * _SINGLE
