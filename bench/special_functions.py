"""Functions of scipy.special on 2 million doubles, and Black-Scholes with its erf.

    python bench/special_functions.py --only erf,black_scholes

SciPy on plain arrays, npaccel without a compiler, and with kernels, by turns; medians in
milliseconds, SciPy's time over ours with kernels, and how far they are apart in units of the last
place (near the ends of tails SciPy's own rounding of squares is most of it).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from typing import Any

import numpy as np
from scipy import special

import npaccel
from npaccel.dispatch.special import LOOPS, ROWS

N = 2_000_000


def black_scholes(spot: Any, strike: Any, years: Any, volatility: Any) -> Any:
    """Prices of calls and puts, as programs write it."""
    spread = volatility * np.sqrt(years)
    d1 = (np.log(spot / strike) + (0.02 + 0.5 * volatility**2) * years) / spread
    d2 = d1 - spread
    discounted = strike * np.exp(-0.02 * years)
    first, second = (0.5 + 0.5 * special.erf(d / np.sqrt(2.0)) for d in (d1, d2))
    call = spot * first - discounted * second
    return call, call - spot + discounted


def operands(name: str) -> list[np.ndarray]:
    """Usual values."""
    rng = np.random.default_rng(1)
    if name == "black_scholes":
        ranges = ((10, 50), (10, 50), (0.1, 2), (0.1, 0.5))
        return [rng.uniform(low, high, N) for low, high in ranges]
    if name in ("logit", "ndtri"):
        return [rng.random(N)]
    if name in ("erf", "erfc", "ndtr", "log_ndtr", "expit", "log_expit"):
        return [rng.normal(size=N)]
    return [rng.uniform(0.1, 10, N) for _ in range(getattr(special, name).nin)]


def taken_ms(function: Any, arrays: list[Any], tiering: str) -> tuple[float, Any]:
    """Once, and the results."""
    npaccel.config.tiering = tiering
    start = time.perf_counter()
    result = npaccel.evaluate(function(*arrays))
    return (time.perf_counter() - start) * 1e3, result


def apart(got: Any, want: Any) -> float:
    """In units of the last place, at most; of the largest, where terms cancel."""
    if isinstance(want, tuple):
        pairs = zip(got, want, strict=True)
        return max(float(np.abs(np.asarray(x) - y).max() / np.spacing(y.max())) for x, y in pairs)
    with np.errstate(all="ignore"):
        return float(np.nanmax(np.abs(np.asarray(got) - want) / np.spacing(np.abs(want))))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", default=",".join([*sorted(ROWS), *sorted(LOOPS), "black_scholes"])
    )
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    print(f"{'function':14}{'SciPy':>9}{'blocks':>9}{'kernel':>9}")
    for name in options.only.split(","):
        function = black_scholes if name == "black_scholes" else getattr(special, name)
        plain = operands(name)
        wrapped = [npaccel.asarray(x) for x in plain]
        ways = {"SciPy": (plain, "off"), "blocks": (wrapped, "off"), "kernel": (wrapped, "eager")}
        times: dict[str, list[float]] = {way: [] for way in ways}
        results = {}
        for _ in range(options.rounds + 1):
            for way, (arrays, tiering) in ways.items():
                taken, results[way] = taken_ms(function, arrays, tiering)
                times[way].append(taken)
        middle = {way: statistics.median(taken[1:]) for way, taken in times.items()}
        columns = "".join(f"{value:9.2f}" for value in middle.values())
        ratio = middle["SciPy"] / middle["kernel"]
        print(
            f"{name:14}{columns}  {ratio:6.2f}  {apart(results['kernel'], results['SciPy']):7.1f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
