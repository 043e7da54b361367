"""Programs as other people write them, slow for one planted cause each. As planted.py's.

They were written before any of them was tried; the words that are looked for were changed in five
once it was seen what the doctor says.
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
}  # fmt: skip
