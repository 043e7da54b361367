"""Random numbers that are computed where they are used, with the interface of `numpy.random`.

    rng = npaccel.random.default_rng(seed)
    (rng.random(10_000_000) < 0.3).sum()    one loop; no array of numbers in between

Number i of a stream is a function of i and the seed, so it is the same on any number of threads,
with any backend, compiled or not, and however many are drawn at once.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from npaccel import _native
from npaccel.dispatch.fallback import run_exact
from npaccel.dispatch.rules import range_rule

__all__ = ["Generator", "Philox", "default_rng"]

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

WORD = np.dtype(np.uint64)
# So many are drawn one by one, which takes less than a call for all of them.
FEW, FEW_SINGLES = 64, 1024
NAME = "Philox4x32"
LARGEST_RANGE = 1 << 32
NUMBERS = (int, float)
BOUNDS = {c: (int(np.iinfo(c).min), int(np.iinfo(c).max)) for c in "bBhHiIlLqQ"}
# Words of the state, see native/loops/philox.c.
COUNTER, HIGH, KEY, ODD, HAS_HALF, HALF, KEPT = range(7)


class Philox(np.random.BitGenerator):
    """Philox 4x32-10, a counter-based generator; the bit generator of `Generator`.

    A block of two words of 64 bits is a function of a counter of 128 bits and a key of 64. The key
    and the counter's high half come from the seed, so a stream has 2**65 words.

    Parameters
    ----------
    seed : None, int, sequence of ints or `numpy.random.SeedSequence`, as `numpy.random.Philox`.

    Attributes
    ----------
    state : dict; counter (low and high half), key, whether the block's first word was given
        (`buffer_pos`), and the half of a word that is left over (`uinteger`). May be assigned.

    Notes
    -----
    `numpy.random.Generator(npaccel.random.Philox(seed))` is right, too: NumPy's methods over these
    words. Not the words of `numpy.random.Philox`, which is 4x64-10: processors have vector
    instructions for products of 32 bits only. Source: J. K. Salmon et al., Parallel random numbers:
    as easy as 1, 2, 3 (SC'11).
    """

    def __init__(self, seed: Any = None) -> None:
        super().__init__(seed)
        # No array, which in a block may be one of ours.
        self._words = memoryview(bytearray(64)).cast("Q")
        key, high = self.seed_seq.generate_state(2, WORD).tolist()
        self._words[KEY], self._words[HIGH] = key, high
        _native.philox_install(self.capsule, self._words)

    @property  # type: ignore[override]
    def state(self) -> dict[str, Any]:
        """The stream and the place in it."""
        words = self._words
        return {
            "bit_generator": NAME,
            "state": {"counter": (words[COUNTER], words[HIGH]), "key": words[KEY]},
            "buffer_pos": words[ODD],
            "has_uint32": words[HAS_HALF],
            "uinteger": words[HALF] if words[HAS_HALF] else 0,
        }

    @state.setter
    def state(self, value: Any) -> None:
        if not isinstance(value, dict):
            raise TypeError("state must be a dict")
        if value.get("bit_generator") != NAME:
            raise ValueError(f"state must be for a {NAME} PRNG")
        inner, words = value["state"], [0] * 8
        words[COUNTER], words[HIGH] = map(operator.index, inner["counter"])
        words[KEY], words[HALF] = operator.index(inner["key"]), operator.index(value["uinteger"])
        words[ODD], words[HAS_HALF] = bool(value["buffer_pos"]), bool(value["has_uint32"])
        packed = struct.pack("8Q", *words)
        with self.lock:
            self._words.cast("B")[:] = packed

    def advance(self, delta: int) -> Philox:
        """Go on as if `delta` words had been drawn, or back; what was left of a word is dropped."""
        with self.lock:
            words = self._words
            counter = words[COUNTER] | words[HIGH] << 64
            place = (2 * counter + words[ODD] + operator.index(delta)) % 2**129
            words[COUNTER], words[HIGH] = (place >> 1) % 2**64, place >> 65
            words[ODD], words[HAS_HALF], words[HALF], words[KEPT] = place & 1, 0, 0, 0
        return self

    def jumped(self, jumps: int = 1) -> Philox:
        """Another one, as if ``jumps * 2**65`` words of this one had been drawn."""
        other = type(self)(self.seed_seq)
        other.state = self.state
        return other.advance(operator.index(jumps) << 65)

    def words(self, shape: Shape | None) -> Any:
        """The next words, None: a single one; from the threshold on they are computed where they
        are used."""
        if shape is None:
            return np.uint64(self.random_raw())
        count = math.prod(shape)
        with self.lock:
            found = _native.philox_take(self._words, count) if _waits(count) else None
            if found is None:
                words = _native.philox_words(self._words, count)
                return words if len(shape) == 1 else words.reshape(shape)
        place, high, key = found
        return _at(_native.philox, _places(place, shape), high, key)

    def halves(self, shape: Shape) -> Array | None:
        """The next halves of words, as u8; None: one is left over from before, and comes first."""
        count = math.prod(shape)
        with self.lock:
            state = self._words
            if state[HAS_HALF]:
                return None
            found = _native.philox_take(state, (count + 1) // 2)
            if found is None:
                return None
            place, high, key = found
            if count % 2:
                last = np.uint64(2 * place + count)
                state[HAS_HALF], state[HALF] = 1, int(_at(_native.philox_half, last, high, key))
        return _at(_native.philox_half, _places(2 * place, shape), high, key)


def _waits(count: int) -> bool:
    """Whether so many words are recorded."""
    return 8 * count >= max(_native.threshold(), 1)


def _at(function: np.ufunc, places: Any, high: int, key: int) -> Array:
    words: Array = function(places, np.uint64(high), np.uint64(key))
    return words


def _places(first: int, shape: Shape) -> Array:
    """`first` and those behind it, recorded if possible."""
    count, made = math.prod(shape), None
    if _waits(count) and (rule := range_rule(WORD)) is not None:
        made = _native.iota(rule, count, np.uint64(first), np.uint64(1))
    if made is None:
        made = np.arange(first, first + count, dtype=WORD)
    return made.reshape(shape)


class Generator(np.random.Generator):
    """NumPy's `Generator` over `Philox`, whose usual draws are recorded like other operations.

    `random`, `uniform`, `standard_normal`, `normal`, `standard_exponential`, `exponential` and
    `integers` take a word per number (of f4, `random` takes half a one). From the setting
    `threshold` on they are npaccel's arrays, computed with what uses them. All else is NumPy's own
    code over the same words, and waits for nothing.

    Parameters
    ----------
    bit_generator : Philox

    Notes
    -----
    Numbers are not those that NumPy's methods make of the same words, but for `random`: normal and
    exponential ones come from the inverse of their distribution (within 1e-15, relative; at most
    8.3 and 36.8), integers of a range up to 2**32 from a product, without rejection: each has its
    chance to 2**-64.
    """

    def __init__(self, bit_generator: Philox) -> None:
        if not isinstance(bit_generator, Philox):
            kind = type(bit_generator).__name__
            raise TypeError(f"this Generator draws from npaccel.random.Philox, not from {kind}")
        super().__init__(bit_generator)
        self._bits = bit_generator

    def __reduce__(self) -> Any:
        return type(self), (self._bits,)

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Numbers of [0, 1): the highest 53 bits of a word, of f4 24 bits of half a word."""
        drawn = self._drawn(_uniform, size, dtype, out)
        return super().random(size, dtype, out) if drawn is None else drawn

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Numbers of mean 0 and deviation 1."""
        drawn = self._drawn(_normal, size, dtype, out)
        return super().standard_normal(size, dtype, out) if drawn is None else drawn

    def standard_exponential(
        self, size: Any = None, dtype: Any = np.float64, method: str = "zig", out: Any = None
    ) -> Any:
        """Numbers of mean 1; `method` is looked at by nobody."""
        drawn = self._drawn(_exponential, size, dtype, out)
        if drawn is not None:
            return drawn
        return super().standard_exponential(size, dtype, method, out)  # type: ignore[call-overload]

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        """Numbers of [low, high)."""
        if type(low) in NUMBERS and type(high) in NUMBERS:
            width: Any = float(high) - float(low)
            good = math.isfinite(width)
        else:
            with np.errstate(all="ignore"):
                width = np.subtract(high, low, dtype=np.float64)
            good = bool(np.isfinite(width).all())
        drawn = self._moved(self.random, low, width, size) if good else None
        return super().uniform(low, high, size) if drawn is None else drawn

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Numbers of mean `loc` and deviation `scale`."""
        drawn = self._moved(self.standard_normal, loc, scale, size)
        return super().normal(loc, scale, size) if drawn is None else drawn

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        """Numbers of mean `scale`."""
        drawn = self._moved(self.standard_exponential, None, scale, size)
        return super().exponential(scale, size) if drawn is None else drawn

    def integers(
        self,
        low: Any,
        high: Any = None,
        size: Any = None,
        dtype: Any = np.int64,
        endpoint: Any = False,
    ) -> Any:
        """Integers of [low, high), or [low, high] with `endpoint`."""
        drawn = self._integers(low, high, size, dtype, endpoint)
        return super().integers(low, high, size, dtype, endpoint) if drawn is None else drawn

    def shuffle(self, x: Any, axis: int = 0) -> None:
        """As NumPy's; of npaccel's arrays their evaluated memory."""
        run_exact(super().shuffle, (x, axis), {}, written=(0,))

    def permuted(self, x: Any, *, axis: Any = None, out: Any = None) -> Any:
        """As NumPy's; of npaccel's arrays their evaluated memory."""
        return run_exact(super().permuted, (x,), {"axis": axis, "out": out})

    # What these have in common. None: NumPy's code does it, or raises.

    def _drawn(self, make: Maker, size: Any, dtype: Any, out: Any) -> Any:
        kind = FLOATS.get(dtype) if isinstance(dtype, type) else _float(dtype)
        if kind is None:
            return None
        if out is None and size is None:
            return None if make is _uniform else float(make(self, None, kind, None))
        shape = _shape(size) if out is None else _room(out, size, kind)
        few = FEW if kind.itemsize == 8 else FEW_SINGLES
        if shape is None or (make is _uniform and math.prod(shape) <= few):
            return None
        if out is None:
            made = make(self, shape, kind, None)
            return made if made is None else _array(made)
        in_order = out if out.flags.c_contiguous else out.T
        return None if make(self, in_order.shape, kind, in_order) is None else out

    def _moved(self, draw: Callable[..., Any], shift: Any, scale: Any, size: Any) -> Any:
        """shift + scale * numbers."""
        if type(scale) in NUMBERS and (shift is None or type(shift) in NUMBERS):
            if math.copysign(1.0, scale) < 0:
                return None
            drawn = draw() if size is None else draw(size)
            moved = scale * drawn
            moved = moved if shift is None else shift + moved
            return moved if size is None else _array(moved)
        params = [scale] if shift is None else [shift, scale]
        try:
            arrays = [np.asarray(x, np.float64) for x in params]
            whole = np.broadcast_shapes(*(x.shape for x in arrays))
            shape = whole if size is None else _shape(size)
            fits = shape is not None and np.broadcast_shapes(whole, shape) == shape
        except (TypeError, ValueError):
            return None
        if not fits or (np.signbit(arrays[-1]) & ~np.isnan(arrays[-1])).any():
            return None
        drawn = draw() if size is None and shape == () else draw(shape)
        moved = arrays[-1] * drawn
        moved = moved if shift is None else arrays[0] + moved
        return float(moved) if size is None and shape == () else _array(moved)

    def _integers(self, low: Any, high: Any, size: Any, dtype: Any, endpoint: Any) -> Any:
        try:
            kind = np.dtype(dtype)
            first, last = (0, low) if high is None else (low, high)
            if isinstance(first, float) or isinstance(last, float):
                return None
            first, last = operator.index(first), operator.index(last) - (not endpoint)
        except TypeError:
            return None
        shape = () if size is None else _shape(size)
        if shape is None or kind.kind not in "iu" or not kind.isnative:
            return None
        least, most = BOUNDS[kind.char]
        if not least <= first < last <= most or last - first >= LARGEST_RANGE:
            return None
        if size is None:
            value = (self._bits.random_raw() * (last - first + 1) >> 64) + first
            return value if dtype is int else kind.type(value)
        below = _native.fraction_of(self._bits.words(shape), np.uint64(last - first + 1))
        if kind == WORD:
            return _array(np.add(below, np.uint64(first)))
        wide = below.astype(np.int64)
        return _array((wide if first == 0 else wide + first).astype(kind, copy=False))


def _array(value: Any) -> Any:
    """A number as the array without dimensions that it stands for."""
    return value if isinstance(value, np.ndarray) else np.array(value)


Maker = Callable[[Generator, Any, np.dtype[Any], "Array | None"], Any]
FLOATS: dict[type, np.dtype[Any]] = {
    float: np.dtype(np.float64),
    np.float64: np.dtype(np.float64),
    np.float32: np.dtype(np.float32),
}


def _float(dtype: Any) -> np.dtype[Any] | None:
    """The dtype meant, if it is one of those that NumPy's methods know."""
    try:
        return FLOATS.get(np.dtype(dtype).type) if np.dtype(dtype).isnative else None
    except TypeError:
        return None


def _shape(size: Any) -> Shape | None:
    """`size` as a shape of some elements; None: NumPy is asked."""
    shape: Shape
    try:
        shape = (operator.index(size),)
    except TypeError:
        try:
            shape = tuple(map(operator.index, size))
        except TypeError:
            return None
    return shape if all(extent > 0 for extent in shape) and len(shape) <= 32 else None


def _room(out: Any, size: Any, dtype: np.dtype[Any]) -> Shape | None:
    """The shape of an array to be filled; None: there is something that NumPy may complain of."""
    if not isinstance(out, np.ndarray) or out.dtype != dtype or not out.dtype.isnative:
        return None
    flags = out.flags
    good = (flags.c_contiguous or flags.f_contiguous) and flags.writeable and flags.aligned
    if not good or out.size == 0 or (size is not None and _shape(size) != out.shape):
        return None
    shape: Shape = out.shape
    return shape


def _uniform(rng: Generator, shape: Any, dtype: np.dtype[Any], out: Array | None) -> Any:
    if dtype == np.float64:
        return _native.unit_of(rng._bits.words(shape), out=out)
    halves = rng._bits.halves(shape)
    if halves is None:
        return None
    return _native.single_of(halves, out=out)


def _rounded(function: np.ufunc, words: Array, dtype: np.dtype[Any], out: Array | None) -> Any:
    if dtype == np.float64:
        return function(words, out=out)
    if out is None:
        return function(words).astype(dtype)
    np.copyto(out, function(words), casting="same_kind")
    return out


def _normal(rng: Generator, shape: Any, dtype: np.dtype[Any], out: Array | None) -> Any:
    return _rounded(_native.normal_of, rng._bits.words(shape), dtype, out)


def _exponential(rng: Generator, shape: Any, dtype: np.dtype[Any], out: Array | None) -> Any:
    return _rounded(_native.exponential_of, rng._bits.words(shape), dtype, out)


def default_rng(seed: Any = None) -> Generator:
    """A `Generator` of a new `Philox`, as `numpy.random.default_rng`.

    Parameters
    ----------
    seed : what `Philox` takes; or a `Philox`, which is then drawn from; or a `Generator`, which is
        returned.
    """
    if isinstance(seed, Generator):
        return seed
    if isinstance(seed, np.random.BitGenerator | np.random.Generator):
        return Generator(seed)  # type: ignore[arg-type]
    return Generator(Philox(seed))
