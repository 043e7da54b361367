"""Loops of one or two statements, as programs have them: where does npaccel take longer than NumPy?

    python bench/idioms.py --sizes 9000,16384,40000 --only gather,zscore

Microseconds of a round, the median of calls after half of the time; each way in a process of its
own. A line whose loop is slower than in NumPy is marked.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from harness import ROOT, machine, write

# a, b, c: vectors; m, w: square matrices; p, v: points; i: places; k: whole numbers below nine
IDIOMS = {
    "euler": "a = a + 0.01 * (b - a)",
    "euler in place": "a += 0.01 * (b - a)",
    "norm each round": "a = a * 0.99 + b; worst = float(np.abs(a).max())",
    "error each round": "a = a * 0.99 + b; error = float(((a - b) ** 2).mean())",
    "extremes each round": "a = a * 0.99 + b; least, most = a.min(), a.max()",
    "small result each round": "v = (m * 1.1 + m * m).sum(0); most = (v[1:] - v[:-1]).max()",
    "spread each round": "w = m - m.mean(0); spread = float((w * w).mean())",
    "dot each round": "a = a * 0.99 + b; dot = a @ b",
    "element each round": "a = a * -1.0; one = a[3]",
    "clip": "a = np.clip(a * 1.01, 0, 1)",
    "where": "a = np.where(a > 0.5, a * 0.9, a + 0.1)",
    "set by a mask": "a += 0.1; a[a > 1] = 0",
    "inner part by a mask": "v = m[1:-1, 1:-1]; q = v > 0.5; v[q] += 0.1 * w[1:-1, 1:-1][q]",
    "count": "a += 0.01; count = int((a > 0.5).sum())",
    "any": "a = a + 0.001; over = (a > 1e9).any()",
    "argmax": "a = a * 1.0001; place = a.argmax()",
    "sweep": "n = m.copy(); n[1:-1, 1:-1] = (m[2:, 1:-1] + m[:-2, 1:-1] + m[1:-1, 2:]) / 3; m = n",
    "sweep by roll": "m = m + 0.1 * (np.roll(m, 1, 0) + np.roll(m, 1, 1) - 2 * m)",
    "residual": "n = (m + m.T) / 2; worst = np.abs(n - m).max(); m = n",
    "extremes": "w = np.maximum.reduce([m, m.T, w * 0.5])",
    "life": "t = sum(np.roll(u, s, e) for s in (1, -1) for e in (0, 1)); u = (t > 1) & (t < 4)",
    "gather": "a = b[i] * 0.5 + a * 0.5",
    "scatter": "c = np.zeros(n); np.add.at(c, i, a)",
    "bincount": "c = np.bincount(i, weights=a, minlength=n)",
    "cumsum": "c = np.cumsum(a - a.mean())",
    "sort": "c = np.sort(a * b)",
    "softmax": "w = np.exp(m - m.max(1, keepdims=True)); w = w / w.sum(1, keepdims=True)",
    "z-score": "w = (m - m.mean(0)) / (m.std(0) + 1e-9)",
    "to 0 and 1": "c = (a - a.min()) / (a.max() - a.min() + 1e-9)",
    "outer": "w = np.outer(a[:r], b[:r]) + w * 0.5",
    "points": "v *= -1.0; v += -0.1 * p; p += 0.1 * v",
    "distances": "d = p - p[0]; nearest = np.sqrt((d**2).sum(1)).min()",
    "columns": "p[:, 0] += 0.1 * p[:, 1]; p[:, 1] -= 0.1 * p[:, 0]",
    "single precision": "f = f * np.float32(0.9) + np.float32(0.1)",
    "functions": "a = np.exp(-a) * np.sin(b)",
    "logarithms": "c = np.log1p(np.abs(a)) - np.log(b + 1)",
    "polynomial": "c = ((2 * a + 1) * a - 3) * a + 0.5",
    "whole numbers": "k = (k * 7 + 3) % 11",
    "bits": "k ^= (k << 1) & 15",
    "history": "kept.append(a * 2); del kept[:-20]",
    "filled": "kept.append(np.full(n, 2.0)); del kept[:-20]",
    "new and in place": "c = np.zeros(n); c += 1; c *= a",
    "new and assigned": "c = np.zeros(n); c[:] = a; c *= 2; one = c[5]",
    "stack": "c = np.stack([a, b]).sum(0)",
    "concatenate": "c = np.concatenate([a[1:], a[:1]]) * 0.5 + a * 0.5",
    "differences": "c[1:] = np.diff(a) * 2",
    "triangles": "w = np.tril(m) + np.triu(m, 1).T",
    "transpose": "m = m.T * 0.5 + m * 0.5",
    "steps of two": "c[::2] = a[::2] * 2; c[1::2] = b[1::2]",
    "product": "w = m[:64] @ m * 0.01",
    "transform": "c = np.fft.irfft(np.fft.rfft(a) * 0.9, n)",
    "complex": "z = a + 1j * b; c = np.abs(z * z + 0.1)",
    "drawn": "a = a + rng.standard_normal(n) * 0.01",
    "row each round": "w[step % r] = m[step % r] * 2",
    "means": "c = m.mean(axis=1); d = m.mean(axis=0)",
    "missing": "c = a / b; c = np.where(np.isnan(c), 0, c)",
    "list": "one = (a * 2).tolist()[0]",
    "interpolated": "c = np.interp(b, a, b)",
    "bytes": "c = (a * 255).astype('u1').astype('f8') / 255",
}
WAYS = ("numpy", "npaccel")
SLOWER = 0.93
CALL_S = 0.02


def state(n):
    """What a loop begins with."""
    rng, r = np.random.default_rng(0), int(n**0.5)
    return {
        "a": np.linspace(0, 1, n), "b": rng.random(n), "c": np.zeros(n), "m": rng.random((r, r)),
        "w": np.zeros((r, r)), "p": rng.random((n // 3, 3)), "v": np.zeros((n // 3, 3)),
        "f": rng.random(n).astype("f4"), "i": rng.integers(0, n, n), "k": rng.integers(0, 9, n),
        "u": rng.integers(0, 2, (r, r)).astype("u1"), "kept": [], "n": n, "r": r, "rng": rng,
    }  # fmt: skip


def microseconds(body, n, seconds):
    names = ", ".join(state(n))
    source = f"def loop(rounds, {names}):\n    for step in range(rounds):\n        {body}\n"
    scope = {"np": np}
    exec(compile(source, f"<{body}>", "exec"), scope)
    rounds, times, end = 3, [], time.perf_counter() + seconds
    while len(times) < 4 or time.perf_counter() < end:
        held = state(n)
        begun = time.perf_counter()
        scope["loop"](rounds, **held)
        times.append((time.perf_counter() - begun) / rounds)
        rounds = max(3, int(CALL_S / times[-1]))
    return 1e6 * statistics.median(times[len(times) // 2 :])


def child(way, n, seconds, names):
    block = contextlib.nullcontext()
    if way != "numpy":
        import npaccel

        npaccel.config.tiering = "adaptive"
        block = npaccel.accelerate()
    with block, np.errstate(all="ignore"):
        print(json.dumps({name: microseconds(IDIOMS[name], n, seconds) for name in names}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", default="9000,16384,40000")
    parser.add_argument("--seconds", type=float, default=3.0, help="of a loop, in a block")
    parser.add_argument("--only", default=",".join(IDIOMS))
    parser.add_argument("--json", type=Path, default=ROOT / ".bench" / "idioms.json")
    options = parser.parse_args()
    rows, names = {}, options.only.split(",")
    for n in map(int, options.sizes.split(",")):
        found = {}
        for way in WAYS:
            seconds = options.seconds / (6 if way == "numpy" else 1)
            command = [sys.executable, __file__, way, str(n), str(seconds), options.only]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=os.environ)
            found[way] = json.loads(done.stdout)
        print(f"{n:<20}{'NumPy':>9}{'npaccel':>9}   us a round; speed")
        for name in names:
            numpys, ours = (found[way][name] for way in WAYS)
            rows[f"{name}, {n}"] = {"numpy": numpys, "npaccel": ours}
            mark = "  slower" if numpys < SLOWER * ours else ""
            print(f"{name:<20}{numpys:9.1f}{ours:9.1f}   {numpys / ours:5.2f}{mark}", flush=True)
    write({"machine": machine(), "rows": rows}, options.json)


if __name__ == "__main__":
    if len(sys.argv) == 5 and sys.argv[1] in WAYS:
        child(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4].split(","))
    else:
        main()
