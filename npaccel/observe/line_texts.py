"""What the text of a line says of what it does: of calls that nobody counted, and of what reads."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from npaccel.observe.profile_data import Profile

__all__ = [
    "around",
    "called",
    "called_there",
    "comes_once",
    "computes_only",
    "converted",
    "draws_one",
    "goes_through",
    "grown",
    "imports",
    "lines_of",
    "parsed",
    "picked",
    "picks_by_mask",
    "reads_itself",
    "used_as_number",
    "writes_element",
]

NUMPYS = "np.", "numpy."
THROUGH = ("sum", "max", "min", "any", "all", "map", "sorted")  # Python's own functions
# What needs values: Python's functions, NumPy's that give a number, and attributes.
READERS = ("float", "int", "bool", "str", "repr", "print", "len", "list", "tuple", *THROUGH)
FOLDS = ("sum", "mean", "max", "min", "amax", "amin", "any", "all", "prod", "std", "var", "argmax")
READING = ("item", "tolist", "tobytes", "tofile", "dump", "dumps", "data", "ctypes")
EACH = ("zip", "enumerate", "reversed", "nditer", "ndenumerate")  # what a loop takes elements of
COMPREHENSIONS = ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp
MAKING = ("array", "asarray")
JOINING = ("append", "concatenate", "hstack", "vstack", "insert")
# Functions that draw, and how many arguments they have before `size`.
BEFORE_SIZE = {
    "random": 0, "rand": 0, "randn": 0, "random_sample": 0, "standard_normal": 0,
    "choice": 1, "exponential": 1, "poisson": 1, "geometric": 1, "standard_gamma": 1,
    "normal": 2, "uniform": 2, "integers": 2, "randint": 2, "gamma": 2, "binomial": 2, "beta": 2,
    "lognormal": 2, "gauss": 2, "triangular": 3,
}  # fmt: skip
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div)


def parsed(text: str) -> ast.AST:
    """A line of source, which may begin a statement of several; of what it is no more, nothing."""
    for whole in (text, text.removeprefix("el") + " pass", text + " pass"):
        try:
            return ast.parse(whole)
        except SyntaxError:
            continue
    return ast.Module([], [])


def around(
    profile: Profile, file: str, line: int, *kinds: type
) -> list[ast.stmt | ast.expr] | None:
    """The statements of those kinds that the line is in, the innermost last; None: of a long file
    some lines are kept."""
    nodes = _nodes(profile, file)
    if nodes is None:
        return None
    held = [n for n in nodes if line in lines_of(n) and isinstance(n, kinds)]
    return sorted(held, key=lambda node: node.lineno)


def lines_of(node: ast.stmt | ast.expr) -> range:
    return range(node.lineno, (node.end_lineno or 0) + 1)


def _nodes(profile: Profile, file: str) -> list[ast.stmt | ast.expr] | None:
    texts = profile.source.get(file, {})
    text = "\n".join(texts.get(n, "") for n in range(1, max(texts, default=0) + 1))
    try:
        return [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.stmt | ast.expr)]
    except SyntaxError:
        return None


def called_there(profile: Profile, file: str, line: int) -> list[ast.FunctionDef]:
    """The functions of that file that have the name of one, or of a method, that the line calls."""
    tree = parsed(profile.text_of(file, line))
    calls = (ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call))
    names = {name.rpartition(".")[2] for name in calls}
    nodes = _nodes(profile, file) or []
    return [n for n in nodes if isinstance(n, ast.FunctionDef) and n.name in names]


def comes_once(profile: Profile, file: str, line: int) -> bool:
    """Whether it is in no loop and in no function, as far as that is known."""
    functions = ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda
    held = around(profile, file, line, ast.For, ast.While, *functions, *COMPREHENSIONS)
    return held is not None and not held


def called(tree: ast.AST, *, numpys: bool = True) -> str:
    """The first function that is called there, by its whole name, or ''. numpys : only of
    NumPy's."""
    calls = (ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call))
    return next((name for name in calls if not numpys or is_numpys(name)), "")


def is_numpys(name: str) -> bool:
    """np.f and np.linalg.f, not np.f(x).g"""
    return name.startswith(NUMPYS) and name.replace(".", "").isidentifier()


def goes_through(profile: Profile, file: str, line: int) -> bool:
    """Whether the line, or the loop that it is in, takes elements of something by its name."""
    tree = parsed(profile.text_of(file, line))
    nodes = list(ast.walk(tree))
    if any(isinstance(node, COMPREHENSIONS) for node in nodes):
        return True
    if called(tree).endswith(".fromiter"):
        return True
    for node in nodes:
        match node:
            case ast.Call(ast.Name(function), args) if function in THROUGH:
                if any(isinstance(arg, ast.Name) or _is_list(arg) for arg in args):
                    return True
    held = around(profile, file, line, ast.For, ast.While)
    inner = held[-1] if held else None
    if not isinstance(inner, ast.For):
        return False
    match inner.iter:
        case ast.Name() | ast.Attribute():
            return True
        case ast.Call(ast.Name(name) | ast.Attribute(_, name)) if name in EACH:
            return True
        case ast.Call(ast.Name("range")):
            return False
    return _computes_with(nodes, ast.unparse(inner.target))


def _is_list(node: ast.expr) -> bool:
    """x.tolist()"""
    match node:
        case ast.Call(ast.Attribute(_, "tolist")):
            return True
    return False


def _computes_with(nodes: list[ast.AST], name: str) -> bool:
    """Whether a variable is an operand there."""
    operands: list[ast.expr] = []
    for node in nodes:
        if isinstance(node, ast.BinOp):
            operands += [node.left, node.right]
        elif isinstance(node, ast.Compare):
            operands += [node.left, *node.comparators]
        elif isinstance(node, ast.AugAssign):
            operands.append(node.value)
    return any(isinstance(one, ast.Name) and one.id == name for one in operands)


def _assigned(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Names, and what they are given."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign([ast.Name(name)], value):
                yield name, value


def _whole(node: ast.AST) -> Iterator[str]:
    """Names of what is used as a whole."""
    if isinstance(node, ast.Name):
        yield node.id
    elif not isinstance(node, ast.Subscript):
        for inner in ast.iter_child_nodes(node):
            yield from _whole(inner)


def grown(tree: ast.AST) -> tuple[str, str]:
    """The function that joins an array with more and calls that as before, and its name; or ''."""
    for name, value in _assigned(tree):
        if isinstance(value, ast.Call):
            function = ast.unparse(value.func)
            used = {name for arg in value.args for name in _whole(arg)}
            joins = function.rpartition(".")[2] in JOINING and function.startswith(NUMPYS)
            if joins and name in used:
                return function, name
    return "", ""


def converted(tree: ast.AST) -> str:
    """What has a name and is made an array there, where only NumPy is called; or ''."""
    calls = [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    if not all(name.startswith(NUMPYS) for name in calls):
        return ""
    for node in ast.walk(tree):
        match node:
            case ast.Call(ast.Attribute(ast.Name("np" | "numpy"), name), [ast.Name(made), *_]):
                if name in MAKING:
                    return made
    return ""


def draws_one(tree: ast.AST) -> bool:
    """Whether random numbers are drawn there one by one, if their parameters are numbers."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(ast.Attribute(_, name), args, []) if name in BEFORE_SIZE:
                return len(args) <= BEFORE_SIZE[name]
    return False


def picked(tree: ast.AST, *, computed: bool = False) -> tuple[str, str]:
    """What is indexed there by something that has a name, and that; or ''. computed : or by what
    is computed there, which may be a number."""
    kinds = (ast.Name, ast.BinOp, ast.Call) if computed else (ast.Name,)
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(ast.Name(table), places) if isinstance(places, kinds):
                return table, ast.unparse(places)
    return "", ""


def computes_only(tree: ast.AST) -> bool:
    """Whether there are but names, numbers and what computes with them."""
    found = False
    for _, value in _assigned(tree):
        for node in ast.walk(value):
            match node:
                case ast.BinOp(_, op, _) if isinstance(op, OPERATORS):
                    found = True
                case ast.Name() | ast.Constant() | ast.Load() | ast.operator():
                    pass
                case _:
                    return False
    return found


def imports(tree: ast.AST) -> str:
    """The first module that the line imports; or ''."""
    for node in ast.walk(tree):
        match node:
            case ast.Import([ast.alias(name), *_]) | ast.ImportFrom(str(name)):
                return name
    return ""


def used_as_number(tree: ast.AST) -> str:
    """What is made a number of Python's there, to be computed with: float(x.mean()), x.item(); or
    ''."""
    operands: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp):
            operands += [node.left, node.right]
        elif isinstance(node, ast.AugAssign):
            operands.append(node.value)
    for operand in operands:
        match operand:
            case ast.Call(ast.Name("float"), [ast.expr() as inner]):
                return ast.unparse(inner)
            case ast.Call(ast.Attribute(inner, "item"), []):
                return ast.unparse(inner)
    return ""


def reads_itself(tree: ast.AST) -> bool:
    """Whether there is something that needs values and is no function of NumPy's."""
    for node in ast.walk(tree):
        match node:
            case ast.If() | ast.While() | ast.IfExp() | ast.Assert() | ast.Subscript():
                return True
            case ast.BoolOp() | ast.FormattedValue() | ast.For() | ast.comprehension():
                return True
            case ast.Call(ast.Name(name)) if name in READERS:
                return True
            case ast.Attribute(_, name) if name in READING:
                return True
            case ast.Call(called):
                name = ast.unparse(called)  # of others, which may; numbers, which are computed with
                if not is_numpys(name) or name.rpartition(".")[2] in FOLDS:
                    return True
    return False


def picks_by_mask(tree: ast.AST) -> str:
    """What is indexed there by a comparison of arrays, as x[x > 0]; or ''."""
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(_, ast.Compare() | ast.UnaryOp(ast.Invert()) | ast.BinOp()):
                logic = ast.BitAnd | ast.BitOr
                if not isinstance(node.slice, ast.BinOp) or isinstance(node.slice.op, logic):
                    return ast.unparse(node)
    return ""


def writes_element(tree: ast.AST) -> str:
    """What the line puts an element or a part into, and reads no other; or ''."""
    match tree:
        case ast.Module([ast.Assign([ast.Subscript(ast.Name(name))], value)]):
            if not any(isinstance(node, ast.Call | ast.Subscript) for node in ast.walk(value)):
                return name
    return ""
