"""Routes: shortest paths over small graphs."""

from telemark.topology.routes import next_hops

DIAMOND = [("h1", "s1"), ("s1", "s2"), ("s1", "s3"), ("s2", "s4"), ("s3", "s4"), ("s4", "h2")]


def test_all_shortest_paths_are_found_and_no_longer_one() -> None:
    assert next_hops(DIAMOND, ["h1", "h2"], "s1") == {"h1": ("h1",), "h2": ("s2", "s3")}
    assert next_hops(DIAMOND, ["h1", "h2"], "s3") == {"h1": ("s1",), "h2": ("s4",)}


def test_hosts_do_not_forward() -> None:
    links = [("s1", "h1"), ("h1", "s2"), ("s2", "h2")]
    assert next_hops(links, ["h1", "h2"], "s1") == {"h1": ("h1",)}
