"""index.html in a browser: on a phone and a desktop, light and dark, without mouse and network."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Page, browser, program
from replays import replay

from telemark.results import index, plots
from telemark.results.provenance import Origin
from telemark.results.report import Check, Report

pytestmark = pytest.mark.skipif(program() is None, reason="no Chromium here: apt install chromium")
LONG = "a_name_that_is_longer_than_a_phone_is_wide_and_has_no_space_anywhere_in_all_its_letters"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with a failed and a passed experiment. Some words are too long for a line."""
    results = tmp_path_factory.mktemp("results")
    for name, measured in (("good", 0), ("bad", 1), ("gallery_a", 0)):
        figure, (axes, _) = plots.figure(2)
        axes.plot([1, 2], [3, 4])
        (results / name).mkdir()
        options = argparse.Namespace(target="minip4", time="virtual", quick=True, seed=1,
                                     out=results / name, method=[LONG])  # fmt: skip
        checks = [Check(LONG, measured, 0), Check("a check of several words", 1e-300, 1e-300)]
        Report([{"x": 1}], checks, figure=figure, caption=LONG, replay=replay(LONG)).write(
            name, options, Origin("Why?", "All is as it is.", LONG)
        )
        summary = results / name / "summary.json"
        said = json.loads(summary.read_text()) | {"command": f"python {LONG}.py --{LONG}"}
        summary.write_text(json.dumps(said))
    return index.build(results)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_window(page: Page, path: Path, width: int, dark: bool) -> None:
    page.open(path, width=width, dark=dark)
    page.value("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert page.value("document.documentElement.scrollWidth") == width
    assert page.parse_errors == []


@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out_from_its_ground(page: Page, path: Path, dark: bool) -> None:
    """The contrast between text and background is at least 4.5 : 1 (WCAG 2.2, 1.4.3)."""
    page.open(path, width=1280, dark=dark)
    worst = page.value(CONTRAST)
    assert worst["ratio"] >= 4.5, worst
    lightness = page.value("getComputedStyle(document.body).backgroundColor")
    assert lightness == ("rgb(22, 24, 27)" if dark else "rgb(255, 255, 255)")


CONTRAST = """(() => {
  const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = colour => numbers(colour).slice(0, 3).map(v => v / 255)
    .map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const ground = node => {
    const colour = getComputedStyle(node).backgroundColor;
    return numbers(colour)[3] === 0 ? ground(node.parentElement) : colour;
  };
  let worst = {ratio: 21};
  for (const node of document.querySelectorAll("main *, header *")) {
    if (![...node.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    const [a, b] = [light(getComputedStyle(node).color), light(ground(node))];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < worst.ratio) worst = {ratio, text: node.textContent.slice(0, 40)};
  }
  return worst;
})()"""


def test_the_keyboard_gets_everywhere(page: Page, path: Path) -> None:
    page.open(path, width=1280)
    reached, seen = [], "document.activeElement"
    for _ in range(60):
        page.press("Tab", 9)
        tag = page.value(f"{seen}.tagName + ' ' + ({seen}.getAttribute('href') || '')")
        if tag.startswith("BODY"):
            break
        reached.append(tag)
        assert page.value(f"getComputedStyle({seen}).outlineStyle") != "none", tag
    assert reached[0] == "A #claims"
    assert {"A #good", "A #bad", "SUMMARY ", "A good/good.pdf"} <= {*reached}


def test_enter_opens_what_is_folded(page: Page, path: Path) -> None:
    page.open(path, width=390)
    page.value("document.querySelector('summary').focus()")
    assert page.value("document.querySelector('details').open") is False
    page.press("Enter", 13, "\r")
    assert page.value("document.querySelector('details').open") is True


def test_the_table_of_claims_is_cards_on_a_phone(page: Page, path: Path) -> None:
    page.open(path, width=390)
    cells = "document.querySelectorAll('#claims td')"
    lefts = page.value(f"[...{cells}].map(cell => cell.getBoundingClientRect().left)")
    assert len({*lefts}) == 1
    assert page.value(f"getComputedStyle({cells}[3], '::before').content") == '"Minutes: "'
    page.open(path, width=1280)
    lefts = page.value(f"[...{cells}].map(cell => cell.getBoundingClientRect().left)")
    assert len({*lefts}) == 6
    region = "document.querySelector('#claims .scroll')"
    assert page.value(f"{region}.scrollWidth - {region}.clientWidth") == 0


NOW = "document.getElementById('replay-now').textContent"
TIME = "document.getElementById('replay-time')"
INK = """(id => {
  const {data} = document.getElementById(id).getContext("2d").getImageData(0, 0, 2000, 2000);
  let found = 0;
  for (let at = 0; at < data.length; at += 4)
    if (data[at] === 0xD5 && data[at + 1] === 0x5E && data[at + 2] === 0) found++;
  return found;
})"""


def test_a_replay_begins_where_the_queue_is_longest(page: Page, path: Path) -> None:
    page.open(path, width=1280)
    assert page.value(NOW) == "At 0.2 ms longest queue: s2 to h2: 2 (2 red)"
    assert page.value("JSON.stringify(queues.map(queue => [queue.from, queue.most]))") == (
        '[["s1",1],["s2",2]]'
    )


@pytest.mark.parametrize("width", [390, 1280])
def test_a_replay_goes_by_the_keyboard(page: Page, path: Path, width: int) -> None:
    page.open(path, width=width)
    page.value(f"{TIME}.focus()")
    page.press("Home", 36)
    assert page.value(NOW) == "At -0.1 ms all queues empty"
    page.press("ArrowRight", 39)
    assert page.value("now") == 100
    assert page.value(NOW) == "At 0.1 ms longest queue: s1 to s2: 1 (1 red)"
    assert page.value(f"{TIME}.getAttribute('aria-valuetext')") == "0.1 ms"


ENDED = """new Promise(done => {
  if (!isPlaying) done();
  new MutationObserver(() => done()).observe(play, {childList: true});
})"""


def test_a_replay_plays_from_its_beginning_to_its_end(page: Page, path: Path) -> None:
    page.open(path, width=1280)
    page.value("document.getElementById('replay-play').focus()")
    page.press(" ", 32, " ")
    assert page.value("play.textContent") == "Pause"
    page.value(ENDED)
    assert page.value("now") == 1000
    assert page.value("play.textContent") == "Play"
    assert page.parse_errors == []
    page.open(path, width=1280)
    assert page.value("play.click(), now") == 0


def test_packets_are_seen_on_links_and_in_queues(page: Page, path: Path) -> None:
    page.open(path, width=1280)
    page.value("speed.value = 1000")
    page.value("seek(800)")  # all packets have arrived; late ones are still drawn on their links
    beyond = page.value(f"{INK}('replay-scene')")
    page.value("seek(250)")
    assert page.value(f"{INK}('replay-scene')") > beyond + 100  # bar: a queue of two packets
    page.value("data.lasts_us = 1e6, seek(90)")
    assert page.value(f"{INK}('replay-scene')") > 10  # one packet on a link; its edge is lighter
    page.value("seek(9e5)")
    assert page.value(f"{INK}('replay-scene')") == 0


def test_what_is_drawn_follows_the_scheme(page: Page, path: Path) -> None:
    page.open(path, width=1280, dark=True)
    assert page.value("colour('ink').trim()") == "#e6e6e6"
