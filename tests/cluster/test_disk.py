"""Checkpoints on disk: what is read is what was written, or an error says that it is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_deaths import BEGIN, run
from test_planner import numbers

import npaccel
from npaccel import Cluster, ConfigError, Map, MapError
from npaccel.cluster import carrying, disk

pytest.importorskip("distributed")
pytestmark = [pytest.mark.pending, pytest.mark.usefixtures("deferred")]
SHAPE = (96, 60)
FIELDS = [("a", "f8"), ("b", "i4", (2,))]


@pytest.fixture(autouse=True)
def no_kernels_here(setting: Any) -> None:
    setting("tiering", "off")


@pytest.mark.parametrize(
    "made",
    [
        lambda n: Map.block(SHAPE, n),
        lambda n: Map.row_block(SHAPE, n),
        lambda n: Map.block_cyclic(SHAPE, n, (16, 20)),
    ],
)
def test_what_was_kept_is_read(cluster: Cluster, made: Any, tmp_path: Path) -> None:
    """By workers and here; of arrays there and here, of any order."""
    values = numbers(1, SHAPE)
    x = npaccel.asarray(values.copy(), device=cluster, map=made(cluster.nodes))
    y = npaccel.evaluate(x * 2.0)
    turned = npaccel.evaluate(npaccel.asarray(values.copy(order="F"), device=cluster) + 1.0)
    here, fields = np.arange(7, dtype="i2"), np.zeros(3, FIELDS)
    fields["b"][1] = 5
    assert npaccel.checkpoint(x, y, turned, here, fields, np.float32(3.5), to=tmp_path / "a") >= 2
    expected = [values, values * 2.0, values + 1.0, here, fields, np.float32(3.5)]
    y += 1.0
    for device in (None, cluster):
        found = npaccel.restore(tmp_path / "a", device=device)
        for one, other in zip(found, expected, strict=True):
            assert one.dtype == other.dtype and one.shape == other.shape
            assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    assert found[2].flags.f_contiguous
    assert np.asarray(found[1] * 2.0).tobytes() == (values * 4.0).tobytes()


def test_workers_read_their_parts(two: Cluster, tmp_path: Path) -> None:
    x = npaccel.asarray(numbers(1, SHAPE), device=two, map=Map.block(SHAPE, 2, axis=1))
    npaccel.evaluate(x * 1.0)
    npaccel.checkpoint(x, to=tmp_path)
    before = npaccel.stats()
    (found,) = npaccel.restore(tmp_path, device=two)
    assert [one.owner for one in carrying.map_of(found).segments] == [0, 1]
    assert npaccel.stats()["uploaded_bytes"] == before["uploaded_bytes"]
    npaccel.checkpoint(found, to=tmp_path)  # another time, by what it read
    (again,) = npaccel.restore(tmp_path)
    assert np.asarray(again).tobytes() == numbers(1, SHAPE).tobytes()
    assert len(list(tmp_path.iterdir())) == 2


def test_one_that_did_not_end_is_none(two: Cluster, tmp_path: Path, monkeypatch: Any) -> None:
    """What was there before stays, and is read."""
    with pytest.raises(OSError, match=r"has no checkpoint\.json: no checkpoint was taken there"):
        npaccel.restore(tmp_path)
    x = npaccel.evaluate(npaccel.asarray(numbers(1, SHAPE), device=two) * 1.0)

    def dies(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(disk, "commit", dies)
        npaccel.checkpoint(x, to=tmp_path)
    with pytest.raises(OSError, match="or the first did not end"):
        npaccel.restore(tmp_path)
    npaccel.checkpoint(x, to=tmp_path)
    x += 1.0
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(disk, "commit", dies)
        npaccel.checkpoint(x, to=tmp_path)
    (found,) = npaccel.restore(tmp_path)
    assert np.asarray(found).tobytes() == numbers(1, SHAPE).tobytes()
    npaccel.checkpoint(x, to=tmp_path)
    assert len(list(tmp_path.iterdir())) == 2  # data of those that did not end is gone


def test_damage_is_found(two: Cluster, tmp_path: Path) -> None:
    x = npaccel.asarray(numbers(1, SHAPE), device=two, map=Map.block(SHAPE, 2))
    npaccel.evaluate(x * 1.0)
    npaccel.checkpoint(x, to=tmp_path)
    name = next(tmp_path.glob("data-*/*-1.npy"))
    content = name.read_bytes()
    text = (tmp_path / "checkpoint.json").read_text()
    for damage, words in (
        (content[:-8] + bytes(8), "its checksum differs"),
        (content[:-8], "can't be read"),
        (None, "can't be read"),
    ):
        name.unlink()
        if damage is not None:
            name.write_bytes(damage)
        for device in (None, two):
            with pytest.raises(OSError, match=words):
                npaccel.restore(tmp_path, device=device)
    for damaged in (text[:-9], text.replace("array0-1", "array0-0"), json.dumps([1])):
        (tmp_path / "checkpoint.json").write_text(damaged)
        with pytest.raises(OSError, match=r"is not what was written|checksum differs"):
            npaccel.restore(tmp_path)


def test_what_can_not_be_kept(two: Cluster, tmp_path: Path) -> None:
    x = npaccel.evaluate(npaccel.asarray(numbers(1, SHAPE), device=two) * 1.0)
    with pytest.raises(ConfigError, match="name the arrays"):
        npaccel.checkpoint(to=tmp_path)
    for one, words in ((x[:10], "a part of"), (x[:, ::2], "gaps"), (np.array([None]), "objects")):
        with pytest.raises(MapError, match=words):
            npaccel.checkpoint(one, to=tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        npaccel.checkpoint(x, to=tmp_path / "file" / "below")


FROM_DISK = """
    npaccel.config.check = "off"  # which has all arrays at home
    folder = os.environ["KEPT"]
    with npaccel.Cluster(1) as cluster:
        x = npaccel.evaluate(npaccel.asarray(values.copy(), device=cluster) * 1.0)
        assert npaccel.checkpoint(x, to=folder) == 1
        x += 1.0
        y = npaccel.evaluate(x * 2.0)
        for one in processes(cluster._process.pid):  # all that had it in memory
            os.kill(one, signal.SIGKILL)
        assert np.asarray(y).tobytes() == ((values + 1.0) * 2.0).tobytes()
        assert np.asarray(x).tobytes() == (values + 1.0).tobytes()
        print(cluster.stats()["returns"] >= 1)
    (again,) = npaccel.restore(folder)
    assert np.asarray(again).tobytes() == values.tobytes()
"""


@pytest.mark.slow
def test_it_comes_back_from_disk_when_all_workers_die(tmp_path: Path) -> None:
    kept = f"os.environ['KEPT'] = {str(tmp_path / 'kept')!r}"
    begin = BEGIN.replace("if __name__", f"{kept}\nif __name__")
    assert run(tmp_path, begin + FROM_DISK) == "True\n"
