"""Programs slow for one planted cause: does a profile name it, and what does its remedy gain?

    python bench/doctor.py [--only NAME,...]

Each program has a line `# here`, which one of the doctor's first three sentences has to be about,
with the cause's words; and a second form, as the remedy has it. `about` is the part of the
program's time that the sentence is about, `says` what it says that its remedy saves (-: that it
can't be told), `gained` what that did, all in percent of the first form's time. Whole processes,
less what an empty program takes, the shortest of some; with a cache of their own that the first
form has filled but where the cause is compiling.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import NamedTuple

from npaccel.observe.doctor import advice
from npaccel.observe.profile import read

SHOWN = 3
ROWS = 2000  # of data that small arrays are
WITHIN = 25  # percent of the program's time
START = "import numpy as np\nrng = np.random.default_rng(1)\n"


class Case(NamedTuple):
    """words : of the sentence. cold : nothing has been compiled before."""

    words: str
    slow: str
    mended: str
    cold: bool = False


def case(words: str, slow: str, mended: str, *, cold: bool = False) -> Case:
    return Case(words, START + textwrap.dedent(slow), START + textwrap.dedent(mended), cold)


CHAIN = "np.maximum(u * 0.5 + 1, 0.7) * u"
READ_LOOP = """
    a = np.ones(1_000_000)
    for i in range({rounds}):
        a = {text}
        {read}
    print(a[5])
    """


def read_loop(words: str, text: str, read: str, rounds: int = 2000) -> Case:
    """A result is read each round; then behind the loop only."""
    slow = READ_LOOP.format(rounds=rounds, text=text, read=read + "  # here")
    return case(words, slow, READ_LOOP.format(rounds=rounds, text=text, read="pass"))


def small(text: str, size: int, times: int, instead: str) -> Case:
    """The same for many small arrays; then for one large one of the same data, as often."""
    start = f"""
    data = rng.random(({ROWS}, {size}))
    for k in range({times // ROWS}):
        """
    slow = f"""for i in range({ROWS}):
            u = data[i]
            v = {text}  # here
    """
    mended = f"""u = data
        v = {instead}
        last = v.ravel()[-1]
    """
    return case("works on arrays of", start + slow, start + mended)


CASES = {
    # results that are read
    "read an element": read_loop("reads a result after every", "np.sqrt(a + 1)", "a[3] < 0"),
    "read a maximum": read_loop("reads a result", "a * 0.5 + 0.5", "float(a.max())"),
    "read by print": read_loop("reads a result", "np.sqrt(a + 1)", "str(a[7])"),
    "read by if": read_loop("reads a result", "a * 0.999", "bool(a[0] > 2)"),
    "evaluate": read_loop(
        "npaccel.evaluate()", "np.sqrt(a + 1)", "__import__('npaccel').evaluate(a)"),
    # memory that is not npaccel's
    "ctypes": case("writes in place into memory that is not npaccel's", """
        import ctypes
        memory = (ctypes.c_double * 1_000_000)()
        a = np.frombuffer(memory)
        for i in range(5000):
            a += 0.5  # here
        """, """
        import ctypes
        memory = (ctypes.c_double * 1_000_000)()
        a = np.array(np.frombuffer(memory))
        for i in range(5000):
            a += 0.5
        np.frombuffer(memory)[:] = a
        """),
    "memmap": case("works on a subclass of ndarray", """
        import tempfile
        a = np.memmap(tempfile.TemporaryFile(), "f8", "w+", shape=(1_000_000,))
        for i in range(5000):
            a += 0.5  # here
        """, """
        import tempfile
        m = np.memmap(tempfile.TemporaryFile(), "f8", "w+", shape=(1_000_000,))
        a = np.array(m)
        for i in range(5000):
            a += 0.5
        m[:] = a
        """),
    "matrix class": case("works on a subclass of ndarray", """
        a = np.asmatrix(np.ones((1000, 1000)))
        for i in range(3000):
            a = a + 0.5  # here
        """, """
        a = np.ones((1000, 1000))
        for i in range(3000):
            a = a + 0.5
        print(a[3, 3])
        """),
    # small arrays
    "small chain": small(CHAIN, 64, 800_000, CHAIN),
    "small sine": small("np.sin(u)", 100, 1_600_000, "np.sin(u)"),
    "small sum": small("u.sum()", 50, 2_000_000, "u.sum(axis=1)"),
    "small norm": small("np.sqrt((u * u).sum())", 50, 1_000_000, "np.sqrt((u * u).sum(axis=1))"),
    "elements": case("takes elements one by one", """
        x = np.zeros(8_000_000)
        for i in range(1, 8_000_000):
            x[i] = i * 0.5  # here
        """, "x = np.arange(8_000_000) * 0.5\nprint(x[-1])"),
    "elements read": case("takes elements one by one", """
        x = rng.random(8_000_000)
        s = 0.0
        for i in range(8_000_000):
            s += x[i]  # here
        """, "x = rng.random(8_000_000)\nprint(x.sum())"),
    # random numbers
    "one by one": case("draw many numbers by one call", """
        total = 0.0
        for i in range(2_000_000):
            total += np.random.normal()  # here
        """, "total = np.random.default_rng(1).normal(size=2_000_000).sum()\nprint(total)"),
    "one generator": case("draw many numbers by one call", """
        total = 0.0
        for i in range(6_000_000):
            total += rng.random()  # here
        """, "total = rng.random(6_000_000).sum()\nprint(total)"),
    "small draws": case("draw many numbers by one call", """
        for i in range(500_000):
            z = np.random.uniform(0, 1, 20)  # here
        """, "z = rng.uniform(0, 1, (500_000, 20))\nprint(z[0, 0])"),
    "doubles drawn": case("draw fewer", """
        for i in range(60):
            z = rng.standard_normal(2_000_000)  # here
        print(z[0])
        """, """
        z = rng.standard_normal(2_000_000)
        print(z[0])
        """),
    # dtypes
    "objects": case("arrays of Python objects stay NumPy's", """
        a = np.array([1, 2, 3] * 300_000, dtype=object)
        for i in range(60):
            b = a + a  # here
        """, """
        a = np.array([1, 2, 3] * 300_000)
        for i in range(60):
            b = a + a
        print(b[0])
        """),
    "long doubles": case("use float64", """
        a = np.ones(1_000_000, dtype=np.longdouble)
        for i in range(100):
            a = np.sqrt(a + 1)  # here
        print(a[3])
        """, """
        a = np.ones(1_000_000)
        for i in range(100):
            a = np.sqrt(a + 1)
        print(a[3])
        """),
    "underflow": case("under='ignore') lets it be recorded", """
        np.seterr(all="warn")
        a = np.ones(1_000_000)
        for i in range(2000):
            a = np.sqrt(a + 1)  # here
        print(a[3])
        """, """
        a = np.ones(1_000_000)
        for i in range(2000):
            a = np.sqrt(a + 1)
        print(a[3])
        """),
    "warnings are errors": case("since warnings are errors", """
        import warnings
        warnings.simplefilter("error")
        a = np.ones(1_000_000)
        for i in range(2000):
            a = np.sqrt(a + 1)  # here
        print(a[3])
        """, """
        a = np.ones(1_000_000)
        for i in range(2000):
            a = np.sqrt(a + 1)
        print(a[3])
        """),
    # NumPy's own functions
    "vectorize": case("Python runs it for each element", """
        f = np.vectorize(lambda x: x * 2 + 1)
        a = np.ones(1_000_000)
        for i in range(10):
            b = f(a)  # here
        """, """
        a = np.ones(1_000_000)
        for i in range(10):
            b = a * 2 + 1
        print(b[0])
        """),
    "apply along axis": case("Python runs it for each row", """
        a = np.ones((60_000, 10))
        for i in range(6):
            b = np.apply_along_axis(np.sum, 1, a)  # here
        """, """
        a = np.ones((60_000, 10))
        for i in range(6):
            b = a.sum(axis=1)
        print(b[0])
        """),
    "median": case("ndarray.partition", """
        a = rng.random(2_000_000)
        for i in range(25):
            m = np.median(a)  # here
        """, "a = rng.random(2_000_000)\nm = np.median(a)"),
    "convolve": case("convolve", """
        a = rng.random(1_000_000)
        for i in range(60):
            b = np.convolve(a, [0.25, 0.5, 0.25], "valid")  # here
        print(b[0])
        """, """
        a = rng.random(1_000_000)
        for i in range(60):
            b = 0.25 * a[:-2] + 0.5 * a[1:-1] + 0.25 * a[2:]
        print(b[0])
        """),
    # compiling, BLAS, Python
    "compiling": case("waits for the compiler", """
        a = np.linspace(0, 1, 1_000_000)
        for i in range(60):
            b = np.sin(a) * np.cos(a * i) + np.exp(-a) + np.hypot(a, i) + np.arctan(a)  # here
            c = b.sum()
        """, """
        a = np.linspace(0, 1, 1_000_000)
        for i in range(60):
            b = np.sin(a) * np.cos(a * i) + np.exp(-a) + np.hypot(a, i) + np.arctan(a)
            c = b.sum()
        """, cold=True),
    "products": case("BLAS does it on all processors", """
        a = np.ones((700, 700))
        for i in range(60):
            b = a @ a  # here
        """, "a = np.ones((700, 700))\nb = a @ a\nc = b * 60"),
    "many products": case("fewer, larger products", """
        a = rng.random((400, 400))
        v = rng.random((400, 30000))
        for i in range(30000):
            b = a @ v[:, i]  # here
        """, "a = rng.random((400, 400))\nv = rng.random((400, 30000))\nb = a @ v"),
    # written later, to see what was missed; in the order in which they were tried
    "convergence": case("after every 6 operations", """
        a = np.ones(1_000_000)
        n = 0
        while n < 2000:
            b = np.sqrt(a * 0.999 + 1e-9 * n)
            n += 1
            if np.abs(b - a).max() < 1e-12:  # here
                break
            a = b
        """, """
        a = np.ones(1_000_000)
        n = 0
        while n < 2000:
            b = np.sqrt(a * 0.999 + 1e-9 * n)
            n += 1
            if n % 10 == 0 and np.abs(b - a).max() < 1e-12:
                break
            a = b
        """),
    "places each round": case("reads a result after every 3", """
        a = rng.random(1_000_000)
        for i in range(1500):
            a = a * 0.999 + 0.0005
            places = np.nonzero(a > 0.9)[0]  # here
        """, """
        a = rng.random(1_000_000)
        for i in range(1500):
            a = a * 0.999 + 0.0005
        places = np.nonzero(a > 0.9)[0]
        """),
    "a loop over numbers": case("Python goes through elements", """
        t = 0.0
        for v in rng.random(3_000_000):
            t += v * v  # here
        """, "v = rng.random(3_000_000)\nt = (v * v).sum()\nprint(t)"),
    "Python's sum": case("Python goes through elements", """
        a = rng.random(2_000_000)
        for i in range(10):
            t = sum(a)  # here
        """, "a = rng.random(2_000_000)\nt = a.sum()\nprint(t)"),
    "comprehension": case("Python goes through elements", """
        import math
        a = rng.random(3_000_000)
        b = np.array([math.sin(x) * 2 for x in a])  # here
        """, "a = rng.random(3_000_000)\nb = np.sin(a) * 2\nprint(b[3])"),
    "fromiter": case("Python goes through elements", """
        a = np.fromiter((i * i % 7 for i in range(6_000_000)), float)  # here
        """, "i = np.arange(6_000_000)\na = (i * i % 7).astype(float)\nprint(a[3])"),
    "text files": case("np.save writes", """
        import io
        a = rng.random((300, 300))
        for i in range(15):
            np.savetxt(io.StringIO(), a)  # here
        """, """
        import io
        a = rng.random((300, 300))
        for i in range(15):
            np.save(io.BytesIO(), a)
        """),
    "choices": case("draw many numbers by one call", """
        n = 0
        for i in range(100_000):
            n += int(rng.choice(10))  # here
        """, "n = int(rng.integers(0, 10, 100_000).sum())"),
    "many solutions": case("works on arrays of", """
        m = rng.random((100_000, 4, 4)) + 4 * np.eye(4)
        x = np.empty((100_000, 4))
        for i in range(100_000):
            x[i] = np.linalg.solve(m[i], m[i, 0])  # here
        """, """
        m = rng.random((100_000, 4, 4)) + 4 * np.eye(4)
        x = np.linalg.solve(m, m[:, 0, :, None])
        """),
    "generators": case("makes a random generator each time", """
        for i in range(30_000):
            z = np.random.default_rng(i).random()  # here
        """, "z = np.random.default_rng(1).random(30_000)"),
    "three arrays": case("does three arrays and more by pairs", """
        a = rng.random((60, 60))
        for i in range(40):
            b = np.einsum("ij,jk,kl->il", a, a, a)  # here
        """, """
        a = rng.random((60, 60))
        for i in range(40):
            b = np.einsum("ij,jk,kl->il", a, a, a, optimize=True)
        """),
    "Python": case("Python itself or another library", """
        total = 0
        while total < 20_000_000:
            total = abs(total) + 1  # here
        """, "total = sum(range(3))"),
}  # fmt: skip


def run(words: list[str], folder: Path, environment: dict[str, str]) -> float:
    """Seconds of a process."""
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "npaccel", *words],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return time.perf_counter() - begin


class Found(NamedTuple):
    """place : of the sentence that names it; 0: none. first : what the first one says. Percent."""

    place: int
    first: str
    about: float
    says: float | None
    gained: float


def measure(own: Case, rounds: int) -> Found:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "slow.py").write_text(own.slow)
        (folder / "mended.py").write_text(own.mended)
        (folder / "empty.py").write_text(START)
        usual = {key: text for key, text in os.environ.items() if not key.startswith("NPACCEL_")}
        caches = [usual | {"NPACCEL_CACHE_DIR": str(folder / f"cache{k}")} for k in range(2)]
        if not own.cold:
            run(["run", "slow.py"], folder, caches[0])
        run(["profile", "--out", "a", "slow.py"], folder, caches[0])
        run(["run", "mended.py"], folder, caches[1])
        slow, mended, empty = [], [], []
        for number in range(rounds):
            new = usual | {"NPACCEL_CACHE_DIR": str(folder / f"new{number}")}
            slow.append(run(["run", "slow.py"], folder, new if own.cold else caches[0]))
            mended.append(run(["run", "mended.py"], folder, caches[1]))
            empty.append(run(["run", "empty.py"], folder, caches[1]))
        profile = read(folder / "a")
        found = advice(profile)
        line = own.slow.splitlines().index(*[r for r in own.slow.splitlines() if "# here" in r]) + 1
        before, after = min(slow) - min(empty), min(mended) - min(empty)
        told = Found(0, found[0].sentence() if found else "nothing", 0.0, None, 0.0)
        for number, one in enumerate(found[:SHOWN], 1):
            if one.site.endswith(f"slow.py:{line}") and own.words in one.sentence():
                says = None if one.gain_s is None else 100 * one.gain_s / profile.wall_s
                told = told._replace(
                    place=number, about=100 * one.seconds / profile.wall_s, says=says
                )
                break
        return told._replace(gained=100 * (1 - after / before))


def main() -> int:
    parser = argparse.ArgumentParser(description="the doctor's sentences, and what they gain")
    parser.add_argument("--only", default="", help="names of cases, with commas")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    named, said, kept, total = 0, 0, 0, 0
    print(f"{'':22}{'place':>6}{'about %':>8}{'says %':>8}{'gained %':>9}")
    for name, own in CASES.items():
        if options.only and name not in options.only.split(","):
            continue
        found = measure(own, options.rounds)
        says = "-" if found.says is None else f"{found.says:.0f}"
        told = "" if found.place else f"  {found.first[:90]}"
        numbers = f"{found.place:6d}{found.about:8.0f}{says:>8}{found.gained:9.0f}"
        print(f"{name:22}{numbers}{told}", flush=True)
        total += 1
        named += found.place > 0
        said += found.says is not None
        kept += found.says is not None and abs(found.says - found.gained) <= WITHIN
    print(f"named {named} of {total}; {said} say what is saved, {kept} of them within {WITHIN} %")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
