"""Pictures of what ran: operations, what is fused with what, bytes between; in the page as well."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import npaccel
from npaccel.observe import graph, profile_page
from npaccel.observe.profile_data import Event, Flush, Group, Kernel, Line, Node, Profile

pytestmark = pytest.mark.usefixtures("deferred")
N = 200_000
SVG = "{http://www.w3.org/2000/svg}"


def words(text: str) -> list[str]:
    """Texts of a picture, which has to be well-formed."""
    return [node.text or "" for node in ElementTree.fromstring(text).iter(f"{SVG}text")]


def test_arcs_between_groups_have_bytes_and_are_thick() -> None:
    own = [graph.Operation("add", "a < b", 4096.0, (-1,)), graph.Operation("exp", "", 8.0, (0,)),
           graph.Operation("sum", "", 8.0, (0, 0, 1))]  # fmt: skip
    picture = graph.svg(
        own, [graph.Together("k1", "#123", (0, 1)), graph.Together("k2", "#456", (2,))]
    )
    assert words(picture) == ["k1", "add", "a < b", "exp", "", "k2", "sum", "", "4.0 KiB", "8 B"]
    paths = ElementTree.fromstring(picture).findall(f"{SVG}path")
    assert [path.get("class") for path in paths] == [None, "between", "between"]
    assert paths[1].find(f"{SVG}title").text == "add: 4.0 KiB"


def test_explain_writes_one(tmp_path: Path, setting) -> None:
    setting("tiering", "eager")
    a = npaccel.asarray(np.linspace(0.5, 1.5, N))
    b = np.exp(a) * 2.0
    total = b.sum()
    file = tmp_path / "a.svg"
    told = npaccel.explain(graph=file)
    shown = words(file.read_text())
    assert {"exp", "multiply", "add.reduce"} <= set(shown) and total > 0
    assert any("b = np.exp(a) * 2.0" in text for text in shown)
    assert [operation.links for operation in told.links] == [(-1,), (0,), (1,)]
    assert [group.operations for group in told.together] == [(0, 1, 2)]
    assert told.together[0].title.startswith("kernel k_")
    assert "<svg" in told._repr_html_()


def test_of_what_is_pending_and_of_loops(tmp_path: Path, setting) -> None:
    setting("tiering", "off")
    a = npaccel.asarray(np.linspace(0.5, 1.5, N))
    b = np.sqrt(a) + 1
    assert "sqrt" in words(npaccel.explain(b).svg)
    npaccel.evaluate(b)
    told = npaccel.explain(b)
    assert {"sqrt", "add", "NumPy's loop"} <= set(words(told.svg))


def test_what_ran_together_in_a_profile(tmp_path: Path, setting) -> None:
    setting("tiering", "eager")
    a = npaccel.asarray(np.linspace(0.5, 1.5, N))
    with npaccel.profile(tmp_path / "p") as taken:
        for _ in range(3):
            b = np.sqrt(a) + 1
            npaccel.evaluate(b)
    (flush,) = taken.profile.flushes
    assert flush.runs == 3 and flush.seconds > 0
    assert [(node.name, node.links, node.bytes) for node in flush.nodes] == [
        ("sqrt", (-2,), 8.0 * N),
        ("add", (0,), 8.0 * N),
    ]
    assert [group.nodes for group in flush.groups] == [(0, 1)]
    page = profile_page.page(taken.profile)
    assert "3 runs: 2 operations in 1 kernel" in page and "np.sqrt(a) + 1" in page


def many() -> Profile:
    """100,000 events on two threads and a device, graphs, kernels of all sizes."""
    made = Profile({"program": "a.py", "copy_bytes_s": 2e10, "sums_f8_s": 5e9}, 1.0)
    made.lines = [Line("/p/a.py", 3, "f", 7, {"kernels": 0.5}, 1e6, 8e6)]
    made.source = {"/p/a.py": {3: "y = x + 1"}}
    for i in range(100_000):
        what, backend = (("kernels", "cuda:0"), ("kernels", "llvm"), ("python", ""))[i % 3]
        made.events.append(Event(1e-5 * i, 8e-6, what, f"k{i % 9}", 0, i % 2, 0, backend))
    made.kernels = [
        Kernel(f"k{i}", "llvm", 4, 1e-3 * i, 10.0**i, "add", ("/p/a.py:3",), 10.0**i)
        for i in range(1, 9)
    ]
    nodes = tuple(Node("add", 0, 8.0, (i - 1,)) for i in range(300))
    own = tuple(range(300))
    made.flushes = [Flush(1, 0.5, nodes, (Group("kernels", "k1", "llvm", 0.5, own),))] * 20
    return made


PROBE = """<script>
const took = [];
for (let k = 0; k < 50; k++) {
  low = k * DATA.wall / 100; high = DATA.wall - k * DATA.wall / 200;
  const t = performance.now(); draw(); context.getImageData(0, 0, 1, 1);
  took.push(performance.now() - t);
}
took.sort((a, b) => a - b);
document.title = ["PROBE", DATA.events.length, DATA.lanes.length, took[25],
  getComputedStyle(document.body).backgroundColor, document.querySelectorAll("svg").length].join();
</script></body>"""


@pytest.mark.parametrize("dark", [False, True])
def test_a_browser_draws_very_many_events(tmp_path: Path, dark: bool) -> None:
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("there is no chromium")
    page = tmp_path / "page.html"
    page.write_text(profile_page.page(many()).replace("</body>", PROBE))
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--dump-dom",
             "--disable-background-networking", f"--user-data-dir={tmp_path / 'user'}"]  # fmt: skip
    done = subprocess.run(
        [browser, *words, *(["--force-dark-mode"] if dark else []), page.as_uri()],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    told = done.stdout.partition("<title>PROBE,")[2].partition("</title>")[0]
    events, lanes, median_ms, colour = told.split(",", 3)
    assert (events, lanes) == ("100000", "3")
    assert float(median_ms) < 100  # some 5 on two quiet cores
    assert ("rgb(22, 25, 29)" in colour) == dark
    assert colour.endswith(f",{1 + 10}")  # the roofline, and graphs up to 3,000 rows
