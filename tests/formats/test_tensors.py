"""Arrays in files: what is written comes back, and no file whatever does harm."""

from __future__ import annotations

import json
import os
import stat
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal

from dualgap import tensors
from dualgap.atomic import atomic_write
from dualgap.tensors import ModelFileError, read_tensors, write_tensors

DTYPES = [np.float64, np.float32, np.int64, np.int32, np.uint8, np.bool_]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.bin"


@pytest.fixture
def written(path):
    """A small file with every dtype, and what is in it."""
    arrays = {np.dtype(dtype).name: np.arange(3).astype(dtype) for dtype in DTYPES}
    arrays["empty"] = np.zeros((0, 4))
    write_tensors(path, arrays, {"kernel": "rbf", "é": "\n"})
    return path


def put(path, header, data=b""):
    """Write a file with the given header (text, bytes, or something to be made JSON) and data."""
    if not isinstance(header, bytes):
        header = (header if isinstance(header, str) else json.dumps(header)).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)
    return path


def entry(dtype="U8", shape=(4,), offsets=(0, 4)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def complaint(path):
    with pytest.raises(ModelFileError) as caught:
        read_tensors(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert len(message) < len(str(path)) + 200
    return message


class TestRoundTrip:
    @settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        arrays=st.dictionaries(
            TEXT.filter(lambda name: name != "__metadata__"),
            st.sampled_from(DTYPES).flatmap(
                lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
            ),
            max_size=4,
        ),
        metadata=st.dictionaries(TEXT, TEXT, max_size=3),
    )
    def test_everything_comes_back(self, path, arrays, metadata):
        write_tensors(path, arrays, metadata)
        read, found = read_tensors(path)
        assert found == metadata
        assert read.keys() == arrays.keys()
        for name, array in arrays.items():
            assert read[name].dtype == array.dtype
            assert read[name].shape == array.shape
            assert read[name].tobytes() == array.tobytes()
            assert read[name].flags.writeable

    @pytest.mark.parametrize(
        "array",
        [
            np.asfortranarray(np.arange(6.0).reshape(2, 3)),
            np.arange(10)[::-3],
            np.arange(6, dtype=">i4").reshape(3, 2),
            np.array(2.5, dtype=">f8"),
            np.broadcast_to(np.float32(1), (2, 3)),
        ],
    )
    def test_memory_layouts(self, path, array):
        write_tensors(path, {"a": array}, {})
        read = read_tensors(path)[0]["a"]
        assert read.dtype.isnative
        assert_array_equal(read, array, strict=array.dtype.isnative)

    def test_bytes_do_not_depend_on_order(self, tmp_path):
        a, b = np.arange(2.0), np.arange(3, dtype=np.uint8)
        write_tensors(tmp_path / "1", {"a": a, "b": b}, {"x": "1", "y": "2"})
        write_tensors(tmp_path / "2", {"b": b, "a": a}, {"y": "2", "x": "1"})
        assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()

    def test_layout_is_that_of_safetensors(self, path):
        write_tensors(path, {"flags": np.array([True]), "w": np.array([1.0, -2.0])}, {"k": "v"})
        content = path.read_bytes()
        length = int.from_bytes(content[:8], "little")
        assert (8 + length) % 8 == 0
        assert json.loads(content[8 : 8 + length]) == {
            "__metadata__": {"k": "v"},
            "w": {"dtype": "F64", "shape": [2], "data_offsets": [0, 16]},
            "flags": {"dtype": "BOOL", "shape": [1], "data_offsets": [16, 17]},
        }
        assert content[8 + length :] == np.array([1.0, -2.0], dtype="<f8").tobytes() + b"\x01"

    def test_reads_a_file_without_metadata(self, path):
        arrays, metadata = read_tensors(put(path, {"a": entry()}, b"\1\2\3\4"))
        assert_array_equal(arrays["a"], [1, 2, 3, 4])
        assert metadata == {}


class TestRefusedToWrite:
    @pytest.mark.parametrize(
        ("arrays", "metadata", "finding"),
        [
            ({"a": np.zeros(2, dtype=np.float16)}, {}, "float16"),
            ({"a": np.zeros(2, dtype=complex)}, {}, "complex128"),
            ({"a": np.array([object()])}, {}, "object"),
            ({"a": np.array(["x"])}, {}, "<U1"),
            ({"__metadata__": np.zeros(1)}, {}, "choose another"),
            ({1: np.zeros(1)}, {}, "array name 1 is of type int"),
            ({"\ud800": np.zeros(1)}, {}, "surrogate"),
            ({}, {"k": 1}, "metadata 'k' 1 is of type int"),
            ({}, {"k": "\udfff"}, "surrogate"),
            ({}, {"k": "x" * (17 * 2**20)}, "store what is long as an array"),
            ({"a": np.zeros((1,) * 33)}, {}, "33 dimensions"),
        ],
    )
    def test_raises_and_writes_nothing(self, path, arrays, metadata, finding):
        with pytest.raises(ValueError, match=finding):
            write_tensors(path, arrays, metadata)
        assert list(path.parent.iterdir()) == []


class TestHostileFiles:
    def test_truncated_at_every_byte(self, written):
        content = written.read_bytes()
        read_tensors(written)
        for length in range(len(content)):
            written.write_bytes(content[:length])
            complaint(written)

    def test_bytes_after_the_end(self, written):
        written.write_bytes(written.read_bytes() + b"\0")
        assert "1 bytes follow" in complaint(written)

    def test_mutations(self, written):
        content = written.read_bytes()
        rng = np.random.default_rng(0)
        refused = 0
        for _ in range(2000):
            mutated = bytearray(content)
            for position in rng.integers(len(content), size=rng.integers(1, 4)):
                mutated[position] = rng.integers(256)
            written.write_bytes(mutated)
            try:
                read_tensors(written)
            except ModelFileError:
                refused += 1
        assert refused > 1000  # most bytes of a small file are header, and most changes break it

    @pytest.mark.parametrize(
        ("header", "finding"),
        [
            ("", "does not start"),
            ("[]", "does not start"),
            (' {"a": 1}', "does not start"),
            (b'\xef\xbb\xbf{"a": 1}', "does not start"),
            ("{", "not JSON"),
            ("{}x", "not JSON"),
            (b'{"\xff": 1}', "not UTF-8"),
            ('{"a": ' + "[" * 100_000, "nested too deeply"),
            ('{"a": ' * 100_000, "nested too deeply"),
            ('{"a": ' + "9" * 5000 + "}", "not JSON"),
            ('{"a": NaN}', "NaN"),
            ('{"a": -Infinity}', "Infinity"),
            ('{"a": 1, "a": 1}', "same key twice"),
            (r'{"\ud800": 1}', "not Unicode"),
            (r'{"__metadata__": {"k": "\ud800"}}', "not text"),
            ({"__metadata__": []}, "__metadata__ is not an object"),
            ({"__metadata__": {"k": 1}}, "not text"),
            ({"a": 1}, "not described"),
            ({"a": {}}, "not described"),
            ({"a": {**entry(), "more": 1}}, "not described"),
            ({"a": entry(dtype="F16")}, "dtype 'F16'"),
            ({"a": entry(dtype=["U8"])}, "dtype ['U8']"),
            ({"a" * 10**6 + "\n": entry(dtype="x" * 10**6)}, "dtype"),
            ({"a": {**entry(), "shape": 4}}, "shape"),
            ({"a": entry(shape=[-4])}, "natural"),
            ({"a": entry(shape=[-2, -2])}, "natural"),
            ({"a": entry(shape=[4.0])}, "natural"),
            ({"a": entry(shape=["4"])}, "natural"),
            ({"a": entry(shape=[True, 4])}, "natural"),
            ({"a": entry(shape=[1] * 33)}, "dimensions"),
            ({"a": entry(shape=[5])}, "has 4 bytes"),
            ({"a": entry(shape=[2**62, 2**62])}, "no memory"),
            ({"a": entry(shape=[2**64 + 4])}, "no memory"),
            ({"a": entry(shape=[0, 2**62, 2**62], offsets=[0, 0])}, "no memory"),
            ({"a": {**entry(), "data_offsets": 4}}, "two natural"),
            ({"a": entry(offsets=[0])}, "two natural"),
            ({"a": entry(offsets=[0, 4, 4])}, "two natural"),
            ({"a": entry(offsets=[-4, 0])}, "two natural"),
            ({"a": entry(offsets=[0, 4.0])}, "two natural"),
            ({"a": entry(offsets=[4, 0])}, "before it begins"),
            ({"a": entry(offsets=[10**4000, 10**4000 + 4])}, "beyond any file"),
            ({"a": entry(offsets=[4, 8])}, "gap"),
            ({"a": entry(), "b": entry()}, "overlaps"),
            ({"a": entry(), "b": entry(shape=[2], offsets=[3, 5])}, "overlaps"),
            ({"a": entry(shape=[8], offsets=[0, 8])}, "truncated"),
            ({"a": entry(shape=[2**50], offsets=[0, 2**50])}, "truncated"),
            ({"a": entry(shape=[2], offsets=[0, 2])}, "2 bytes follow"),
            ({"a": entry(dtype="BOOL")}, "above 1"),
        ],
    )
    def test_header(self, path, header, finding):
        assert finding in complaint(put(path, header, b"\x00\x01\x02\x03"))

    @pytest.mark.parametrize("length", [2**64 - 1, 2**63, 2**24 + 1, 100])
    def test_header_length(self, path, length):
        path.write_bytes(length.to_bytes(8, "little") + b"{}")
        complaint(path)

    def test_little_memory_for_large_claims(self, path):
        put(path, {"a": entry(dtype="F64", shape=[2**40], offsets=[0, 2**43])}, b"\0" * 64)
        tracemalloc.start()
        try:
            complaint(path)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 2**20

    def test_header_limit_of_a_large_file(self, path):
        with path.open("wb") as file:
            file.write((2**30).to_bytes(8, "little"))
            file.truncate(2**31)  # sparse: takes no room on disk
        assert "above the limit" in complaint(path)

    def test_file_that_shrinks_while_it_is_read(self, written, monkeypatch):
        size = written.stat().st_size
        monkeypatch.setattr(tensors.os, "fstat", lambda _: os.stat_result((0,) * 6 + (size,) + (0,) * 3))
        written.write_bytes(written.read_bytes()[:-1])
        assert "truncated while it was read" in complaint(written)

    def test_absent(self, path):
        with pytest.raises(FileNotFoundError):
            read_tensors(path)


class TestAtomicWrite:
    @pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
    @pytest.mark.parametrize("old", [b"old", None])
    def test_failure_inside_changes_nothing(self, path, error, old):
        if old is not None:
            path.write_bytes(old)

        def fail():
            with atomic_write(path) as file:
                file.write(b"new" * 100_000)
                raise error

        with pytest.raises(error):
            fail()
        assert list(path.parent.iterdir()) == ([path] if old else [])
        assert old is None or path.read_bytes() == old

    @pytest.mark.parametrize("step", ["fsync", "replace"])
    def test_failing_system_changes_nothing(self, written, monkeypatch, step):
        before = written.read_bytes()

        def full(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, step, full)
        with pytest.raises(OSError, match="No space"):
            write_tensors(written, {"a": np.zeros(5)}, {})
        assert list(written.parent.iterdir()) == [written]
        assert written.read_bytes() == before

    def test_old_content_until_the_end(self, path):
        path.write_bytes(b"old")
        with atomic_write(path) as file:
            file.write(b"new")
            file.flush()
            assert path.read_bytes() == b"old"
        assert path.read_bytes() == b"new"
        assert list(path.parent.iterdir()) == [path]

    @pytest.mark.skipif(os.name != "posix", reason="permission bits are those of POSIX")
    def test_permissions(self, path):
        mask = os.umask(0o027)
        try:
            with atomic_write(path):
                pass
        finally:
            os.umask(mask)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        with atomic_write(path) as file:
            file.write(b"new")
        assert stat.S_IMODE(path.stat().st_mode) == 0o604

    @pytest.mark.skipif(os.name != "posix", reason="links need rights elsewhere")
    def test_link_stays_a_link(self, path):
        link = path.with_name("link")
        link.symlink_to(path)
        with atomic_write(link) as file:
            file.write(b"through")
        assert link.is_symlink()
        assert path.read_bytes() == b"through"

    def test_refuses_what_is_no_file(self, tmp_path):
        with pytest.raises(IsADirectoryError, match="name a file in it"), atomic_write(tmp_path):
            pass
        with (
            pytest.raises(FileNotFoundError, match="create it first"),
            atomic_write(tmp_path / "no" / "file"),
        ):
            pass
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.skipif(os.name != "posix", reason="named pipes are those of POSIX")
    def test_refuses_a_pipe(self, path):
        os.mkfifo(path)
        with pytest.raises(OSError, match="device or a pipe"), atomic_write(path):
            pass

    def test_directory_that_cannot_be_synced(self, path, monkeypatch):
        real = os.fsync

        def fsync(descriptor):
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise OSError(22, "Invalid argument")
            real(descriptor)

        monkeypatch.setattr(os, "fsync", fsync)
        with atomic_write(path) as file:
            file.write(b"new")
        assert path.read_bytes() == b"new"
