"""What the doctor says of lines of other kinds: by whom a result is read, what NumPy ran, whose
code it is, and what nothing holds back."""

from __future__ import annotations

import ast

import numpy as np
import pytest

import npaccel
from npaccel.observe import hindrances, profile_page, profile_text
from npaccel.observe.doctor import Advice, advice
from npaccel.observe.line_texts import called, picks_by_mask, reads_itself
from npaccel.observe.profile import FEW, Request, Rule, Run, _Reader
from npaccel.observe.profile_data import Call, Flush, Group, Line, Node, Obstacle, Profile
from npaccel.observe.profile_file import Recorded
from npaccel.observe.remedies import as_written, remedy_of
from npaccel.runtime.engine.first import REASON
from npaccel.runtime.engine.tiers import COMPILING, NOT_YET

FILE = "/p/a.py"
PANDAS = "/usr/lib/python3/site-packages/pandas/ops.py"


def told(text: str, **more: object) -> Advice:
    """The first sentence on ten seconds of a loop with that line."""
    made = Profile({"threads": 2, "threshold": 1 << 18, "cache": "on"}, 10.0)
    made.source = {FILE: {1: "for i in range(9):", 2: f"    {text}", 3: "y = x"}}
    for name, value in more.items():
        setattr(made, name, value)
    return advice(made)[0]


def line(**seconds: float) -> Line:
    return Line(FILE, 2, "", 1, seconds)


CUT = Obstacle("read", FILE, 2, 100, 6.0, 200.0)


@pytest.mark.parametrize(
    ("text", "what", "remedy"),
    [
        ("e = np.linalg.norm(x)", "`np.linalg.norm` reads a result after", "it needs values; call"),
        ("y = np.piecewise(x, [x > 0])", "`np.piecewise` reads a result", "np.where() and np.sel"),
        ("t = t + np.sum(x)", "reads a result after every 2", "read after the loop"),
        ("t = t + np.exp(x).sum()", "reads a result after every 2", "read after the loop"),
        ("x = x - x.mean().item()", "reads a result after", "compute with `x.mean()` itself"),
        ("x = x - float(x.mean())", "reads a result after", "compute with `x.mean()` itself"),
        ("x[3] = 0", "puts elements into a result", "put many at once, or choose by np.where()"),
        ("n += len(x[x > 0])", "`x[x > 0]` has to know how many", "np.where(mask, new, old)"),
    ],
)
def test_who_reads(text: str, what: str, remedy: str) -> None:
    found = told(text, obstacles=[CUT], lines=[line(kernels=5.0, recording=1.0)])
    assert found.what.startswith(what) and found.remedy.startswith(remedy)
    assert found.gain_s is None  # it is needed, or what comes instead takes time as well


def test_numpys_time_counts_for_what_it_reads_but_not_a_products() -> None:
    for text, seconds in [("e = np.linalg.norm(x)", 10.0), ("y = np.dot(x, y)", 6.0)]:
        found = told(text, obstacles=[CUT], lines=[line(numpy=4.0, recording=1.0)])
        assert found.seconds == seconds


@pytest.mark.parametrize(
    ("text", "function", "name"),
    [
        ("u = np.linalg.svd(m)", "svd_f", "`np.linalg.svd`"),
        ("t = np.char.replace(s, ',', ';')", "_replace", "`np.char.replace`"),
        ("m = np.median(x)", "ndarray.partition", "`np.median`"),
        ("x.partition(3)", "ndarray.partition", "ndarray.partition"),
        ("b = np.exp(a) * pi", "multiply", "multiply"),
        ("b = np.array(a) @ c", "matmul", "matmul"),
        ("b = f(a)", "f (vectorized)", "f (vectorized)"),
    ],
)
def test_what_numpy_ran_has_the_name_that_the_line_has(text: str, function: str, name: str) -> None:
    assert as_written(ast.parse(text), function) == name


@pytest.mark.parametrize(
    ("function", "reason", "says"),
    [
        ("multiply", "operand of type longdouble", "use float64"),
        ("multiply", "operand of type clongdouble", "use complex128"),
        ("np.linalg.svd", "generalised ufunc", "LAPACK does it"),
        ("np.linalg.pinv", "", "LAPACK does it"),
        ("inv", "generalised ufunc", "np.linalg.solve(a, b)"),
        ("np.loadtxt", "", "np.load reads such numbers"),
        ("shuffle", "random numbers", ""),
    ],
)
def test_remedies_by_name_and_reason(function: str, reason: str, says: str) -> None:
    remedy = remedy_of(function, reason)[1]
    assert remedy.startswith(says) and bool(remedy) == bool(says)


def test_shuffling_is_no_drawing_one_by_one() -> None:
    call = Call("shuffle", "random numbers", f"{FILE}:2", 25, 0.0)
    found = told("rng.shuffle(x)", calls=[call], lines=[line(numpy=4.0, recording=0.5)])
    assert found.what.startswith("calls shuffle") and (found.remedy, found.gain_s) == ("", None)


def test_what_is_drawn_on_the_way_to_numpys_is_told_as_such() -> None:
    call = Call("save", "not recorded", f"{FILE}:2", 25, 0.1)
    drawn = line(numpy=4.0, functions=2.0)
    found = told("np.save('x', rng.random(9))", calls=[call], lines=[drawn])
    assert found.what.startswith("np.random takes")
    found = told("np.savetxt('x', rng.random(9))", lines=[line(python=4.0)])
    assert "np.savetxt" in found.what and found.remedy.startswith("np.save writes")


@pytest.mark.parametrize("text", ["z = np.random.randn(n)", "z = np.random.normal(0, 1, n)"])
def test_normal_numbers_of_the_old_generator(text: str) -> None:
    found = told(text, lines=[line(functions=4.0)])
    assert "default_rng() draws such numbers" in found.remedy and found.gain_s == 4.0 * 0.55


def test_code_of_libraries_has_no_remedy() -> None:
    one = Obstacle("element", PANDAS, 2, 1000, 5.0, 0.0)
    own = Line(PANDAS, 2, "", 1, {"python": 5.0})
    main = line(kernels=5.0)
    made = told("x = f(x)", obstacles=[one], lines=[main, own])
    assert made.what.startswith("a library's own code takes elements") and not made.remedy
    installed = told("x = f(x)", obstacles=[one], lines=[own, main])  # the program itself
    assert installed.remedy.startswith("write the loop")


def test_single_numbers_are_no_arrays() -> None:
    one = Obstacle("small", FILE, 2, 1000, 5.0, 0.0)
    found = told("c = np.cos(t)", obstacles=[one], lines=[line(python=5.0)])
    assert found.what == "calls NumPy's functions on single numbers"
    rare = hindrances.reason_of("rare", 0.0, 1 << 18)
    assert "0 B" not in rare + found.what


def test_a_module_that_is_imported() -> None:
    found = told("from scipy import ndimage", lines=[line(python=5.0)])
    assert found.sentence() == "imports `scipy`, which is the module's own time"


def test_what_nothing_holds_back_is_told_as_such() -> None:
    fast = line(kernels=8.0)._replace(bytes=8e9)
    found = told("x = f(x)", lines=[fast])
    assert (found.sentence(), found.gain_s) == (
        "computes in kernels, on 2 threads, and nothing holds it back",
        0.0,
    )
    assert found.share(10.0) == "takes 80 %"
    found = told("x = f(x)", lines=[fast], memory_bytes_s=1.2e9)
    assert found.sentence().startswith("computes in kernels at 1 GB/s, which is what")
    both = told("x = f(x)", lines=[fast._replace(seconds={"kernels": 8.0, "python": 0.5})])
    assert both.what.startswith("Python itself")  # comes first
    cut = told("float(x[0])", lines=[fast], obstacles=[CUT])
    assert cut.what.startswith("reads a result")


def test_what_functions_of_our_own_do_is_not_held_back() -> None:
    found = told("y = np.sort(x)", lines=[line(functions=8.0)])
    what = "is done by functions of npaccel's own, on 2 threads, and nothing holds it back"
    assert (found.sentence(), found.gain_s) == (what, 0.0)
    for text, says in [
        ("rng.shuffle(x)", "one thread's work"),
        ("y = rng.random(n)", "all threads"),
    ]:
        assert says in told(f"    {text}", lines=[line(functions=8.0, numpy=0.2)]).sentence()
    brief = told("    y = rng.random(3)", lines=[line(functions=5.0, python=3.0, numpy=0.2)])
    assert "many numbers by one call" in brief.sentence()


def test_what_comes_once_runs_by_blocks() -> None:
    found = told("y = f(x)", waits={"once": 4.0}, lines=[line(blocks=4.0)])
    assert "since it comes once or twice: 4 s" in found.what and found.gain_s is None


def run(runs: int, why: str, kept: bool) -> Run:
    """x * x, then its sum; kept : what is computed is seen."""
    double = Rule("multiply", 0, ("f8", "f8", "f8"))
    requests = [Request(0, double, 1000, (-2, -2), kept)]
    return Run(True, runs, 10**9, requests, [(10, 10**9, 1)], why, None, "")


def test_waits_are_told_by_how_often_they_came() -> None:
    reader = _Reader(Recorded({"about": {}}))
    for runs, why, told_as in [
        (FEW, NOT_YET, "once"),
        (FEW, REASON, "once"),
        (9, NOT_YET, "not yet"),
        (9, COMPILING, "compiling"),
    ]:
        reader._runs = [run(runs, why, kept=False)]
        assert reader.waits()[told_as] == pytest.approx(1.0)


def test_arrays_that_are_read_each_round_stay() -> None:
    assert run(9, NOT_YET, kept=True).kept_bytes() == 0  # it may be the next round's
    assert run(9, NOT_YET, kept=False).kept_bytes() == 8000
    busy = {"about": {}, "exp_s": 1e-9, "bytes_s": [(1, 1e-9)], "scheduled_s": [1.0, 3.0]}
    paces = [
        _Reader(Recorded(head))._paced_s(run(9, NOT_YET, kept))
        for head in (busy, busy | {"scheduled_s": [1.0, 0.0]})
        for kept in (False, True)
    ]
    assert paces[0] == pytest.approx(4 * paces[2]) and paces[1] == pytest.approx(4 * paces[3])
    assert paces[2] - paces[3] == pytest.approx(9 * 8000 * 1e-9)


def test_a_profile_says_what_it_waited_for_others() -> None:
    made = Profile({"program": "a.py"}, 10.0)
    for show in (profile_text.show, profile_page.page):
        made.waited_s = 0.0
        assert "waiting" not in show(made)
        made.waited_s = 4.0
        assert "a.py: 10.000 s, 4.000 s of it waiting for a processor" in show(made)


def test_what_is_code_looks_so_on_the_page() -> None:
    made = Profile({"threads": 2}, 10.0, lines=[line(python=5.0)])
    made.source = {FILE: {1: "for i in range(9):", 2: "    s = np.unique(a)"}}
    assert "what <code>np.unique</code> does there" in profile_page.page(made)


def test_an_own_function_of_numpys_has_a_plain_name() -> None:
    assert called(ast.parse("np.exp(x).sum()")) == "np.exp"
    assert called(ast.parse("np.load('x').sum()")) == "np.load"


@pytest.mark.parametrize(
    ("text", "mask"),
    [("x[x > 0]", True), ("x[~m]", True), ("x[a & b]", True), ("x[i + 1]", False), ("x[i]", False)],
)
def test_masks_are_told_from_places(text: str, mask: bool) -> None:
    assert bool(picks_by_mask(ast.parse(text))) == mask


def test_cuts_of_more_operations_are_told() -> None:
    cut = CUT._replace(size=1400.0)
    nodes = tuple(Node("add", 0, 8.0, ()) for _ in range(14))
    known = Flush(100, 4.0, nodes, (Group("kernels", "", "", 4.0, (0,)),), 1.0)
    found = told("assert f(x)", obstacles=[cut], flushes=[known], lines=[line(kernels=5.0)])
    assert found.gain_s == pytest.approx(6.0 * 0.75)


@pytest.mark.parametrize(
    ("text", "reads"),
    [("assert f(x)", True), ("y = g(x)", True), ("e = np.linalg.norm(x)", False)],
)
def test_what_reads_by_itself(text: str, reads: bool) -> None:
    assert reads_itself(ast.parse(text)) == reads


@pytest.mark.pending
def test_paces_are_of_numpys_loops_on_arrays_of_ours_too() -> None:
    with npaccel.accelerate(min_size=0):
        x, y = np.ones(1 << 20), np.ones(1 << 20)
        npaccel.evaluate(x, y)
        hindrances._taken_s((np.add, x, y, y), 2)
        assert not npaccel.explain(y).pending
    assert np.array_equal(y, np.full(1 << 20, 3.0))
