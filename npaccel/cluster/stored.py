"""Arrays in files, of which each node reads its part: .npy, a folder of these, HDF5, zarr.

The only file that names h5py and zarr. What is in a file is never unpickled.
"""

from __future__ import annotations

import bisect
import itertools
import math
import os
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from npaccel.cluster.parts import Block
from npaccel.errors import BackendUnavailable, ConfigError

__all__ = ["Stored", "part", "stored", "zarrs"]

Array = np.ndarray[Any, Any]
HDF5 = b"\x89HDF\r\n\x1a\n"
NPY = b"\x93NUMPY"
ZARR = ("zarr.json", ".zarray", ".zgroup")


class Stored(Protocol):
    """An array somewhere; where it is can be sent."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> Any: ...
    def read(self, where: tuple[slice, ...]) -> Array: ...


def part(of: Stored, block: Block) -> Array:
    """A block of it; of a map that splits rows, a piece of them one after another."""
    if len(block.offset) == len(of.shape):
        return of.read(block.slices[:-1])
    ((first,), (count,)) = block.offset, block.extent
    row = math.prod(of.shape[1:])
    begin, stop = first // row, -(-(first + count) // row)
    found: Array = of.read((slice(begin, stop),)).reshape(-1)
    return found[first - begin * row :][:count]


class Npy:
    """A file as `numpy.save` writes it."""

    def __init__(self, path: str) -> None:
        self.path = path
        content = self._content()
        self.shape, self.dtype = content.shape, content.dtype

    def _content(self) -> Array:
        found: Array = np.load(self.path, mmap_mode="r", allow_pickle=False)
        return found

    def read(self, where: tuple[slice, ...]) -> Array:
        return np.array(self._content()[where])


class Stack:
    """A folder of 0.npy, 1.npy and so on, one behind another along an axis."""

    def __init__(self, path: str, axis: int) -> None:
        paths = (os.path.join(path, f"{k}.npy") for k in itertools.count())
        self.parts = [Npy(one) for one in itertools.takewhile(os.path.exists, paths)]
        first = self.parts[0]
        ndim = len(first.shape)
        if not -ndim <= axis < ndim:
            raise ConfigError(f"npaccel.load: axis {axis} of files with {ndim} axes")
        self.axis, self.dtype = axis % ndim, first.dtype
        for one in self.parts:
            if self._beside(one) != self._beside(first) or one.dtype != first.dtype:
                raise ConfigError(
                    f"npaccel.load: {one.path} has shape {one.shape} and dtype {one.dtype}, "
                    f"{first.path} {first.shape} and {first.dtype}; they are to differ along axis "
                    f"{self.axis} only"
                )
        lengths = (one.shape[self.axis] for one in self.parts)
        self.starts = [0, *itertools.accumulate(lengths)]
        shape = list(first.shape)
        shape[self.axis] = self.starts[-1]
        self.shape = tuple(shape)

    def _beside(self, one: Npy) -> tuple[int, ...]:
        return (*one.shape[: self.axis], *one.shape[self.axis + 1 :])

    def read(self, where: tuple[slice, ...]) -> Array:
        where = (*where, *(slice(0, n) for n in self.shape[len(where) :]))
        along = where[self.axis]
        first = bisect.bisect_right(self.starts, along.start) - 1
        stop = bisect.bisect_left(self.starts, along.stop)
        found = []
        for one, start in zip(self.parts[first:stop], self.starts[first:stop], strict=True):
            mine = slice(max(0, along.start - start), along.stop - start)
            found.append(one.read((*where[: self.axis], mine, *where[self.axis + 1 :])))
        return np.concatenate(found, self.axis)


class Hdf5:
    """A data set in an HDF5 file."""

    def __init__(self, path: str, name: str) -> None:
        self.path, self.name = path, name
        with _hdf5(path) as file:
            self.shape, self.dtype = file[name].shape, file[name].dtype

    def read(self, where: tuple[slice, ...]) -> Array:
        with _hdf5(self.path) as file:
            found: Array = file[self.name][where]
        return found


class Zarr:
    """An array of zarr's, which knows where it is."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.shape = array.shape
        self.dtype = np.dtype(array.dtype)

    def read(self, where: tuple[slice, ...]) -> Array:
        return np.asarray(self.array[where])


def zarrs() -> Any:
    """The library."""
    try:
        import zarr
    except ImportError as error:
        raise _missing("zarr", error) from None
    return zarr


def _hdf5(path: str) -> Any:
    try:
        import h5py
    except ImportError as error:
        raise _missing("h5py", error) from None
    return h5py.File(path, "r")


def _missing(name: str, error: ImportError) -> BackendUnavailable:
    return BackendUnavailable(
        f"npaccel: {name} can't be imported ({error}); install it, where the program and where its "
        "workers are, with `pip install npaccel[files]`"
    )


def stored(source: Any, name: str | None, axis: int) -> Stored:
    """What is named so.

    Raises
    ------
    ConfigError : it is no array that can be read in parts.
    """
    kind = type(source).__module__.partition(".")[0]
    if kind == "h5py":
        found: Stored = _of_h5py(source)
    elif kind == "zarr":
        found = _of_zarr(source, name)
    else:
        found = _at(os.fspath(source), name, axis)
    if found.dtype.hasobject or found.dtype.kind == "T":
        raise ConfigError(
            f"npaccel.load: {source} has dtype {found.dtype}, whose elements are Python objects or "
            "texts of any length; read it with its own library"
        )
    return found


def _at(path: str, name: str | None, axis: int) -> Stored:
    if "://" in path or any((Path(path) / one).exists() for one in ZARR):
        return _of_zarr(zarrs().open(path, mode="r"), name)
    path = os.path.abspath(path)
    if os.path.exists(os.path.join(path, "0.npy")):
        return Stack(path, axis)
    if os.path.isdir(path):
        raise ConfigError(
            f"npaccel.load: the folder {path} has neither 0.npy nor a zarr store in it; what "
            "npaccel.checkpoint has written, npaccel.restore reads"
        )
    with open(path, "rb") as file:
        begin = file.read(max(len(HDF5), len(NPY)))
    if begin.startswith(NPY):
        return Npy(path)
    if begin != HDF5:
        raise ConfigError(f"npaccel.load: {path} is neither .npy, nor HDF5, nor zarr")
    with _hdf5(path) as file:
        names: list[str] = []
        file.visititems(lambda at, one: names.append(at) if hasattr(one, "dtype") else None)
    return Hdf5(path, _chosen(name, names, path))


def _chosen(name: str | None, names: list[str], where: Any) -> str:
    if name is None and len(names) == 1:
        return names[0]
    if name is None or name.strip("/") not in names:
        raise ConfigError(
            f"npaccel.load: {where} has {', '.join(names) or 'no array'}; "
            + (f"{name!r} is none of them" if name is not None else "name one of them")
        )
    return name.strip("/")


def _of_h5py(source: Any) -> Hdf5:
    if not hasattr(source, "dtype"):
        raise ConfigError(f"npaccel.load: {source} is no data set; give one, or its file's path")
    if source.file.mode != "r":
        raise ConfigError(
            f"npaccel.load: {source.file.filename} is open to be written, so others can't read it; "
            'close it, and open it with "r"'
        )
    return Hdf5(os.path.abspath(source.file.filename), source.name)


def _of_zarr(source: Any, name: str | None) -> Zarr:
    if not hasattr(source, "dtype"):
        names = [at for at, one in source.members(max_depth=None) if hasattr(one, "dtype")]
        source = source[_chosen(name, names, source)]
    if type(source.store).__name__ == "MemoryStore":
        raise ConfigError(
            "npaccel.load: the array is in this process's memory, which others can't read; place "
            "what it holds, as npaccel.asarray(x[...], device=cluster)"
        )
    return Zarr(source)
