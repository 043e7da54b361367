"""`npaccel.explain()` tells of all runs since counts were reset."""

from __future__ import annotations

import gc
import sys
import threading

import numpy as np
import pytest
from lines import here

import npaccel
from npaccel import _native
from npaccel.observe.ran import Ran

pytestmark = pytest.mark.usefixtures("deferred")
N = 5000
MORE = 20  # than the runs that are remembered one by one


def runs() -> tuple[Ran, ...]:
    return npaccel.explain().runs


def names(ran: Ran) -> list[str]:
    return [one.name for one in ran.operations]


def test_each_program_has_its_runs_lines_and_times() -> None:
    a = npaccel.asarray(np.ones(N))
    npaccel.stats(reset=True)
    line = here() + 2
    for _ in range(MORE):
        npaccel.evaluate(np.sqrt(a * 2))
    for _ in range(3):
        (a - 1).sum()
    told = npaccel.explain()
    found = {tuple(names(ran)): ran for ran in told.runs}
    first, second = found["multiply", "sqrt"], found["subtract", "add.reduce"]
    assert (first.runs, second.runs) == (MORE, 3)
    assert {(o.file, o.line) for o in first.operations} == {(__file__, line)}
    assert [o.line for o in second.operations] == [line + 2, line + 2]
    for ran in (first, second):
        assert 0 < ran.runs * ran.best_s <= ran.seconds * (1 + 1e-9)
        assert (ran.reason, ran.elsewhere) == ("", False)
    assert told.runs == tuple(sorted(told.runs, key=lambda ran: -ran.seconds))
    text = str(told)
    assert f"All runs since the start, or the last reset: {MORE + 3}, which took" in text
    assert f"test_ran.py:{line}: multiply, sqrt" in text
    assert f"test_ran.py:{line}: multiply, sqrt" in told._repr_html_()


def test_a_reset_begins_again_and_older_counts_are_gone() -> None:
    a = npaccel.asarray(np.ones(N))
    npaccel.evaluate(a + 1)
    npaccel.stats(reset=True)
    assert runs() == ()
    npaccel.evaluate(a + 1)
    assert "All runs" not in str(npaccel.explain())  # there is but the one that it is about
    npaccel.evaluate(a + 1)
    (ran,) = runs()
    assert (ran.runs, names(ran)) == (2, ["add"])


def test_what_other_lines_ran_is_told() -> None:
    a = npaccel.asarray(np.ones(N))
    npaccel.stats(reset=True)
    for _ in range(MORE):
        npaccel.evaluate(a * 3)
    (ran,) = runs()
    assert not ran.elsewhere
    npaccel.evaluate(a * 3)
    for _ in range(MORE):  # until that one is no longer remembered
        npaccel.evaluate(a + 3)
    (ran,) = (ran for ran in runs() if names(ran) == ["multiply"])
    assert (ran.runs, ran.elsewhere) == (MORE + 1, True)
    assert "from other lines, too" in str(npaccel.explain())


def test_runs_of_programs_that_are_gone_still_count() -> None:
    a = npaccel.asarray(np.ones(N))
    npaccel.stats(reset=True)
    for k in range(MORE):
        npaccel.evaluate(a[: N - k] * 2)
    _native.plans().clear()
    gc.collect()
    for _ in range(MORE):
        npaccel.evaluate(a + 2)
    found = runs()
    assert sum(ran.runs for ran in found) == 2 * MORE
    (gone,) = (ran for ran in found if not ran.operations)
    assert gone.runs >= MORE and gone.seconds > 0 and "gone" in gone.reason
    assert "(unknown)" in str(npaccel.explain())


def test_what_another_program_has_the_counts_of_is_not_told() -> None:
    a = npaccel.asarray(np.ones(N))
    npaccel.stats(reset=True)
    for k in range(10 * MORE):
        npaccel.evaluate(a[: N - k] * 2 + a[k:])
    found = runs()
    assert min(ran.runs for ran in found) > 0 and sum(ran.runs for ran in found) == 10 * MORE
    assert f"reset: {10 * MORE}, which took" in str(npaccel.explain())


def test_numpys_loops_say_why_and_what_they_are_measured_against(setting) -> None:
    a = npaccel.asarray(np.ones(N))
    setting("tiering", "off")
    npaccel.stats(reset=True)
    npaccel.evaluate(a / 3)
    npaccel.evaluate(a / 3)
    (ran,) = runs()
    assert ran.reason == "running block by block, as the setting tiering says"
    assert f"(NumPy's loops: {ran.reason})" in " ".join(str(npaccel.explain()).split())


def test_a_rival_is_what_numpys_loops_took() -> None:
    a = npaccel.asarray(np.ones(N))
    npaccel.stats(reset=True)
    npaccel.evaluate(a * 5)
    npaccel.evaluate(a * 5)
    program = _native.history(_native.serial(None) - 1)[1]
    assert runs()[0].numpy_s == 0
    program.baseline = 0.25
    assert runs()[0].numpy_s == 0.25
    assert " 250  " in str(npaccel.explain())
    del program


def test_touched_memory_counts_and_threads_do() -> None:
    a = npaccel.asarray(np.ones(1 << 17))
    npaccel.stats(reset=True)
    raw = _native.view_plain(a + 1)
    assert raw[5] == 2
    assert sum(ran.runs for ran in runs()) == 1
    workers = [threading.Thread(target=lambda: npaccel.evaluate(a * 2)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sum(ran.runs for ran in runs()) == npaccel.stats()["flushes"] > 1


def test_lines_are_kept_once() -> None:
    a = npaccel.asarray(np.ones(N))
    space: dict[str, object] = {"npaccel": npaccel, "a": a}
    exec("def f():\n    for _ in range(40): npaccel.evaluate(a * 7)", space)
    code = space["f"].__code__  # type: ignore[attr-defined]
    before = sys.getrefcount(code)
    _native.plans().clear()  # its program shall know no other lines
    space["f"]()  # type: ignore[operator]
    for _ in range(MORE):
        npaccel.evaluate(a + 7)
    npaccel.stats(reset=True)
    assert before < sys.getrefcount(code) <= before + 2  # its program's, and that of what hinders


def test_explaining_an_array_is_about_its_run_alone() -> None:
    a = npaccel.asarray(np.ones(N))
    assert npaccel.explain(npaccel.evaluate(a + 1)).runs == ()
    assert npaccel.explain(a * 2).runs == ()
    assert npaccel.explain((a * 2).sum()).runs != ()  # a number: the last run
