"""`enable` and `disable`, the magics, and what notebooks show; a notebook is executed."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel.errors import ConfigError

NOTEBOOK = Path(__file__).parent.parent / "docs" / "notebook.ipynb"
N = 100_000
PLAIN = np.linspace(0.0, 1.0, N)
pytestmark = pytest.mark.pending


@pytest.fixture
def enabled() -> Iterator[None]:
    npaccel.enable(min_size=0)
    yield
    npaccel.disable()


def is_recorded(x: np.ndarray[Any, Any]) -> bool:
    return type(np.multiply(x, 3.25)) is npaccel.Array


# ------------------------------------------------------------------------------- enable, disable


@pytest.mark.usefixtures("enabled")
def test_plain_arrays_are_recorded_in_every_thread_until_disabled() -> None:
    x = PLAIN
    seen = [is_recorded(x)]
    thread = threading.Thread(target=lambda: seen.append(is_recorded(x)))
    thread.start()
    thread.join()
    asyncio.run(asyncio.sleep(0, seen.append(is_recorded(x))))
    pending = np.multiply(x, 2.0)
    npaccel.disable()
    assert seen == [True] * 3
    assert not is_recorded(x)
    np.testing.assert_array_equal(np.asarray(pending), PLAIN * 2.0)


def test_enabled_again_the_new_arguments_hold() -> None:
    x = PLAIN
    try:
        npaccel.enable(min_size=0)
        npaccel.enable(min_size=16 * N)
        assert not is_recorded(x)
        npaccel.enable(min_size=0)
        assert is_recorded(x)
    finally:
        npaccel.disable()
    assert not is_recorded(x)


@pytest.mark.usefixtures("enabled")
def test_a_wrong_argument_changes_nothing() -> None:
    with pytest.raises(ConfigError, match="min_size"):
        npaccel.enable(min_size=-1)
    with pytest.raises(ConfigError, match="backend"):
        npaccel.enable(backend="fpga")
    assert is_recorded(PLAIN)


def test_disable_without_enable_does_nothing() -> None:
    npaccel.disable()
    with npaccel.accelerate(min_size=0):
        npaccel.disable()
        assert is_recorded(PLAIN)


# ---------------------------------------------------------------------------------------- magics


@pytest.fixture
def shell() -> Iterator[Any]:
    """An IPython session with the magics."""
    interactive = pytest.importorskip("IPython.core.interactiveshell")
    made = interactive.InteractiveShell(user_ns={"np": np, "npaccel": npaccel, "N": N})
    made.run_line_magic("load_ext", "npaccel")
    yield made
    made.history_manager.end_session()


def test_a_cell_is_accelerated_and_shows_its_last_expression(shell: Any) -> None:
    shell.run_cell("x = np.linspace(0.0, 1.0, N)")
    result = shell.run_cell("%%accelerate --min-size 0\ny = x * 2 + 1\ny[-1]")
    assert result.success
    assert shell.user_ns["_"] == 3.0
    assert type(shell.user_ns["y"]) is npaccel.Array
    assert not is_recorded(shell.user_ns["x"])


def test_an_error_of_the_cell_is_the_cells_and_ends_the_block(shell: Any) -> None:
    result = shell.run_cell("%%accelerate --min-size 0\nz = 1\n1 / 0")
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    assert shell.user_ns["z"] == 1
    assert not is_recorded(PLAIN)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--min-size few", "min-size"),
        ("--backend fpga", "fpga"),
        ("--fast", "unrecognized arguments: --fast"),
    ],
)
def test_wrong_words_are_an_error_and_the_cell_does_not_run(
    shell: Any, words: str, said: str
) -> None:
    result = shell.run_cell(f"%%accelerate {words}\nran = True")
    assert isinstance(result.error_in_exec, ConfigError)
    assert said in str(result.error_in_exec)
    assert "ran" not in shell.user_ns


def test_other_magics_and_the_future_work_inside(shell: Any) -> None:
    assert shell.run_cell("%%accelerate\n%alias_magic t time\nwhere = %pwd").success
    assert shell.user_ns["where"]
    assert shell.run_cell("%%accelerate\ndef f(x: int): ...").success
    assert shell.user_ns["f"].__annotations__ == {"x": int}  # none of our own `__future__`


@pytest.mark.parametrize("plain", [False, True])
def test_a_profile_is_shown_and_kept_where_asked(shell: Any, tmp_path: Path, plain: bool) -> None:
    kept = tmp_path / "cell.profile"
    words = f"--out {kept} --min-size 0" + " --plain" * plain
    published: list[dict[str, str]] = []
    shell.display_pub.publish = published.append
    result = shell.run_cell(f"%%profile {words}\ny = np.sqrt(np.linspace(0, 1, N))")
    assert result.success
    assert type(shell.user_ns["y"]) is (np.ndarray if plain else npaccel.Array)
    (shown,) = published
    assert "srcdoc=" in shown["text/html"]
    assert "a cell" in shown["text/plain"]
    assert "npaccel_profile" in json.loads(kept.read_text().splitlines()[0])


def test_unloaded_they_are_gone(shell: Any) -> None:
    shell.run_line_magic("unload_ext", "npaccel")
    assert not {"accelerate", "profile"} & set(shell.magics_manager.magics["cell"])


# ----------------------------------------------------------------------------------- what is shown


class Tags(HTMLParser):
    """Checks that what is opened is closed, and keeps the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_an_explanation_as_html_says_what_its_text_says() -> None:
    npaccel.stats(reset=True)
    x = npaccel.asarray(np.linspace(0.0, 1.0, N))
    y = (np.sqrt(x) * 2 + 1).sum()
    float(y)
    np.fft.fft(x)
    found = npaccel.explain(y)
    text = Tags(found._repr_html_()).text
    (step,) = found.steps
    assert f"kernel {step.kernel}" in text
    for operation in step.operations:
        assert operation.name in text
        assert f"test_notebook.py:{operation.line}" in text
    assert "Handed to NumPy" in text and "fft" in text
    assert found.ir.splitlines()[0] in text


def test_counts_print_short_and_hold_all() -> None:
    npaccel.stats(reset=True)
    assert str(npaccel.stats()).startswith("nothing was recorded\n")
    x = npaccel.asarray(np.linspace(0.0, 1.0, N))
    npaccel.evaluate(x * 2 + 1)
    counts = npaccel.stats()
    text = str(counts)
    assert "2 operations recorded, 1 run: 2 in 1 kernel\n" in text
    assert len(text.splitlines()) <= 6
    assert counts["requests"] == 2
    assert json.loads(json.dumps(counts)) == counts  # a dict, for programs
    shown = Tags(counts._repr_html_()).text
    assert text in shown
    assert all(name in shown for name in counts)


def test_the_profiles_page_stands_in_a_frame_of_its_own(tmp_path: Path) -> None:
    with npaccel.profile(tmp_path / "p") as taken:
        assert "not over yet" in taken._repr_html_()
    page = taken._repr_html_()
    assert page.startswith("<iframe ") and page.count("<iframe") == 1
    assert "<style>" not in page  # all of it is quoted


# -------------------------------------------------------------------------------------- a notebook


def test_the_notebook_of_the_documentation_runs(tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=120, resources={"metadata": {"path": tmp_path}}
    ).execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    kinds = [{kind for output in cell.outputs for kind in output.get("data", {})} for cell in cells]
    streams = [output for cell in cells for output in cell.outputs if "text" in output]
    assert streams == []  # no warning, and nothing printed
    html = {"text/html", "text/plain"}
    assert kinds == [set(), {"text/plain"}, html, html, html, {"text/plain"}]
