"""Libraries that hand an array's memory to the kernel: HDF5, netCDF4, torch, Arrow and others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from handing import SIDE, filler, same, sender

import npaccel

HDF5: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunked": {"chunks": (100, 70)},
    "one_chunk": {"chunks": (SIDE, SIDE)},
    "compressed": {"compression": "gzip", "shuffle": True},
    "compressed_fast": {"compression": "lzf", "chunks": (64, SIDE), "fletcher32": True},
}


@sender("h5py")
def h5py_item(x: Any, want: Any, folder: Path) -> None:
    import h5py

    with h5py.File(folder / "item.h5", "w") as file:
        file["x"] = x
        file.create_dataset("y", data=np.asarray(x))
        same(file["x"][...], want)
    with h5py.File(folder / "item.h5") as file:
        same(file["y"][3:50, ::2], want[3:50, ::2])


@sender("h5py")
def h5py_assignment(x: Any, want: Any, folder: Path) -> None:
    import h5py

    with h5py.File(folder / "assigned.h5", "w") as file:
        for name, how in HDF5.items():
            d = file.create_dataset(name, x.shape, x.dtype, **how)
            y = x * 1.0
            d[...] = y
            y += 1.0
            d[100:200] = y[100:200]
            y += 1.0
            d.write_direct(np.asarray(y), np.s_[5:9], np.s_[5:9])
    with h5py.File(folder / "assigned.h5") as file:
        want = want.copy()
        want[100:200] += 1.0
        want[5:9] = want[5:9] + 1.0 + 1.0
        for name in HDF5:
            same(file[name][...], want)


@filler("h5py")
def h5py_read_direct(a: Any, new: Any, folder: Path) -> None:
    import h5py

    with h5py.File(folder / "read.h5", "w") as file:
        for name, how in HDF5.items():
            file.create_dataset(name, data=new, **how)
    with h5py.File(folder / "read.h5") as file:
        file["contiguous"].read_direct(a)
        for name in HDF5:
            b = a * 1.0  # pending, and read from while it is written into
            c = b + 1.0
            file[name].read_direct(np.asarray(b), np.s_[:50], np.s_[-50:])
            same(np.asarray(c), new + 1.0)
            same(b[-50:], new[:50])
            same(b[:-50], new[:-50])


@sender("tables")
def pytables(x: Any, want: Any, folder: Path) -> None:
    import tables

    how = tables.Filters(complevel=5, complib="blosc")
    with tables.open_file(folder / "tables.h5", "w") as file:
        file.create_array("/", "plain", np.asarray(x))
        file.create_carray("/", "compressed", obj=np.asarray(x * 1.0), filters=how)
        growing = file.create_earray("/", "growing", tables.Float64Atom(), (0, SIDE))
        growing.append(np.asarray(x * 1.0))
        growing.append(np.asarray(x + 1.0))
    with tables.open_file(folder / "tables.h5") as file:
        same(file.root.plain[:], want)
        same(file.root.compressed[:], want)
        same(file.root.growing[:], np.concatenate([want, want + 1.0]))


@sender("tables")
def data_frame_to_hdf(x: Any, want: Any, folder: Path) -> None:
    import pandas as pd

    with npaccel.accelerate():
        frame = pd.DataFrame(np.asarray(x).T, copy=False) + 1.0
        frame.to_hdf(folder / "all.h5", key="x")
    same(pd.read_hdf(folder / "all.h5").to_numpy(), want.T + 1.0)
    for form in ("fixed", "table"):
        path = folder / f"{form}.h5"
        columns = [f"c{i}" for i in range(40)]
        frame = pd.DataFrame(np.asarray(x * 1.0)[:, :40], columns=columns, copy=False)
        frame.to_hdf(path, key="x", format=form)
        same(pd.read_hdf(path, "x").to_numpy(), want[:, :40])


@sender("netCDF4")
def netcdf(x: Any, want: Any, folder: Path) -> None:
    import netCDF4

    for form in ("NETCDF4", "NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET"):
        how = [{}, {"zlib": True}] if form == "NETCDF4" else [{}]
        with netCDF4.Dataset(folder / f"{form}.nc", "w", format=form) as file:
            file.createDimension("i", SIDE), file.createDimension("j", SIDE)
            for k, options in enumerate(how):
                v = file.createVariable(f"x{k}", "f8", ("i", "j"), **options)
                v[:] = np.asarray(x * 1.0)
                v[5:9] = np.asarray(x + 1.0)[5:9]
        wanted = want.copy()
        wanted[5:9] += 1.0
        with netCDF4.Dataset(folder / f"{form}.nc") as file:
            for k in range(len(how)):
                same(file[f"x{k}"][:], wanted)


@sender("zarr")
def zarr_array(x: Any, want: Any, folder: Path) -> None:
    import zarr

    for name, how in {"plain": {"compressors": None}, "compressed": {}}.items():
        for k, chunks in enumerate([(SIDE, SIDE), (100, 70)]):
            place = folder / f"{name}{k}.zarr"
            array = zarr.create_array(
                place, shape=want.shape, chunks=chunks, dtype=want.dtype, overwrite=True, **how
            )
            array[:] = np.asarray(x * 1.0)
            array[5:9] = (x + 1.0)[5:9]
            wanted = want.copy()
            wanted[5:9] += 1.0
            same(zarr.open_array(place, mode="r")[:], wanted)


# --------------------------------------------------------------------------------------- others


@sender("torch")
def torch_storage(x: Any, want: Any, folder: Path) -> None:
    import torch

    with (folder / "storage").open("wb") as file:
        tensor = torch.from_numpy(np.asarray(x))
        tensor.untyped_storage()._write_file(file, True, True, 1)
    data = (folder / "storage").read_bytes()
    assert data[:8] == want.nbytes.to_bytes(8, "little") and data[8:] == want.tobytes()


@sender("torch")
def torch_save(x: Any, want: Any, folder: Path) -> None:
    import torch

    for old in (False, True):
        tensor = torch.from_numpy(np.asarray(x * 1.0))
        torch.save(tensor, folder / "saved.pt", _use_new_zipfile_serialization=not old)
        same(torch.load(folder / "saved.pt").numpy(), want)


@filler("torch")
def torch_read_into_a_storage(a: Any, new: Any, folder: Path) -> None:
    import torch

    path = folder / "stored"
    with path.open("wb") as file:
        torch.from_numpy(new.copy()).untyped_storage()._write_file(file, True, True, 1)
    with path.open("rb") as file:
        tensor = torch.from_numpy(a)
        tensor.untyped_storage()._set_from_file(file, 0, True, 1)


@sender("pyarrow")
def arrow_files(x: Any, want: Any, folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.parquet

    def column(k: float) -> Any:
        return pa.table({"x": pa.array(np.asarray(x + k).reshape(-1))})

    def check(table: Any, k: float) -> None:
        same(table["x"].to_numpy(), (want + k).reshape(-1))

    with pa.OSFile(str(folder / "raw"), "wb") as file:
        file.write(pa.py_buffer(np.asarray(x)))
    assert (folder / "raw").read_bytes() == want.tobytes()
    with pa.OSFile(str(folder / "ipc"), "wb") as sink:
        table = column(1.0)
        with pa.ipc.new_file(sink, table.schema) as out:
            out.write_table(table)
    with pa.OSFile(str(folder / "ipc")) as file:
        check(pa.ipc.open_file(file).read_all(), 1.0)
    pyarrow.feather.write_feather(column(2.0), folder / "feather", compression="uncompressed")
    check(pyarrow.feather.read_table(folder / "feather"), 2.0)
    how = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    pyarrow.parquet.write_table(column(3.0), folder / "parquet", **how)
    check(pyarrow.parquet.read_table(folder / "parquet"), 3.0)


@filler("pyarrow")
def arrow_read_into(a: Any, new: Any, folder: Path) -> None:
    import pyarrow as pa

    (folder / "arrow").write_bytes(new.tobytes())
    with pa.OSFile(str(folder / "arrow"), "rb") as file:
        assert file.readinto(a) == new.nbytes


@sender("PIL")
def pillow(x: Any, want: Any, folder: Path) -> None:
    from PIL import Image

    for form in ("tiff", "png", "bmp"):
        values = np.asarray((x * 10.0 + 128.0).astype(np.uint8).repeat(2, 0))
        Image.fromarray(values).save(folder / f"image.{form}")
        with Image.open(folder / f"image.{form}") as image:
            same(np.asarray(image), (want * 10.0 + 128.0).astype(np.uint8).repeat(2, 0))
