"""Reads packed steps, as the C core does."""

from __future__ import annotations

from collections.abc import Iterator

from npaccel.runtime.programs.wire_format import Elsewhere, Packed, Step

__all__ = ["unpack_steps", "words_of"]


def words_of(packed: bytes) -> list[int]:
    width = int.from_bytes(packed[:8], "little")
    return list(memoryview(packed)[8:].cast({4: "i", 8: "q"}[width]))


def unpack_steps(packed: bytes) -> list[Packed]:
    words = iter(words_of(packed))
    return [_step(words) for _ in range(next(words))]


def _take(words: Iterator[int], count: int) -> list[int]:
    return [next(words) for _ in range(count)]


def _list(words: Iterator[int]) -> list[int]:
    return _take(words, next(words))


def _step(words: Iterator[int]) -> Packed:
    request = next(words)
    if request >= 0:
        return request, _list(words)
    kernel, requests, n_scalars = _take(words, 3)
    grid, sizes = tuple(_take(words, 5)), _take(words, 4)
    rank, n_arrays = _take(words, 2)
    extents, arrays = _take(words, rank), _take(words, n_arrays * (2 + rank))
    scalars, slots, writes = _take(words, 2 * n_scalars), _list(words), _list(words)
    count = next(words)
    wraps = _take(words, 1 + 4 * count) if count else ()
    uses = _list(words) or ()
    there = _elsewhere(words, next(words))
    scratch, partial, read, wrote = sizes
    return Step(
        kernel,
        grid,
        (scratch, partial, read, wrote),
        extents,
        arrays,
        requests,
        scalars,
        slots,
        writes,
        _list(words),
        there,
        wraps,
        uses,
    )


def _elsewhere(words: Iterator[int], owner: int) -> Elsewhere | None:
    if not owner:
        return None
    device, band_step, inner_step, scratch, band, inner, multiple = _take(words, 7)
    accesses = []
    for _ in range(next(words)):
        buffer, read, written, looped, low, high = _take(words, 6)
        accesses.append((buffer, bool(read), bool(written), bool(looped), low, high))
    steps, cuts = (band_step, inner_step), (band, inner, multiple)
    return Elsewhere(owner, device, steps, scratch, accesses, cuts)
