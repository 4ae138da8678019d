"""The style of figures meets the requirements of publishers."""

import re
import zlib
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from telemark.results import plots
from telemark.results.report import FIGURE_KINDS


def drawn(panels: int) -> Figure:
    figure, axes = plots.figure(panels)
    for panel in axes:
        panel.errorbar([1, 2], [3, 4], yerr=[0.1, 0.2], label="delay (µs)")
        panel.set_xlabel("Link (Mbit/s)")
        plots.legend(panel)
    return figure


@pytest.mark.parametrize(("panels", "inches"), [(1, 3.5), (2, 7.16), (3, 7.16)])
def test_a_figure_is_as_wide_as_one_or_two_columns(panels: int, inches: float) -> None:
    assert drawn(panels).get_figwidth() == inches


def test_panels_are_lettered_where_there_are_several() -> None:
    def letters(figure: Figure) -> list[str]:
        return [text.get_text() for axes in figure.axes for text in axes.texts]

    assert letters(drawn(1)) == []
    assert letters(drawn(3)) == ["(a)", "(b)", "(c)"]


def test_a_legend_stands_above_its_panel() -> None:
    figure = drawn(2)
    figure.draw_without_rendering()
    for axes in figure.axes:
        legend = axes.get_legend()
        assert legend is not None
        box = legend.get_window_extent()
        assert axes.bbox.y1 <= box.y0 < box.y1 <= figure.bbox.y1


def test_words_are_of_eight_points_in_fonts_that_are_embedded(tmp_path: Path) -> None:
    figure = drawn(2)
    assert figure.axes[0].xaxis.label.get_size() == 8
    figure.savefig(tmp_path / "x.pdf", metadata=FIGURE_KINDS["pdf"])
    content = (tmp_path / "x.pdf").read_bytes()
    for stream in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", content, re.DOTALL):
        try:
            content += zlib.decompress(stream)
        except zlib.error:
            continue
    assert b"/FontFile2" in content
    assert b"/Type3" not in content


def test_captions_say_how_many_runs_there_were() -> None:
    assert plots.runs(1, "real") == "one run in real time"
    assert plots.runs(10, "virtual") == "mean and standard deviation of 10 runs in virtual time"
    assert [plots.count(n, "round") for n in (1, 1000)] == ["1 round", "1,000 rounds"]
