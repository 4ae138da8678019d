"""The page of --watch in a browser: on a phone and a desktop, light and dark, by keyboard."""

from collections.abc import Iterator
from typing import Any

import pytest
from browser import Page, browser, program
from mininet.topo import SingleSwitchTopo, Topo
from test_page import CONTRAST
from watching import set_speed

from telemark.watch.display import Display, Series
from telemark.watch.measurement import describe
from telemark.watch.publisher import WatchServer
from topologies.basic import Line
from topologies.leaf_spine import LeafSpine

pytestmark = pytest.mark.skipif(program() is None, reason="no Chromium here: apt install chromium")
S1_TO_S2 = 2  # index of this direction


class Chain(Topo):
    """h1 - s1 - s2 - h2, with 1 Mbit/s between the switches."""

    def build(self) -> None:
        s1, s2 = self.addSwitch("s1"), self.addSwitch("s2")
        self.addLink(self.addHost("h1"), s1)
        self.addLink(s1, s2, rate_bps=1_000_000)
        self.addLink(s2, self.addHost("h2"))


class Large(Topo):
    """A leaf-spine fabric of 100 switches, with a host per leaf."""

    def build(self) -> None:
        spines = [self.addSwitch(f"s{number}") for number in range(1, 5)]
        for number in range(5, 101):
            leaf = self.addSwitch(f"s{number}")
            for other in (self.addHost(f"h{number}"), *spines):
                self.addLink(leaf, other, rate_bps=100_000_000)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture
def server(capsys: pytest.CaptureFixture[str]) -> Iterator[tuple[WatchServer, str]]:
    """A server that shows a network in virtual time, and the address of its page."""
    with WatchServer("example", is_virtual=True) as found:
        url = capsys.readouterr().out.split()[1]
        found.publisher.start_network("network", Chain(), [], 0)
        yield found, url


def measurement(time_ns: int, **s1_to_s2: int) -> dict[str, Any]:
    """Return a measurement in which only one direction carries packets."""
    nothing = {"bytes": 0, "lost": 0, "queued": 0, "on_link": 0, "queue_drops": 0}
    directions = [dict(nothing) for _ in range(6)]
    directions[S1_TO_S2] |= s1_to_s2
    return {"time_ns": time_ns, "directions": directions,
            "drops": {"s1": {"queue_drops": 7}, "s2": {}}}  # fmt: skip


def show(page: Page, server: tuple[WatchServer, str], **window: Any) -> None:
    """Open the page, and send two measurements that are one second apart."""
    publisher = server[0].publisher
    page.open(server[1], **window)
    publisher.send({"measurement": measurement(10**9, bytes=1000)})
    page.value(SEEN.format(10**9))
    values = {"bytes": 101_000, "lost": 5, "queued": 40, "on_link": 2, "queue_drops": 7}
    publisher.send({"measurement": measurement(2 * 10**9, **values)})
    page.value(SEEN.format(2 * 10**9))


# a promise that is fulfilled when the page has drawn the measurement of this time; in the first
# frame, the page does not know yet which rows are visible
SEEN = """new Promise(done => {{
  const later = () => requestAnimationFrame(() => requestAnimationFrame(() => done()));
  const look = () => now?.time_ns === {} ? later() : requestAnimationFrame(look);
  look();
}})"""
ROW = f"[...document.querySelectorAll('#links tr')[{S1_TO_S2}].cells].map(cell => cell.textContent)"


def test_the_page_shows_rates_losses_and_queues(
    page: Page, server: tuple[WatchServer, str]
) -> None:
    show(page, server, width=1280)
    assert page.value(ROW) == ["s1 to s2", "0.800", "80 %", "5", "40", "2", "7"]
    drops = "[...document.querySelector('#switches tr').cells].map(cell => cell.textContent)"
    assert page.value(drops) == ["s1", "", "", "7", "", ""]
    assert page.value("$('state').textContent") == "network: 2.000 s"


def test_the_page_shows_drops_of_bmv2(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    with WatchServer("example", is_virtual=False) as found:
        found.publisher.send({"network": describe("network", Chain(), "bmv2"), "control": {}})
        page.open(capsys.readouterr().out.split()[1], width=1280)
        drops = {"s1": {"bmv2_drops": 3}, "s2": {"bmv2_drops": 0}}
        found.publisher.send({"measurement": measurement(1) | {"drops": drops}})
        page.value(SEEN.format(1))
        # the page fills the rows in the frame after it knows which ones are visible
        page.value("new Promise(done => { const look = () => $('switches').innerText.includes('3')"
                   " ? done() : requestAnimationFrame(look); look(); })")  # fmt: skip
        table = "$('switches').parentElement.innerText.split(/\\s*\\n/)"
        assert page.value(table) == ["switch\tin bmv2, or dropped by it", "s1\t3", "s2\t0"]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_window(
    page: Page, server: tuple[WatchServer, str], width: int, dark: bool
) -> None:
    show(page, server, width=width, dark=dark)
    assert page.value("document.documentElement.scrollWidth") == width
    others = [each for each in page.parse_errors if not each.startswith(server[1])]
    assert others == []


@pytest.mark.parametrize("dark", [False, True])
def test_text_has_contrast(page: Page, server: tuple[WatchServer, str], dark: bool) -> None:
    """The contrast between text and background is at least 4.5 : 1 (WCAG 2.2, 1.4.3)."""
    show(page, server, width=1280, dark=dark)
    worst = page.value(CONTRAST)
    assert worst["ratio"] >= 4.5, worst


def test_a_switch_that_was_started_again_lost_nothing(
    page: Page, server: tuple[WatchServer, str]
) -> None:
    show(page, server, width=1280)
    server[0].publisher.send({"measurement": measurement(3 * 10**9, bytes=100, lost=1)})
    page.value(SEEN.format(3 * 10**9))
    assert page.value(f"rateOf({S1_TO_S2})") == {"mbps": 0, "share": 0, "lost": 0, "drops": 0}


# from now on, the page collects the texts of its canvases
TEXTS = """(() => {
  window.texts = new Set();
  CanvasRenderingContext2D.prototype.fillText = text => { texts.add(`${text}`); };
  return [...texts];
})()"""
COLOURED = """(name => {
  const [r, g, b] = colour(name).match(/[0-9a-f]{2}/g).map(value => parseInt(value, 16));
  const {data} = $("scene").getContext("2d").getImageData(0, 0, 2000, 2000);
  let found = 0;
  for (let at = 0; at < data.length; at += 4)
    if (data[at] === r && data[at + 1] === g && data[at + 2] === b) found++;
  return found;
})"""


@pytest.mark.parametrize("dark", [False, True])
def test_a_loaded_link_and_its_losses_are_coloured(
    page: Page, server: tuple[WatchServer, str], dark: bool
) -> None:
    show(page, server, width=1280, dark=dark)
    assert page.value(f"{COLOURED}('focus')") > 100  # the link, at 80 %
    assert page.value(f"{COLOURED}('bad')") > 3  # the number of lost packets
    assert page.value(f"{COLOURED}('link')") == 0


def test_a_chain_is_laid_out_in_order(page: Page, server: tuple[WatchServer, str]) -> None:
    show(page, server, width=1280)
    columns = dict(page.value("network.nodes.map((node, i) => [node.name, places[i][0]])"))
    order = sorted(columns, key=lambda name: float(columns[name]))
    assert order == ["h1", "s1", "s2", "h2"]


def test_a_long_chain_is_a_straight_line(page: Page, server: tuple[WatchServer, str]) -> None:
    show(page, server, width=1280)
    server[0].publisher.start_network("line", Line(switches=6), [], 0)
    page.value(until("network.name === 'line'"))
    columns = dict(page.value("network.nodes.map((node, i) => [node.name, places[i][0]])"))
    order = ["h1", *(f"s{number}" for number in range(1, 7)), "h2"]
    assert sorted(columns, key=lambda name: float(columns[name])) == order
    assert page.value("places.map(place => place[1])") == [0.5] * 8


def test_a_fabric_is_laid_out_in_rows(page: Page, server: tuple[WatchServer, str]) -> None:
    show(page, server, width=1280)
    server[0].publisher.start_network("fabric", LeafSpine(leaves=3, spines=2, hosts=2), [], 0)
    page.value(until("network.name === 'fabric'"))
    places = page.value("network.nodes.map((node, i) => [node.name, ...places[i]])")
    rows: dict[float, list[str]] = {}
    for name, _, y in sorted(places, key=lambda place: place[1]):
        rows.setdefault(y, []).append(name)
    assert [rows[y] for y in sorted(rows)] == [
        ["s4", "s5"], ["s1", "s2", "s3"], ["h1", "h2", "h3", "h4", "h5", "h6"],
    ]  # fmt: skip


def test_a_network_without_hosts_is_shown(page: Page, server: tuple[WatchServer, str]) -> None:
    topo = Topo()
    topo.addLink(topo.addSwitch("s1"), topo.addSwitch("s2"))
    show(page, server, width=1280)
    server[0].publisher.start_network("switches", topo, [], 0)
    page.value(until("network.name === 'switches'"))
    page.value(DRAWN)
    assert page.value("$('state').textContent") == "switches: starting"
    assert page.value("places.length") == 2


@pytest.mark.parametrize(("width", "shown"), [(1280, {"s1", "s4", "h1"}), (390, {"s1", "s4"})])
def test_a_row_without_room_has_no_names(
    page: Page, server: tuple[WatchServer, str], width: int, shown: set[str]
) -> None:
    page.open(server[1], width=width)
    server[0].publisher.start_network("fabric", LeafSpine(leaves=3, spines=2, hosts=9), [], 0)
    page.value(until("network?.name === 'fabric'"))
    assert page.value(TEXTS) == []
    measured = {"time_ns": 1, "directions": [{"bytes": 0}] * 66, "drops": {}}
    server[0].publisher.send({"measurement": measured})
    page.value(SEEN.format(1))
    texts = page.value(f"{DRAWN}.then(() => [...texts])")
    assert shown == {"s1", "s4", "h1"}.intersection(texts)


def test_many_links_have_no_numbers(page: Page, server: tuple[WatchServer, str]) -> None:
    page.open(server[1], width=1280)
    topo = LeafSpine(leaves=30, spines=12, hosts=1)
    server[0].publisher.start_network("fabric", topo, [], 0)
    page.value(until("network?.name === 'fabric'"))
    assert page.value(TEXTS) == []
    directions = [*[{"bytes": 0, "queued": 0}] * 779, {"bytes": 0, "queued": 7}]
    measured = {"time_ns": 1, "directions": directions, "drops": {}}
    server[0].publisher.send({"measurement": measured})
    page.value(SEEN.format(1))
    texts = page.value(f"{DRAWN}.then(() => [...texts])")
    assert "s1" in texts
    assert "7" not in texts


def test_the_first_chart_shows_a_queue_of_a_switch(
    page: Page, server: tuple[WatchServer, str]
) -> None:
    """Also without a link between switches. The counters of hosts have no queues."""
    page.open(server[1], width=1280)
    server[0].publisher.start_network("star", SingleSwitchTopo(), [], 0)
    page.value(until("network?.name === 'star'"))
    assert page.value("$('selected').textContent") == "s1 to h1"


def test_the_chart_of_a_host_shows_no_queue(page: Page, server: tuple[WatchServer, str]) -> None:
    show(page, server, width=1280)
    assert page.value(TEXTS) == []
    without = {"time_ns": 3 * 10**9, "directions": [{"bytes": 0}] * 6, "drops": {}}
    server[0].publisher.send({"measurement": without})
    page.value(SEEN.format(3 * 10**9))
    texts = page.value(f"{DRAWN}.then(() => [...texts])")
    assert "not measured: only switches count their packets" in texts
    assert "in queue" not in texts


def test_the_next_network_shows_the_same_link(page: Page, server: tuple[WatchServer, str]) -> None:
    show(page, server, width=1280)
    page.value("$('links').querySelectorAll('button')[3].click()")
    server[0].publisher.start_network("second", Chain(), [], 0)
    page.value(until("network.name === 'second'"))
    assert page.value("$('selected').textContent") == "s2 to s1"


def test_without_a_network_no_empty_part_is_shown(
    page: Page, capsys: pytest.CaptureFixture[str]
) -> None:
    with WatchServer("example", is_virtual=True) as found:
        page.open(capsys.readouterr().out.split()[1], width=390)
        visible = "[...document.querySelectorAll('h2, canvas')].filter(each => each.clientHeight)"
        assert page.value(f"{visible}.length") == 0
        found.publisher.start_network("network", Chain(), [], 0)
        page.value(until("network?.name === 'network'"))
        assert page.value(f"{visible}.map(each => each.id || each.textContent)") == [
            "scene", "Queue from s1 to s2", "chart", "Links", "Drops of switches",
        ]  # fmt: skip


def test_the_keyboard_pauses_the_run_and_selects_a_link(
    page: Page, server: tuple[WatchServer, str]
) -> None:
    show(page, server, width=390)
    page.value("$('play').focus()")
    page.press(" ", 32, " ")
    assert page.value("$('play').textContent") == "Run"
    # the page has sent its speed when it was opened
    speeds = b""
    while not speeds.endswith(b"0.0\n"):
        speeds += server[0]._channel.recv(100)
    # a network that starts in between repeats the first speed
    assert [*dict.fromkeys(speeds.split())] == [b"1.0", b"0.0"]
    button = "document.querySelector('#links button')"
    page.value(f"{button}.focus()")
    page.press("Enter", 13, "\r")
    assert page.value("$('selected').textContent") == "h1 to s1"
    assert page.value(f"{button}.getAttribute('aria-pressed')") == "true"


def test_the_page_reports_the_end(page: Page, server: tuple[WatchServer, str]) -> None:
    show(page, server, width=390)
    server[0].__exit__()
    page.value("new Promise(done => { const look = () => events.readyState === 2 ? "
               "done() : requestAnimationFrame(look); look(); })")  # fmt: skip
    assert page.value("$('state').textContent") == "network: 2.000 s, the run has ended"
    assert page.value("[$('play').disabled, $('speed').disabled]") == [True, True]


def test_the_page_reports_a_lost_connection(page: Page, server: tuple[WatchServer, str]) -> None:
    show(page, server, width=390)
    server[0]._process.kill()
    page.value("new Promise(done => { const look = () => isConnected ? "
               "requestAnimationFrame(look) : done(); look(); })")  # fmt: skip
    assert page.value("$('state').textContent") == "network: 2.000 s, no connection"


# a promise that is fulfilled when the page has received the measurement of this time
KEPT = """new Promise(done => {{
  const look = () => timeline?.latest?.time_ns === {} ? done() : requestAnimationFrame(look);
  look();
}})"""


def scrub(page: Page, server: tuple[WatchServer, str], times_ns: list[int]) -> None:
    """Open the page, and send measurements; the queue has one packet per nanosecond of the time."""
    page.open(server[1], width=1280)
    for time_ns in times_ns:
        server[0].publisher.send({"measurement": measurement(time_ns, bytes=0, queued=time_ns)})
        page.value(KEPT.format(time_ns))
    page.value(DRAWN)


DRAWN = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))"


def shown(page: Page) -> tuple[int, str, str]:
    """Return the queue in the table, the state, and whether the page is live."""
    page.value(DRAWN)
    row = page.value(ROW)
    return (int(row[4]), page.value("$('state').textContent"),
            page.value("$('live').getAttribute('aria-pressed')"))  # fmt: skip


def test_the_slider_shows_an_earlier_time(page: Page, server: tuple[WatchServer, str]) -> None:
    scrub(page, server, [1, 2, 3, 10**9])
    page.value("$('time').value = 2.5; $('time').dispatchEvent(new Event('input'))")
    assert shown(page) == (2, "network: 0.000 s of 1.000 s", "false")
    assert page.value("$('time').getAttribute('aria-valuetext')") == "0.000 s"
    # new measurements do not change an earlier time
    server[0].publisher.send({"measurement": measurement(2 * 10**9)})
    page.value(KEPT.format(2 * 10**9))
    assert shown(page) == (2, "network: 0.000 s of 2.000 s", "false")
    page.value("$('live').click()")
    assert shown(page) == (0, "network: 2.000 s", "true")


@pytest.mark.parametrize("focused", ["live", "time"])
def test_keys_step_and_return_to_the_present(
    page: Page, server: tuple[WatchServer, str], focused: str
) -> None:
    scrub(page, server, [1, 2, 3])
    page.value(f"$('{focused}').focus()")
    queues = []
    for key, code in (("ArrowLeft", 37), ("ArrowLeft", 37), ("ArrowLeft", 37), ("ArrowRight", 39),
                      ("End", 35)):  # fmt: skip
        page.press(key, code)
        queues.append((shown(page)[0], shown(page)[2]))
    assert queues == [(2, "false"), (1, "false"), (1, "false"), (2, "false"), (3, "true")]


def test_a_second_page_has_the_speed_of_the_first(
    page: Page, server: tuple[WatchServer, str]
) -> None:
    assert set_speed(server[1], "0.1") == 204
    assert set_speed(server[1], "0") == 204
    scrub(page, server, [1])
    page.value("new Promise(done => { const look = () => isPaused ? done() : "
               "requestAnimationFrame(look); look(); })")  # fmt: skip
    assert page.value("$('play').textContent") == "Run"
    # a network that starts in between repeats the first speed
    assert [*dict.fromkeys(server[0]._channel.recv(100).split())] == [b"0.1", b"0.0"]
    assert set_speed(server[1], "10") == 204
    page.value("new Promise(done => { const look = () => isPaused ? "
               "requestAnimationFrame(look) : done(); look(); })")  # fmt: skip
    assert page.value("$('speed').value") == "10"


def test_keys_of_the_table_do_not_change_the_time(
    page: Page, server: tuple[WatchServer, str]
) -> None:
    scrub(page, server, [1, 2, 3])
    page.value("$('links').closest('.scroll').focus()")
    page.press("ArrowLeft", 37)
    assert shown(page)[0] == 3


def test_arrow_keys_select_a_link(page: Page, server: tuple[WatchServer, str]) -> None:
    scrub(page, server, [1])
    page.value("document.querySelector('#links button[tabindex=\"0\"]').focus()")
    page.press("ArrowDown", 40)
    assert page.value("$('selected').textContent") == "s2 to s1"
    assert page.value("document.activeElement.textContent") == "s2 to s1"
    # the focus is visible, although the row is also selected
    assert page.value("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_the_space_key_pauses_the_run(page: Page, server: tuple[WatchServer, str]) -> None:
    scrub(page, server, [1])
    page.press(" ", 32, " ")
    assert page.value("$('play').textContent") == "Run"


def test_in_real_time_the_space_key_pauses_the_page(
    page: Page, capsys: pytest.CaptureFixture[str]
) -> None:
    with WatchServer("example", is_virtual=False) as found:
        server = found, capsys.readouterr().out.split()[1]
        found.publisher.start_network("network", Chain(), [], 0)
        scrub(page, server, [1, 2])
        assert page.value("getComputedStyle($('speed').parentElement).display") == "none"
        page.press(" ", 32, " ")
        assert shown(page) == (2, "network: 0.000 s of 0.000 s", "false")
        page.press(" ", 32, " ")
        assert shown(page)[2] == "true"


def test_the_space_key_before_the_first_measurement_does_not_stop_the_page(
    page: Page, capsys: pytest.CaptureFixture[str]
) -> None:
    with WatchServer("example", is_virtual=False) as found:
        url = capsys.readouterr().out.split()[1]
        found.publisher.start_network("network", Chain(), [], 0)
        page.open(url, width=1280)
        page.value(until("network"))
        page.press(" ", 32, " ")
        found.publisher.send({"measurement": measurement(1)})
        page.value(KEPT.format(1))
        page.value(DRAWN)
        assert page.value("$('state').textContent") == "network: 0.000 s"


def test_a_click_into_the_chart_selects_its_time(
    page: Page, server: tuple[WatchServer, str]
) -> None:
    scrub(page, server, [1, 2, 3])
    page.value("""(() => {
      const {left, top, width} = $("chart").getBoundingClientRect();
      $("chart").dispatchEvent(new PointerEvent("pointerdown",
        {clientX: left + 44 + .5 * (width - 54), clientY: top + 50}));
    })()""")
    assert shown(page)[0] == 2


def test_the_number_of_kept_measurements_is_bounded(
    page: Page, server: tuple[WatchServer, str]
) -> None:
    """Old measurements are thinned out; the first and the recent ones are kept."""
    page.open(server[1], width=390)
    kept = page.value("""(() => {
      const found = new Timeline(1e9);
      for (let time_ns = 0; time_ns < 10000; time_ns++) found.add({time_ns});
      return found.kept.map(each => each.time_ns);
    })()""")
    assert len(kept) <= 100
    assert kept == sorted(set(kept))
    assert (kept[0], kept[-40:]) == (0, [*range(9960, 10000)])


def test_only_visible_rows_of_a_large_network_change(
    page: Page, capsys: pytest.CaptureFixture[str]
) -> None:
    """Updates of all rows of 100 switches would take longer than a frame."""
    with WatchServer("example", is_virtual=True) as found:
        found.publisher.start_network("network", Large(), [], 0)
        page.open(capsys.readouterr().out.split()[1], width=1280)
        directions = [{"bytes": 0, "lost": 7}] * 960
        found.publisher.send({"measurement": {"time_ns": 1, "directions": directions, "drops": {}}})
        page.value(SEEN.format(1))
        lost = "[...$('links').rows].map(row => row.cells[3].textContent)"
        before = page.value(f"{DRAWN}.then(() => {lost})")
        assert (before[0], before[-1]) == ("7", "")
        assert page.value("document.querySelectorAll('#links button[tabindex=\"0\"]').length") == 1
        page.value("$('links').rows[959].scrollIntoView()")
        page.value(f"new Promise(done => {{ const look = () => {lost}[959] === '7' ? "
                   "done() : requestAnimationFrame(look); look(); })")  # fmt: skip


@pytest.mark.parametrize(("width", "is_named"), [(390, False), (1280, True)])
def test_large_networks_have_names_if_there_is_room(
    page: Page, capsys: pytest.CaptureFixture[str], width: int, is_named: bool
) -> None:
    with WatchServer("example", is_virtual=True) as found:
        found.publisher.start_network("network", Large(), [], 0)
        page.open(capsys.readouterr().out.split()[1], width=width)
        page.value(TEXTS)
        measured = {"time_ns": 1, "directions": [{"bytes": 0}] * 960, "drops": {}}
        found.publisher.send({"measurement": measured})
        page.value(SEEN.format(1))
        assert page.value(f"{DRAWN}.then(() => texts.has('s1'))") is is_named


FLOW: dict[str, Any] = {"id": 1, "protocol": "UDP", "from": "h1", "to": "h2",
        "endpoints": ["10.0.0.1", "10.0.0.2", 49153, 5001], "path": ["s1", "s2"]}  # fmt: skip
QUEUE = Series("INT", "queue", "s1 to s2", "packets")


def row(table: str) -> str:
    """Return an expression for the texts of the first row of a table."""
    return f"[...document.querySelector('#{table} tr').cells].map(cell => cell.textContent)"


def until(condition: str) -> str:
    """Return a promise that is fulfilled when a condition is true."""
    return (
        "new Promise(done => { const look = () => "
        f"({condition}) ? done() : requestAnimationFrame(look); look(); }})"
    )


def test_a_flow_has_its_counts_and_its_path(page: Page, server: tuple[WatchServer, str]) -> None:
    publisher = server[0].publisher
    flow = dict(FLOW)
    publisher.start_flows([flow], lambda _flows: {})
    show(page, server, width=1280)
    assert page.value(row("flows")) == [
        "1: h1 to h2, UDP 5001", "", "", "", "s1, s2 (shortest path)",
    ]  # fmt: skip
    publisher.send({"measurement": measurement(3 * 10**9) | {"flows": [[50, 40]]}})
    page.value(SEEN.format(3 * 10**9))
    assert page.value(row("flows"))[1:4] == ["50", "40", ""]
    publisher.end_flows([flow], {1: (100, 97)})
    publisher.send({"measurement": measurement(4 * 10**9) | {"flows": [None]}})
    page.value(SEEN.format(4 * 10**9))
    assert page.value(row("flows"))[1:4] == ["100", "97", "3"]


def test_tcp_flows_count_bytes_and_lose_none(page: Page, server: tuple[WatchServer, str]) -> None:
    publisher = server[0].publisher
    flow = FLOW | {"protocol": "TCP"}
    publisher.start_flows([flow], lambda _flows: {})
    show(page, server, width=1280)
    publisher.send({"measurement": measurement(3 * 10**9) | {"flows": [[5000, 0]]}})
    page.value(SEEN.format(3 * 10**9))
    assert page.value(row("flows"))[:4] == ["1: h1 to h2, TCP 5001", "5000 B", "0 B", ""]
    publisher.end_flows([flow], {1: (9000, 8000)})
    publisher.send({"measurement": measurement(4 * 10**9) | {"flows": [None]}})
    page.value(SEEN.format(4 * 10**9))
    assert page.value(row("flows"))[1:4] == ["9000 B", "8000 B", ""]


def test_new_flows_do_not_move_the_focus(page: Page, server: tuple[WatchServer, str]) -> None:
    publisher = server[0].publisher
    publisher.start_flows([dict(FLOW)], lambda _flows: {})
    show(page, server, width=1280)
    page.value("flowRows[0].button.focus()")
    publisher.display.path("INT", ["10.0.0.9", "10.0.0.2", 1, 2], ["s1"])
    page.value(until("document.querySelectorAll('#flows tr').length === 2"))
    assert page.value("document.activeElement.textContent") == "1: h1 to h2, UDP 5001"


def test_a_measured_path_replaces_the_shortest_path(
    page: Page, server: tuple[WatchServer, str]
) -> None:
    publisher = server[0].publisher
    publisher.start_flows([dict(FLOW)], lambda _flows: {})
    show(page, server, width=1280)
    publisher.display.path("INT", FLOW["endpoints"], ["s2", "s1"])
    publisher.display.path("INT", ["10.0.0.9", "10.0.0.2", 1, 2], ["s1"])
    page.value(until("paths.size === 2 && document.querySelectorAll('#flows tr').length === 2"))
    assert page.value(row("flows"))[4] == "s2, s1 (INT)"
    assert page.value("flowRows[1].button.textContent") == "10.0.0.9 to 10.0.0.2 port 2"


@pytest.mark.parametrize("dark", [False, True])
def test_selecting_a_flow_by_keyboard_highlights_its_path(
    page: Page, server: tuple[WatchServer, str], dark: bool
) -> None:
    """The colour of the canvas changes between h1 and s1, but not at a place without links."""
    server[0].publisher.start_flows([dict(FLOW)], lambda _flows: {})
    show(page, server, width=1280, dark=dark)
    pixels = """(() => { const pen = $("scene").getContext("2d"), at = index => [
      28 + places[index][0] * ($("scene").clientWidth - 56), 50];
      const names = network.nodes.map(node => node.name);
      const [a, b] = [at(names.indexOf("h1")), at(names.indexOf("s1"))];
      const middle = (a[0] + b[0]) / 2;
      const colourAt = (x, y) => [...pen.getImageData(x, y, 1, 1).data].join();
      return [colourAt(middle, 50 - 7), colourAt(middle, 10)];
    })()"""  # fmt: skip
    before = page.value(pixels)
    page.value("document.querySelector('#flows button').focus()")
    page.press("Enter", 13, "\r")
    after = page.value(pixels)
    assert after[0] != before[0]
    assert after[1] == before[1]
    assert page.value("flowRows[0].button.getAttribute('aria-pressed')") == "true"
    page.press("Enter", 13, "\r")
    assert page.value(pixels) == before


CHART = """(name => {
  const [r, g, b] = colour(name).match(/[0-9a-f]{2}/g).map(value => parseInt(value, 16));
  const {data} = $("series-chart").getContext("2d").getImageData(0, 0, 2000, 150);
  let found = 0;
  for (let at = 0; at < data.length; at += 4)
    if (data[at] === r && data[at + 1] === g && data[at + 2] === b) found++;
  return found;
})"""


def show_series(page: Page, server: tuple[WatchServer, str], **window: Any) -> None:
    """Open the page, and send a series with ground truth that differs from it."""
    show(page, server, **window)
    points = [(10**9 * second, second) for second in range(3)]
    truth = [(10**9 * second, 9) for second in range(3)]
    server[0].publisher.display.add(QUEUE, points, truth)
    page.value(until("series.size && [...series.values()][0].truth.length === 3"))
    page.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def test_a_series_has_measured_values_and_ground_truth(
    page: Page, server: tuple[WatchServer, str]
) -> None:
    show_series(page, server, width=1280)
    assert page.value(row("series")) == [
        "s1 to s2", "INT: queue", "2", "9", "packets", "network",
    ]  # fmt: skip
    assert page.value("$('series-title').textContent") == "INT: queue, s1 to s2 (packets)"
    assert page.value(f"{CHART}('link')") > 100
    assert page.value(f"{CHART}('ink')") > 20


def test_the_table_compares_values_of_the_same_time(
    page: Page, server: tuple[WatchServer, str]
) -> None:
    show_series(page, server, width=1280)
    server[0].publisher.display.add(QUEUE, [], [(5 * 10**9, 100)])  # after the last measured value
    page.value(until("[...series.values()][0].truth.length === 4"))
    page.value("drawSeries()")
    assert page.value(row("series"))[2:4] == ["2", "9"]


def test_the_key_g_hides_the_ground_truth(page: Page, server: tuple[WatchServer, str]) -> None:
    show_series(page, server, width=1280)
    page.press("g", 71, "g")
    assert page.value(row("series"))[3] == ""
    assert page.value(f"{CHART}('ink')") == 0
    assert page.value(f"{CHART}('link')") > 100
    assert page.value("$('truth').getAttribute('aria-pressed')") == "false"
    page.press("g", 71, "g")
    assert page.value(row("series"))[3] == "9"


def test_a_series_of_an_earlier_network_names_this_network(
    page: Page, server: tuple[WatchServer, str]
) -> None:
    show_series(page, server, width=1280)
    server[0].publisher.start_network("second", Chain(), [], 0)
    page.value(until("network.name === 'second'"))
    page.value("drawSeries()")
    assert page.value("$('series-title').textContent") == (
        "INT: queue, s1 to s2 (packets), network network"
    )


def test_the_chart_follows_its_series_to_the_next_network(
    page: Page, server: tuple[WatchServer, str]
) -> None:
    show_series(page, server, width=1280)
    server[0].publisher.start_network("second", Chain(), [], 0)
    server[0].publisher.display.add(Series("INT", "other", "s1", "packets"), [(10**9, 1)])
    server[0].publisher.display.add(QUEUE, [(10**9, 1)])
    page.value(until("series.size === 3"))
    page.value(DRAWN)
    assert page.value("$('series-title').textContent") == "INT: queue, s1 to s2 (packets)"
    assert page.value("series.get(chosenSeries).name") == "second"
    page.value("[...series.values()][0].button.click()")  # of the first network
    Display(server[0].publisher.display.descriptor, "third").add(QUEUE, [(10**9, 1)])
    page.value(until("series.size === 4"))
    assert page.value("series.get(chosenSeries).name") == "network"


def test_many_messages_are_drawn_once(page: Page, server: tuple[WatchServer, str]) -> None:
    """A page that is opened late receives all messages at once."""
    show(page, server, width=1280)
    frames = page.value("""(() => {
      let frames = 0;
      const original = requestAnimationFrame;
      window.requestAnimationFrame = work => { frames++; original(work); };
      for (let s = 0; s < 100; s++) {
        const labels = ["INT", "queue", "s1", "packets"];
        showMessage({network: "network", series: labels, points: [[s, 1]], truth: []});
        showMessage({network: "network", path: ["INT", ["10.0.0.1", "10.0.0.2", s, 2], ["s1"]]});
      }
      window.requestAnimationFrame = original;
      return frames;
    })()""")
    assert frames == 2
    assert page.value(f"{DRAWN}.then(() => [flowRows.length, $('series').rows.length])") == [100, 1]


def test_alerts_are_shown_as_text_and_the_newest_is_first(
    page: Page, server: tuple[WatchServer, str]
) -> None:
    show(page, server, width=1280)
    display = server[0].publisher.display
    display.alert("INT", 15 * 10**8, "a <b>queue</b>")
    display.alert("eBPF filter", 2 * 10**9, "new rule: drop")
    page.value(until("document.querySelectorAll('#alerts tr').length === 2"))
    assert page.value(row("alerts")) == ["2.000 s", "network", "eBPF filter", "new rule: drop"]
    assert page.value("$('alerts').rows[1].cells[3].textContent") == "a <b>queue</b>"


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_what_collectors_measure_fits_and_has_contrast(
    page: Page, server: tuple[WatchServer, str], width: int, dark: bool
) -> None:
    publisher = server[0].publisher
    publisher.start_flows([dict(FLOW)], lambda _flows: {})
    publisher.display.alert("INT", 15 * 10**8, "queue from s1 to s2 grew to 40 packets; " * 5)
    show_series(page, server, width=width, dark=dark)
    assert page.value("document.documentElement.scrollWidth") == width
    worst = page.value(CONTRAST)
    assert worst["ratio"] >= 4.5, worst
    assert [each for each in page.parse_errors if not each.startswith(server[1])] == []
