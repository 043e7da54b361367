"""Gray-Scott reaction and diffusion: two substances that form spots, on a torus, float32."""

import numpy as np

SIZE = 768


def inputs(size=SIZE):
    rng = np.random.default_rng(17)
    u = np.ones((size + 2, size + 2), np.float32)
    v = np.zeros((size + 2, size + 2), np.float32)
    low, high = size * 2 // 5, size * 3 // 5
    u[low:high, low:high], v[low:high, low:high] = 0.5, 0.25
    v += rng.uniform(0.0, 0.02, v.shape).astype(np.float32)
    return {"u": u, "v": v}


def wrap_edges(a):
    a[0, :], a[-1, :] = a[-2, :], a[1, :]
    a[:, 0], a[:, -1] = a[:, -2], a[:, 1]


def laplacian(a):
    return a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] - 4 * a[1:-1, 1:-1]


def main(u, v, steps=20, feed=0.037, kill=0.06):
    u, v = u.copy(), v.copy()
    inner_u, inner_v = u[1:-1, 1:-1], v[1:-1, 1:-1]
    for _ in range(steps):
        wrap_edges(u)
        wrap_edges(v)
        reaction = inner_u * inner_v * inner_v
        change_u = 0.16 * laplacian(u) - reaction + feed * (1 - inner_u)
        change_v = 0.08 * laplacian(v) + reaction - (feed + kill) * inner_v
        inner_u += change_u
        inner_v += change_v
    return u, v
