"""Two Python threads that record and evaluate at the same time: what does the one queue cost them?

Each does JOBS evaluations of an expression, on arrays of its own; "one thread" does both halves one
after the other. Then how long a thread waits for a small result while another evaluates something
long: with NumPy it waits for the GIL at most, with npaccel perhaps for the other's evaluation.
"""

import sys
import threading
import time

import numpy as np
from contenders import with_npaccel
from harness import Bench, quartiles

N = 2**18
LONG = 2**24
JOBS = 20


def expression(x, y):
    return np.sqrt(x * x + y * y) * 0.5 - x * y


def long_program(x):
    for _ in range(6):
        x = np.sin(x) + 0.25
    return x


def halves(wrap):
    rng = np.random.default_rng(1)
    return [tuple(wrap(rng.standard_normal(N)) for _ in range(2)) for _ in range(2)]


def jobs(x, y):
    for _ in range(JOBS):
        result = float(expression(x, y)[5])
    return result


def in_turn(wrap):
    work = halves(wrap)
    return lambda: [jobs(*half) for half in work]


def at_once(wrap):
    work = halves(wrap)

    def call():
        results = [None, None]

        def one(i):
            results[i] = jobs(*work[i])

        threads = [threading.Thread(target=one, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results

    return call


def waits(wrap, seconds=3.0):
    """Seconds that a thread waits for small results while another evaluates: median and longest."""
    x, small = wrap(np.linspace(0.0, 1.0, LONG)), wrap(np.linspace(0.0, 1.0, N))
    end, samples = time.monotonic() + seconds, []

    def evaluate():
        while time.monotonic() < end:
            float(long_program(x)[5])

    thread = threading.Thread(target=evaluate)
    thread.start()
    while time.monotonic() < end:
        time.sleep(0.005)
        began = time.perf_counter()
        float((small * 2.0 + 1.0)[5])
        samples.append(time.perf_counter() - began)
    thread.join()
    return quartiles(samples)["median_s"], max(samples)


def main():
    def npaccel(make):
        def ready():
            with_npaccel(expression, {"x": np.ones(N), "y": np.ones(N)})()  # Skip where it is not
            import npaccel as na

            return make(na.asarray)

        return ready

    bench = Bench("two_threads", __doc__)
    bench.reference = in_turn(np.asarray)
    bench.add("numpy one thread", lambda: in_turn(np.asarray))
    bench.add("numpy two threads", lambda: at_once(np.asarray))
    bench.add("npaccel one thread", npaccel(in_turn))
    bench.add("npaccel two threads", npaccel(at_once))
    status = bench.main()
    print("  wait for a small result while another thread evaluates: median, longest")
    wraps = {"numpy": np.asarray}
    if any(c.name.startswith("npaccel") and c.samples_s for c in bench.contenders):
        import npaccel as na

        wraps["npaccel"] = na.asarray
    for name, wrap in wraps.items():
        median, longest = waits(wrap)
        print(f"  {name:18} {median * 1e3:8.2f} ms {longest * 1e3:8.2f} ms")
    return status


if __name__ == "__main__":
    sys.exit(main())
