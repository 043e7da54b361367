"""One run of a macro section's body on placeholders, and what a replay of it needs to know."""

from __future__ import annotations

import gc
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.lib.array_utils import byte_bounds

from npaccel import _native
from npaccel.errors import SectionError
from npaccel.runtime.macros.body_code import LIBRARIES, library_of
from npaccel.runtime.macros.draws import Draws, StandIn
from npaccel.runtime.macros.guards import Guards, Refused, root
from npaccel.runtime.macros.traced_scalars import TracedScalar, TracedScalars
from npaccel.runtime.process.collector import uncollected
from npaccel.runtime.process.warn import user_line

__all__ = ["Again", "Node", "Recording", "Refused"]

Array = np.ndarray[Any, Any]
Header = tuple[np.dtype[Any], tuple[int, ...], tuple[int, ...]]
Node = tuple[int, bool, int, int, int, Any, int, tuple[int, ...], tuple[int, ...]]

# The C core's npa_node_kind.
IN_ARRAY, IN_NUMBER, IN_SCALAR, IN_CONTROL, TUPLE, LIST, DICT = range(7)
IN_GENERATOR: Final = 14
OUT_ROOT, OUT_INPUT, OUT_VIEW, OUT_SCALAR, OUT_NUMBER, OUT_CONSTANT, OUT_COPY = range(7, 14)

DTYPES: Final = frozenset("?bhilqBHILQefdFD")
# NumPy scalars that are taken anew at each call; others are control values, as Python's are.
RUN_TIME_SCALARS: Final = frozenset(np.dtype(code).type for code in "efdFD")
CONSTANTS: Final = (type(None), bool, int, float, complex, str, bytes, np.generic)


class Again(BaseException):
    """The body may depend on the value of a NumPy scalar: it is recorded again, for that value."""

    def __init__(self, positions: frozenset[int]) -> None:
        super().__init__()
        self.positions = positions


def _node(
    kind: int,
    *,
    flag: bool = False,
    count: int = 0,
    slot: int = -1,
    number: int = 0,
    value: Any = None,
    offset: int = 0,
    shape: tuple[int, ...] = (),
    strides: tuple[int, ...] = (),
) -> Node:
    return (kind, flag, count, slot, number, value, offset, shape, strides)


@dataclass
class Group:
    """Arguments whose memory overlaps: they lie in one buffer."""

    low: int
    high: int
    slots: list[int] = field(default_factory=list)
    buffer: int = -1


class Recording:
    """Runs the body once; afterwards holds everything that a replay is made of.

    Parameters
    ----------
    function : the section's body
    where : the section's "name (file:line)"
    valued : positions of NumPy scalars that are control values, among all NumPy scalars

    Attributes
    ----------
    inputs, outputs : nodes in preorder
    draws, drawn : of random generators among the arguments; a node per array
    members : per array argument (slot, buffer, offset)
    cells : per buffer that is a scalar, its cell
    roots : per array that is returned (or that a returned view shows), its buffer and its header
    """

    def __init__(self, function: Callable[..., Any], where: str, valued: frozenset[int]) -> None:
        self.function, self.where, self.valued = function, where, valued
        self.section = _native.Section(self._stop, self._called)
        self.numbers = TracedScalars()
        self.stopped: BaseException | None = None
        self.inputs: list[Node] = []
        self.outputs: list[Node] = []
        self.arrays: list[Array] = []
        self.groups: list[Group] = []
        self.members: list[tuple[int, int, int]] = []
        self.cells: dict[int, int] = {}
        self.roots: dict[int, tuple[int, Header]] = {}
        self.guards: Guards | None = None
        self.raised: BaseException | None = None
        self.errstate = _native.errstate()
        self._scalars = 0
        self._positions: dict[int, int] = {}
        self._values: dict[int, Any] = {}
        self._queue: Iterator[Array] = iter(())
        self._number_nodes: list[int] = []
        self._placeholders: dict[int, Array] = {}
        self._containers: list[tuple[Any, list[Any]]] = []
        self.draws = Draws()
        self.drawn: list[Node] = []
        self._generators = 0

    # What stops a recording.

    def _stop(self, kind: str, what: str, buffer: int) -> None:
        """The C core's callback; raises."""
        line = user_line()
        if kind == "read" and self._positions:
            # The value may be one of theirs; if not, it is read again, and there is no excuse.
            self.stopped = Again(frozenset(self._positions.values()))
        elif kind == "read":
            self.stopped = self.illegal(f"reads a value ({what})", line)
        elif kind == "write" and int(what) not in map(id, map(root, self._known.named.values())):
            self.stopped = Refused("it writes to an array that is not an argument's or npaccel's")
        elif kind == "write":
            self.stopped = self.illegal(
                "writes to an array that is neither an argument nor made in the section", line
            )
        elif kind == "evaluate":
            self.stopped = self.illegal("evaluates", line)
        else:
            self.stopped = Refused(what or f"NumPy has to compute a part of it, at {line}")
        raise self.stopped

    def _called(self, frame: types.FrameType, function: Any) -> None:
        """The C core's callback; raises."""
        users = library_of(frame.f_globals) not in LIBRARIES
        if function is isinstance and users and self._positions:
            # What stands for a NumPy scalar is an array.
            self.stopped = Again(frozenset(self._positions.values()))
            raise self.stopped
        try:
            self._known.called(frame, function)
        except Refused as refusal:
            self.stopped = refusal
            raise

    @property
    def _known(self) -> Guards:
        assert self.guards is not None
        return self.guards

    def illegal(self, what: str, line: str) -> SectionError:
        """The error for an operation that a section may not hold."""
        return SectionError(
            f"the macro section {self.where} {what} at {line}; values do not exist while a "
            "section is recorded. Move this out of the section, pass it as an argument, or use "
            'on_illegal="warn" to run the section without recording'
        )

    def stop(self, what: str) -> None:
        """Raise `illegal` for the user's line."""
        self.stopped = self.illegal(what, user_line())
        raise self.stopped

    # The run.

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Run the body; raises SectionError, Refused or Again. What the body itself raised is in
        `raised`."""
        self._survey((*args, *kwargs.values()))
        self.guards = guards = Guards(self.function, (*args, *kwargs.values()))
        section, good = self.section, False
        with uncollected():  # else whatever ends meanwhile would count as the body's
            section.enter()
            try:
                self._run_inside(args, kwargs)
                good = True
            finally:
                section.leave()
                if not good:
                    guards.restore()
        self._placeholders.clear()
        self._containers.clear()
        guards.forget()
        self._check_kept()

    def _run_inside(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._make_placeholders()
        values = iter([self._substitute(value) for value in (*args, *kwargs.values())])
        self._queue = iter(())
        positional = [next(values) for _ in args]
        result = self._call(positional, dict(zip(kwargs, values, strict=True)))
        del positional, values
        self.section.leave()
        self._check()
        for buffer, last in self.section.checks():
            for extreme in (buffer, last) if last >= 0 else ():
                self.cells.setdefault(extreme, len(self.cells))
        self.outputs = list(self._output(result))

    def _call(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        try:
            return self.function(*args, **kwargs)
        except (Refused, Again):
            raise
        except BaseException as error:
            if self.stopped is None:
                self.raised = error
                return None
            raise

    def _check(self) -> None:
        """Raise what stopped the recording, though the body went on, and what nobody could stop."""
        if self.stopped is not None:
            raise self.stopped
        for _, _, _, read, owner, _, altered in self.section.buffers():
            if read:
                raise self.illegal("reads the memory of an array", self._last_line())
            if altered:
                raise self.illegal(
                    f"writes to an array of shape {owner.shape} that is neither an argument nor "
                    "made in the section",
                    self._last_line(),
                )
        if self.raised is not None and self.draws.calls:
            raise Refused("it draws random numbers and raises an exception")
        change = self._known.changed()
        if not change and not all(_same_inside(made, was) for made, was in self._containers):
            change = "changes a list or dict among its arguments"
        if change:
            raise Refused(f"it {change}")
        buffers = self.section.buffers()
        self._known.note_contents({id(buffer[4]) for buffer in buffers if buffer[4] is not None})

    def _last_line(self) -> str:
        """Where the last recorded operation is: what C code did comes after some operation."""
        for _, code, _ in reversed(self.section.sites()):
            if code is not None:
                return f"or after {code.co_filename}:{code.co_firstlineno}"
        return "an unknown line"

    def _check_kept(self) -> None:
        """Placeholders must not outlive the section; those of a traceback may."""
        if self.raised is None and any(seen for _, _, seen, *_ in self.section.buffers()):
            gc.collect()
            if any(seen for _, _, seen, *_ in self.section.buffers()):
                raise self.illegal("keeps an array outside, which it does not return,", self.where)

    # Arguments.

    def _find_arrays(self, values: tuple[Any, ...]) -> None:
        for value in values:
            if isinstance(value, np.ndarray):
                self._survey_array(value)
            elif type(value) in (tuple, list):
                self._find_arrays(tuple(value))
            elif type(value) is dict:
                self._find_arrays(tuple(value.values()))

    def _survey(self, values: tuple[Any, ...]) -> None:
        """Find the arrays, and which of them share memory."""
        self._find_arrays(values)
        spans = []
        for slot, array in enumerate(self.arrays):
            low, high = byte_bounds(_native.view_plain(array))
            spans.append((low, max(high, low + 1) if array.size else low, slot))
        for low, high, slot in sorted(spans):
            if not self.groups or low >= self.groups[-1].high or not self.arrays[slot].size:
                self.groups.append(Group(low, high))
            group = self.groups[-1]
            group.high = max(group.high, high)
            group.slots.append(slot)
        # Not by address: the requests are the same in another process.
        self.groups.sort(key=lambda group: min(group.slots))

    def _survey_array(self, array: Array) -> None:
        if type(array) is not np.ndarray and not isinstance(array, _native.ArrayBase):
            raise Refused(f"an argument is a {type(array).__name__}")
        dtype = array.dtype
        if dtype.char not in DTYPES or not dtype.isnative or dtype.metadata is not None:
            raise Refused(f"an argument has dtype {dtype}")
        size = array.dtype.itemsize
        address = address_of(array) if array.size else 0
        if address % size or any(stride % size for stride in array.strides) or array.ndim > 16:
            raise Refused("an argument is not aligned")
        self.arrays.append(array)

    def _make_placeholders(self) -> None:
        views: dict[int, Array] = {}
        for group in self.groups:
            base = self._block(group.high - group.low)
            place = self.section.place(base)
            assert place is not None
            group.buffer = place[0]
            for slot in group.slots:
                array = self.arrays[slot]
                offset = address_of(array) - group.low
                views[slot] = self.section.view(
                    base, offset, array.dtype, array.shape, array.strides, array.flags.writeable
                )
                self.members.append((slot, group.buffer, offset))
            group.slots.sort()
        self.members.sort()
        self._queue = iter([views[slot] for slot in range(len(self.arrays))])

    def _block(self, size: int) -> _native.ArrayBase:
        made = self.section.buffer(max(size, 1))
        if made is None:
            raise Refused("nothing can be deferred: there is no guarded memory")
        return made

    def _substitute(self, value: Any) -> Any:
        """What the body gets for an argument."""
        kind = type(value)
        if isinstance(value, np.ndarray):
            slot = len(self._placeholders)
            array = self.arrays[slot]
            self._placeholders[slot] = view = next(self._queue)
            self.inputs.append(
                _node(
                    IN_ARRAY,
                    flag=array.flags.writeable,
                    slot=slot,
                    number=array.dtype.num,
                    shape=array.shape,
                    strides=array.strides,
                )
            )
            return view
        if kind is float or isinstance(value, _native.Runtime):
            return self._number(value)
        if kind in RUN_TIME_SCALARS:
            return self._scalar(value)
        if kind in (tuple, list, dict):
            return self._container(value)
        if kind is np.random.Generator:
            return self._generator(value)
        try:
            hash(value)
        except TypeError:
            raise Refused(f"an argument is a {kind.__name__}, which has no hash") from None
        self.inputs.append(_node(IN_CONTROL, value=value))
        return value

    def _container(self, value: Any) -> Any:
        if type(value) is dict:
            self.inputs.append(_node(DICT, count=len(value), value=tuple(value)))
            made = {key: self._substitute(item) for key, item in value.items()}
            self._containers.append((made, _inside(made)))
            return made
        tuple_ = type(value) is tuple
        self.inputs.append(_node(TUPLE if tuple_ else LIST, count=len(value)))
        items = [self._substitute(item) for item in value]
        self._containers.append((items, list(items)))
        return tuple(items) if tuple_ else items

    def _number(self, value: Any) -> TracedScalar:
        plain = value._value if isinstance(value, _native.Runtime) else value
        number = self.numbers.argument(plain)
        self._values[number.slot] = plain
        self._number_nodes.append(len(self.inputs))
        kind: Any = _native.Runtime if isinstance(value, _native.Runtime) else float
        self.inputs.append(_node(IN_NUMBER, slot=number.slot, value=kind))
        return number

    def _scalar(self, value: Any) -> Any:
        position = self._scalars
        self._scalars += 1
        if position in self.valued:
            self.inputs.append(_node(IN_CONTROL, value=value))
            return value
        base = self._block(value.itemsize)
        place = self.section.place(base)
        assert place is not None
        self._positions[place[0]] = position
        cell = self.cells[place[0]] = len(self.cells)
        self.inputs.append(_node(IN_SCALAR, slot=cell, value=type(value)))
        scalar = self.section.view(base, 0, value.dtype, (), (), False)
        self.section.scalar(scalar)
        return scalar

    def _generator(self, value: np.random.Generator) -> StandIn:
        number = self._generators
        self._generators += 1
        self.inputs.append(_node(IN_GENERATOR, slot=number, value=np.random.Generator))
        return StandIn(number, value, self._drawn, _native.refuse)

    def _drawn(self, call: tuple[int, str, tuple[Any, ...], dict[str, Any]], array: Array) -> Array:
        """What the body gets for an array that was drawn: an argument like others."""
        if array.dtype.char not in DTYPES:
            _native.refuse(f"it draws an array of dtype {array.dtype}")
        slot = len(self.arrays)
        low, high = byte_bounds(array)
        base = self._block(high - low)
        place = self.section.place(base)
        assert place is not None
        view = self.section.view(base, 0, array.dtype, array.shape, array.strides, True)
        self.arrays.append(array)
        self.groups.append(Group(low, high, [slot], place[0]))
        self.members.append((slot, place[0], 0))
        self.draws.calls.append(call)
        self._placeholders[slot] = view
        number, shape, strides = array.dtype.num, array.shape, array.strides
        self.drawn.append(
            _node(IN_ARRAY, flag=True, slot=slot, number=number, shape=shape, strides=strides)
        )
        return view

    @property
    def argument_cells(self) -> set[int]:
        """Buffers of the scalars among the arguments."""
        return set(self._positions)

    def numbers_looked_at(self) -> None:
        """Numbers whose value the body used are part of the signature."""
        for place in self._number_nodes:
            node = self.inputs[place]
            slot = node[3]
            if slot in self.numbers.looked_at:
                self.inputs[place] = (*node[:1], True, *node[2:5], self._values[slot], *node[6:])

    # Results.

    def _output(self, value: Any) -> Iterator[Node]:
        kind = type(value)
        if isinstance(value, np.ndarray):
            yield self._output_array(value)
        elif kind is TracedScalar:
            yield _node(OUT_NUMBER, slot=value.slot)
        elif kind in (tuple, list):
            yield _node(TUPLE if kind is tuple else LIST, count=len(value))
            for item in value:
                yield from self._output(item)
        elif kind is dict:
            yield _node(DICT, count=len(value), value=tuple(value))
            for item in value.values():
                yield from self._output(item)
        elif isinstance(value, CONSTANTS):
            yield _node(OUT_CONSTANT, value=value)
        else:
            raise Refused(f"it returns a {kind.__name__}")

    def _output_array(self, value: Array) -> Node:
        place = self.section.place(value)
        if place is None:
            return self._output_outside(value)
        buffer, offset = place
        for slot, placeholder in self._placeholders.items():
            if placeholder is value and _same_header(value, self.arrays[slot]):
                return _node(OUT_INPUT, slot=slot)
        for group in self.groups:
            if group.buffer == buffer:
                return self._output_view(value, group.slots[0], offset, of_input=True)
        if self.section.is_scalar(value):
            if value.ndim or offset or type(value) is np.ndarray:
                raise Refused("it returns a view of a scalar")
            cell = self.cells.setdefault(buffer, len(self.cells))
            return _node(OUT_SCALAR, slot=cell, value=value.dtype)
        if buffer in self.cells:
            raise Refused("it returns what the checks of indices use")
        owner = root(value)
        if owner.base is not None:  # as of `as_strided`: what is behind it is not known
            raise Refused("it returns a view through an object that is no array")
        header = (owner.dtype, owner.shape, owner.strides)
        number = self.roots.setdefault(buffer, (len(self.roots), header))[0]
        if owner is value:
            return _node(OUT_ROOT, slot=number)
        return self._output_view(value, number, offset, of_input=False)

    def _output_view(self, value: Array, slot: int, offset: int, *, of_input: bool) -> Node:
        return _node(
            OUT_VIEW,
            flag=of_input,
            slot=slot,
            number=int(value.flags.writeable),
            value=value.dtype,
            offset=offset,
            shape=value.shape,
            strides=value.strides,
        )

    def _output_outside(self, value: Array) -> Node:
        if self._known.has(value):
            return _node(OUT_CONSTANT, value=value)
        if type(value) is not np.ndarray or value.dtype.hasobject or value.base is not None:
            raise Refused(f"it returns a {type(value).__name__} that was not made in it")
        return _node(OUT_COPY, value=value.copy("K"))


def address_of(array: Array) -> int:
    """Address of the element at index 0."""
    return int(_native.view_plain(array).__array_interface__["data"][0])


def _same_header(a: Array, b: Array) -> bool:
    return a.shape == b.shape and a.strides == b.strides and a.dtype == b.dtype


def _inside(container: Any) -> list[Any]:
    return (
        [part for pair in container.items() for part in pair]
        if type(container) is dict
        else container
    )


def _same_inside(container: Any, was: list[Any]) -> bool:
    now = _inside(container)
    return len(now) == len(was) and all(a is b for a, b in zip(now, was, strict=True))
