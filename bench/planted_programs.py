"""Programs as other people write them, slow for one planted cause each. As planted.py's.

They were written before any of them was tried; the words that are looked for were changed in five
once it was seen what the doctor says, and those of the last ones written by what it says since.
"""

from __future__ import annotations

from planted import case

PROGRAMS = {
    "logged losses": case("reads a result after every", """
        def fit(x, y, rate, rounds):
            w, b, losses = 0.0, 0.0, []
            for _ in range(rounds):
                error = w * x + b - y
                losses.append(float(np.square(error).mean()))  # here
                w, b = w - rate * 1e-3, b - rate * 1e-3
            return losses

        x = np.linspace(-1, 1, 500_000)
        print(fit(x, 3 * x + 0.5, 0.1, 2500)[-1])
        """, """
        def fit(x, y, rate, rounds):
            w, b, losses = 0.0, 0.0, []
            for _ in range(rounds):
                error = w * x + b - y
                losses.append(np.square(error).mean(keepdims=True))
                w, b = w - rate * 1e-3, b - rate * 1e-3
            return np.concatenate(losses)

        x = np.linspace(-1, 1, 500_000)
        print(fit(x, 3 * x + 0.5, 0.1, 2500)[-1])
        """),
    "hashed frames": case("reads a result after every 2", """
        import zlib
        frame = np.zeros((600, 800))
        for shot in range(800):
            frame = np.minimum(frame * 0.98 + 0.02 * shot, 255.0)
            check = zlib.adler32(memoryview(frame)[:4])  # here
        print(check)
        """, """
        import zlib
        frame = np.zeros((600, 800))
        for shot in range(800):
            frame = np.minimum(frame * 0.98 + 0.02 * shot, 255.0)
        check = zlib.adler32(memoryview(frame)[:4])
        print(check)
        """),
    "vectors as objects": case("works on arrays of", """
        class Ball:
            def __init__(self, place, speed):
                self.place, self.speed = np.array(place), np.array(speed)

            def step(self, dt):
                self.place = self.place + self.speed * dt  # here

        balls = [Ball(rng.random(3), rng.random(3)) for _ in range(2000)]
        for t in range(600):
            for ball in balls:
                ball.step(0.01)
        print(balls[0].place)
        """, """
        places, speeds = rng.random((2000, 3)), rng.random((2000, 3))
        for t in range(600):
            places = places + speeds * 0.01
        print(places[0])
        """),
    "dice": case("draw many numbers by one call", """
        wins = 0
        for game in range(300_000):
            throw = rng.integers(1, 7, size=2)  # here
            if throw[0] == throw[1]:
                wins += 1
        print(wins)
        """, """
        throws = rng.integers(1, 7, size=(300_000, 2))
        print((throws[:, 0] == throws[:, 1]).sum())
        """),
    "a plain table": case("np.take(np.array(GAMMA), ", """
        import mmap
        held = mmap.mmap(-1, 1 << 21)
        held.write(bytes(range(256)) * 8192)
        GAMMA = np.frombuffer(held, "u1")
        picture = rng.integers(0, 256, (1000, 1000))
        for k in range(400):
            shown = GAMMA[(picture + k) % 256] * 2  # here
        print(shown[3, 3])
        """, """
        import mmap
        held = mmap.mmap(-1, 1 << 21)
        held.write(bytes(range(256)) * 8192)
        GAMMA = np.array(np.frombuffer(held, "u1"))
        picture = rng.integers(0, 256, (1000, 1000))
        for k in range(400):
            shown = np.take(GAMMA, (picture + k) % 256, mode="clip") * 2
        print(shown[3, 3])
        """),
    "people": case("np.array(x['field']) copies it once", """
        people = np.zeros(400_000, dtype=[("name", "S7"), ("age", "i2"), ("pay", "f8")])
        people["age"] = rng.integers(18, 80, len(people))
        for year in range(1000):
            people["pay"] = people["pay"] * 1.02 + 100.0  # here
        print(people["pay"].sum())
        """, """
        pay = np.zeros(400_000)
        for year in range(1000):
            pay = pay * 1.02 + 100.0
        print(pay.sum())
        """),
    "safe sums": case("use float64", """
        prices = rng.random(1_000_000).astype(np.longdouble)
        for day in range(120):
            total = np.cumsum(prices * prices)  # here
        print(total[-1])
        """, """
        prices = rng.random(1_000_000)
        for day in range(120):
            total = np.cumsum(prices * prices)
        print(total[-1])
        """),
    "fits": case("several right-hand sides in one call", """
        t = np.linspace(0, 1, 200_000)
        for k in range(25):
            y = np.sin(t * k)
            c = np.polyfit(t, y, 5)  # here
        print(c)
        """, """
        t = np.linspace(0, 1, 200_000)
        y = np.stack([np.sin(t * k) for k in range(25)], 1)
        c = np.polyfit(t, y, 5)
        print(c[:, -1])
        """),
    "first run": case("waits for the compiler", """
        def price(s, k, t, v):
            return s * np.tanh(np.log(s / k) / (v * np.sqrt(t))) - k * np.exp(-0.02 * t)  # here

        s = np.linspace(50, 150, 600_000)
        for v in np.linspace(0.1, 0.9, 120):
            p = price(s, 100.0, 0.5 + s * 1e-3, v + s * 1e-4)
            top = p.max()
        print(top)
        """, """
        def price(s, k, t, v):
            return s * np.tanh(np.log(s / k) / (v * np.sqrt(t))) - k * np.exp(-0.02 * t)

        s = np.linspace(50, 150, 600_000)
        for v in np.linspace(0.1, 0.9, 120):
            p = price(s, 100.0, 0.5 + s * 1e-3, v + s * 1e-4)
            top = p.max()
        print(top)
        """, cold=True),
    "covariances": case("BLAS does it on all processors", """
        returns = rng.standard_normal((3000, 700))
        for window in range(40):
            part = returns[window : window + 2500]
            cov = np.matmul(part.T, part) / 2500  # here
        print(cov[3, 3])
        """, """
        returns = rng.standard_normal((3000, 700))
        cov = np.matmul(returns[:2500].T, returns[:2500]) / 2500
        print(cov[3, 3])
        """),
    "array.array": case("writes in place into memory that is not npaccel's", """
        import array
        store = array.array("d", bytes(8 * 600_000))
        field = np.frombuffer(store)
        for step in range(5000):
            np.multiply(field, 0.999, out=field)  # here
        print(store[7])
        """, """
        import array
        store = array.array("d", bytes(8 * 600_000))
        field = np.array(np.frombuffer(store))
        for step in range(5000):
            np.multiply(field, 0.999, out=field)
        np.frombuffer(store)[:] = field
        print(store[7])
        """),
    "a generator of pairs": case("Python goes through elements", """
        def pairs(n):
            for i in range(n):
                yield i * 0.5 - (i % 3)

        values = np.fromiter(pairs(12_000_000), dtype=np.float64, count=12_000_000)  # here
        print(values.sum())
        """, """
        i = np.arange(12_000_000)
        values = i * 0.5 - (i % 3)
        print(values.sum())
        """),
    "counting": case("takes elements one by one", """
        grid = rng.random((3000, 3000))
        above = 0
        for i in range(grid.shape[0]):
            for j in range(grid.shape[1]):
                if grid[i, j] > 0.5:  # here
                    above += 1
        print(above)
        """, "grid = rng.random((3000, 3000))\nprint((grid > 0.5).sum())"),
    "names": case("`np.char.upper`", """
        names = np.array(["user%d" % k for k in range(200_000)])
        for k in range(25):
            shouted = np.char.upper(names)  # here
        print(shouted[3])
        """, """
        names = np.array(["user%d" % k for k in range(200_000)])
        shouted = np.char.upper(names)
        print(shouted[3])
        """),
    "pickled": case("reads a result after every 2", """
        import pickle
        state = rng.random(700_000)
        for step in range(600):
            state = np.sqrt(state * state + 0.1)
            saved = pickle.dumps(state, protocol=5, buffer_callback=lambda b: False)  # here
        print(len(saved))
        """, """
        import pickle
        state = rng.random(700_000)
        for step in range(600):
            state = np.sqrt(state * state + 0.1)
        saved = pickle.dumps(state, protocol=5, buffer_callback=lambda b: False)
        print(len(saved))
        """),
    "python function of arrays": case("Python runs it for each element", """
        def band(x):
            return 1 if x < 0.2 else 2 if x < 0.6 else 3

        bands = np.frompyfunc(band, 1, 1)
        income = rng.random(800_000)
        for year in range(8):
            found = bands(income).astype(int)  # here
        print(found.sum())
        """, """
        income = rng.random(800_000)
        for year in range(8):
            found = 1 + (income >= 0.2) + (income >= 0.6)
        print(found.sum())
        """),
    # others, of 2026-11-29, of kinds that were not there
    "any": case("reads a result after every 4", """
        x = rng.random(1_000_000)
        v = rng.random(1_000_000) * 0.001
        hits = 0
        for step in range(600):
            x = x + v
            v = v * 0.999
            if np.any(x > 1e6):  # here
                hits += 1
        print(hits, x[0])
        """, """
        x = rng.random(1_000_000)
        v = rng.random(1_000_000) * 0.001
        hits = 0
        for step in range(600):
            x = x + v
            v = v * 0.999
            if step % 10 == 9 and np.any(x > 1e6):
                hits += 1
        print(hits, x[0])
        """),
    "a norm each round": case("`np.linalg.norm` reads a result", """
        u = rng.random((1000, 1000))
        error, n = 1.0, 0
        while error > 1e-12 and n < 300:
            new = u.copy()
            new[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
            error = np.linalg.norm(new - u)  # here
            u, n = new, n + 1
        print(n, error)
        """, """
        u = rng.random((1000, 1000))
        error, n = 1.0, 0
        while error > 1e-12 and n < 300:
            new = u.copy()
            new[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
            if n % 10 == 9:
                error = np.linalg.norm(new - u)
            u, n = new, n + 1
        print(n, error)
        """),
    "a number computed with": case("compute with `img.mean()` itself", """
        img = rng.random((800, 800))
        for i in range(800):
            img = (img - img.mean().item()) * 0.9 + 0.5  # here
        print(img[0, 0])
        """, """
        img = rng.random((800, 800))
        for i in range(800):
            img = (img - img.mean()) * 0.9 + 0.5
        print(img[0, 0])
        """),
    "a close look": case("reads a result after every 14", """
        a = rng.random(800_000)
        for i in range(400):
            b = np.sqrt(a * a)
            assert np.allclose(a, b)  # here
            a = b * 0.999
        print(a[0])
        """, """
        a = rng.random(800_000)
        for i in range(400):
            b = np.sqrt(a * a)
            if i % 10 == 9:
                assert np.allclose(a, b)
            a = b * 0.999
        print(a[0])
        """),
    "a mask that picks": case("`x[x > 0.5]` has to know how many", """
        x = rng.random(1_000_000)
        for i in range(150):
            x[x > 0.5] *= 0.9  # here
            x = x + 0.01
        print(x[0])
        """, """
        x = rng.random(1_000_000)
        for i in range(150):
            x = np.where(x > 0.5, x * 0.9, x)
            x = x + 0.01
        print(x[0])
        """),
    "pieces": case("np.where() and np.select() are recorded", """
        x = rng.random(1_000_000)
        for i in range(60):
            y = np.piecewise(x, [x < 0.3, x >= 0.3], [lambda v: v * 2, lambda v: v + 0.3])  # here
        print(y[0])
        """, """
        x = rng.random(1_000_000)
        for i in range(60):
            y = np.where(x < 0.3, x * 2, x + 0.3)
        print(y[0])
        """),
    "a long constant": case("use float64", """
        a = rng.random(600_000)
        pi = np.longdouble("3.14159265358979323846")
        for i in range(80):
            b = a * pi  # here
        print(b[0])
        """, """
        a = rng.random(600_000)
        pi = np.pi
        for i in range(80):
            b = a * pi
        print(b[0])
        """),
    "old normals": case("default_rng() draws such numbers", """
        np.random.seed(3)
        total = 0.0
        for path in range(100):
            steps = np.random.randn(500_000)  # here
            total += steps.sum()
        print(total)
        """, """
        total = 0.0
        for path in range(100):
            steps = rng.standard_normal(500_000)
            total += steps.sum()
        print(total)
        """),
    "shuffled": case("to shuffle is one thread's work", """
        places = np.arange(1_000_000)
        for epoch in range(25):
            rng.shuffle(places)  # here
        print(places[0])
        """, """
        places = np.arange(1_000_000)
        rng.shuffle(places)
        print(places[0])
        """),
    "numbers from text": case("np.load reads such numbers", """
        np.savetxt("t.csv", rng.random((5000, 8)))
        for i in range(15):
            b = np.loadtxt("t.csv")  # here
        print(b.shape)
        """, """
        np.save("t.npy", rng.random((5000, 8)))
        for i in range(15):
            b = np.load("t.npy")
        print(b.shape)
        """),
    "single numbers": case("calls NumPy's functions on single numbers", """
        total, angle = 0.0, 0.0
        for i in range(400_000):
            angle += 0.001
            total += np.cos(angle)  # here
        print(total)
        """, """
        angles = np.cumsum(np.full(400_000, 0.001))
        print(np.cos(angles).sum())
        """),
    "singular values": case("LAPACK does it; ask for no more", """
        m = rng.random((400, 300))
        for i in range(10):
            u, s, v = np.linalg.svd(m * i)  # here
        print(s[0])
        """, """
        m = rng.random((400, 300))
        for i in range(10):
            s = np.linalg.svdvals(m * i)
        print(s[0])
        """),
    "computing": case("nothing holds it back", """
        x = np.linspace(0, 5, 3_000_000)
        sums = []
        for k in range(100):
            sums.append(np.exp(np.sin(x * k) * np.cos(x)).sum(keepdims=True))  # here
        print(np.concatenate(sums).sum())
        """, """
        x = np.linspace(0, 5, 3_000_000)
        sums = []
        for k in range(100):
            sums.append(np.exp(np.sin(x * k) * np.cos(x)).sum(keepdims=True))
        print(np.concatenate(sums).sum())
        """),
}  # fmt: skip
