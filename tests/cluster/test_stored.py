"""Arrays in files: read by the owners, each its part, as NumPy reads them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_deaths import BEGIN, run
from test_planner import numbers

import npaccel
from npaccel import BackendUnavailable, Cluster, ConfigError, Map, MapError
from npaccel.cluster import zarrs
from npaccel.cluster.stored import stored

pytest.importorskip("distributed")
h5py = pytest.importorskip("h5py")
zarr = pytest.importorskip("zarr", "3.1")
pytestmark = [pytest.mark.pending, pytest.mark.usefixtures("deferred")]
SHAPE = (96, 60)


@pytest.fixture(autouse=True)
def no_kernels_here(setting: Any) -> None:
    setting("tiering", "off")


def npy(values: Any, folder: Path) -> Any:
    np.save(folder / "a.npy", values)
    return folder / "a.npy"


def stack(values: Any, folder: Path) -> Any:
    for k, part in enumerate(np.split(values, (10, 11, 11, 70))):
        np.save(folder / f"{k}.npy", part)
    return folder


def hdf5(values: Any, folder: Path) -> Any:
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("some/where", data=values, chunks=(7, 60), compression="gzip")
    return folder / "a.h5"


def new_zarr(values: Any, folder: Path) -> Any:
    made = zarr.create_array(folder / "a.zarr", shape=SHAPE, chunks=(7, 25), dtype=values.dtype)
    made[...] = values
    return folder / "a.zarr"


def old_zarr(values: Any, folder: Path) -> Any:
    made = zarr.create_array(
        folder / "a", shape=SHAPE, chunks=(7, 25), dtype=values.dtype, zarr_format=2
    )
    made[...] = values
    return zarr.open_array(folder / "a", mode="r")


WAYS = [npy, stack, hdf5, new_zarr, old_zarr]


@pytest.mark.parametrize("written", WAYS)
@pytest.mark.parametrize(
    "made",
    [
        lambda n: None,
        lambda n: Map.block(SHAPE, n, axis=1, memory=(8, 15)),
        lambda n: Map.row_block(SHAPE, n),
        lambda n: Map.block_cyclic(SHAPE, n, (16, 20)),
    ],
)
def test_owners_read_their_parts(cluster: Cluster, written: Any, made: Any, tmp_path: Path) -> None:
    values = numbers(1, SHAPE)
    source = written(values, tmp_path)
    before = npaccel.stats()["uploaded_bytes"]
    there = npaccel.load(source, device=cluster, map=made(cluster.nodes))
    twice = npaccel.evaluate(there * 2.0)
    assert npaccel.stats()["uploaded_bytes"] == before
    assert np.asarray(twice).tobytes() == (values * 2.0).tobytes()
    here = npaccel.load(source)
    assert type(here) is npaccel.Array and here.tobytes() == values.tobytes()


@pytest.mark.parametrize("written", [npy, stack, hdf5, new_zarr])
@pytest.mark.parametrize("dtype", ["f4", ">i4", "c16", "?"])
def test_of_other_types(two: Cluster, written: Any, dtype: str, tmp_path: Path) -> None:
    values = numbers(1, SHAPE).astype(dtype)
    source = written(values, tmp_path)
    for device in (None, two):
        found = npaccel.load(source, device=device)
        assert np.array_equal(np.asarray(found), values)
        assert found.dtype == stored(source, None, 0).dtype  # zarr's are native


def test_records_and_other_orders(two: Cluster, tmp_path: Path) -> None:
    fields = np.zeros(SHAPE, [("a", "f8"), ("b", "i4", (2,))])
    fields["a"] = numbers(1, SHAPE)
    values = np.asfortranarray(numbers(2, SHAPE))
    for one in (fields, values, np.float64(2.5), np.zeros((0, 3))):
        source = npy(one, tmp_path)
        for device in (None, two):
            found = npaccel.load(source, device=device)
            assert found.shape == one.shape and found.dtype == one.dtype
            assert np.asarray(found).tobytes() == one.tobytes()


def test_a_folder_along_another_axis(two: Cluster, tmp_path: Path) -> None:
    values = numbers(1, (6, 50, 5))
    for k, part in enumerate(np.split(values, (20, 33), axis=1)):
        np.save(tmp_path / f"{k}.npy", part)
    for device in (None, two):
        found = npaccel.load(tmp_path, axis=-2, device=device)
        assert np.asarray(found).tobytes() == values.tobytes()
    with pytest.raises(ConfigError, match="they are to differ along axis 0 only"):
        npaccel.load(tmp_path)


def test_only_chunks_of_its_segments_are_read(two: Cluster, tmp_path: Path) -> None:
    """The others of the files are damaged: a node that reads one of them fails."""
    source = new_zarr(numbers(1, SHAPE), tmp_path)
    (source / "c" / "13" / "0").write_bytes(b"no chunk")  # rows 91 to 95
    read = stored(source, None, 0).read
    assert read((slice(0, 91), slice(0, 60))).shape == (91, 60)
    with pytest.raises(Exception, match=r"(?i)zstd|decompress|frame|blosc"):
        read((slice(0, 92), slice(0, 60)))
    with pytest.raises(Exception, match=r"(?i)zstd|decompress|frame|blosc"):
        npaccel.load(source, device=two)


def test_what_can_not_be_read_is_said(two: Cluster, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("1 2 3")
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["x"], file["in/y"] = np.arange(3.0), np.arange(4.0)
        file["text"] = ["a", "bc"]
        with pytest.raises(ConfigError, match=r'open to be written, so .* open it with "r"'):
            npaccel.load(file["x"], device=two)
    for given, words in (
        ((tmp_path / "text",), "is neither .npy, nor HDF5, nor zarr"),
        ((tmp_path,), "neither 0.npy nor a zarr store"),
        ((tmp_path / "b.h5",), "has in/y, text, x; name one of them"),
        ((tmp_path / "b.h5", "z"), "'z' is none of them"),
        ((tmp_path / "b.h5", "text"), "Python objects or texts of any length"),
        ((zarr.zeros((3,), store=zarr.storage.MemoryStore()),), "is in this process's memory"),
    ):
        with pytest.raises(ConfigError, match=words):
            npaccel.load(*given, device=two)
    with pytest.raises(FileNotFoundError):
        npaccel.load(tmp_path / "none.npy", device=two)
    assert list(npaccel.load(tmp_path / "b.h5", "in/y")) == [0.0, 1.0, 2.0, 3.0]
    with h5py.File(tmp_path / "b.h5") as file:
        assert float(npaccel.load(file["x"], device=two).sum()) == 3.0


def test_what_is_not_installed_is_named(monkeypatch: Any, tmp_path: Path) -> None:
    source = hdf5(numbers(1, SHAPE), tmp_path), new_zarr(numbers(1, SHAPE), tmp_path)
    for name, one in zip(("h5py", "zarr"), source, strict=True):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(BackendUnavailable, match=rf"{name} can't be.*npaccel\[files\]"):
            npaccel.load(one)
    with pytest.raises(BackendUnavailable, match=r"zarr can't be.*npaccel\[files\]"):
        npaccel.checkpoint(np.ones(3), to=tmp_path / "kept.zarr")


# ------------------------------------------------------------------------------------ checkpoints


@pytest.mark.parametrize("most", [zarrs.MOST_BYTES, 2000])
@pytest.mark.parametrize(
    "made",
    [
        lambda n: Map.block(SHAPE, n, weights=range(1, n + 1)),
        lambda n: Map.row_block(SHAPE, n),
        lambda n: Map.block_cyclic(SHAPE, n, (16, 20)),
    ],
)
def test_other_programs_open_what_is_kept(
    cluster: Cluster, made: Any, most: int, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(zarrs, "MOST_BYTES", most)
    values = numbers(1, SHAPE)
    x = npaccel.asarray(values.copy(), device=cluster, map=made(cluster.nodes))
    y = npaccel.evaluate(x * 2.0)
    turned = npaccel.evaluate(npaccel.asarray(values.copy(order="F"), device=cluster) + 1.0)
    here = np.arange(7, dtype="i2")
    path = tmp_path / "kept.zarr"
    npaccel.evaluate()
    before = cluster.stats().get("read_bytes", 0)
    assert npaccel.checkpoint(x, y, turned, here, np.float32(3.5), to=path) >= 2
    assert cluster.stats().get("read_bytes", 0) == before
    expected = [values, values * 2.0, values + 1.0, here, np.float32(3.5)]
    y += 1.0
    for device in (None, cluster):
        found = npaccel.restore(path, device=device)
        for one, other in zip(found, expected, strict=True):
            assert one.dtype == other.dtype and one.shape == other.shape
            assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    assert found[2].flags.f_contiguous
    program = (
        "import sys, zarr, numpy; g = zarr.open_group(sys.argv[1], mode='r');"
        "print([float(numpy.sum(g[name])) for name in g.attrs['arrays']])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, path], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{[float(np.sum(one)) for one in expected]}\n"
    again = npaccel.load(path, zarr.open_group(path).attrs["arrays"][0], device=cluster)
    assert np.asarray(again).tobytes() == values.tobytes()


def test_what_is_kept_is_replaced_in_one_step(
    two: Cluster, tmp_path: Path, monkeypatch: Any
) -> None:
    path = tmp_path / "kept.zarr"
    x = npaccel.evaluate(npaccel.asarray(numbers(1, SHAPE), device=two) * 1.0)
    npaccel.checkpoint(x, to=path)
    x += 1.0
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(zarrs, "group_text", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        npaccel.checkpoint(x, to=path)
    (found,) = npaccel.restore(path)
    assert np.asarray(found).tobytes() == numbers(1, SHAPE).tobytes()
    npaccel.checkpoint(x, to=path)
    (found,) = npaccel.restore(path, device=two)
    assert np.asarray(found).tobytes() == (numbers(1, SHAPE) + 1.0).tobytes()
    assert len(list(path.iterdir())) == 2


def test_damage_of_chunks_is_found(two: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "kept.zarr"
    x = npaccel.evaluate(npaccel.asarray(numbers(1, SHAPE), device=two) * 1.0)
    npaccel.checkpoint(x, to=path)
    chunk = next(path.glob("data-*/array0/c/1/0"))
    content = chunk.read_bytes()
    for damage in (content[:9] + b"\xff" + content[10:], content[:-8], None):
        chunk.unlink()
        if damage is not None:
            chunk.write_bytes(damage)
        for device in (None, two):
            with pytest.raises(OSError, match="can't be read"):
                npaccel.restore(path, device=device)


def test_what_no_zarr_store_can_be(two: Cluster, tmp_path: Path) -> None:
    x = npaccel.evaluate(npaccel.asarray(numbers(1, SHAPE), device=two) * 1.0)
    path = tmp_path / "kept.zarr"
    for one, words in (
        (x[:10], "a part of"),
        (np.zeros(3, [("a", "f8")]), "has no dtype"),
        (np.array(["ab"]), "has no dtype"),
        (np.zeros(3, "g"), "has no dtype"),
    ):
        with pytest.raises(MapError, match=words):
            npaccel.checkpoint(one, to=path)
    zarr.create_group(tmp_path / "mine.zarr", attributes={"a": 1})
    with pytest.raises(OSError, match="is a zarr store that npaccel has not written"):
        npaccel.checkpoint(x, to=tmp_path / "mine.zarr")
    with pytest.raises(OSError, match=r"has no zarr\.json"):
        npaccel.restore(tmp_path / "none.zarr")


FROM_ZARR = """
    npaccel.config.check = "off"  # which has all arrays at home
    folder = os.environ["KEPT"]
    with npaccel.Cluster(2) as cluster:
        made = npaccel.Map.row_block(values.shape, 2, weights=(1, 2))
        x = npaccel.evaluate(npaccel.asarray(values.copy(), device=cluster, map=made) * 1.0)
        assert npaccel.checkpoint(x, to=folder) == 1
        x += 1.0
        y = npaccel.evaluate(x * 2.0)
        for one in processes(cluster._process.pid):  # all that had it in memory
            os.kill(one, signal.SIGKILL)
        assert np.asarray(y).tobytes() == ((values + 1.0) * 2.0).tobytes()
        assert np.asarray(x).tobytes() == (values + 1.0).tobytes()
        print(cluster.stats()["returns"] >= 1)
"""


@pytest.mark.slow
def test_it_comes_back_from_zarr_when_all_workers_die(tmp_path: Path) -> None:
    kept = f"os.environ['KEPT'] = {str(tmp_path / 'kept.zarr')!r}"
    begin = BEGIN.replace("if __name__", f"{kept}\nif __name__")
    assert run(tmp_path, begin + FROM_ZARR) == "True\n"
