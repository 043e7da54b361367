"""Gray-Scott spots in single precision, on padded arrays with slices."""

import sys

import numpy as np

size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
n = int(384 * size**0.5)
steps = 1_600
du, dv, feed, kill = np.float32(0.16), np.float32(0.08), np.float32(0.0545), np.float32(0.062)
u_pad = np.ones((n + 2, n + 2), dtype=np.float32)
v_pad = np.zeros((n + 2, n + 2), dtype=np.float32)
u, v = u_pad[1:-1, 1:-1], v_pad[1:-1, 1:-1]
rng = np.random.default_rng(43)
r = max(n // 12, 2)
u[n // 2 - r : n // 2 + r, n // 2 - r : n // 2 + r] = 0.50
v[n // 2 - r : n // 2 + r, n // 2 - r : n // 2 + r] = 0.25
u += (0.05 * rng.random((n, n))).astype(np.float32)
v += (0.05 * rng.random((n, n))).astype(np.float32)


def wrap(z):
    z[0, :] = z[-2, :]
    z[-1, :] = z[1, :]
    z[:, 0] = z[:, -2]
    z[:, -1] = z[:, 1]


for i in range(steps):
    wrap(u_pad)
    wrap(v_pad)
    lu = u_pad[:-2, 1:-1] + u_pad[1:-1, :-2] - 4 * u + u_pad[1:-1, 2:] + u_pad[2:, 1:-1]
    lv = v_pad[:-2, 1:-1] + v_pad[1:-1, :-2] - 4 * v + v_pad[1:-1, 2:] + v_pad[2:, 1:-1]
    uvv = u * v * v
    u += du * lu - uvv + feed * (1 - u)
    v += dv * lv + uvv - (feed + kill) * v
    if i % 400 == 0:
        print("step", i, float(v.max()).__round__(4))
print("u", u.mean(dtype=np.float64).round(5), u.std(dtype=np.float64).round(4))
print("v", v.mean(dtype=np.float64).round(5), v.std(dtype=np.float64).round(4))
print("spots", (v > 0.2).mean().round(4))
