"""A kernel matrix whose entries are made by the tiles of `kernels.fused`: float32 for solvers, float64 for proofs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap._vector_passes import nonzero
from dualgap.kernels.fused import TILE_ROWS
from dualgap.kernels.matrix_source import MatrixSource, plain_source, single_source
from dualgap.kernels.memory import aligned, within
from dualgap.kernels.mirror import mirror
from dualgap.kernels.packing import SPARSE_ROWS
from dualgap.kernels.row_on_demand import most_on_demand, row_maker
from dualgap.kernels.symmetric import symmetric_products
from dualgap.kernels.threads import share, share_parts, thread_count
from dualgap.kernels.tile_counter import APART, take_dense, take_sparse
from dualgap.kernels.tile_source import TileSource, even_step, is_sparse, pack_columns, rows_from
from dualgap.kernels.word_source import WordSource

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.error_bound import EntryError
    from dualgap.kernels.functions import Kernel
    from dualgap.kernels.matrix_source import Source
    from dualgap.kernels.points import Points

# Multiplications below which threads are not woken (some 50 microseconds' worth).
_WORTH_THREADS = 3_000_000
# Exponents (to the base 2) beyond which float32 sums leave fewer than four digits of an entry.
_SINGLE_EXPONENT = 1000.0
# Packed columns are kept up to this part of the budget, each choice of them.
PACKED_SHARE = 8
# Multiplications that are done without a look at interrupts, a tenth of a second of two threads, and tiles of columns
# that a thread takes at a time at most: with fewer two threads disturb each other.
_UNBROKEN, _TAKEN = 3e10, 8
# Bytes of columns packed at a time where the packed matrix is not kept: half a second-level cache.
_SCRATCH_BYTES = 1_000_000
# Multiplications of a symmetric block from which on making half of it is faster than all: about two milliseconds.
_WORTH_HALVING = 5e7
# The same of float32 entries, whose other rows take a pass of their own: some three milliseconds (20 000 points, cadata
# 74 ms to 47, ijcnn1 125 to 77, covtype 96 to 69).
_WORTH_HALVING_SINGLE = 1e9
# Multiplications of such a block that is stored from which on copying the other half is faster (`kernels.mirror`): 360
# points with 16 features take 0.13 ms either way, 2048 2.7 in place of 3.2, with 54 features 4.7 in place of 6.7.
_WORTH_MIRRORING = 5e6
# Multiplications of an entry up to which a block is made whole, every thread writing rows of its own: two threads that
# make half of it column by column, and copy the other, write to the same rows, and take longer than one does for all
# (2048 points, Zen 5: cadata 1.29 to 0.58 ms, ijcnn1 1.26 to 0.81, covtype 0.95 to 0.88; mnist, 150, 1.72 to 2.1).
_CHEAP = 70.0
# Bytes of packed columns up to which all of them are packed before any row is made.
_PACKED_AT_ONCE = 4_000_000


@dataclass(eq=False)
class _Packed:
    """Columns packed for a choice of points, kept for as long as the same array is asked for."""

    points: NDArray[np.intp] | None
    values: NDArray[Any]
    half: NDArray[Any]


@dataclass(frozen=True)
class _Piece:
    """A range of packed column tiles, the first of which is tile `offset` of all, and the groups of rows they meet."""

    shape: tuple[int, int, int, int]
    operands: tuple[tuple[Any, ...], ...]
    columns: tuple[NDArray[Any], NDArray[Any]]
    first: int
    last: int
    offset: int


class FusedGram:
    """Kernel entries in float32 (``block``, ``accumulate``) and products in float64 (``exact``), nothing stored.

    Parameters
    ----------
    points : Points
        The data.
    kernel : Kernel
        One that is `fusable`.
    budget : int
        Bytes that may be kept beyond the user's data.
    n_jobs : int or None
        Threads; None means all cores.
    """

    def __init__(self, points: Points, kernel: Kernel, budget: int, n_jobs: int | None = None) -> None:
        self.kernel, self.n = kernel, points.n
        self.dtype: np.dtype[Any] = np.dtype(np.float32)
        self.evaluations = 0
        self.budget = budget
        self.threads = thread_count(n_jobs)
        self._X = points.original
        self._single = single_source(self._X, kernel, budget // PACKED_SHARE, self.threads)
        # One for all that are made by `separate`; two threads that make it at once make the same.
        self._double: list[TileSource] = []
        self._proof: list[Source] = []
        self._bound: list[EntryError | None] = []
        self._plain: list[TileSource | None] = []
        self._plain_bound: list[EntryError | None] = []
        self._packed: list[_Packed] = []
        self._all = np.arange(self.n)

    def separate(self, threads: int | None = None) -> FusedGram:
        """The same matrix over the same data, which counts and packs for itself."""
        other = copy(self)
        other.threads, other.evaluations, other._packed = threads or self.threads, 0, []
        return other

    @property
    def finite(self) -> bool:
        """Whether the squared norms of all points are numbers in float32."""
        return self._single.finite

    @property
    def accurate(self) -> bool:
        """Whether float32 sums leave enough digits of the entries: points are not too many kernel widths from 0."""
        return self._single.largest_exponent <= _SINGLE_EXPONENT

    @property
    def sum_error(self) -> float:
        """A constant c with ``|computed x'z - x'z| <= c |x| |z|`` for what entries are made of, x and z scaled."""
        return self._single.sum_error

    @property
    def entry_cost(self) -> float:
        """Multiplications an entry takes, roughly."""
        return self._single.entry_cost

    def proving(self) -> FusedGram:
        """The float32 matrix to prove bounds with: plain tiles in the place of levels that are off by more than that.

        What such levels are off is a share of whole norms, where tiles are known term by term.
        """
        if not self._plain:
            self._plain.append(plain_source(self._single, self._X, self.kernel, self.threads))
        if self._plain[0] is None:
            return self
        other = self.separate()
        other._single, other._bound, other._plain = self._plain[0], self._plain_bound, [None]
        return other

    def entry_error(self) -> EntryError | None:
        """How far the float32 entries can be from the true ones, where a bound is known."""
        if self.kernel.name != "rbf" or self.dtype != np.float32:
            return None
        if not self._bound:
            self._bound.append(self._single.entry_error(self._exact_source))
        return self._bound[0]

    def block(
        self,
        rows: NDArray[np.intp],
        columns: NDArray[np.intp] | None,
        out: NDArray[Any] | None = None,
        *,
        keep: bool = False,
    ) -> NDArray[Any]:
        """K[rows, columns] (all columns when None), into `out` where it is given; with `keep` columns stay packed."""
        same = rows is columns
        rows = np.asarray(rows, dtype=np.int64)
        if columns is not None:
            columns = rows if same else np.asarray(columns, dtype=np.int64)
        if out is None:
            out = np.empty((len(rows), self.n if columns is None else len(columns)), dtype=self.dtype)
        self._store(rows, columns, out, keep=keep)
        return out

    def _store(
        self, rows: NDArray[np.intp], columns: NDArray[np.intp] | None, out: NDArray[np.float32], *, keep: bool
    ) -> None:
        """``out = K[rows, columns]`` by tiles."""
        self.evaluations += out.size
        source = self._single
        size = -(-out.shape[1] // source.width) * source.column_size * source.column_dtype.itemsize
        dear = source.entry_cost > _CHEAP or size > _PACKED_AT_ONCE
        if dear or isinstance(source, MatrixSource) or source.wide:
            self._store_by_columns(source, rows, columns, out, keep=keep)
        else:
            self._store_by_rows(source, rows, columns, out, keep=keep)

    def _store_by_rows(
        self,
        source: TileSource | WordSource,
        rows: NDArray[np.intp],
        columns: NDArray[np.intp] | None,
        out: NDArray[np.float32],
        *,
        keep: bool,
    ) -> None:
        """Every thread writes rows of its own: where two write to the same rows, they take longer than one alone."""
        points = self._all if columns is None else columns
        tiles = -(-len(points) // source.width)
        work = out.size * source.entry_cost
        threads = self.threads if work >= _WORTH_THREADS else 1
        operand = source.rows(rows, threads)
        kept = self._kept(source, columns, tiles, threads) if keep or columns is None else None
        packed = pack_columns(source, points, tiles) if kept is None else (kept.values, kept.half)
        flat, constants = out.reshape(-1), source.constants

        def store(begin: int, end: int) -> None:
            source.write(
                source.shape, constants, rows_from(source, operand, begin), packed, 0, tiles, source.tile(), False,
                end - begin, out.shape[1], flat[begin * out.shape[1] :], 0,
            )  # fmt: skip

        step = SPARSE_ROWS * even_step(-(-len(rows) // SPARSE_ROWS), threads, work)
        share_parts(store, len(rows), step, threads)

    def _store_by_columns(
        self,
        source: Source,
        rows: NDArray[np.intp],
        columns: NDArray[np.intp] | None,
        out: NDArray[np.float32],
        *,
        keep: bool,
    ) -> None:
        """Columns are packed piece by piece, each by the thread that needs it."""
        flat, constants = out.reshape(-1), source.constants
        work = len(rows) ** 2 * source.entry_cost
        upper = rows is columns and (work >= _WORTH_MIRRORING or not source.symmetric)

        def store(piece: _Piece) -> None:
            left, right = (source.width * (end + piece.offset) for end in (piece.first, piece.last))
            source.write(
                piece.shape, constants, piece.operands[0], piece.columns, piece.first, piece.last, source.tile(), upper,
                *out.shape, flat, left,
            )  # fmt: skip
            if upper:
                mirror(out, left, min(right, len(rows)))

        # The columns of a block are not asked for again, unless they are said to; all of them are. Of an upper triangle
        # the last columns are the longest.
        self._over(source, columns, [rows], store, keep=keep or columns is None, last_first=upper)

    def most_on_demand(self) -> int:
        """Points of the largest block that `row_maker` makes rows of."""
        return 0 if isinstance(self._single, MatrixSource) else most_on_demand(self._single, self.threads)

    def row_maker(self, points: NDArray[np.intp], *, lasting: bool) -> tuple[Any, ...] | None:
        """What compiled code makes rows of ``K[points, points]`` with (`kernels.row_on_demand`), where that pays."""
        if isinstance(self._single, MatrixSource):
            return None
        return row_maker(self._single, points, self.threads, lasting=lasting)

    def accumulate(
        self,
        out: NDArray[np.float64],
        points: NDArray[np.intp],
        delta: NDArray[np.float64],
        rows: NDArray[np.intp] | None = None,
    ) -> None:
        """``out += K[rows, points] @ delta`` with float32 entries, summed in float64."""
        self.accumulate_groups([out], [(points, delta)], rows)

    def accumulate_groups(
        self,
        outs: Sequence[NDArray[np.float64]],
        groups: Sequence[tuple[NDArray[np.intp], NDArray[np.float64]]],
        rows: NDArray[np.intp] | None = None,
    ) -> None:
        """`accumulate` for groups of points with weights, each into sums of its own: the same work as all in one."""
        if rows is not None and len(rows) == self.n and np.array_equal(rows, self._all):
            rows = None
        self.evaluations += self._multiply(self._single, outs, groups, rows, _WORTH_HALVING_SINGLE)

    def exact(self, weights: NDArray[np.float64], rows: NDArray[np.intp] | None = None) -> NDArray[np.float64]:
        """``K[rows] @ weights`` in float64 throughout."""
        out = np.zeros(self.n if rows is None else len(rows))
        used = nonzero(weights)
        self._multiply(self._proof_source(), [out], [(used, weights[used])], rows, _WORTH_HALVING)
        return out

    def _proof_source(self) -> Source:
        """What makes float64 entries: of the same whole numbers where there are any, else of the data."""
        if not self._proof:
            self._proof.append(self._single.exactly() or self._exact_source())
        return self._proof[0]

    def _exact_source(self) -> TileSource:
        if not self._double:
            sparse = is_sparse(self._X, self.kernel)
            keep = self.budget // PACKED_SHARE
            source = TileSource(self._X, self.kernel, np.float64, sparse=sparse, threads=self.threads, keep=keep)
            self._double.append(source)
        return self._double[0]

    def double(self) -> FusedGram:
        """The same matrix with float64 entries."""
        other, proof = self.separate(), self._proof_source()
        # The matrix unit stores no float64 entries.
        other._single = self._exact_source() if isinstance(proof, MatrixSource) else proof
        other.dtype, other._proof = np.dtype(np.float64), []
        return other

    def _multiply(
        self,
        source: Source,
        outs: Sequence[NDArray[np.float64]],
        groups: Sequence[tuple[NDArray[np.intp], NDArray[np.float64]]],
        rows: NDArray[np.intp] | None,
        worth: float,
    ) -> int:
        """Add the weighted entries of groups of points to sums of their own; returns how many entries were made.

        Where all points are among the rows, half of their own block is made if that has so many multiplications.
        """
        wanted = self._all if rows is None else rows
        some = [(out, *group) for out, group in zip(outs, groups, strict=True) if len(group[0])]
        count = sum(len(points) for _, points, _ in some)
        # The matrix unit and levels in int32 have no such loops, and wide data are packed by tiles of their own.
        if (
            count**2 * source.entry_cost >= worth
            and not (isinstance(source, MatrixSource) or source.wide or source.half_dtype == np.int32)
            and _in_order(rows)
        ):
            # Groups are in order, each: a stable sort takes runs as they are.
            points = np.sort(np.concatenate([points for _, points, _ in some]), kind="stable")
            used = np.zeros(self.n, dtype=bool)
            used[points] = True
            among = used[wanted]
            inside = np.flatnonzero(among)  # to choose by truth values takes five times as long
            if np.array_equal(wanted[inside], points):  # none is missing, and none is there twice
                self._halve(source, some, wanted, inside, np.flatnonzero(~among))
                return count * (count + 1) // 2 + count * (len(wanted) - count)
        self._contract(source, outs, groups, rows)
        return count * len(wanted)

    def _halve(
        self,
        source: TileSource | WordSource,
        some: Sequence[tuple[NDArray[np.float64], NDArray[np.intp], NDArray[np.float64]]],
        rows: NDArray[np.intp],
        inside: NDArray[np.intp],
        outside: NDArray[np.intp],
    ) -> None:
        """`_multiply` for sums and groups of points that are the rows `inside`, of whose block half is made."""
        groups = [(points, delta) for _, points, delta in some]
        apart = np.zeros((len(some), outside.size))
        # What is packed for these is not asked for again.
        self.separate()._contract(source, list(apart), groups, rows[outside])
        own = symmetric_products(source, groups, self.threads)
        order = np.argsort(np.concatenate([points for points, _ in groups]), kind="stable")
        for (out, _, _), sums, others in zip(some, own, apart, strict=True):
            out[inside] += sums[order]
            out[outside] += others

    def _contract(
        self,
        source: Source,
        outs: Sequence[NDArray[np.float64]],
        groups: Sequence[tuple[NDArray[np.intp], NDArray[np.float64]]],
        rows: NDArray[np.intp] | None,
    ) -> None:
        some = [(out, points, delta) for out, (points, delta) in zip(outs, groups, strict=True) if len(points)]
        if not some or outs[0].size == 0:
            return
        padded = []
        for _, points, delta in some:
            weights = np.zeros(-(-len(points) // TILE_ROWS) * TILE_ROWS, dtype=source.dtype)
            weights[: len(points)] = delta
            padded.append(weights)
        constants = source.constants
        used = [np.asarray(points, dtype=np.int64) for _, points, _ in some]
        if isinstance(source, TileSource | WordSource) and not source.wide:
            tiles = -(-outs[0].size // source.width)
            work = sum(len(points) for points in used) * outs[0].size * source.entry_cost
            kept = self._kept(source, rows, tiles, self.threads)
            if kept is not None and work <= _UNBROKEN:
                self._contract_at_once(source, [out for out, _, _ in some], used, padded, kept, work)
                return

        def add(piece: _Piece) -> None:
            first, last = piece.first, piece.last
            for (out, _, _), weights, operand in zip(some, padded, piece.operands, strict=True):
                sums = np.zeros((last - first) * source.width)
                source.multiply(
                    piece.shape, constants, operand, weights, piece.columns, first, last, source.tile(), sums
                )
                part = out[(first + piece.offset) * source.width : (last + piece.offset) * source.width]
                part += sums[: part.size]

        self._over(source, rows, used, add, keep=True)

    def _contract_at_once(
        self,
        source: TileSource | WordSource,
        outs: Sequence[NDArray[np.float64]],
        groups: Sequence[NDArray[np.int64]],
        weights: Sequence[NDArray[Any]],
        columns: _Packed,
        work: float,
    ) -> None:
        """Add weighted entries of groups of rows: threads take tiles of packed columns until none is left."""
        tiles = -(-outs[0].size // source.width)
        threads = self.threads if work >= _WORTH_THREADS else 1
        operands: list[tuple[Any, ...] | None] = [None] * len(groups)
        making = [threading.Lock() for _ in groups]
        sums = np.zeros((len(groups), tiles * source.width))
        counters = np.zeros(len(groups) * APART, dtype=np.int64)
        take = take_sparse if source.sparse else take_dense
        packed, constants = (columns.values, columns.half), source.constants

        def rows_of(group: int) -> tuple[Any, ...]:
            with making[group]:
                operand = operands[group]
                if operand is None:
                    operand = operands[group] = source.rows(groups[group], 1, group)
            return operand

        def take_tiles(thread: int) -> None:
            # Each begins with another group, whose rows it gathers while the others gather theirs.
            for turn in range(len(groups)):
                group = (thread + turn) % len(groups)
                take(
                    counters, group * APART, _TAKEN, 2 * threads, tiles, source.shape, constants, rows_of(group),
                    weights[group], packed, source.tile(), source.width, sums[group],
                )  # fmt: skip

        share(take_tiles, threads, threads)
        for out, total in zip(outs, sums, strict=True):
            out += total[: out.size]

    def _over(
        self,
        source: Source,
        columns: NDArray[np.intp] | None,
        groups: Sequence[NDArray[np.int64]],
        action: Callable[[_Piece], None],
        *,
        keep: bool,
        last_first: bool = False,
    ) -> None:
        """Call `action` for pieces of the columns' tiles against groups of rows, on all threads."""
        count = self.n if columns is None else len(columns)
        tiles = -(-count // source.width)
        work = sum(len(rows) for rows in groups) * count * source.entry_cost
        threads = self.threads if work >= _WORTH_THREADS else 1
        points = self._all if columns is None else columns
        if isinstance(source, TileSource) and source.wide:
            share(lambda i: action(_narrow_piece(source, points, groups, i)), tiles, threads)
            return
        operands = tuple(source.rows(rows, threads, place) for place, rows in enumerate(groups))
        kept = self._kept(source, columns, tiles, threads) if keep else None
        step = even_step(tiles, threads, work)
        if kept is not None:
            packed = (kept.values, kept.half)
            share_parts(
                lambda begin, end: action(_Piece(source.shape, operands, packed, begin, end, 0)),
                tiles, step, threads, last_first=last_first,
            )  # fmt: skip
            return
        step = max(1, min(step, _SCRATCH_BYTES // (source.column_size * source.column_dtype.itemsize)))

        def pack_and_act(begin: int, end: int) -> None:
            packed = pack_columns(source, points[begin * source.width : end * source.width], end - begin)
            action(_Piece(source.shape, operands, packed, 0, end - begin, begin))

        share_parts(pack_and_act, tiles, step, threads, last_first=last_first)

    def _kept(self, source: Source, columns: NDArray[np.intp] | None, tiles: int, threads: int) -> _Packed | None:
        """The packed columns where they are worth keeping: all of them, or the last choice, within the budget."""
        if source is not self._single:
            return None
        for packed in list(self._packed):
            if packed.points is columns:
                self._packed.remove(packed)
                self._packed.append(packed)
                return packed
        size = tiles * source.column_size
        if size * source.column_dtype.itemsize > self.budget // PACKED_SHARE:
            return None
        # At most three are kept: all columns and two choices (all of a task and its active set, say); the memory of the
        # choice not used for longest is used again where it suffices.
        choices = [packed for packed in self._packed if packed.points is not None]
        room = choices[0] if columns is not None and len(choices) == 2 else None
        if room is not None:
            self._packed.remove(room)
        if room is None or room.values.size < size:
            # With room for the next choice, which may be a little larger: pages that nobody has touched are no memory
            # yet, but to touch them takes longer than to pack them (31 000 points of covtype: 5.8 ms in place of 0.8).
            largest = self.budget // PACKED_SHARE // (source.column_size * source.column_dtype.itemsize)
            most = max(tiles, min(-(-self.n // source.width), largest))  # points may be chosen twice
            values = within(self.budget, most * source.column_size, source.column_dtype)
            half = aligned(most * source.width, source.half_dtype)
        else:
            values, half = room.values, room.half
        packed = _Packed(columns, values, half)
        points = self._all if columns is None else columns
        share_parts(
            lambda begin, end: source.pack_columns(points, begin, end, values, half),
            tiles,
            even_step(tiles, threads, float(size)),
            threads,
        )
        self._packed.append(packed)
        return packed


def _in_order(rows: NDArray[np.intp] | None) -> bool:
    """Whether every row comes after the one before; None stands for all, in order."""
    return rows is None or bool(np.all(np.diff(rows) > 0))


def _narrow_piece(
    source: TileSource, points: NDArray[np.intp], groups: Sequence[NDArray[np.int64]], tile: int
) -> _Piece:
    """One tile with no more features than its columns have, and the rows with these features."""
    chosen = points[tile * source.width : (tile + 1) * source.width]
    number = source.narrow(chosen)
    packed = pack_columns(source.with_features(chosen, number), np.arange(len(chosen)), 1)
    others = [source.with_features(rows, number) for rows in groups]
    operands = tuple(
        part.rows(np.arange(len(rows)), 1, place) for place, (part, rows) in enumerate(zip(others, groups, strict=True))
    )
    return _Piece(others[0].shape, operands, packed, 0, 1, tile)
