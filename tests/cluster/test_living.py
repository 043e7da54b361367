"""Arrays that live on a cluster, used like NumPy's: the bits of one process, and what moves."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_planner import _step, heat, numbers

import npaccel
from npaccel import BackendUnavailable, Cluster, ConfigError, Map, MapError

pytest.importorskip("distributed")
pytestmark = [pytest.mark.pending, pytest.mark.usefixtures("deferred")]
SHAPE = (96, 60)
COMMAND = Path(sys.executable).with_name("npaccel")
Make = Callable[..., Any]
# Of programs whose arrays are to live there: a backend that is named wins.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "NPACCEL_BACKEND"}


@pytest.fixture(autouse=True)
def no_kernels_here(setting: Any) -> None:
    """Workers compile; what they are compared with is NumPy's loops, which have the same bits."""
    setting("tiering", "off")


def here(values: Any, made: Map | None = None) -> Any:
    """In npaccel's memory of this process."""
    own = npaccel.evaluate(npaccel.asarray(values) * values.dtype.type(1))
    own[...] = values
    return own


def raw(array: Any) -> bytes:
    """Its bytes, read through its address by code that knows nothing of npaccel."""
    plain = np.ndarray.__array_interface__.__get__(array)
    size = array.nbytes
    return ctypes.string_at(plain["data"][0], size)


def counts() -> Any:
    return npaccel.stats()


def side_by_side(work: Callable[[int], None], n: int = 3) -> None:
    """In so many threads, each with its number; none of them hangs."""
    threads = [threading.Thread(target=work, args=(number,)) for number in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def both(cluster: Cluster, program: Callable[[Make], Any]) -> Any:
    """Run it on the cluster and here, and compare what it returns; what it counted there."""

    def there(values: Any, made: Map | None = None) -> Any:
        return npaccel.asarray(values.copy(), device=cluster, map=made)

    npaccel.evaluate()
    before = counts()
    results = program(there)
    results = results if isinstance(results, tuple) else (results,)
    npaccel.evaluate()
    after = counts()
    expected = program(here)
    expected = expected if isinstance(expected, tuple) else (expected,)
    assert len(results) == len(expected)
    for one, other in zip(results, expected, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    ran = {name: after[name] - before[name] for name in after if name.startswith("cluster_")}
    assert ran["cluster_runs"] > 0 and ran["cluster_refused"] == 0
    return ran


# ----------------------------------------------------------------------------------------- programs


def elements(make: Make) -> Any:
    x, y = make(numbers(1)), make(numbers(2))
    return np.sin(x) * y + np.exp(-(x**2)) / (1 + y * y), np.where(x > y, x, 0.5)


def in_place(make: Make) -> Any:
    x, y = make(numbers(1)), make(numbers(2))
    for k in range(3):
        x += y * (k + 0.5)
        y[::2, 1::3] *= 0.25
        x[3:-3] -= y[:-6]
    return x, y


def stencils(make: Make) -> Any:
    x, y = make(numbers(1)), make(numbers(2))
    for _ in range(3):
        heat(x, y)
        heat(y, x)
    return x, y


def reductions(make: Make) -> Any:
    x, i = make(numbers(1)), make(numbers(3, dtype="i4"))
    return x.sum(axis=0), x.sum(axis=1), x.max(axis=0), i.sum(axis=1), np.add.reduce(x, axis=None)


def masks(make: Make) -> Any:
    x, y = make(numbers(1)), make(numbers(2))
    np.add(x, y, out=x, where=y > 0)
    x[y < -1] = 0.0
    return x, np.multiply(x, 2.0, where=x > 0, out=y)


def moves(make: Make) -> Any:
    x, y = make(numbers(1)), make(numbers(2))
    index = np.random.default_rng(3).integers(0, SHAPE[0], SHAPE[0])
    return x.T + 1.0, x[::-1, ::2] * 2.0, x[index] + y, np.roll(x, 5, axis=0), np.cumsum(x, axis=1)


def looks(make: Make) -> Any:
    x = make(numbers(1))
    y = x * 2.0
    found = [y[5, 5], y.item(7), y[3].tolist()[2], memoryview(y[:4])[2, 1], y.tolist()[9][9]]
    z = y + found[0]
    z[7] = found
    return z, np.array(found)


PROGRAMS = [elements, in_place, stencils, reductions, masks, moves]


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs(cluster: Cluster, program: Any) -> None:
    both(cluster, program)


def test_elements_are_read_and_written(two: Cluster) -> None:
    def program(make: Make) -> Any:
        x = make(numbers(1))
        y = x * 2.0
        found = [y[5, 5], y.item(7), y[3].tolist()[2], memoryview(y[:4])[2, 1], y.tolist()[9][9]]
        z = y + found[0]
        z[7, :5] = found
        return z, z * 1.5, np.array(found)

    both(two, program)


@pytest.mark.parametrize(
    "made",
    [
        lambda n: Map.block(SHAPE, n, axis=1),
        lambda n: Map.row_block(SHAPE, n),
        lambda n: Map.block_cyclic(SHAPE, n, (16, 20)),
    ],
)
def test_arrays_are_where_their_map_says(cluster: Cluster, made: Any) -> None:
    mine = made(cluster.nodes)

    def program(make: Make) -> Any:
        x, y = make(numbers(1), mine), make(numbers(2))
        heat(x, y)
        return x + y.T.reshape(SHAPE), y

    both(cluster, program)
    x = npaccel.asarray(numbers(1), device=cluster, map=mine)
    assert list(x.segments) == list(mine.segments)


def test_speeds_are_weights_of_a_map(two: Cluster) -> None:
    found = two.speeds()
    assert len(found) == 2 and max(found) == 1.0 and all(8 * one % 1 == 0 < one for one in found)
    made = Map.block(SHAPE, 2, weights=(1.0, 0.25))

    def program(make: Make) -> Any:
        x, y = make(numbers(1), made), make(numbers(2), made)
        heat(x, y)
        return y, x.sum(axis=0)

    both(two, program)
    assert made.loads()[0] > 3 * made.loads()[1]


@pytest.mark.slow
def test_who_is_stopped_most_of_the_time_is_slow(two: Cluster) -> None:
    made = Map.block((2,), 2)
    pids = npaccel.from_blocks(lambda block: np.array([os.getpid()]), (2,), device=two, map=made)
    ended = threading.Event()

    def hinder(pid: int) -> None:
        while not ended.wait(0.02):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.18)
            os.kill(pid, signal.SIGCONT)

    hinders = threading.Thread(target=hinder, args=(int(pids[1]),))
    hinders.start()
    try:
        found = two.speeds()
    finally:
        ended.set()
        hinders.join()
    assert found[0] == 1.0 and found[1] <= 0.5


def test_columns_lie_as_they_do_in_fortran(two: Cluster) -> None:
    def program(make: Make) -> Any:
        x = make(np.asfortranarray(numbers(1)))
        y = make(numbers(2))
        y[1:, 3:] = x[:-1, :-3] * 2
        y[4, 5] += x[4, 5]
        return y, x + 1

    both(two, program)


@pytest.mark.parametrize("seed", range(8))
def test_random_programs(cluster: Cluster, seed: int) -> None:
    def program(make: Make) -> Any:
        rng = np.random.default_rng(seed)
        maps = [Map.block(SHAPE, cluster.nodes), Map.row_block(SHAPE, cluster.nodes), None]
        arrays = [make(numbers(seed + k), maps[rng.integers(3)]) for k in range(3)]
        for k in range(12):
            _step(rng, arrays)
            if k % 5 == 4:
                x = arrays[rng.integers(len(arrays))]
                arrays.append(x + float(np.asarray(x)[k, k]))  # read at home
                np.asarray(x)[k] = 0.5  # and written there
                assert len(raw(x)) == x.nbytes
        return tuple(arrays)

    with np.errstate(all="ignore"):
        both(cluster, program)


# ------------------------------------------------------------------------------------ what moves


def test_what_is_there_is_not_sent_again(two: Cluster) -> None:
    values = numbers(1, (400, 300))
    x = npaccel.asarray(values, device=two)
    y = npaccel.zeros(values.shape, device=two)
    before = counts()
    for k in range(6):
        y += x * (k + 1.0)
        npaccel.evaluate(y)
    raw(y)
    after = counts()
    assert after["uploaded_bytes"] - before["uploaded_bytes"] == values.nbytes
    assert after["downloaded_bytes"] - before["downloaded_bytes"] == values.nbytes
    assert after["cluster_runs"] - before["cluster_runs"] == 6


def test_a_loop_is_planned_once(two: Cluster) -> None:
    x = npaccel.asarray(numbers(1, (400, 300)), device=two)
    y = npaccel.asarray(numbers(2, (400, 300)), device=two)
    planned = []
    for k in range(8):
        heat(x, y)
        y *= 1.0 + 0.3 / (k + 3)  # values of scalars are no part of a plan
        heat(y, x)
        npaccel.evaluate(x, y)
        planned.append(two.stats()["plans"])
    assert planned[-1] == planned[2]


def test_kernels_are_compiled_once(two: Cluster) -> None:
    x = npaccel.asarray(numbers(1, (400, 300)), device=two)
    before = two.stats()
    npaccel.evaluate(np.arctan(x) * 3.0 + np.tanh(x))
    after = two.stats()
    assert after["compiled"] - before["compiled"] == 1
    assert after["shipped"] - before["shipped"] == 1


def test_scans_go_from_node_to_node(two: Cluster) -> None:
    values = numbers(1, (400, 300))
    x = npaccel.asarray(values.copy(), device=two)
    before = two.stats()
    found = npaccel.evaluate(np.cumsum(x, axis=0), np.cumprod(x, axis=None))
    after = two.stats()
    assert after["messages"] - before["messages"] == 2
    assert after["moved_bytes"] - before["moved_bytes"] == 8 * (300 + 1)
    y = here(values)
    expected = npaccel.evaluate(np.cumsum(y, axis=0), np.cumprod(y, axis=None))
    assert [raw(one) for one in found] == [raw(one) for one in expected]


def test_a_part_is_read_while_the_array_stays(two: Cluster) -> None:
    x = npaccel.asarray(numbers(1, (400, 300)), device=two) * 2.0
    npaccel.evaluate(x)
    before = counts()
    assert x[5, 5] == numbers(1, (400, 300))[5, 5] * 2
    moved = counts()["downloaded_bytes"] - before["downloaded_bytes"]
    assert moved == 8


# --------------------------------------------------------------------------------- raw, threads


def test_a_raw_touch_evaluates_and_fetches(two: Cluster) -> None:
    values = numbers(1, (300, 200))
    x = npaccel.asarray(values, device=two)
    y = x * 2.0 + 1.0  # pending
    assert raw(y) == (values * 2.0 + 1.0).tobytes()


def test_a_raw_write_takes_it_home(two: Cluster) -> None:
    values = numbers(1, (300, 200))
    x = npaccel.asarray(values, device=two)
    y = npaccel.evaluate(x * 2.0)
    address = np.ndarray.__array_interface__.__get__(y)["data"][0]
    ctypes.memset(address, 0, 8 * 200)
    expected = values * 2.0
    expected[0] = 0
    assert raw(npaccel.evaluate(y + 1.0)) == (expected + 1.0).tobytes()


def test_threads_touch_raw_while_others_compute(two: Cluster) -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        values = numbers(number, (300, 200))
        for k in range(5):
            x = npaccel.asarray(values.copy(), device=two)
            y = x * (k + 2.0)
            if raw(y) != (values * (k + 2.0)).tobytes():
                wrong.append(number)

    side_by_side(work)
    assert not wrong


@pytest.mark.filterwarnings("ignore:This process")
def test_a_forked_child_computes_here(two: Cluster) -> None:
    values = numbers(1, (300, 200))
    x = npaccel.asarray(values, device=two)
    y = npaccel.evaluate(x * 2.0)
    pid = os.fork()
    if pid == 0:
        good = raw(y + 1.0) == (values * 2.0 + 1.0).tobytes()
        os._exit(0 if good else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert raw(npaccel.evaluate(y + 1.0)) == (values * 2.0 + 1.0).tobytes()


# -------------------------------------------------------------------------------- blocks, scripts


def test_what_a_block_makes_lives_there(two: Cluster, setting: Any) -> None:
    def program() -> Any:
        x = np.linspace(0.0, 1.0, 60_000).reshape(300, 200)
        y = np.zeros((300, 200))
        for _ in range(4):
            y[1:-1] += 0.5 * (x[2:] - x[:-2])
            x = np.sqrt(x * x + y * y)
        return np.add(x, y), y.max(axis=0)

    before = counts()
    with npaccel.accelerate(device=two):
        found = [np.asarray(one).tobytes() for one in program()]
    assert counts()["cluster_runs"] > before["cluster_runs"]
    with npaccel.accelerate:
        assert found == [np.asarray(one).tobytes() for one in program()]


SCRIPT = """
import numpy as np
n = 300
u = np.zeros((n, n))
u[100:200, 100:200] = 1.0
w = np.arange(n * n, dtype=float).reshape(n, n)
for k in range(6):
    u[1:-1, 1:-1] += 0.1 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
                            - 4 * u[1:-1, 1:-1])
    w[::2, ::3] *= 0.5
    w += u
w[w > 1000] = -1
print(u.max(), w.min(), u[150, 150], np.asarray(w)[5, 5], w.tolist()[7][:3], w.T[3, :2])
"""


def test_a_script_runs_unchanged(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    options = {"capture_output": True, "text": True, "cwd": tmp_path, "timeout": 100}
    plain = subprocess.run([sys.executable, script], check=True, **options)
    there = subprocess.run(
        [COMMAND, "run", "--cluster", "2", "--report=json", script], check=True, **options
    )
    assert there.stdout == plain.stdout != ""


# --------------------------------------------------------------------------------------- moved


def test_a_block_is_moved_to_the_owner_of_another(two: Cluster) -> None:
    rows, columns = Map.block(SHAPE, 2), Map.block(SHAPE, 2, axis=1)
    a = npaccel.asarray(numbers(1), device=two, map=rows)
    b = npaccel.asarray(numbers(2), device=two, map=columns)
    npaccel.evaluate(a * 1.0, b * 1.0)
    before = two.stats()
    moved = npaccel.move(a, b)
    assert list(moved.segments) == list(a.segments)
    result = npaccel.evaluate(moved + a)
    after = two.stats()
    assert after["moves"] - before["moves"] == 1
    assert after["messages"] - before["messages"] == 2
    assert after["moved_bytes"] - before["moved_bytes"] == a.nbytes // 2
    assert raw(result) == (numbers(1) + numbers(2)).tobytes()
    line = npaccel.move(a[:9], b[5])  # of another shape, to one node
    assert line.segments[0].owner == 0 and raw(line) == numbers(2)[5].tobytes()
    with pytest.raises(MapError, match="which several nodes have"):
        npaccel.move(a, b[5])
    with pytest.raises(MapError, match="has no map"):
        npaccel.move(numbers(1), b)
    on_one_machine = npaccel.agile(numbers(1), rows)
    assert npaccel.move(on_one_machine, numbers(2)).segments[1].owner == 1


def test_an_element_of_a_plain_view_is_read_alone_in_a_block(two: Cluster) -> None:
    x = npaccel.asarray(numbers(1, (400, 300)), device=two) * 2.0
    npaccel.evaluate(x)
    with npaccel.accelerate:
        before = counts()
        assert np.asarray(x)[5, 5] == numbers(1, (400, 300))[5, 5] * 2
        assert counts()["downloaded_bytes"] - before["downloaded_bytes"] == 8


# ---------------------------------------------------------------------------------- what is told


def test_explain_tells_the_plan_of_a_run_there(two: Cluster) -> None:
    x = npaccel.asarray(numbers(1), device=two, map=Map.block(SHAPE, 2))
    y = x * 2.0
    pending = npaccel.explain(y)
    assert "1 operation pending, to run on cluster(2)." in str(pending) and pending.pending
    y[1:] += x[:-1]
    npaccel.evaluate(y)
    found = npaccel.explain()
    text = str(found)
    assert "2 operations on cluster(2)." in text
    assert "2 operations on 2 nodes: 1 stage, 1 message, 480 bytes" in text
    assert Path(__file__).name in text and "By NumPy's loop" not in text
    (step,) = found.steps
    assert step.backend == "cluster(2)" and [one.name for one in step.operations] == [
        "multiply",
        "add",
    ]


def test_a_profile_gives_what_workers_take_to_the_lines_of_its_operations(
    two: Cluster, tmp_path: Path
) -> None:
    x = npaccel.asarray(numbers(1, (600, 500)), device=two)
    with npaccel.profile(tmp_path / "p") as taken:
        for _ in range(4):
            y = np.abs(x * 0.5)
            y = np.sin(y) + 1
            npaccel.evaluate(y)
    lines = {line.line: line for line in taken.profile.lines if line.file == __file__}
    first = min(number for number, line in lines.items() if line.operations)
    own, other = lines[first], lines[first + 1]
    assert (own.operations, other.operations) == (2 * 4 * 300_000, 2 * 4 * 300_000)
    assert other.seconds["kernels"] > own.seconds["kernels"] > 0  # a sine costs more
    assert sum(line.total_s for line in lines.values()) <= 1.03 * taken.profile.wall_s
    (run,) = [run for run in taken.profile.flushes if run.runs == 4]
    assert [node.name for node in run.nodes] == ["multiply", "absolute", "sin", "add"]
    assert {(group.what, group.backend) for group in run.groups} == {("kernels", "cluster")}


def test_devices_lists_open_clusters(two: Cluster) -> None:
    def rows() -> list[Any]:
        return [one for one in npaccel.devices().devices if one.backend == "cluster"]

    before = rows()
    assert ("cluster(2)", "ready", 2) in [(row.name, row.state, row.threads) for row in before]
    assert "cluster(2)" in str(npaccel.devices())
    with Cluster(1):
        assert len(rows()) == len(before) + 1
    assert rows() == before


# -------------------------------------------------------------------------------------- warnings


def test_warnings_have_the_users_line(two: Cluster) -> None:
    x = npaccel.asarray(np.linspace(-1.0, 1.0, 6000), device=two)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        y = np.sqrt(x)
        z = 1.0 / (x - x)
        npaccel.evaluate(y, z)
    told = [(one.filename, one.lineno, str(one.message)) for one in caught]
    first = test_warnings_have_the_users_line.__code__.co_firstlineno
    assert told == [
        (__file__, first + 4, "invalid value encountered in sqrt"),
        (__file__, first + 5, "divide by zero encountered in divide"),
    ]


def test_overflow_of_a_sum_is_told_once(two: Cluster) -> None:
    x = npaccel.asarray(np.full(70_000, 1e308), device=two)
    with pytest.warns(RuntimeWarning, match="overflow encountered in reduce"):
        assert x.sum() == np.inf


# -------------------------------------------------------------------------------- what is refused


def test_what_is_refused(two: Cluster) -> None:
    with pytest.raises(MapError, match="a map of 3 nodes, where the cluster has 2"):
        npaccel.asarray(numbers(1), device=two, map=Map.block(SHAPE, 3))
    with pytest.raises(MapError, match="a map of shape"):
        npaccel.asarray(numbers(1), device=two, map=Map.block((5, 5), 2))
    with pytest.raises(ConfigError, match="holds Python objects"):
        npaccel.asarray(np.array([None, 1]), device=two)
    with pytest.raises(ConfigError, match="a map is for an array on a cluster"):
        npaccel.asarray(numbers(1), map=Map.block(SHAPE, 2))
    with pytest.raises(BackendUnavailable, match="no scheduler answered"):
        Cluster("tcp://127.0.0.1:9")
    for number in (0, -2, "0", np.int64(0)):
        with pytest.raises(ConfigError, match="at least one worker"):
            Cluster(number)  # type: ignore[arg-type]
    for what in (2.5, None, True, b"tcp://127.0.0.1:9"):
        with pytest.raises(ConfigError, match="neither a number of workers nor the address"):
            Cluster(what)  # type: ignore[arg-type]


def test_a_closed_cluster_leaves_its_arrays(setting: Any) -> None:
    values = numbers(1, (300, 200))
    with Cluster(1) as cluster:
        x = npaccel.asarray(values, device=cluster)
        y = npaccel.evaluate(x * 2.0)
        z = y + 1.0
    assert raw(y) == (values * 2.0).tobytes() and raw(z) == (values * 2.0 + 1.0).tobytes()
    assert raw(npaccel.evaluate(y * 2.0)) == (values * 4.0).tobytes()
    for use in (
        lambda: npaccel.asarray(values, device=cluster),
        lambda: npaccel.zeros((3, 3), device=cluster),
        lambda: npaccel.accelerate(device=cluster),
        cluster.stats,
        cluster.speeds,
    ):
        with pytest.raises(BackendUnavailable, match=r"Cluster\(1\) was closed, .*open another"):
            use()
