"""Programs slow for one planted cause, which `doctor.py` has the doctor look at.

Each has a line `# here`, which is the cause, words that the doctor's sentence has to have, and a
second form, as the remedy has it.
"""

from __future__ import annotations

import textwrap
from typing import NamedTuple

ROWS = 2000  # of data that small arrays are
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


# What is recorded, once nothing stops it.
ROOTS = """
    a = np.ones(1_000_000)
    for i in range(2000):
        a = np.sqrt(a + 1)
    print(a[3])
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
        """, ROOTS),
    "warnings are errors": case("since warnings are errors", """
        import warnings
        warnings.simplefilter("error")
        a = np.ones(1_000_000)
        for i in range(2000):
            a = np.sqrt(a + 1)  # here
        print(a[3])
        """, ROOTS),
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
    "median": case("`np.median`", """
        a = rng.random(2_000_000)
        for i in range(25):
            m = np.median(a)  # here
        """, "a = rng.random(2_000_000)\nm = np.median(a)"),
    "unique": case("unique", """
        a = rng.integers(0, 1000, 1_000_000)
        for i in range(60):
            b = np.unique(a)  # here
        print(b[0])
        """, """
        a = rng.integers(0, 1000, 1_000_000)
        for i in range(60):
            b = np.flatnonzero(np.bincount(a))
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
    # others, written after those, of other kinds
    "masked": case("has operators of another class", """
        a = np.ma.masked_greater(rng.random(1_000_000), 0.9)
        for i in range(100):
            a = a * 0.5 + 0.25  # here
        print(a[3])
        """, """
        x = rng.random(1_000_000)
        m = x > 0.9
        for i in range(100):
            x = x * 0.5 + 0.25
        print(x[3], m[3])
        """),
    "growing": case("copies all of `a` each time", """
        a = np.empty(0)
        for i in range(30_000):
            a = np.append(a, i * 0.5)  # here
        print(a[3])
        """, """
        a = np.empty(30_000)
        for i in range(30_000):
            a[i] = i * 0.5
        print(a[3])
        """),
    "growing rows": case("copies all of `a` each time", """
        a = np.empty((0, 50))
        for i in range(4000):
            a = np.vstack([a, np.full(50, i * 0.5)])  # here
        print(a[3, 3])
        """, """
        rows = []
        for i in range(4000):
            rows.append(np.full(50, i * 0.5))
        a = np.vstack(rows)
        print(a[3, 3])
        """),
    "all raise": case("lets it be recorded", """
        np.seterr(all="raise", under="ignore")
        a = np.ones(1_000_000)
        for i in range(2000):
            a = a * 0.5 + 1  # here
        print(a[3])
        """, """
        a = np.ones(1_000_000)
        for i in range(2000):
            a = a * 0.5 + 1
        print(a[3])
        """),
    "a buffer held": case("that other code holds a buffer on", """
        a = np.ones(1_000_000)
        view = memoryview(a)
        for i in range(3000):
            a *= 0.999  # here
        print(view[3])
        """, """
        a = np.ones(1_000_000)
        for i in range(3000):
            a *= 0.999
        view = memoryview(a)
        print(view[3])
        """),
    "dates": case("x.astype('i8') once", """
        d = np.datetime64("2020-01-01") + np.arange(1_000_000)
        for i in range(300):
            n = (d - d[i]).astype("i8")  # here
        print(n[3])
        """, """
        d = np.datetime64("2020-01-01") + np.arange(1_000_000)
        k = d.astype("i8")
        for i in range(300):
            n = k - k[i]
        print(n[3])
        """),
    "column of records": case("np.array(x['field']) copies it once", """
        r = np.zeros(1_000_000, dtype=[("x", "f8"), ("n", "i4")])
        for i in range(300):
            r["x"] = r["x"] * 0.5 + 1  # here
        print(r[3])
        """, """
        x = np.zeros(1_000_000)
        for i in range(300):
            x = x * 0.5 + 1
        print(x[3])
        """),
    "ndenumerate": case("Python goes through elements", """
        a = rng.random((1500, 1000))
        t = 0.0
        for place, v in np.ndenumerate(a):  # here
            t += v * v
        print(t)
        """, "a = rng.random((1500, 1000))\nprint((a * a).sum())"),
    "Python's random": case("draw many numbers by one call", """
        import random
        for k in range(3):
            a = np.array([random.random() for _ in range(1_000_000)])  # here
        print(a[3])
        """, """
        for k in range(3):
            a = rng.random(1_000_000)
        print(a[3])
        """),
    "lists": case("whose numbers are Python's objects", """
        data = [k * 0.5 for k in range(1_000_000)]
        for i in range(30):
            a = np.array(data) * i  # here
        print(a[3])
        """, """
        data = np.array([k * 0.5 for k in range(1_000_000)])
        for i in range(30):
            a = data * i
        print(a[3])
        """),
    "to lists": case("Python goes through elements", """
        a = rng.random(1_000_000)
        for i in range(20):
            a = a * 0.5 + 0.25
            m = max(a.tolist())  # here
        print(m)
        """, """
        a = rng.random(1_000_000)
        for i in range(20):
            a = a * 0.5 + 0.25
            m = a.max()
        print(m)
        """),
    "fractions": case("arrays of Python objects stay NumPy's", """
        from fractions import Fraction
        a = np.array([Fraction(k, 7) for k in range(50_000)])
        for i in range(5):
            b = a * 2 + 1  # here
        print(b[3])
        """, """
        a = np.array([k / 7 for k in range(50_000)])
        for i in range(5):
            b = a * 2 + 1
        print(b[3])
        """),
    "inverse": case("np.linalg.solve(a, b) is inv(a) @ b", """
        a = rng.random((600, 600)) + 600 * np.eye(600)
        b = rng.random(600)
        for i in range(20):
            x = np.linalg.inv(a) @ b  # here
        print(x[3])
        """, """
        a = rng.random((600, 600)) + 600 * np.eye(600)
        b = rng.random(600)
        for i in range(20):
            x = np.linalg.solve(a, b)
        print(x[3])
        """),
}  # fmt: skip
