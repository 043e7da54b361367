"""The most memory that a chain of 20 operations on 64 MiB arrays takes beyond its inputs.

Each contender runs in a fresh process; VmHWM after the chain less VmHWM before it. It is the first
call, compilers included; npaccel in its default tiers, with nothing on disk. A result is 64 MiB.
"""

import sys

import numpy as np
from contenders import with_jax, with_npaccel, with_numba, with_numexpr, with_numpy
from fresh import each, own_peak_bytes, report, say

N = 2**23
NAMES = ("numpy", "npaccel", "numexpr", "numba", "jax")


def chain(x, y):
    z = x
    for _ in range(10):
        z = z * 0.5 + y
    return z


def text():
    z = "x"
    for _ in range(10):
        z = f"({z} * 0.5 + y)"
    return z


def call_of(name, arrays):
    make = {
        "numpy": lambda: with_numpy(chain, arrays),
        "npaccel": lambda: with_npaccel(chain, arrays),
        "numexpr": lambda: with_numexpr(text(), arrays),
        "numba": lambda: with_numba(chain, arrays),
        "jax": lambda: with_jax(lambda jax: chain, arrays),
    }[name]
    return make()()


def arrays_of(n):
    return {"x": np.linspace(0.0, 1.0, n), "y": np.linspace(1.0, 2.0, n)}


def child(name):
    arrays = arrays_of(N)
    if name == "npaccel":
        import npaccel

        npaccel.config.tiering, npaccel.config.cache = "adaptive", "off"
    call = call_of(name, arrays)
    before = own_peak_bytes()
    result = np.asarray(call())
    peak = own_peak_bytes() - before
    if not np.allclose(result, chain(**arrays), rtol=1e-14):
        sys.exit(f"{name} is wrong")
    say(peak_mib=peak / 2**20)
    return 0


def main():
    if sys.argv[1:2] == ["--child"]:
        return child(sys.argv[2])
    results, skipped = each(__file__, NAMES)
    report("peak_memory", __doc__, results, skipped)
    return any("wrong" in reason for reason in skipped.values())


if __name__ == "__main__":
    sys.exit(main())
