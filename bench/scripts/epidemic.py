"""An epidemic among 300,000 people who meet at random: states, masks, ages, a lock-down."""

import sys

import numpy as np

size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
people, days = int(300_000 * size), 120
rng = np.random.default_rng(131)
age = rng.integers(0, 90, people)
risk = np.where(age > 65, 0.05, np.where(age > 40, 0.01, 0.001))
state = np.zeros(people, dtype=np.int8)  # 0 healthy, 1 ill, 2 immune, 3 dead
state[rng.choice(people, max(people // 2000, 3), replace=False)] = 1
since = np.zeros(people, dtype=np.int16)
curve = []
lockdown = False
for day in range(days):
    ill = state == 1
    share = ill.mean()
    lockdown = share > 0.05 or (lockdown and share > 0.02)
    contacts = rng.poisson(3 if lockdown else 9, people)
    chance = 1 - (1 - 0.035 * share) ** contacts
    infected = (state == 0) & (rng.random(people) < chance)
    since[ill] += 1
    ends = ill & (since > 10)
    dies = ends & (rng.random(people) < risk)
    state[ends] = 2
    state[dies] = 3
    state[infected] = 1
    since[infected] = 0
    curve.append((state == 1).sum())
    if day % 20 == 0:
        print("day", day, "ill", curve[-1], "dead", (state == 3).sum(), "locked", lockdown)
curve = np.array(curve)
print("peak", curve.max(), curve.argmax(), "total", (state > 0).sum())
for low in range(0, 90, 30):
    band = (age >= low) & (age < low + 30)
    print("age", low, "dead", (state[band] == 3).mean(), "spared", (state[band] == 0).mean())
