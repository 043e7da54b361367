"""What the programs of random_mixed.py are written of besides statements: blocks of these, macro
sections, threads, and what programs begin with. Marks are those of mixed_statements.py.
"""

from __future__ import annotations

__all__ = ["COMPOUND", "SECTION", "SECTION_CALLS", "START", "STRICT", "THREADS"]

COMPOUND = (
    "try:\n    {x} += {y}\nexcept (ValueError, TypeError) as error:\n    out.append(str(error))",
    "try:\n    {x}[{k} + 40000] = 1\nexcept IndexError as error:\n"
    "    out.append(str(error)); {x} = {x} * 1",
    "try:\n    with np.errstate(all='raise'): {x} = 1 / ({e:x})\n"
    "except FloatingPointError as error:\n    out.append(str(error))",
    "try:\n    with np.errstate(all='raise'): np.divide(1, {x}, out={x:f}, casting='unsafe')\n"
    "except FloatingPointError as error:\n    out.append(str(error))",
    "try:\n    with np.errstate(invalid='raise', divide='raise'): {x} /= {y~x}\n"
    "except (FloatingPointError, TypeError) as error:\n    out.append(str(error))",
    "try:\n    with np.errstate(over='raise'): {x:f} *= 1e30\n"
    "except FloatingPointError as error:\n    out.append(str(error))\n{x} = np.clip({x}, -4, 4)",
    "with np.errstate(all='ignore'):\n    {x} = {x} / ({y} - {y})\n"
    "    {x} = np.nan_to_num({x}, posinf=2, neginf=-2)",
    "with np.errstate(divide='ignore', invalid='warn'):\n    {new} = 1 / {x}\n"
    "{new} = np.nan_to_num(np.clip({new}, -8, 8))",
    "with warnings.catch_warnings(record=True) as w:\n    warnings.simplefilter('always')\n"
    "    listen(w)\n    {x} = {x} / ({x} - {x})\nout.append(len(w)); {x} = np.nan_to_num({x})",
    "with warnings.catch_warnings(record=True) as w:\n    warnings.simplefilter('always')\n"
    "    {new} = np.sqrt(-1 - np.abs({x:r}))\n    out.append([str(one.message) for one in w])\n"
    "{new} = np.nan_to_num({new})",
    "with warnings.catch_warnings():\n    warnings.simplefilter('error')\n"
    "    try: {new} = {x:r} / 0\n    except RuntimeWarning as error: out.append(str(error))",
    "with warnings.catch_warnings():\n    warnings.simplefilter('ignore')\n"
    "    {x} = np.nan_to_num(np.log({x:r} - 1) * 0)",
    "old = np.seterr(all='ignore'); {x} = np.nan_to_num({x} / {y}); np.seterr(**old)",
    "frames = []\nfor s in range(4):\n    {x} = {e:x}\n    frames.append({x})\n"
    "{new} = np.stack(frames)[-1]",
    "frames = []\nfor s in range(3):\n    {x} *= 0.5\n    frames.append({x}.copy())\n"
    "{new} = np.array(frames)[:, {k} % {x}.shape[0]]",
    "frames = [{x} * s for s in range(3)]\n{x} = sum(frames)",
    "rows = [r * 0.5 for r in {x:2}[:30]]; {new} = np.vstack(rows)",
    "bag = {'u': {x}, 'v': {y}}\nfor key in bag: bag[key] = bag[key] * 0.5\n"
    "bag['u'][0] = {c}; {new} = bag['v']",
    "bag = {k: np.zeros(5) for k in 'pq'}; bag['p'] += {x:1}[:5]; "
    "bag['q'][1:] = bag['p'][:-1]; {new} = bag['q']",
    "alive = np.arange({x:1}.size); work = {x:1}.copy()\nfor s in range(6):\n"
    "    keep = work > {c}\n    alive, work = alive[keep], work[keep] - 0.5\n"
    "{x}[alive] = {k}; {new} = work",
    "work = {x:1}\n"
    "while work.size > 4: work = 0.5 * (work[1::2] + work[::2][: work[1::2].size])\n{new} = work",
    "work = {x:1}\nwhile work.size > 3: work = np.maximum(work[: work.size // 2], "
    "work[work.size // 2 : work.size // 2 * 2]) + 0\nout.append(work)",
    "body.step({e:x}[:1].ravel() if {x}.ndim == 0 else {x}, t); out.append(body.count)",
    "body.u = {x}; body.damp(); {new} = body.u", "body = Body({x}, {y}); body.damp()",
    "body.u, body.v = body.v, body.u; {new} = body.total()",
    "body.v[0] = {c}; {new} = body.v.copy()", "{new} = body.u",
    "{new} = dataclasses.replace(body, count=3).u * 2", "{new} = body.u[{k} % len(body.u):]",
    "{new} = next(stream)", "stream.send(None) if stream.gi_frame else 0; {new} = next(stream)",
    "counter({x}); {new} = counter({y})", "{new} = half({x:1})", "{new} = tree({x:1}[:200])",
    "{new} = vcycle({x:1}[:129])", "{new} = merge({x:r1}[:64])", "{new} = power({x:2}[:4, :4], 3)",
    "{new} = late({x})", "{new} = compose(lambda v: v * 2, lambda v: v + {c})({x})",
    "{new} = starred({x}, *[{y~x}], scale={c})", "{new} = cached({k})",
    "def local(u, w={k}):\n    u = u * w\n    return u\n{x} = local({x})",
    "fs = [lambda u, s=s: u * s for s in (0.5, 2)]\nfor f in fs: {x} = f({x})",
    "{x} = (lambda u: u + {c})({x})",
    "{new} = np.array(list(map(lambda r: r.max() + 0, {x:r2}[:20])))",
    "first, *rest = [{x}, {y}, {x}]; {new} = rest[-1] * 2",
    "(p0, p1), p2 = ({x}, {y}), {x}; {new} = p2 + {c}",
    "{x}[{k} % len({x})], s = {c}, {x}.flat[0]",
    "for s in range(2):\n    {x} = {e:x}\n    if s: continue\n    {y} = {y} + {k}",
    "for s in range(5):\n    {x} = {e:x}\n    if {x:r}.max() > 1: break\nelse: {x} = {x} + 1",
    "try:\n    for s in range(3):\n        {x} = {x} * 0.5\n"
    "        if s == 1: raise KeyError(s)\nexcept KeyError: {x} = {x} + {k}\n"
    "finally: {y} = {y} * 1",
    "rec = np.zeros(12, [('p', 'f8', 3), ('m', 'f4'), ('k', 'i2')]); rec['p'][:, 0] = 1; "
    "rec['m'] += {k}; rec['k'][::2] = {k}; {new} = rec['p'] * rec['m'][:, None]",
    "rec = np.zeros({x:1}.size, 'f8, i4'); rec['f0'] = {x}; rec['f1'] = np.arange({x}.size); "
    "rec = rec[::-1]; rec['f0'] *= 0.5; {new} = rec['f0']",
    "rec = np.zeros(9, 'f4, (2,2)i2'); v = rec['f1']; v[:, 0] += 3; v *= v; {new} = v",
    "rec = {x:f1}.view([('v', {x}.dtype)]); rec['v'][0] = {k}",
    "rec = np.rec.fromarrays([np.arange(5), np.ones(5)], names='a,b'); rec.b *= {k}; "
    "{new} = rec.b + rec.a",
    "days = np.datetime64('2020-01-01') + np.arange(len({x})); "
    "out.append((days[-1] - days[0]).astype(int)); "
    "{new} = (days - days[0]) / np.timedelta64(1, 'D')",
    "gaps = np.arange(6).astype('m8[s]'); gaps *= {k}; gaps[1:] += gaps[:-1]; "
    "{new} = gaps.astype(int)",
    "words = np.array(['a', 'bb', 'c'])[np.arange(len({x})) % 3]; {new} = (words == 'a')",
    "objs = np.array([1, 2.5, None, 'x'], object); objs[{k} % 4] = {x}; out.append(objs[0])",
    "objs = np.empty(2, object); objs[0], objs[1] = {x}, {x}; objs *= 2; {new} = objs[0]",
    "view = {x}[{sl:x}]\nfor s in range(3): view *= 0.5; {x} = {x} + 1",
    "view = {x}[{sl:x}]; {x} *= 2; view += 1; out.append(view.copy())",
    "view = {x}[::-1]; {x}[0] = {c}; out.append(view[-1])",
    "view = {x}.T; view += 1; {x} -= view.T; out.append({x}.flat[0])",
    "a0 = {x}.reshape(-1); a0[: len(a0) // 2] *= 2; out.append({x}.flat[0]); del a0",
    "v0 = {x}[:1]; del {x}; {x} = v0",
    "v0 = memoryview({x}); {x} += 1; out.append(v0.tobytes()[:8]); v0.release()",
    "v0 = np.asarray(memoryview({x:1})); v0[0] = {c}; out.append({x}[0])",
    "it = iter({x}); {x}[0] = {c}; out.append(next(it))",
    "z0 = {x}.flat; {x}[...] = {c}; out.append(z0[0])", "{x} = {x}[{p:x}]; {x}[0] = {c}",
    "big = np.concatenate([{x:1}, {x}])[:3000]; big[: len(big) // 2] = {c}; {new} = big[::2]",
    "u, v = {x} * 0.5, {x} + 1\nfor s in range(3): u, v = v, 0.5 * (u + v)\n{new} = u",
    "u, v = {x}.copy(), np.zeros_like({x})\nfor s in range(4):\n"
    "    np.multiply(u, 0.5, out=v, casting='unsafe')\n    u, v = v, u\n{new} = u",
    "buf = np.zeros((3,) + {x}.shape)\n"
    "for s in range(5): buf[s % 3] = {x} * s - buf[(s - 1) % 3] * 0.5\n{new} = buf[t % 3]",
    "buf = np.zeros((2, 5)); buf[t % 2] += {x:1}[:5]; buf[1 - t % 2, ::2] = buf[t % 2, ::2]; "
    "{new} = buf.T",
    "hist = np.zeros(8)\nfor v in {x:r1}[:20]: hist[int(v) % 8] += 1\n{new} = hist",
    "acc = 0\nfor s in range(4): acc = acc + {x} * s\n{new} = acc",
    "acc = 0.0\nfor r in {x:2}[:9]: acc += r\n{new} = acc",
    "acc = np.zeros(())\nfor s in range(4): acc += s\n{new} = acc",
    "acc = {x:i}.dtype.type(0)\nfor v in {x}.flat[:9]: acc += v\nout.append(acc)",
    "total = {x}[0] * 0\nfor row in {x}: total += row\nout.append(total)",
    "grid = np.zeros((6, 7)); grid[2:5, 1::2] = {k}; grid += grid[::-1, ::-1]; "
    "grid.T[1] -= 1; {new} = grid[1:, :-1]",
    "lut = np.arange(256)[::-1]; {new} = lut[{x:i}.astype('u1')]",
    "lut = np.arange(8.0); {new} = lut[np.abs({x:i}.astype(int)) % 8]",
    "idx = np.nonzero({x:2}); {x}[idx] = {c}; out.append(len(idx[0]))",
    "ii, jj = np.nonzero({x:2}); {x}[ii, jj] += 1; {x}[ii[::-1], jj[::-1]] *= 0.5",
    "ok = {m:x}; {new} = np.where(ok, {x}, 0); {new}[ok] += {x}[ok]",
    "order = np.argsort({x:r1}, kind='stable'); {x} = {x}[order]; "
    "{new} = np.zeros_like(order); {new}[order] = np.arange(order.size)",
    "lo, hi = {x:r}.min() + 0, {x}.max() + 0; {new} = ({x} - lo) / (hi - lo + 1)",
    "q0, r0 = np.divmod({x:r}, 3); {new} = q0 * 3 + r0",
    "parts = np.array_split({x:1}, 4); parts[1] *= 0.5; parts[2][:] = {k}; "
    "{new} = np.concatenate(parts[::-1])",
    "y0, x0 = np.mgrid[0:4, 0:5]; {new} = (y0 - x0) * {k}",
    "{x:2}[np.triu_indices(min({x}.shape), 1)] = {k}",
    "{x:2}[np.diag_indices(min({x}.shape))] += {c}", "if t == {k}: {x} = {x}.astype('f4')",
    "if t == {k}: {x} = {x}[: max(2, len({x}) // 2)]",
    "if t == {k}: {x} = np.concatenate([{x}, {x}])[:3000]",
    "if t == {k}: {x} = np.asfortranarray({x})",
    "if t % 3 == 0: {x} = {e:x}\nelif t % 3 == 1: {y} = {e:y}\nelse: {x}, {y} = {y}, {x}",
    "{x} = {x} if t % 2 else {x} * 0.5", "{x} = [{x}, {y}][t % 2]",
    "gc.collect() if t == 3 else 0", "kept.clear()",
    "out.append(forked(lambda: int({x:r}.max()) % 200)) if t == {k} else 0",
    "with accel(): {x} = {e:x}",
    "with accel():\n    {x} = {x} + 1\n    {x} *= 0.5",
    "with contextlib.suppress(ValueError, TypeError): {x} += {y}",
    "{new} = np.arange(5.0) * 2\nwith contextlib.suppress(Exception): {new}.resize((3, 3))",
    "{x} = npwrap({x})", "{new} = Own.of({x}) * 2", "{new} = np.asarray(Own.of({x}) + {y})",
    "{new} = np.ma.masked_less({x:r}, 0).filled({k})",
    "{new} = np.ma.array({x:r}, mask={m:x}) + 1",
    "{new} = np.asarray(np.matrix({x:2}[:4, :4]) * 2)", "{new} = np.array(Duck({x}))",
    "{new} = {x} + Duck({x})", "out.append(repr(raised(lambda: {x} + object())))",
    "out.append(raised(lambda: {x}[{k}, {k}, {k}, {k}]))",
    "out.append(raised(lambda: {x} @ np.ones(77)))",
    "out.append(raised(lambda: np.add({x}, 1, out={y})))",
    "out.append(raised(lambda: {x}.reshape(5, -1)))",
    "out.append(raised(lambda: np.concatenate([{x}, {y}]).shape))",
    "out.append(raised(lambda: {x}.astype('i4', casting='safe').dtype))",
    "out.append(raised(lambda: {x:i}.__ipow__(-1)))",
    "out.append(raised(lambda: np.add({x}, {y}, casting='no')))",
    "out.append(raised(lambda: {x}.__imatmul__({y})))",
    "out.append(raised(lambda: np.linalg.inv(np.zeros((3, 3)))))",
    "out.append(raised(lambda: {x}.__itruediv__({y})))",
    "out.append(raised(lambda: {x}.__setitem__({m:x}, [1, 2, 3, 4, 5, 6, 7])))",
)  # fmt: skip
# Statements of a macro section on arrays u, v and w and a small integer k.
SECTION = (
    "w = 0.5 * (u + v)", "w = u - v", "w = np.where(u > v, u, v)", "w = np.maximum(u, v) + 0",
    "w = w * 0.5 + u", "w = u[::-1] * 0.5", "w = u[1:] - u[:-1]", "w = np.roll(u, 1)",
    "w = np.roll(w, -1, axis=0)", "w = u.T * 0.5", "w = np.zeros_like(u)",
    "w = np.empty_like(u); w[...] = v", "w = u.copy()", "w = u.astype('f4')",
    "w = u.astype(int) % 5", "w = np.sqrt(np.abs(u))", "w = np.clip(u, -1, 1)",
    "w = np.floor(w) + v", "w = u / (1 + np.abs(v))", "w = (u > 0) * v", "w = np.abs(w)", "w = -w",
    "w = w + k", "w = w * k * 0.25", "w = u.reshape(-1)", "w = np.concatenate([u[1:], u[:1]])",
    "w = np.stack([u, u])[0]", "w = np.pad(u, 1)[1:]", "w = u.max(axis=0) + 0 + 0 * u",
    "w = small(u).sum(axis=-1) if False else w", "w = u - (u.min() + 0)",
    "w = np.minimum(w, 2) + 0", "w = u[..., None][..., 0]", "w = np.diff(u, axis=0, prepend=0)",
    "w = u ** 2 * 0.125", "w = u % 3", "w = u // 2", "w = np.square(u) * 0.25", "w = w[::2]",
    "w = u[1:-1]", "w = np.copysign(0.5, u + 1)", "w = np.sign(u)", "w = np.isfinite(u) & (v > 0)",
    "w = ~(u > v)", "w = u == v", "w = np.repeat(u, 2, axis=0)", "w = np.tile(u, 2)[..., ::2]",
    "w = np.broadcast_to(u, (2,) + u.shape)[1] * 1", "w = np.sort(u, axis=0)",
    "w = np.cumsum(u.astype(int) % 3, axis=0)", "u *= 0.5", "u += v", "u -= 0.25 * v", "v *= 0.5",
    "v[...] = u", "u[0] = v[-1]", "u[1:] = u[:-1]", "u[1:] += 0.5 * u[:-1]",
    "u[:-1] -= 0.5 * u[1:]", "u[::2] = 0.25", "u[::-1] = v", "u[u > 1] = 0.5", "u[v < 0] *= 0.5",
    "np.add(u, v, out=u)", "np.multiply(u, 0.5, out=v)", "np.maximum(u, 0, out=u); u += 0",
    "u.fill(k)", "u[...] = k", "u[-1] = k", "w[...] = 0.5", "w *= 0.5", "w += u", "w[1:] = u[:-1]",
    "w[0] = k", "u[...] = w", "v += w", "u.T[...] = v.T", "x = u[1:]; x *= 0.5", "x = u; x += 1",
    "u, v = v, u", "w = u; w += k", "v = v + u", "u = u * 0.5", "if k > 2: u = u * 0.5",
    "for s in range(k): u = 0.5 * (u + v)", "for s in range(3): u[1:] -= 0.25 * u[:-1]",
    "for s in range(k): w = w + s", "w = [u, v][k % 2]", "w, x = u * 2, v + 1; w = w - x",
    "w = helper(u, v)", "w = np.float32(0.5) * u", "w = u * np.float64(k)",
    "w = u + np.arange(u.shape[-1])", "w = u + np.ones(u.shape)",
    "w = np.linspace(0, 1, u.shape[0])", "w = u * GLOBAL", "w = u + GLOBAL.sum() * 0",
    "w = u[k % u.shape[0]] + 0 * u", "w = u[[0, -1]]", "w = np.take(u, [0, -1], axis=0)",
    "w = u.real", "w = np.nan_to_num(u)", "w = u.ravel()[::3]", "w = np.ravel(u, order='F')",
    "w = u.swapaxes(0, -1)", "w = np.expand_dims(u, 0)", "w = np.asarray(u)",
    "w = np.array([k, k + 1.0])[0] * u",
)  # fmt: skip
SECTION_CALLS = (
    "{new} = SEC({x:r}, {y~x}, {k})[-1]", "{new} = SEC({x:r}, {y~x}, {k})[-1]",
    "{new} = SEC({x:f}.copy(), {y~x} * 0.5, 3)[-1]",
    "found = SEC({x:f}, {y:r}, {k}); {new} = found[-1]; out.append(found[0].shape)",
    "{x}, {y}, w = SEC({x:f}, {y~x}, 2)[:3]", "{new} = SEC({x:f}, {x}, {k})[-1]",
    "{new} = SEC({x:f1}[1:], {x}[:-1], {k})[-1]", "{new} = SEC({x:f}[::-1], {x}, 1)[-1]",
    "{new} = SEC({x:f2}.T, {x}.T * 1, {k})[-1]", "{new} = SEC({x:f}, np.ones({x}.shape), {k})[-1]",
    "{new} = SEC({x:f1}, 0.5 * {x}, t % 3)[-1]", "{new} = SEC({x:i}, {y~x}, {k})[-1]",
    "for s in range(4): {x} = SEC({x:f} * 0.5, {y~x}, s)[0]",
    "u = {x:f} * 1\nfor s in range(5): SEC(u, {y~x}, 2)\n{new} = u",
    "{new} = SEC({x:f2}[:, 1:], {x}[:, :-1], {k})[-1]", "{new} = SEC({x:f}, {y:r}, 0.5)[-1]",
    "{new} = SEC({x:f}.astype('f4'), {y~x}, 1)[-1]", "GLOBAL = GLOBAL * 0.5 + 1",
)  # fmt: skip
# What may divide by 0 and the like, in programs where that raises.
STRICT = (
    "{x} = 1 / {x}", "{x} = {x} / {y~x}", "{x} = {x:f} * 1e200 * 1e200",
    "{x} = np.sqrt({x:f} - 1)", "{x} = np.log({x:r})",
    "np.divide(1, {x}, out={x:f}, casting='unsafe')", "{x:f} /= {y~x}", "{x} = {x:i} // {y:i~x}",
    "{x} = {x:r} % {y~x}", "{x} = ({x:f} * 1e30).astype('i4')",
    "{x} = {x:f}.astype('f2') * np.float16(6e4)", "np.sqrt({x:f}, out={x})", "{x:f}[{sl:x}] /= 0",
    "{x:f}[{m:x}] /= 0", "{x} = np.float32(1e38) * {x:f}.astype('f4') * 100",
    "{x} = np.arcsin({x:f} * 3) * 0", "{x} = ({x:f} - np.inf) * 0",
    "{new} = {x:f}.max(axis=0) / 0", "{new} = {x:f}.min() / 0 + np.zeros(3)",
    "{x}[...] = {y~x} / {x}", "{new} = np.reciprocal({x:f})", "{new} = np.float64(1) / {x:f}",
    "{new} = {x:f} ** -1.0", "{new} = np.power({x:i}, 2) // 0",
    "{new} = np.add.reduce({x:f} * 1e308)", "{new} = ({x:f} * np.inf)[::2]",
    "{new} = np.where({x:f} > 0, 1 / {x}, 0)", "{new} = {x:f} % 0",
    "{new} = np.divmod({x:f}, 0)[0]", "{new} = np.remainder({x:i}, 0)",
)  # fmt: skip
THREADS = (
    "threads = [threading.Thread(target=np.multiply, args=({x}, 0.5), kwargs={{'out': {x}, "
    "'casting': 'unsafe'}})]\nfor one in threads: one.start()\nfor one in threads: one.join()",
    "found = [None] * 3\ndef work(k): found[k] = {x} * k + 1\n"
    "threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]\n"
    "for one in threads: one.start()\nfor one in threads: one.join()\n{new} = found[1] + found[2]",
    "with concurrent.futures.ThreadPoolExecutor(2) as pool: parts = list(pool.map(lambda p: "
    "p * 0.5 + 1, np.array_split({x}, 4)))\n{new} = np.concatenate(parts)",
    "with concurrent.futures.ThreadPoolExecutor(3) as pool: list(pool.map(lambda k: "
    "{x}[k::3].__setitem__(slice(None), k), range(3)))",
    "{x} = {e:x}; out.append(threaded(lambda: {x}.tobytes()[:8]))",
    "lock = threading.Lock()\ndef work(s):\n    with lock: {x}[...] = {x} * 0.5\n"
    "threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]\n"
    "for one in threads: one.start()\nfor one in threads: one.join()",
    "{new} = threaded(lambda: {e:x})",
    "def work():\n    with accel(): return {e:x}\n{new} = threaded(work)",
    "job = concurrent.futures.ThreadPoolExecutor(1); later = job.submit(lambda: {x} + 1); "
    "{y} = {y} * 0.5; {new} = later.result(); job.shutdown()",
    "async def work():\n    await asyncio.sleep(0)\n    return {e:x}\n"
    "async def both(): return await asyncio.gather(work(), work())\n"
    "{new} = asyncio.run(both())[1]",
    "def work():\n    with accel():\n        for s in range(3): yield {x} * s\n"
    "{new} = sum(work())",
    "walker = iter_in({x}); {y} = {y} + 1; {new} = next(walker); {y} = {y} * 0.5; "
    "{new} = next(walker); walker.close()",
    "weakref.finalize({x}[:], out.append, 'gone') if False else 0",
    "{new} = (lambda: [{x} * k for k in (1, 2)])()[1]",
)  # fmt: skip
# What programs begin with.
START = """
@dataclasses.dataclass
class Body:
    u: np.ndarray
    v: np.ndarray
    count: int = 0
    def step(self, x, t):
        self.u = 0.5 * self.u + x.flat[0] * 0.25
        self.v[...] = self.v * 0.5 + t
        self.count += 1
    def damp(self):
        self.u *= 0.5
        self.v -= 0.25 * self.v
    def total(self):
        return self.u * 1 if self.u.shape != self.v.shape else self.u + self.v
def stream_of(x):
    while True:
        x = 0.5 * x + 1
        yield x
        x[...] = x[::-1]
        yield x.copy()
def counting():
    seen = np.zeros(3)
    def count(x):
        nonlocal seen
        seen = seen * 0.5
        seen[: min(3, x.size)] += np.clip(x.ravel()[:3].real, -9, 9)
        return seen
    return count
def half(x):
    return x if x.size < 4 else np.concatenate([half(x[: x.size // 2]) * 0.5, x[x.size // 2 :]])
def tree(x):
    if x.size <= 2: return x * 2
    even, odd = tree(x[::2]), tree(x[1::2])
    k = min(even.size, odd.size)
    return np.concatenate([0.5 * (even[:k] + odd[:k]), 0.5 * (even[:k] - odd[:k])])
def vcycle(x):
    if x.size <= 3: return x * 0.5
    x = x.copy()
    x[1:-1] = 0.25 * x[:-2] + 0.5 * x[1:-1] + 0.25 * x[2:]
    coarse = vcycle(x[::2])
    x[::2] += 0.5 * coarse
    x[1:-1:2] += 0.25 * (coarse[:-1] + coarse[1:])[: x[1:-1:2].size]
    return x
def merge(x):
    if x.size < 2: return x
    a, b = merge(x[: x.size // 2]), merge(x[x.size // 2 :])
    places = np.searchsorted(a, b, side='right') + np.arange(b.size)
    found = np.zeros(x.size, x.dtype)
    found[places] = b
    rest = np.ones(x.size, bool)
    rest[places] = False
    found[rest] = a
    return found
def power(x, k):
    return np.eye(len(x)) if k == 0 else 0.25 * small(x) @ power(x, k - 1)
def late(x, *, scale=0.5, **more):
    try:
        return x * scale
    finally:
        x = None
def compose(*fs):
    return lambda u: functools.reduce(lambda r, f: f(r), fs, u)
def starred(x, *others, scale=1, **options):
    for y in others: x = x + y
    return x * scale
@functools.lru_cache
def cached(k):
    return np.arange(k * 5.0)
def helper(p, q):
    return p * 0.5 - q
def iter_in(x):
    with accel():
        yield x * 2
        x = x + 1
        yield x * 0.5
class Duck:
    def __init__(self, x): self.x = x
    def __array__(self, dtype=None, copy=None): return np.array(self.x, dtype)
counter, npwrap = counting(), lambda x: x[...] if x.ndim else x
"""
