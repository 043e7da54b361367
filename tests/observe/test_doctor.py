"""A program per cause of slowness: the first three sentences on its profile name it; and what they
say that their remedies save."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from npaccel.observe import gains, profile_text
from npaccel.observe.doctor import Advice, advice
from npaccel.observe.profile import read
from npaccel.observe.profile_data import Call, Flush, Group, Line, Node, Obstacle, Profile

pytestmark = pytest.mark.pending

CAUSES = {
    "works on arrays of 2.0 KiB; from 256.0 KiB on they are accelerated: do the same": """
        u = np.ones(256)
        for i in range(400_000):
            u = u * 0.5  # here
        """,
    "takes elements one by one, at Python's own pace: write the loop as operations": """
        x = np.ones(100_000)
        for i in range(2_000_000):
            x[i % 1000] = x[(i + 1) % 1000]  # here
        """,
    "reads a result after every 2 operations: read after the loop, or every tenth time": """
        a = np.ones(1_000_000)
        for i in range(100):
            a = np.sqrt(a + 1)
            if a[3] < 0:  # here
                break
        """,
    "they are drawn on all threads already": """
        rng = np.random.default_rng(1)
        for i in range(20):
            z = rng.standard_normal(1_000_000)  # here
        """,
    "draw many numbers by one call": """
        total = 0.0
        for i in range(100_000):
            total += np.random.normal()  # here
        """,
    "BLAS does it on all processors": """
        a = np.ones((600, 600))
        for i in range(10):
            b = a @ a  # here
        """,
    "Python itself or another library, not array": """
        total = 0
        while total < 4_000_000:
            total = abs(total) + 1  # here
        """,
    "waits for the compiler": """
        a = np.linspace(0, 1, 1_000_000)
        for i in range(60):
            b = np.sin(a) * np.cos(a * i) + np.exp(-a) + np.hypot(a, i) + np.arctan(a)  # here
        """,
    "runs 1 operation at a time, since warnings are errors": """
        import warnings
        warnings.simplefilter("error")
        a = np.ones(1_000_000)
        for i in range(100):
            a = np.sqrt(a)  # here
        """,
    "writes in place into memory that is not npaccel's, 1 operation at a time: work on npaccel": """
        import ctypes
        memory = (ctypes.c_double * 1_000_000)()  # of a C library
        a = np.frombuffer(memory)
        for i in range(200):
            a += 0.5  # here
        """,
    "works on a subclass of ndarray (memmap ...), of 7.6 MiB, which stays NumPy's: work": """
        import tempfile
        file = tempfile.TemporaryFile()
        a = np.memmap(file, "f8", "w+", shape=(1_000_000,))
        a[:] = 1.0
        for i in range(300):
            a += 0.5  # here
        """,
    "arrays of Python objects stay NumPy's": """
        a = np.array([1, 2, 3] * 100_000, dtype=object)
        for i in range(20):
            b = a + a  # here
        """,
    "lets it be recorded": """
        np.seterr(all="warn")
        a = np.ones(1_000_000)
        for i in range(100):
            a = np.sqrt(a)  # here
        """,
    "has npaccel.evaluate() run every operation: call it after the loop": """
        import npaccel
        a = np.ones(1_000_000)
        for i in range(100):
            a = np.sqrt(a)
            npaccel.evaluate(a)  # here
        """,
    "`lut[idx]` leaves npaccel": """
        import npaccel
        img = npaccel.asarray(np.arange(2_000_000) % 251)
        lut = np.arange(256.0)
        with npaccel.profile("lut.profile"):
            for i in range(10):
                idx = (img * 3 + i) % 256
                y = lut[idx]  # here
                total = y[5]
        """,
}


@pytest.mark.parametrize("cause", CAUSES)
def test_the_first_lines_name_it(cause: str, tmp_path: Path) -> None:
    rows = ["import numpy as np"] + [row[8:] for row in CAUSES[cause].strip("\n").splitlines()]
    (tmp_path / "program.py").write_text("\n".join(rows) + "\n")
    words = ["-m", "npaccel", "profile", "--out", "lut.profile", "program.py"]
    if "lut" in cause:
        words = ["program.py"]
    usual = {key: text for key, text in os.environ.items() if not key.startswith("NPACCEL_")}
    environment = usual | {"NPACCEL_CACHE_DIR": str(tmp_path / "cache")}
    (number,) = [k for k, row in enumerate(rows, 1) if row.endswith("# here")]
    site = str(tmp_path / f"program.py:{number}")
    for _ in range(3):  # where the process stood still, other lines may take longer
        done = subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        profile = read(tmp_path / "lut.profile")
        first = [one for one in advice(profile)[:3] if one.site == site]
        named = [one for one in first if cause in one.sentence()]
        if named:
            break
    (found,) = named
    text = " ".join(profile_text.show(profile).split())
    assert f"({found.share(profile.wall_s)}) {found.sentence()}" in text
    assert found.gain_s is None or 0 <= found.gain_s <= found.seconds


# ------------------------------------------------------------------------ what remedies save

FILE = "/p/a.py"
SOURCE = {1: "for i in range(9):", 2: "    x = f(x)", 3: "    x[0]", 4: "y = x"}


def profile(**more: object) -> Profile:
    """Of ten seconds on two threads."""
    made = Profile({"threads": 2, "threshold": 1 << 18, "cache": "on"}, 10.0)
    made.source = {FILE: SOURCE}
    for name, value in more.items():
        setattr(made, name, value)
    return made


def run(what: str, seconds: float, runs: int, names: str = "add", paced_s: float = 0.0) -> Flush:
    nodes = tuple(Node(name, 0, 8.0, ()) for name in names.split())
    group = Group(what, "", "", seconds, tuple(range(len(nodes))))
    return Flush(runs, seconds, nodes, (group,), paced_s)


LINE = Line(FILE, 2, "", 1, {"numpy": 4.0, "python": 1.0})


def only(made: Profile) -> Advice:
    """The first one."""
    return next(one for one in advice(made) if one.site.startswith(FILE))


def test_runs_that_are_cut_save_what_their_memory_took() -> None:
    cut = Obstacle("read", FILE, 3, 100, 6.0, 200.0)
    known = [run("kernels", 4.0, 100, "add sqrt", paced_s=1.0)]
    found = only(profile(obstacles=[cut], flushes=known, lines=[LINE]))
    assert (found.site, found.gain_s) == (f"{FILE}:3", pytest.approx(6.0 * (1 - 1 / 4)))
    assert found.share(10.0) == "may save 45 %"
    unknown = [run("kernels", 4.0, 100, "add sqrt")]
    found = gains.together(profile(flushes=unknown, lines=[LINE]), cut, 6.0)
    assert found is None
    slower = [run("kernels", 4.0, 100, "add sqrt", paced_s=19.0)]  # computing is all of it
    assert gains.together(profile(flushes=slower, lines=[LINE]), cut, 6.0) == 0
    long = [run("kernels", 4.0, 100, "add " * 9, paced_s=1.0)]  # not what is cut
    assert gains.together(profile(flushes=long, lines=[LINE]), cut, 6.0) is None


def test_single_operations_of_the_loop_count_for_what_cuts_it() -> None:
    cut = Obstacle("read", FILE, 3, 100, 1.0, 100.0)
    known = [run("kernels", 1.0, 100, paced_s=0.5)]
    for line, seconds in [(2, 5.0), (4, 1.0)]:  # in the loop, and behind it
        single = Obstacle("slower", FILE, line, 100, 4.0, 1e9)
        (found,) = [
            one
            for one in advice(profile(obstacles=[cut, single], flushes=known, lines=[LINE]))
            if one.site == f"{FILE}:3"
        ]
        assert (found.seconds, found.gain_s) == (seconds, pytest.approx(0.5 * seconds))


@pytest.mark.parametrize(
    ("function", "reason", "seconds", "gain"),
    [
        ("add", "dtype object has no kernel", 5.0, 4.5),
        ("sqrt", "dtype float128 has no kernel", 5.0, 4.5),
        ("f (vectorized)", "dtype object has no kernel", 5.0, 4.75),
        ("apply_along_axis", "not recorded", 5.0, 4.75),
        ("sqrt", "underflow is asked for (np.errstate)", 5.0, 4.25),
        ("savetxt", "not recorded", 5.0, 4.75),
        ("sqrt", "errors raise, print or call (np.errstate)", 5.0, 4.25),
        ("multiply", "unaligned array", 5.0, 4.25),
        ("subtract", "operand of type datetime64", 5.0, 4.25),
        ("matmul", "matrix product", 4.0, None),
        ("convolve", "not recorded", 4.0, None),
    ],
)
def test_what_numpy_ran(function: str, reason: str, seconds: float, gain: float | None) -> None:
    call = Call(function, reason, f"{FILE}:2", 10, 4.0)
    found = only(profile(calls=[call], lines=[LINE]))
    assert found.seconds == seconds
    assert found.gain_s == (gain if gain is None else pytest.approx(gain))
    if gain is None:
        assert found.share(10.0) == "takes 40 %, what that saves is not known"


@pytest.mark.parametrize(
    ("kind", "size", "gain"),
    [("element", 0.0, 4.75), ("small", 1e10, 4.0), ("small", 1e11, 0.0), ("subclass", 1e9, 4.25)],
)
def test_what_hinders_on_arrays(kind: str, size: float, gain: float) -> None:
    line = Line(FILE, 2, "", 1, {"python": 5.0})
    found = only(profile(obstacles=[Obstacle(kind, FILE, 2, 1000, 5.0, size)], lines=[line]))
    assert (found.seconds, found.gain_s) == (5.0, pytest.approx(gain))


def test_what_takes_elements_is_named_where_the_line_takes_none() -> None:
    line = Line(FILE, 2, "", 1, {"python": 5.0})
    taken = Obstacle("element", FILE, 2, 1000, 5.0, 0.0)
    for text, says in [
        (
            "    s = np.array2string(a)",
            "`np.array2string` takes elements one by one, at Python's own",
        ),
        ("    s = np.abs(a[i])", "takes elements one by one, at Python's own pace: write the loop"),
        ("    s = f(a)", "takes elements one by one, at Python's own pace: write the loop"),
    ]:
        made = profile(source={FILE: SOURCE | {2: text}}, lines=[line], obstacles=[taken])
        assert only(made).sentence().startswith(says)
        assert (only(made).gain_s is None) == ("array2string" in text)


def test_what_small_systems_save_is_not_known() -> None:
    line = Line(FILE, 2, "", 1, {"python": 5.0})
    small = Obstacle("small", FILE, 2, 1000, 5.0, 1e9)
    for text, known in [
        ("    x = np.linalg.solve(a[i], b)", False),
        ("    x = np.exp(a[i])", True),
    ]:
        made = profile(source={FILE: SOURCE | {2: text}}, lines=[line], obstacles=[small])
        assert "works on arrays of" in only(made).sentence()
        assert (only(made).gain_s is not None) == known


def test_where_nothing_is_lost_nothing_is_promised() -> None:
    single = Obstacle("at once", FILE, 2, 1000, 4.0, 1e9)
    found = only(profile(obstacles=[single], lines=[LINE._replace(seconds={"numpy": 4.0})]))
    assert found.gain_s == 0 and found.share(10.0) == "takes 40 %"


def test_random_numbers_are_saved_where_calls_are_brief() -> None:
    texts = {FILE: SOURCE | {2: "    s += rng.normal(m, 1, 9)"}}
    line = Line(FILE, 2, "", 1, {"python": 5.0})
    brief = Obstacle("small", FILE, 2, 1_000_000, 5.0, 0.0)
    assert only(profile(source=texts, lines=[line], obstacles=[brief])).gain_s == 4.75
    assert only(profile(source=texts, lines=[line])).gain_s is None  # nobody counted them
    long = brief._replace(calls=1000)
    assert only(profile(source=texts, lines=[line], obstacles=[long])).gain_s is None


@pytest.mark.parametrize(
    ("text", "one"),
    [
        ("rng.normal()", True),
        ("rng.normal(m, 1)", True),
        ("rng.normal(m, 1, 9)", False),
        ("rng.random(9)", False),
        ("int(rng.choice(10))", True),
        ("rng.normal(size=9)", False),
        ("rng.shuffle(x)", False),
    ],
)
def test_numbers_that_are_drawn_one_by_one(text: str, one: bool) -> None:
    texts = {FILE: SOURCE | {2: f"    s += {text}"}}
    for kind, gain in [("python", 4.75 if one else None), ("functions", None)]:
        line = Line(FILE, 2, "", 1, {kind: 5.0})
        assert only(profile(source=texts, lines=[line])).gain_s == gain


@pytest.mark.parametrize("loop", [True, False])
def test_a_generator_is_made_and_drawn_from_once_or_each_time(loop: bool) -> None:
    row, text = (
        (2, "    rng = np.random.default_rng(i)") if loop else (4, "np.random.default_rng()")
    )
    lines = [Line(FILE, row, "", 1, {"python": 5.0})]
    found = only(profile(source={FILE: SOURCE | {row: text}}, lines=lines))
    assert found.sentence() == (
        "makes a random generator each time: make one, before the loop"
        if loop
        else "makes a random generator"
    )
    lines = [Line(FILE, 4, "", 1, {"python": 5.0})]
    found = only(profile(source={FILE: SOURCE | {4: "z = rng.choice(9)"}}, lines=lines))
    assert found.sentence() == "draws random numbers, once"


ELEMENTS = "Python goes through elements one by one: if these are numbers, write it with"


@pytest.mark.parametrize("kind", ["python", "numpy"])
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("    t = sum(a)", ELEMENTS),
        ("    a = np.fromiter(pairs(9), float)", ELEMENTS),
        ("    if any(v > 3 for v in a):", ELEMENTS),
        ("    b = np.array([f(v) for v in a])", ELEMENTS),
        ("    np.einsum('ij,jk,kl', a, a, a)", "np.einsum(..., optimize=True) does three arrays"),
        ("    x = f(x", "Python itself or another library, not array operations"),
        ("    sum(range(9))", "Python itself or another library, not array operations"),
    ],
)
def test_what_is_not_counted_is_told_by_the_lines_text(kind: str, text: str, says: str) -> None:
    line = Line(FILE, 2, "", 1, {kind: 5.0})
    if kind == "numpy" and says.startswith("Python itself"):
        says = "is NumPy's own there"
    assert says in only(profile(source={FILE: SOURCE | {2: text}}, lines=[line])).sentence()


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("python", "Python itself, or what `np.unique` does there, which is not recorded"),
        ("numpy", "calls `np.unique`, which is NumPy's own there"),
    ],
)
def test_a_function_of_numpys_that_nobody_counted(kind: str, says: str) -> None:
    line = Line(FILE, 2, "", 1, {kind: 5.0})
    found = only(profile(source={FILE: SOURCE | {2: "    s = np.unique(a)"}}, lines=[line]))
    assert found.sentence() == says


def test_drawing_takes_what_its_line_does_not_compute() -> None:
    line = Line(FILE, 2, "", 1, {"functions": 2.0, "python": 0.5, "blocks": 5.0})
    found = only(profile(source={FILE: SOURCE | {2: "    x = rng.random(n) ** 2.5"}}, lines=[line]))
    assert found.sentence().startswith("np.random takes 25 %: they are drawn on all threads")


@pytest.mark.parametrize(
    ("loop", "text", "told"),
    [
        ("for v in a:", "    x = v", True),
        ("for v in self.a:", "    x = v", True),
        ("for k, v in np.ndenumerate(a):", "    t += v", True),
        ("for v in zip(a, b):", "    t += f(v)", True),
        ("for v in rng.random(9):", "    t += v", True),
        ("for v in rng.random(9):", "    t = f(v)", False),
        ("for v in range(9):", "    t = f(x) * v", False),
        ("for v in range(9):", "    t = max(x.tolist())", True),
    ],
)
def test_a_loop_over_an_array_goes_through_its_elements(loop: str, text: str, told: bool) -> None:
    line = Line(FILE, 2, "", 1, {"python": 4.0, "numpy": 1.0, "kernels": 3.0})
    found = only(profile(source={FILE: SOURCE | {1: loop, 2: text}}, lines=[line]))
    assert (ELEMENTS in found.sentence()) == told
    assert not told or (found.seconds, found.gain_s) == (5.0, 4.75)


def test_lines_of_a_loop_over_elements_are_told_of_as_one() -> None:
    texts = {FILE: {1: "for v in a:", 2: "    t += v", 3: "for w in b:", 4: "    u += w"}}
    lines = [Line(FILE, n, "", 1, {"python": n}) for n in (1, 2, 4)]
    found = advice(profile(source=texts, lines=lines))
    assert [(one.site, one.seconds) for one in found] == [(f"{FILE}:4", 4.0), (f"{FILE}:2", 3.0)]
    assert found[1].gain_s == pytest.approx(0.95 * 3)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("    x = np.append(x, 3.0)", "`np.append` copies all of `x` each time: append parts to a"),
        ("    x = np.vstack([x, np.ones(9)])", "`np.vstack` copies all of `x` each time"),
        ("    x = np.array(data) * 3", "makes an array of `data`, whose numbers are Python's"),
    ],
)
def test_what_a_line_makes_again_and_again(text: str, says: str) -> None:
    small = Obstacle("small", FILE, 2, 1000, 5.0, 1e10)
    line = Line(FILE, 2, "", 1, {"python": 4.0, "numpy": 1.0})
    told = profile(source={FILE: SOURCE | {2: text}}, lines=[line], obstacles=[small])
    assert only(told).sentence().startswith(says) and only(told).gain_s == 4.75
    once = profile(source={FILE: {2: text.strip()}}, lines=[line], obstacles=[small])
    assert not only(once).sentence().startswith(says)
    for old, new in [("x = ", "y = "), ("(x,", "(x[1:],"), ("[x,", "[x[1:],")]:
        other = text.replace(old, new).replace("array(data)", "array([3, 4])")
        told = profile(source={FILE: SOURCE | {2: other}}, lines=[line], obstacles=[small])
        assert other == text or not only(told).sentence().startswith(says)
    other = text.replace("x = ", "x = y = f(3) + ")
    told = profile(source={FILE: SOURCE | {2: other}}, lines=[line], obstacles=[small])
    assert not only(told).sentence().startswith(says)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("    h.update(x)", "another library (`h.update`), not array operations"),
        ("    f(x)", "another library, not array operations"),
    ],
)
def test_a_call_of_others_is_named(text: str, says: str) -> None:
    line = Line(FILE, 2, "", 1, {"python": 5.0})
    assert says in only(profile(source={FILE: SOURCE | {2: text}}, lines=[line])).sentence()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "    a = a * 0.5 + b",
            "has operators of another class (np.ma, pandas), and one of them",
        ),
        ("    a = a * x[3] + b", "reads a result after every 2 operations: read after the loop"),
        ("    a = f(b) + a", "reads a result after every 2 operations: read after the loop"),
        ("    a = b @ a", "reads a result after every 2 operations: read after the loop"),
        (
            "    y = lut[i] + 1",
            "`lut[i]` looks whether all of `i` lie within, and reads a result",
        ),
        (
            "    y = lut[(i + 1) % 7] + 1",
            "`lut[(i + 1) % 7]` looks whether all of `(i + 1) % 7` lie within, and reads a result",
        ),
    ],
)
def test_what_reads_is_told_by_the_lines_text(text: str, says: str) -> None:
    cut = Obstacle("read", FILE, 2, 100, 6.0, 200.0)
    known = [run("kernels", 4.0, 100, "minimum.reduce maximum.reduce", paced_s=1.0)]
    made = profile(source={FILE: SOURCE | {2: text}}, obstacles=[cut], lines=[LINE], flushes=known)
    made.lines = [LINE._replace(seconds={"numpy": 1.0, "recording": 7.0})]
    found = only(made)
    assert found.sentence().startswith(says)
    assert found.seconds == (8.0 if "another class" in says else 6.0)
    assert (found.gain_s is None) == ("lut" in text)
    made.flushes = [run("kernels", 4.0, 100, "add", paced_s=1.0)]  # an element, not places
    assert ("lut" in text) == (not only(made).sentence().startswith(says))


def test_a_table_that_others_may_change_is_copied_before() -> None:
    cut = Obstacle("read", FILE, 2, 100, 6.0, 900.0)  # longer runs, of whose gain nothing is known
    watched = Obstacle("watched", FILE, 2, 100, 3.0, 100.0)
    known = [run("kernels", 4.0, 100, "minimum.reduce maximum.reduce", paced_s=1.0)]
    made = profile(source={FILE: SOURCE | {2: "    y = lut[i % 7]"}}, lines=[LINE], flushes=known)
    for obstacles, table in [([cut, watched], "np.array(lut)"), ([cut], "lut")]:
        made.obstacles = obstacles
        assert only(made).remedy == f"np.take({table}, i % 7, mode='clip') need not look"
        assert only(made).gain_s is None


@pytest.mark.parametrize("kind", ["small", "element"])
def test_calls_on_few_elements_have_the_time_of_the_loops_last_line(kind: str) -> None:
    texts = {1: "for i in range(9):", 2: "    y = x[i]", 3: "    n += 1", 4: "n = 0"}
    brief = Obstacle(kind, FILE, 2, 1000, 2.0, 1000.0)
    made = profile(source={FILE: texts}, obstacles=[brief])
    for line, spent, seconds in [(3, 5.0, 5.0), (4, 5.0, 2.0), (3, 9.0, 2.0)]:
        # In the loop; behind it; and in the loop, which does something else for the most part.
        made.lines = [Line(FILE, line, "", 1, {"python": spent})]
        (found,) = [one for one in advice(made) if one.site == f"{FILE}:2"]
        assert found.seconds == seconds and found.gain_s is not None
        assert len(advice(made)) == (1 if seconds == spent else 2)


def test_what_grows_in_a_loop_has_the_time_of_its_last_line() -> None:
    texts = {1: "while True:", 2: "    x = np.append(x, 3.0)", 3: "    n += 1"}
    small = Obstacle("small", FILE, 2, 1_000_000, 2.0, 0.0)
    made = profile(source={FILE: texts}, obstacles=[small])
    made.lines = [Line(FILE, 3, "", 1, {"python": 5.0})]
    assert only(made).sentence().startswith("`np.append` copies all of `x` each time")
    assert (only(made).site, only(made).seconds) == (f"{FILE}:2", 5.0)


def test_few_numbers_that_are_drawn_in_a_loop_have_the_time_of_its_last_line() -> None:
    texts = {1: "while True:", 2: "    y = rng.uniform(0, 1, 20)", 3: "    n += 1"}
    drawn = Obstacle("small", FILE, 2, 1_000_000, 2.0, 0.0)
    for seconds in (0.5, 5.0):
        found = only(
            profile(source={FILE: texts}, obstacles=[drawn], lines=[
                Line(FILE, 3, "", 1, {"python": seconds})])
        )  # fmt: skip
        assert (found.site, found.seconds) == (f"{FILE}:2", max(seconds, 2.0))
        assert "draw many numbers by one call" in found.remedy and found.gain_s is not None


def test_calls_on_few_elements_have_the_time_of_the_line_that_calls_their_function() -> None:
    texts = {1: "class A:", 2: "    def step(self):", 3: "        self.x = self.x * 2",
             4: "for a in all_of_them:", 5: "    a.step()"}  # fmt: skip
    small = Obstacle("small", FILE, 3, 1000, 2.0, 8000.0)
    made = profile(obstacles=[small], lines=[Line(FILE, 5, "", 1, {"python": 5.0})])
    made.source = {FILE: texts}
    (found,) = advice(made)
    assert (found.site, found.seconds) == (f"{FILE}:3", 5.0)
    made.source = {FILE: texts | {5: "    a.other()"}}
    assert [one.site for one in advice(made)] == [f"{FILE}:5", f"{FILE}:3"]


def test_longer_runs_are_told_of_where_cutting_them_costs_something() -> None:
    cut = Obstacle("read", FILE, 3, 100, 6.0, 900.0)
    for paced_s, told in [(1.0, True), (3.8, True), (3.99, False)]:
        known = [run("kernels", 4.0, 100, "add " * 9, paced_s=paced_s)]
        found = advice(profile(obstacles=[cut], flushes=known, lines=[LINE]))
        assert any("after every 9 operations" in one.sentence() for one in found) == told


def test_what_reads_is_named_where_it_is_numpys_own() -> None:
    cut = Obstacle("read", FILE, 2, 100, 6.0, 200.0)
    text = {FILE: SOURCE | {2: "    f = np.bincount(i, weights=x[i])"}}
    found = only(profile(source=text, obstacles=[cut], lines=[LINE]))
    assert found.sentence().startswith("`np.bincount` reads a result after every 2 operations: it")
    other = LINE._replace(seconds={"kernels": 5.0})
    found = only(profile(source=text, obstacles=[cut], lines=[other]))
    assert found.sentence().startswith("reads a result after every 2 operations: read after")


def test_what_a_function_that_reads_calls_has_the_remedy() -> None:
    cut = Obstacle("read", FILE, 2, 100, 2.0, 500.0)
    text = {FILE: SOURCE | {2: "    c = np.polyfit(t, y, 5)"}}
    line = LINE._replace(seconds={"numpy": 5.0})
    for seconds, says in [(4.0, "several right-hand sides in one call"), (0.4, "after the loop")]:
        call = Call("lstsq", "generalised ufunc", f"{FILE}:2", 100, seconds)
        found = only(profile(source=text, obstacles=[cut], calls=[call], lines=[line])).sentence()
        assert found.startswith("`np.polyfit` reads a result after every 5") and says in found


def test_what_runs_take_beside_their_operations_is_saved_where_they_are_cut() -> None:
    cut = Obstacle("read", FILE, 2, 100, 6.0, 900.0)
    runs = [run("kernels", 4.0, 100, "add " * 9, paced_s=4.0)]
    for beside, gain in [(0.0, 0.0), (0.5, 1.0), (5.0, 6.0)]:
        line = LINE._replace(seconds={"running": beside, "planning": beside})
        assert gains.together(profile(flushes=runs, lines=[line]), cut, 6.0) == gain


def test_runs_of_a_line_that_comes_once_are_no_loop_that_is_cut() -> None:
    cut = Obstacle("read", FILE, 3, 2, 6.0, 4.0)
    assert not advice(profile(obstacles=[cut], lines=[]))


def test_a_product_of_random_numbers_is_a_product() -> None:
    text = {FILE: SOURCE | {2: "    z = rng.normal(size=(n, n)) @ c"}}
    call = Call("matmul", "matrix product", f"{FILE}:2", 10, 4.0)
    assert "BLAS does it" in only(profile(source=text, calls=[call], lines=[LINE])).sentence()


def test_waiting_saves_what_kernels_would_have() -> None:
    waited, later = run("blocks", 4.0, 100), run("kernels", 1.0, 50)
    line = LINE._replace(seconds={"blocks": 4.0})
    made = profile(flushes=[waited, later], waits={"compiling": 4.0}, lines=[line])
    assert only(made).gain_s == 2.0
    assert only(made).remedy.endswith("kernels are on disk now")
    none = only(profile(flushes=[waited], waits={"compiling": 4.0}, lines=[line]))
    assert none.gain_s is None and none.remedy.endswith("for all later ones")
    slower = run("kernels", 9.0, 50)
    made = profile(flushes=[waited, slower], waits={"compiling": 4.0}, lines=[line])
    assert only(made).gain_s == 0


def test_planning_of_a_first_run() -> None:
    line = LINE._replace(seconds={"planning": 4.0})
    made = profile(lines=[line], counts={"flushes": 10_000})
    assert only(made).gain_s == pytest.approx(4.0 - 0.3)


def test_what_is_worth_most_comes_first() -> None:
    known = Advice("a", 3.0, "", "do it", 2.0)
    unknown, none = Advice("b", 3.0, "", "do it"), Advice("c", 3.0, "", "")
    assert known.worth_s > unknown.worth_s == none.worth_s
    assert none.share(10.0) == "takes 30 %" and known.share(0.0) == "may save -"
