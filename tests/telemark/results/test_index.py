"""index.html shows the verdict first, then failed experiments. Names cannot contain markup."""

import argparse
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from pathlib import Path

import pytest
from loaded import StartExperiment

from telemark import REPOSITORY
from telemark.errors import TestbedError
from telemark.results import gallery, index, plots, reference
from telemark.results.provenance import Origin
from telemark.results.report import Check, Report, Reproduction

GOOD, BAD = Check("a < b", 0, 0), Check("too much", 7, 0)


@pytest.fixture(autouse=True)
def no_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "REFERENCE", tmp_path / "reference")


def leave(
    results: Path,
    name: str,
    checks: Sequence[Check],
    *,
    quick: bool = False,
    question: str = "Why?",
    claim: str = "",
    published: str = "",
    reproductions: Sequence[Reproduction] = (),
) -> None:
    """Write the results of an experiment."""
    figure, (axes,) = plots.figure()
    axes.plot([1, 2], [3, 4])
    (results / name).mkdir(parents=True)
    options = argparse.Namespace(
        target="minip4", time="virtual", quick=quick, seed=3, out=results / name
    )
    report = Report([{"x": 1}], checks, figure=figure, caption="Loss < 1 %.",
                    reproductions=reproductions)  # fmt: skip
    report.write(name, options, Origin(question, claim, published))


def headings(page: str) -> list[str]:
    return [re.sub("<.*?>", "", text) for text in re.findall("<h2.*?>(.*?)</h2>", page)]


def cells_of(page: str, *labels: str) -> list[dict[str, str]]:
    """Return the cells by label of each row whose first cells have these labels."""
    start = ".*".join(f'<td data-label="{label}">' for label in labels)
    rows = re.findall(f"<tr>({start}.*)", page)
    return [dict(re.findall('<td data-label="(.*?)">(.*?)(?=<td|</table|$)', row)) for row in rows]


def test_what_failed_comes_first(tmp_path: Path) -> None:
    leave(tmp_path, "a", [GOOD, GOOD])
    leave(tmp_path, "b", [GOOD, BAD], quick=True)
    leave(tmp_path, "c", [])
    page = index.build(tmp_path).read_text()
    assert headings(page) == [
        "b: FAILED: 1 of 2 checks --quick virtual time",
        "c: FAILED: no checks virtual time",
        "a: passed: 2 checks virtual time",
    ]
    assert page.index("FAILED: 2 of 3 experiments") < page.index("<table>") < page.index("<h2")
    section = page[page.index('<section id="b"') : page.index('<section id="c"')]
    assert section.index("too much") < section.index("<img") < section.index("a &lt; b")


def test_experiments_without_results_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page names the experiments that have no results, for example inconclusive ones.

    Without these names, the page would look as if all experiments had passed.
    """
    monkeypatch.setattr(index, "REPOSITORY", tmp_path)
    (tmp_path / "experiments").mkdir()
    for name in ("_venv", "a", "b", "c"):
        (tmp_path / "experiments" / f"{name}.py").touch()
    results = tmp_path / "results"
    leave(results, "a", [GOOD])
    page = index.build(results).read_text()
    assert "No results of 2 other experiments<" in page
    assert "(run_all.sh reports the reasons): b, c</p>" in page
    leave(results, "b", [GOOD])
    leave(results, "c", [GOOD])
    assert "No results of" not in index.build(results).read_text()


def test_all_that_passed_is_one_verdict(tmp_path: Path) -> None:
    leave(tmp_path, "a", [GOOD])
    page = index.build(tmp_path).read_text()
    assert '<p id="verdict" class="passed">passed: 1 experiment</p>' in page
    assert "FAILED" not in page


def test_a_section_says_what_was_asked_when_and_shows_it(tmp_path: Path) -> None:
    leave(tmp_path, "a", [GOOD], question="Is 1 < 2 & 2 < 3?", claim="It is.", published="RFC 1")
    page = index.build(tmp_path).read_text()
    assert ">Is 1 &lt; 2 &amp; 2 &lt; 3?</p>" in page
    assert "<p><b>Claim:</b> It is.</p>\n<p><b>Published:</b> RFC 1</p>" in page
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC, [\d.]+ s", page)
    assert 'href="a/a.svg"' in page
    assert 'href="a/a.pdf"' in page
    assert "Loss &lt; 1 %." in page
    assert 'href="a/samples.csv"' in page
    assert "No reference for comparison" in page


def test_a_row_of_the_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [f"{REPOSITORY}/experiments/a.py", "--seed=3"])
    leave(tmp_path / "reference", "a", [GOOD])
    leave(tmp_path / "results", "a", [GOOD], claim="All is well.")
    summary = tmp_path / "results" / "a" / "summary.json"
    summary.write_text(json.dumps(json.loads(summary.read_text()) | {"duration_s": 600.0}))
    page = index.build(tmp_path / "results").read_text()
    assert cells_of(page, "Claim") == [{
        "Claim": "All is well.",
        "Experiment": '<a href="#a">a</a>',
        "Command": "<code>python experiments/a.py --seed=3</code>",
        "Minutes": "10.0",
        "Result": '<span class="passed">passed: 1 check</span>',
        "Reference": '<span class="passed">equal</span>',
    }]  # fmt: skip


def test_an_index_of_the_gallery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery, "REPOSITORY", tmp_path)
    script = tmp_path / "experiments" / "gallery_a.py"
    script.parent.mkdir()
    script.write_text('"""Why?\n\nPaper: A & B: Sketches.\n"""')
    numbers = [
        Reproduction("recall", "Figure 5", "0.9", (0.8, 1.0), measured)
        for measured in ([0.9], [0.85, 0.95, 0.9], [0.2])
    ]
    leave(tmp_path / "results", "other", [GOOD], reproductions=numbers)
    assert 'id="gallery"' not in index.build(tmp_path / "results").read_text()
    leave(tmp_path / "results", "gallery_a", [GOOD], reproductions=numbers)
    leave(tmp_path / "results", "gallery_b", [GOOD], reproductions=numbers[:1])
    page = index.build(tmp_path / "results").read_text()
    first, second = cells_of(page, "Experiment", "Paper")
    data = b64encode((tmp_path / "results/gallery_a/gallery_a.svg").read_bytes()).decode()
    assert first == {
        "Experiment": '<a href="#gallery_a">gallery_a</a>',
        "Paper": "A &amp; B: Sketches.",
        "Figure": f'<a href="#gallery_a"><img src="data:image/svg+xml;base64,{data}" '
                  'alt="Small figure of gallery_a"></a>',
        "Reproduced": "2 of 3 numbers",
    }  # fmt: skip
    assert second["Paper"] == ""  # without a script
    assert second["Reproduced"] == '<span class="passed">1 of 1 number</span>'
    numbers_of_a = cells_of(page, "published claim")[:3]
    assert [each["measured"] for each in numbers_of_a] == ["0.9", "0.9 (0.85 to 0.95)", "0.2"]
    assert numbers_of_a[2]["result"] == "not reproduced"


def test_figures_are_in_the_page(tmp_path: Path) -> None:
    leave(tmp_path, "a", [GOOD])
    page = index.build(tmp_path).read_text()
    (data,) = re.findall('src="data:image/svg.xml;base64,(.*?)"', page)
    assert b64decode(data) == (tmp_path / "a" / "a.svg").read_bytes()


def test_everything_is_text_to_a_browser(tmp_path: Path) -> None:
    evil = "<script>alert('x')</script>"
    leave(tmp_path, "a & b", [Check(evil, 1, 0)], question=evil, claim=evil, published=evil)
    summary = tmp_path / "a & b" / "summary.json"
    said = json.loads(summary.read_text())
    said |= {"command": evil, "seed": evil, "target": evil, "caption": evil}
    said["environment"] |= {"git": evil, "changed": [evil], "versions": {evil: evil}}
    said["parameters"]["time"] = evil
    said["programs"] = [{"path": evil, "defines": [evil], "sha256": evil}]
    summary.write_text(json.dumps(said))
    page = index.build(tmp_path).read_text()
    assert "<script" not in page
    assert evil not in page
    assert 'href="a%20%26%20b/a%20%26%20b.svg"' in page


def test_numbers_are_held_against_the_reference(tmp_path: Path) -> None:
    leave(tmp_path / "reference", "a", [GOOD])
    leave(tmp_path / "results", "a", [GOOD])
    page = index.build(tmp_path / "results").read_text()
    assert 'href="../reference/a"' in page
    assert '<span class="passed">all numbers in samples.csv are equal' in page
    (tmp_path / "results" / "a" / "samples.csv").write_text("x\r\n2\r\n")
    page = index.build(tmp_path / "results").read_text()
    assert '<span class="failed">numbers DIFFER: row 1, x: 2, reference 1' in page


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"checks": [{}]}', '{"checks": 7}'])
def test_a_summary_that_is_none_does_not_hide_the_others(tmp_path: Path, text: str) -> None:
    leave(tmp_path, "good", [GOOD])
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "summary.json").write_text(text)
    page = index.build(tmp_path).read_text()
    assert headings(page) == ["good: passed: 1 check virtual time"]
    assert "odd/summary.json: not readable by this version" in page
    assert '<p id="verdict" class="failed">FAILED: 1 of 2 experiments</p>' in page


def test_an_index_of_nothing(tmp_path: Path) -> None:
    assert "No results yet" in index.build(tmp_path).read_text()


def test_an_index_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "index.html").mkdir()
    with pytest.raises(TestbedError, match=r"index\.html: cannot write: "):
        index.build(tmp_path)


@pytest.mark.parametrize("folder", ["results", "elsewhere"])
def test_each_experiment_brings_the_page_up_to_date(
    start_experiment: StartExperiment, tmp_path: Path, folder: str
) -> None:
    """An experiment updates index.html if its results are in the folder results/.

    If the user chose another folder, the experiment writes no such page.
    """
    body = "return Report(samples=[{'x': 1}], checks=[Check('y', 1, 1)])"
    results = tmp_path / "results"
    head = (
        "import pathlib\nfrom telemark.session import cli\n"
        f"cli.RESULTS = pathlib.Path({str(results)!r})"
    )
    out = tmp_path / folder / "mine"
    started = start_experiment(body, "--time", "virtual", "--out", str(out), head=head)
    output, errors = started.communicate()
    assert started.returncode == 0, errors
    page = out.parent / "index.html"
    assert page.is_file() == (folder == "results")
    assert (f"All results: {page}" in output) == (folder == "results")
    if folder == "results":
        assert headings(page.read_text())[1:] == ["mine: passed: 1 check virtual time"]
        assert ">An example.</p>" in page.read_text()
