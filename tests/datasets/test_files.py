"""Reading data files: every format, every way a file can be wrong."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from dualgap.datasets import DataFileError, Dataset, find, libsvm_text, load, read_libsvm_blocks
from dualgap.datasets.libsvm_exact import parse_exact
from dualgap.datasets.libsvm_fast import parse_fast

COMPRESSORS = {"": lambda content: content, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
FLOAT64 = np.dtype(np.float64)


@pytest.fixture
def write(tmp_path):
    """A function that writes text or bytes to a file in a fresh folder and returns its path."""

    def write(content, name="data.svm"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def complaint(path, line=None, **options):
    """The message that loading `path` fails with; checks what every message must have."""
    with pytest.raises(DataFileError) as caught:
        load(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path}, line {line}: " if line else f"{path}: ")
    assert "; " in message, "a message names a remedy after its finding"
    return message


class TestLibsvm:
    def test_reads_what_is_written(self, write):
        data = load(write("+1 1:0.5 3:-2e1\n-1.0 2:.25\n"))
        assert isinstance(data, Dataset)
        assert sparse.issparse(data.X)
        assert data.X.format == "csr"
        assert_array_equal(data.X.toarray(), [[0.5, 0, -20], [0, 0.25, 0]])
        assert_array_equal(data.y, [1.0, -1.0])
        assert data.y.dtype == np.float64
        assert data.feature_names is None
        assert data.source.endswith("data.svm")

    @pytest.mark.parametrize("suffix", COMPRESSORS)
    def test_reads_compressed(self, write, suffix):
        path = write(COMPRESSORS[suffix](b"1 1:2\n2 2:3\n"), "data.libsvm" + suffix)
        assert_array_equal(load(path).X.toarray(), [[2, 0], [0, 3]])

    def test_compression_goes_by_content(self, write):
        assert load(write(gzip.compress(b"1 1:2\n"))).X.shape == (1, 1)

    def test_tolerates_loose_writing(self, write):
        text = (
            "\ufeff# a header\r\n\r\n"
            "+1   1:1\t3:+2.5  \r\n"  # several blanks, tabs, CRLF, trailing blanks
            "-1 # only a label, and a comment with 1:2 in it\r\n"
            "   \t \r\n"
            "  1e0 2:-.5 4:1E-3 # after\r\n"
            "-1.50\n"
            "1 0000000000000000000002:3"  # no newline at the end, an index with zeros before it
        )
        data = load(write(text))
        expected = [[1, 0, 2.5, 0], [0, 0, 0, 0], [0, -0.5, 0, 0.001], [0, 0, 0, 0], [0, 3, 0, 0]]
        assert_array_equal(data.X.toarray(), expected)
        assert_array_equal(data.y, [1, -1, 1, -1.5, 1])

    def test_zeros_as_written_are_kept(self, write):
        assert load(write("1 1:0 2:1\n")).X.nnz == 2

    def test_n_features_widens(self, write):
        assert load(write("1 2:1\n"), n_features=7).X.shape == (1, 7)

    def test_labels_alone(self, write):
        assert load(write("1\n-1\n"), n_features=3).X.shape == (2, 3)
        assert load(write("1\n-1\n")).X.shape == (2, 0)

    def test_float32(self, write):
        data = load(write("1 1:0.1\n"), dtype=np.float32)
        assert data.X.dtype == np.float32
        assert data.X[0, 0] == np.float32(0.1)

    def test_indices_are_32_bit_where_they_fit(self, write):
        small = load(write("1 1:1 2147483647:1\n")).X
        assert (small.indices.dtype, small.indptr.dtype) == (np.int32, np.int32)
        assert small.shape[1] == 2**31 - 1
        large = load(write("1 1:1 99999999999:1\n")).X
        assert large.shape[1] == 99999999999
        assert large.indices.dtype == np.int64

    @pytest.mark.parametrize(
        ("row", "finding"),
        [
            ("1 2:1 2:1", "index 2 appears twice"),
            ("1 3:1 2:1", "index 2 comes after index 3"),
            ("1 0:1", "index below 1"),
            ("1 -4:1", "index below 1"),
            ("1 1:nan", "missing value"),
            ("1 1:inf", "not a finite number"),
            ("1 1:-Infinity", "not a finite number"),
            ("1 1:1e999", "too large"),
            ("1 1:1_000", "not a finite number"),
            ("1 1:0x10", "not a finite number"),
            ("1 1:1.2.3", "not a finite number"),
            ("1 1:1-2", "not a finite number"),
            ("1 1:1e", "not a finite number"),
            ("1 abc", "'abc' is not index:value"),
            ("1 7", "'7' is not index:value"),
            ("1 1:", "not index:value"),
            ("1 :1", "not index:value"),
            ("1 1: 2", "not index:value"),
            ("1 1:2:3 4", "not a finite number"),
            ("1 1.0:2", "not a whole number"),
            ("1 +1:2", "not a whole number"),
            ("1 ²:2", "not a whole number"),
            ("1 9223372036854775808:1", "above 9223372036854775807"),
            ("1 " + "9" * 5000 + ":1", "above 9223372036854775807"),
            ("1 qid:3 1:2", "ranking"),
            ("1:1 2:1", "where a label should be"),
            ("1,2 1:1", "is a list"),
            ("nan 1:1", "label 'nan'"),
            ("inf 1:1", "label 'inf'"),
            ("1e999 1:1", "label '1e999'"),
            ("cat 1:1", "label 'cat'"),
            ("1 1:\x00", "not a finite number"),
        ],
    )
    def test_rejects_with_the_line(self, write, row, finding):
        path = write(f"# comment\n1 1:1 2:1\n\n{row}\n1 1:1\n")
        assert finding in complaint(path, line=4)

    def test_rejects_bytes_that_are_no_text(self, write):
        assert "is not index:value" in complaint(write(b"1 1:1\n1 \xff\xfe\n"), line=2)

    def test_line_numbers_go_on_over_chunks(self, write, monkeypatch):
        monkeypatch.setattr(libsvm_text, "_CHUNK_BYTES", 64)
        path = write("1 1:1 2:2\n" * 1000 + "1 2:1 1:1\n" + "1 1:1\n" * 50)
        complaint(path, line=1001)

    def test_index_above_n_features(self, write):
        path = write("1 1:1\n1 9:1\n")
        assert "index 9 is above n_features=8" in complaint(path, line=2, n_features=8)

    def test_overflow_of_float32(self, write):
        assert "too large for float32" in complaint(write("1 1:1\n1 1:1e300\n"), line=2, dtype="float32")

    def test_row_longer_than_a_chunk(self, write, monkeypatch):
        monkeypatch.setattr(libsvm_text, "_CHUNK_BYTES", 16)
        row = "1 " + " ".join(f"{i}:{i}" for i in range(1, 500))
        data = load(write(f"{row}\n2\n{row}"))
        assert_array_equal(data.X[[0, 2]].toarray(), [np.arange(1, 500)] * 2)

    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        dense=hnp.arrays(
            np.float64,
            hnp.array_shapes(min_dims=2, max_dims=2, max_side=7),
            # sklearn writes 16 digits: enough for numbers of few bits, not for every float.
            elements=st.integers(-(2**20), 2**20).map(lambda number: number / 1024),
        ),
        one_block=st.integers(1, 5),
    )
    def test_round_trip(self, tmp_path, dense, one_block):
        y = np.arange(dense.shape[0]) - 2.5
        path = tmp_path / "round.svm"
        dump_svmlight_file(dense, y, str(path), zero_based=False, comment="written by sklearn")
        data = load(path, n_features=dense.shape[1])
        assert_array_equal(data.X.toarray(), dense)
        assert_array_equal(data.y, y)
        blocks = list(read_libsvm_blocks(path, one_block, n_features=dense.shape[1]))
        assert_array_equal(sparse.vstack([X for X, _ in blocks]).toarray(), dense)
        assert_array_equal(np.concatenate([labels for _, labels in blocks]), y)
        assert all(X.shape[0] == one_block for X, _ in blocks[:-1])

    @settings(max_examples=300, deadline=None)
    @given(st.text(alphabet="0123456789:+-.e \n_n#", max_size=40))
    def test_the_fast_parser_agrees_with_the_exact_one(self, text):
        content = text.replace("#", " ").encode() + b"\n"
        fast = parse_fast(content, FLOAT64)
        if fast is None:
            return
        exact = parse_exact(content, "text", 1, None, FLOAT64)
        for name in ("labels", "lengths", "columns", "values"):
            assert_array_equal(getattr(fast, name), getattr(exact, name))

    @settings(max_examples=100, deadline=None)
    @given(
        st.lists(
            st.tuples(
                st.floats(allow_nan=False, allow_infinity=False),
                st.dictionaries(st.integers(1, 10**12), st.floats(-1e3, 1e3), max_size=4),
            ),
            min_size=1,
            max_size=5,
        )
    )
    def test_the_fast_parser_takes_ordinary_lines(self, rows):
        lines = [f"{label!r} " + " ".join(f"{i}:{v!r}" for i, v in sorted(row.items())) for label, row in rows]
        fast = parse_fast("\n".join([*lines, ""]).encode(), FLOAT64)
        assert fast is not None
        assert_array_equal(fast.labels, [label for label, _ in rows])
        assert_array_equal(fast.values, [v for _, row in rows for _, v in sorted(row.items())])
        assert_array_equal(fast.columns, [i - 1 for _, row in rows for i in sorted(row)])


class TestBlocks:
    def test_blocks_have_the_rows_asked_for(self, write, monkeypatch):
        monkeypatch.setattr(libsvm_text, "_CHUNK_BYTES", 50)
        path = write("".join(f"{i} {i % 3 + 1}:{i}\n" for i in range(1, 101)))
        blocks = list(read_libsvm_blocks(path, 7, n_features=3))
        assert [X.shape for X, _ in blocks] == [(7, 3)] * 14 + [(2, 3)]
        assert_array_equal(np.concatenate([y for _, y in blocks]), np.arange(1, 101))
        assert_array_equal(sparse.vstack([X for X, _ in blocks]).toarray(), load(path).X.toarray())

    def test_width_grows_to_that_of_the_file(self, write):
        path = write("1 1:1\n1 4:1\n1 2:1\n")
        assert [X.shape for X, _ in read_libsvm_blocks(path, 1)] == [(1, 1), (1, 4), (1, 4)]

    def test_arguments_are_checked_before_reading(self, write):
        path = write("1 1:1\n")
        with pytest.raises(ValueError, match="rows_per_block=0"):
            read_libsvm_blocks(path, 0)
        with pytest.raises(ValueError, match="n_features=0"):
            read_libsvm_blocks(path, 1, n_features=0)
        with pytest.raises(FileNotFoundError):
            read_libsvm_blocks(path.with_name("absent"), 1)

    def test_good_blocks_come_before_the_error(self, write, monkeypatch):
        monkeypatch.setattr(libsvm_text, "_CHUNK_BYTES", 16)
        blocks = read_libsvm_blocks(write("1 1:1\n" * 20 + "bad\n"), 5)
        next(blocks)
        with pytest.raises(DataFileError, match="line 21"):
            list(blocks)

    def test_memory_does_not_grow_with_the_file(self, write):
        line = b"1 " + b" ".join(b"%d:0.5" % i for i in range(1, 101)) + b"\n"
        path = write(gzip.compress(line * 20000, compresslevel=1), "long.svm.gz")  # 14 MB of text
        tracemalloc.start()
        try:
            rows = sum(X.shape[0] for X, _ in read_libsvm_blocks(path, 500))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert rows == 20000
        # The decompressed text alone would take len(line) * 20000 bytes, the matrix twice that.
        assert peak < len(line) * 20000


class TestCsv:
    def test_headerless_takes_the_last_column(self, write):
        data = load(write("1,2,0\n3,4,1\n", "data.csv"))
        assert_array_equal(data.X, [[1, 2], [3, 4]])
        assert_array_equal(data.y, [0, 1])
        assert data.feature_names is None
        assert data.X.flags.c_contiguous
        assert data.X.dtype == data.y.dtype == np.float64

    @pytest.mark.parametrize("name", ["label", "Class", "TARGET", "y"])
    def test_header_names_the_label(self, write, name):
        data = load(write(f"a,{name},b\n1,0,2\n3,1,4\n", "data.csv"))
        assert_array_equal(data.X, [[1, 2], [3, 4]])
        assert_array_equal(data.y, [0, 1])
        assert data.feature_names == ("a", "b")

    def test_class_is_more_telling_than_y(self, write):
        data = load(write("class,x,y\n0,1,2\n1,3,4\n", "data.csv"))
        assert data.feature_names == ("x", "y")

    def test_header_without_a_telling_name_takes_the_last(self, write):
        data = load(write("a,b,species\n1,2,iris\n3,4,rose\n", "data.csv"))
        assert data.y.tolist() == ["iris", "rose"]
        assert data.feature_names == ("a", "b")

    @pytest.mark.parametrize("column", [0, -3, "c"])
    def test_label_column_by_number_and_name(self, write, column):
        data = load(write("c,a,b\n9,1,2\n8,3,4\n", "data.csv"), label_column=column)
        assert_array_equal(data.y, [9, 8])
        assert data.feature_names == ("a", "b")

    def test_without_labels(self, write):
        data = load(write("1,2\n3,4\n", "data.csv"), label_column=None)
        assert data.y is None
        assert_array_equal(data.X, [[1, 2], [3, 4]])

    @pytest.mark.parametrize("delimiter", [",", ";", "\t", " ", "   ", ", ", " \t"])
    def test_delimiters(self, write, delimiter):
        rows = [("a", "b", "label"), ("1.5", "-2", "1"), ("3e2", "+4", "-1")]
        data = load(write("\n".join(delimiter.join(row) for row in rows), "data.csv"))
        assert_array_equal(data.X, [[1.5, -2], [300, 4]])
        assert_array_equal(data.y, [1, -1])
        assert data.feature_names == ("a", "b")

    @pytest.mark.parametrize("suffix", COMPRESSORS)
    def test_reads_compressed(self, write, suffix):
        path = write(COMPRESSORS[suffix](b"a\tb\ty\n1\t2\t3\n"), "data.tsv" + suffix)
        assert_array_equal(load(path).X, [[1, 2]])

    def test_quotes_blank_lines_crlf_and_mark(self, write):
        text = '\ufeff"first, second","b\nb",class\r\n\r\n1,"2",x y\r\n \r\n3,4,"u,v"'
        data = load(write(text, "data.csv"))
        assert data.feature_names == ("first, second", "b\nb")
        assert data.y.tolist() == ["x y", "u,v"]
        assert_array_equal(data.X, [[1, 2], [3, 4]])

    def test_header_of_numpy_savetxt(self, tmp_path):
        path = tmp_path / "saved.txt"
        np.savetxt(path, [[1, 2], [0, 3]], header="label a")
        data = load(path)
        assert_array_equal(data.y, [1, 0])
        assert data.feature_names == ("a",)

    def test_string_labels_without_header(self, write):
        data = load(write("5.1,3.5,Iris-setosa\n4.9,3.0,Iris-other\n", "iris.data"))
        assert data.y.tolist() == ["Iris-setosa", "Iris-other"]
        assert data.X.shape == (2, 2)

    def test_labels_partly_numbers_stay_strings(self, write):
        assert load(write("1,7\n2,none\n", "data.csv")).y.tolist() == ["7", "none"]

    def test_underscore_makes_a_label_a_string(self, write):
        assert load(write("1,1_0\n2,2_0\n", "data.csv")).y.tolist() == ["1_0", "2_0"]

    def test_header_can_be_forced(self, write):
        path = write("1,2,3\n4,5,6\n", "data.csv")
        assert load(path, header=True).feature_names == ("1", "2")
        text = write("a,b,c\n", "text.csv")
        assert "column 1 has 'a'" in complaint(text, line=1, header=False)

    def test_missing_value_in_the_first_row_is_no_header(self, write):
        assert "missing value, '?'" in complaint(write("?,1,0\n2,3,1\n", "data.csv"), line=1)

    def test_rows_over_several_blocks(self, write, monkeypatch):
        monkeypatch.setattr("dualgap.datasets.csv_text._CELLS_PER_BLOCK", 10)
        text = "".join(f"{i},{2 * i},{i % 2}\n" for i in range(100))
        data = load(write(text, "data.csv"))
        assert_array_equal(data.X, np.outer(np.arange(100), [1, 2]))
        complaint(write(text + "1,x,1\n", "data.csv"), line=101)

    def test_float32(self, write):
        assert load(write("0.1,1\n", "data.csv"), dtype=np.float32).X.dtype == np.float32
        path = write("1,1\n1e300,1\n", "data.csv")
        assert "too large for float32" in complaint(path, line=2, dtype=np.float32)

    @pytest.mark.parametrize(
        ("row", "finding"),
        [
            ("1,red,0", "column 2 ('b') has 'red', not a finite number; encode"),
            ("1,,0", "column 2 ('b') has a missing value"),
            ("nan,1,0", "column 1 ('a') has a missing value"),
            ("NA,1,0", "column 1 ('a') has a missing value"),
            ("1,inf,0", "column 2 ('b') has 'inf', not a finite number"),
            ("1,1e999,0", "too large"),
            ("1,1_000,0", "'1_000', not a finite number"),
            ('1,"2,5",0', "decimal comma"),
            ("1,2,", "the label in column 3 ('y') is missing"),
            ("1,2,nan", "the label in column 3 ('y') is missing"),
            ("1,2,-inf", "not finite"),
            ("1,2,1e999", "not finite"),
            ("1,2", "2 cells where the first line has 3"),
            ("1,2,3,4", "4 cells where the first line has 3"),
            ('1,"2,3', "correct the quotes"),
            ('1,"2"x,3', "correct the quotes"),
        ],
    )
    def test_rejects_with_line_and_column(self, write, row, finding):
        path = write(f"a,b,y\n1,2,0\n\n{row}\n", "data.csv")
        assert finding in complaint(path, line=4)

    def test_column_numbers_count_the_label(self, write):
        path = write("0,1,2\n0,1,x\n", "data.csv")
        assert "column 3 has 'x'" in complaint(path, line=2, label_column=0)
        assert "column 1 has 'M'" in complaint(write("M,1,2\nF,1,2\n", "data.csv"), line=1)

    @pytest.mark.parametrize(
        ("text", "options", "finding"),
        [
            ("a,b\n1,2\n", {"label_column": "c"}, "no column has the name label_column='c'"),
            ("a,a\n1,2\n", {"label_column": "a"}, "2 columns have"),
            ("1,2\n", {"label_column": "a"}, "no header"),
            ("1,2\n", {"label_column": 2}, "there are 2 columns"),
            ("1,2\n", {"label_column": -3}, "there are 2 columns"),
            ("1,2\n", {"n_features": 2}, "has 1 features, not 2"),
            ("1\n2\n", {}, "one column only"),
            ("a,b\n", {}, "no rows"),
            ("\n \n\n", {}, "only blank lines"),
        ],
    )
    def test_rejects_the_whole(self, write, text, options, finding):
        assert finding in complaint(write(text, "data.csv"), **options)

    def test_not_utf8(self, write):
        assert "not UTF-8" in complaint(write("a,é\n1,2\n".encode("latin-1"), "data.csv"))

    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        table=hnp.arrays(
            np.float64, st.tuples(st.integers(1, 6), st.integers(2, 6)), elements=st.floats(-1e300, 1e300)
        ),
        delimiter=st.sampled_from([",", ";", "\t", " "]),
    )
    def test_round_trip(self, tmp_path, table, delimiter):
        path = tmp_path / "table.csv"
        np.savetxt(path, table, delimiter=delimiter, fmt="%.17g")
        data = load(path)
        assert_array_equal(data.X, table[:, :-1])
        assert_array_equal(data.y, table[:, -1])


class TestNpz:
    def test_dense(self, tmp_path):
        path = tmp_path / "data.npz"
        np.savez(path, X=np.asfortranarray([[1, 2], [3, 4]]), y=[[1], [-1]])
        data = load(path)
        assert_array_equal(data.X, [[1, 2], [3, 4]])
        assert data.X.flags.c_contiguous
        assert data.X.dtype == np.float64
        assert_array_equal(data.y, [1.0, -1.0])

    def test_compressed_archive_string_labels_and_none(self, tmp_path):
        path = tmp_path / "data.npz"
        for labels in (np.array(["b", "a"]), np.array([b"b", b"a"])):
            np.savez_compressed(path, X=np.eye(2), y=labels)
            assert load(path).y.tolist() == ["b", "a"]
        np.savez(path, X=np.eye(2))
        assert load(path).y is None

    @pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
    @pytest.mark.parametrize("array", [True, False])
    def test_sparse(self, tmp_path, kind, array):
        dense = np.array([[0, 2.0, 0], [3, 0, 4]])
        matrix = sparse.coo_array(dense) if array else sparse.coo_matrix(dense)
        buffer = io.BytesIO()
        sparse.save_npz(buffer, matrix.asformat(kind))
        buffer.seek(0)
        with np.load(buffer) as members:
            np.savez(tmp_path / "data.npz", y=[1, -1], **members)
        data = load(tmp_path / "data.npz", dtype=np.float32)
        assert data.X.format == "csr"
        assert data.X.dtype == np.float32
        assert_array_equal(data.X.toarray(), dense)
        assert_array_equal(data.y, [1, -1])

    def test_found_without_suffix(self, tmp_path):
        np.savez(tmp_path / "data.npz", X=np.eye(2))
        (tmp_path / "data.npz").rename(tmp_path / "data")
        assert load(tmp_path / "data").X.shape == (2, 2)

    @pytest.mark.parametrize(
        ("members", "finding"),
        [
            ({"Z": np.eye(2)}, "holds Z and no array X"),
            ({"X": np.zeros(3)}, "shape (3,)"),
            ({"X": np.zeros((0, 3))}, "empty"),
            ({"X": np.array([[1, np.nan]])}, "X[0, 1] is nan"),
            ({"X": np.array([[1j]])}, "complex128"),
            ({"X": np.array([["a"]])}, "encode it"),
            ({"X": np.eye(2), "y": [1]}, "y has shape (1,) beside 2 rows"),
            ({"X": np.eye(2), "y": [1, np.inf]}, "y[1] is inf"),
            ({"X": np.eye(2), "y": [1j, 1]}, "y is of dtype complex128"),
        ],
    )
    def test_rejects(self, tmp_path, members, finding):
        np.savez(tmp_path / "data.npz", **members)
        assert finding in complaint(tmp_path / "data.npz")

    def test_never_unpickles(self, tmp_path):
        path = tmp_path / "data.npz"
        np.savez(path, X=np.array([[Explosive()]], dtype=object))
        complaint(path)
        np.savez(path, X=np.eye(1), y=np.array([Explosive()], dtype=object))
        complaint(path)

    @pytest.mark.parametrize("bad", [[0, 7], [0, -1]])
    @pytest.mark.parametrize("kind", ["csr", "csc"])
    def test_sparse_indices_outside_the_matrix(self, tmp_path, bad, kind):
        path = tmp_path / "data.npz"
        np.savez(
            path,
            format=np.array(kind.encode()),
            shape=[2, 2],
            data=[1.0, 2.0],
            indices=np.array(bad, dtype=np.int32),
            indptr=np.array([0, 1, 2], dtype=np.int32),
        )
        complaint(path)

    def test_truncated_anywhere(self, tmp_path):
        path = tmp_path / "data.npz"
        np.savez_compressed(path, X=np.eye(3), y=[1, 2, 3])
        content = path.read_bytes()
        for length in range(1, len(content), 7):
            path.write_bytes(content[:length])
            complaint(path)

    def test_compressed_from_outside(self, write):
        assert "decompress" in complaint(write(gzip.compress(b"PK"), "data.npz.gz"))

    def test_not_an_archive(self, write):
        assert "not an npz archive" in complaint(write("1,2\n", "data.npz"))


class Explosive:
    """Fails the test when it is unpickled."""

    def __reduce__(self):
        return pytest.fail, ("unpickled",)


class TestAnyFile:
    @pytest.mark.parametrize("name", ["data", "data.txt", "data.data", "a9a.t", "data.txt.xz"])
    @pytest.mark.parametrize("text", ["1 1:2 3:4\n", "# comment\n\n1\n-1 2:3\n"])
    def test_libsvm_by_content(self, write, name, text):
        content = text.encode()
        assert sparse.issparse(load(write(lzma.compress(content) if name.endswith("xz") else content, name)).X)

    @pytest.mark.parametrize("text", ["1,2\n3,4\n", "1 2\n3 4\n", "a;y\n1;2\n", "12:30,1\n"])
    def test_table_by_content(self, write, text):
        path = write(text, "data.txt")
        if ":" in text:
            assert "encode" in complaint(path, line=1)
        else:
            assert isinstance(load(path).X, np.ndarray)

    def test_long_first_row_by_content(self, write):
        row = "1 " + " ".join(f"{i}:1" for i in range(1, 20000))
        assert load(write(row, "wide.data")).X.shape == (1, 19999)

    def test_format_overrides_the_suffix(self, write):
        assert sparse.issparse(load(write("1 1:2\n", "data.csv"), format="libsvm").X)

    @pytest.mark.parametrize("name", ["data.svm", "data.csv", "data.npz", "data", "data.svm.xz"])
    def test_empty_file(self, write, name):
        assert "empty" in complaint(write("", name))

    @pytest.mark.parametrize("name", ["data.svm.gz", "data.csv.xz", "data.bz2"])
    def test_empty_inside(self, write, name):
        complaint(write(COMPRESSORS[Path(name).suffix](b""), name))

    def test_comments_only(self, write):
        assert "no samples" in complaint(write("# nothing\n\n"))

    @pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
    @pytest.mark.parametrize("kind", [".svm", ".csv", ""])
    def test_truncated_compressed(self, write, suffix, kind):
        text = "".join(f"{i} 1:{i}\n" for i in range(2000)) if kind != ".csv" else "1,2\n" * 2000
        whole = COMPRESSORS[suffix](text.encode())
        for length in (len(whole) // 2, len(whole) - 5):
            assert "truncated" in complaint(write(whole[:length], f"data{kind}{suffix}"))
        assert "truncated" in complaint(write(whole[:1], f"data{kind}{suffix}"))

    @pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
    def test_damaged_compressed(self, write, suffix):
        rng = np.random.default_rng(0)
        text = "".join(f"1 1:{value}\n" for value in rng.random(2000))
        whole = bytearray(COMPRESSORS[suffix](text.encode()))
        for position in range(len(whole) // 3, len(whole) // 3 + 40):
            whole[position] ^= 0x55
        # Found by the decompressor, or by the parser where it goes on for a while and gives wrong text.
        with pytest.raises(DataFileError, match=r"damaged|line"):
            load(write(bytes(whole), "data.svm" + suffix))

    def test_named_compressed_but_plain(self, write):
        assert "named .xz" in complaint(write("1 1:1\n", "data.svm.xz"))

    def test_directory(self, tmp_path):
        assert "is a directory" in complaint(tmp_path)

    def test_absent(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"absent\.svm: no such file"):
            load(tmp_path / "absent.svm")

    @pytest.mark.parametrize(
        ("options", "finding"),
        [
            ({"format": "arff"}, "format='arff'"),
            ({"header": "yes"}, "header='yes'"),
            ({"label_column": 1.5}, "label_column=1.5"),
            ({"label_column": True}, "label_column=True"),
            ({"label_column": 0}, "for csv files"),
            ({"header": True}, "for csv files"),
            ({"dtype": np.int32}, "dtype=int32"),
            ({"dtype": "no such"}, "dtype='no such'"),
            ({"n_features": 0}, "n_features=0"),
        ],
    )
    def test_arguments(self, write, options, finding):
        with pytest.raises(ValueError, match=finding):
            load(write("1 1:1\n"), **options)

    def test_importing_does_not_import_sklearn(self):
        code = "import sys, dualgap.datasets; sys.exit('sklearn' in sys.modules)"
        subprocess.run([sys.executable, "-c", code], check=True)


class TestFind:
    def test_finds(self, tmp_path, monkeypatch):
        monkeypatch.setenv("DUALGAP_DATA", str(tmp_path))
        (tmp_path / "toy.svm.xz").write_bytes(lzma.compress(b"1 1:1\n"))
        assert find("toy") == tmp_path / "toy.svm.xz"
        assert load(find("toy")).X.shape == (1, 1)

    def test_file_missing(self, tmp_path, monkeypatch):
        monkeypatch.setenv("DUALGAP_DATA", str(tmp_path))
        with pytest.raises(FileNotFoundError, match=r"toy\.svm\.xz: no such file .* DUALGAP_DATA"):
            find("toy")

    @pytest.mark.parametrize("value", [None, ""])
    def test_variable_not_set(self, monkeypatch, value):
        monkeypatch.delenv("DUALGAP_DATA", raising=False)
        if value is not None:
            monkeypatch.setenv("DUALGAP_DATA", value)
        with pytest.raises(FileNotFoundError, match="DUALGAP_DATA is not set"):
            find("toy")


@pytest.mark.skipif(not os.environ.get("DUALGAP_DATA"), reason="DUALGAP_DATA does not name a folder of real data")
@pytest.mark.parametrize("name", ["heart_scale", "a9a"])
def test_real_file_as_sklearn_reads_it(name):
    data = load(find(name))
    with lzma.open(find(name)) as stream:
        X, y = load_svmlight_file(stream)
    assert (data.X != X).nnz == 0
    assert_array_equal(data.y, y)
    assert data.X.indices.dtype == np.int32


# -- what mutated files have found ----------------------------------------------------------------------------------


def test_a_long_run_of_digits_is_refused_at_once(write):
    # A pattern with two ways to match digits took the square of their number.
    for content in ("1" * 300_000 + "x 1:1\n", "1 1:" + "9" * 300_000 + "?\n"):
        with pytest.raises(DataFileError):
            load(write(content))
    with pytest.raises(DataFileError):
        load(write("a,b\n" + "1" * 300_000 + "x,2\n", "data.csv"))


@pytest.mark.parametrize("name", ["data.svm.xz", "data.svm.bz2", "data.csv.gz"])
def test_a_line_without_end_is_refused(write, monkeypatch, name):
    # A few kilobytes of xz stand for thirty million bytes.
    content = COMPRESSORS[f".{name.rpartition('.')[2]}"](b"1" * 30_000_000)
    monkeypatch.setattr("dualgap.datasets.streams.LONGEST_LINE", 2**20)
    tracemalloc.start()
    try:
        with pytest.raises(DataFileError, match="more than 1048576 characters"):
            load(write(content, name))
        assert tracemalloc.get_traced_memory()[1] < 20_000_000  # eight of them are the decompressor's
    finally:
        tracemalloc.stop()


def test_a_wide_table_separated_by_blanks(write):
    line = " ".join(["0.125"] * 40_000)  # more letters than csv allows a cell to have
    assert load(write(f"{line}\n{line}\n", "wide.tab")).X.shape == (2, 39_999)


@pytest.mark.parametrize("control", "\x1c\x1d\x1e\x1f")
def test_separators_that_python_strips_are_no_part_of_a_number(write, control):
    with pytest.raises(DataFileError, match="label"):
        load(write(f"{control}31 1:2\n1 1:1\n"))
    with pytest.raises(DataFileError):
        load(write(f"a,b\n{control}3,1\n4,1\n", "data.csv"))


def archive_of(**members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return stream.getvalue()


def npy(header, data=b"\x00" * 8):
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 1000), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 3), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (1, 1), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (9223372036854775808, 9), }",
        "nonsense",
    ],
)
def test_a_shape_is_not_believed_before_its_bytes_are_there(write, header):
    with pytest.raises(DataFileError, match="cannot be read") as caught:
        load(write(archive_of(X=npy(header)), "data.npz"))
    assert "\n" not in str(caught.value)


def test_damaged_archives_are_one_error(write):
    whole = archive_of(X=npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1), }"))
    assert load(write(whole, "data.npz")).X.shape == (1, 1)
    directory = whole.rindex(b"PK\x01\x02")
    offset = directory + 42  # where the member begins
    method = directory + 10
    version = directory + 6
    flags = directory + 8
    for place, value in ((offset, b"\xff\xff\xff\x7f"), (method, b"\x63"), (version, b"\xff"), (flags, b"\x01")):
        spoilt = bytearray(whole)
        spoilt[place : place + len(value)] = value
        with pytest.raises(DataFileError):
            load(write(bytes(spoilt), "data.npz"))


@pytest.mark.parametrize("labelled", [True, False])
def test_empty_rows_without_number_are_refused(write, labelled):
    stream = io.BytesIO()
    parts = {
        "format": b"coo",
        "shape": (10**12, 3),
        "data": np.ones(1),
        "row": np.zeros(1, int),
        "col": np.zeros(1, int),
    }
    np.savez(stream, **parts, **({"y": np.ones(1)} if labelled else {}))
    with pytest.raises(DataFileError, match="rows"):
        load(write(stream.getvalue(), "data.npz"))
