"""Flows, paths, links and sequence numbers from reports; and bounded memory."""

from collections.abc import Sequence

import numpy as np
import pytest
from decoding import ENCODING, datagrams
from path_reports import DROPPED, TRACKED, alone, stacked

from collectors.int.decoder import Decoder
from collectors.int.index import Index, Limits
from telemark.errors import TestbedError

SETTLE_NS = 1_000_000


class Taken:
    """An index to which datagrams were added, one per microsecond."""

    def __init__(self, payloads: Sequence[bytes] = (), limits: Limits | None = None) -> None:
        self.index = Index(limits or Limits(settle_us=SETTLE_NS / 1000))
        self.decoder = Decoder(ENCODING)
        self.take(payloads)

    def take(self, payloads: Sequence[bytes], time_ns: int = 0) -> None:
        for part in self.decoder.decode(datagrams(payloads, time_ns, 1000)):
            self.index.add(part)

    def flow(self) -> np.void:
        self.index.settle(10**9)
        [flow] = self.index.flows()
        return flow

    def path(self) -> list[int]:
        flow = self.flow()
        return flow["path"]["node"][: flow["hops"]].tolist()


def test_a_stack_is_a_path_with_latencies_and_links() -> None:
    taken = Taken([
        stacked(0, [(5, 10, 100, 110), (6, 20, 113, 133)]),
        stacked(1, [(5, 30, 200, 230), (6, 5, 240, 245)]),
    ])  # fmt: skip
    flow = taken.flow()
    assert taken.path() == [5, 6]
    assert (flow["reports"], flow["paths"], flow["changes"]) == (2, 2, 0)
    latency, link = flow["path"]["latency_ns"], flow["path"]["link_ns"]
    assert latency[0].tolist() == (2, 40, 10, 30, 30)
    assert latency[1].tolist() == (2, 25, 5, 20, 5)
    assert link[0]["count"] == 0
    assert link[1].tolist() == (2, 13, 3, 10, 10)


def test_links_between_clocks_that_differ_are_negative() -> None:
    flow = Taken([stacked(0, [(5, 1, 100, 110), (6, 1, 90, 95)])]).flow()
    assert flow["path"]["link_ns"][1]["last"] == -20


def test_another_path_is_a_change_reported_once() -> None:
    one, other = (
        [(5, 1, 1, 2), (6, 1, 3, 4), (8, 1, 5, 6)],
        [(5, 1, 1, 2), (7, 1, 3, 4), (8, 1, 5, 6)],
    )
    taken = Taken([stacked(0, one), stacked(1, other), stacked(2, other)])
    flow = taken.flow()
    assert (flow["changes"], flow["changed_ns"], taken.path()) == (1, 1000, [5, 7, 8])
    [change] = taken.index.changes
    assert change["before"][:3].tolist() == [5, 6, 8]
    assert change["after"][:3].tolist() == [5, 7, 8]
    assert flow["path"]["latency_ns"]["count"][:3].tolist() == [3, 2, 3]
    assert flow["path"]["link_ns"]["count"][:3].tolist() == [0, 2, 2]


def test_a_shorter_stack_is_another_path_unless_hops_could_not_push() -> None:
    hops = [(5, 1, 1, 2), (6, 1, 3, 4)]
    assert Taken([stacked(0, hops), stacked(1, hops[:1])]).flow()["changes"] == 1
    flow = Taken([stacked(0, hops), stacked(1, hops[:1], int_flags=1)]).flow()
    assert (flow["changes"], flow["partial"], flow["paths"]) == (0, 1, 1)
    assert flow["path"]["latency_ns"]["count"][:2].tolist() == [2, 1]


def test_reports_of_each_node_are_put_together_by_packet() -> None:
    """The path of a packet is put together from the reports of its nodes.

    The order of nodes depends on TTLs, not on clocks. Reports of several packets and nodes are
    interleaved.
    """
    payloads = [
        alone(7, 0, ttl=62, ingress=50, egress=60), alone(5, 0, ttl=64, ingress=90, egress=100),
        alone(5, 1, ttl=64, number=1, ingress=190, egress=200),
        alone(6, 0, ttl=63, ingress=103, egress=107),
        alone(7, 1, ttl=62, number=1, ingress=150, egress=160),
        alone(6, 1, ttl=63, number=1, ingress=204, egress=207),
    ]  # fmt: skip
    taken = Taken(payloads)
    assert taken.path() == [5, 6, 7]
    flow = taken.flow()
    assert (flow["reports"], flow["paths"], flow["changes"], flow["unmatched"]) == (6, 2, 0, 0)
    assert flow["path"]["link_ns"]["last"][1:3].tolist() == [4, -57]
    assert flow["path"]["occupancy"]["last"][:3].tolist() == [50, 60, 70]
    assert flow["path"][["ingress", "egress"]][:3].tolist() == [(1, 2)] * 3


def test_where_no_router_lowers_the_ttl_times_put_hops_in_order() -> None:
    payloads = [alone(7, 0, ingress=30), alone(5, 0, ingress=10), alone(6, 0, ingress=20)]
    assert Taken(payloads).path() == [5, 6, 7]
    payloads = [alone(6, 0, ingress=10, egress=15), alone(5, 0, ingress=10, egress=10)]
    assert Taken(payloads).path() == [5, 6]  # the packet left this node first


def test_a_missing_node_is_no_other_path_but_another_interface_is() -> None:
    first = [alone(5, 0, ttl=64), alone(7, 0, ttl=62)]
    whole = [alone(5, 1, ttl=64, number=1), alone(6, 0, ttl=63, number=1),
             alone(7, 1, ttl=62, number=1)]  # fmt: skip
    less = [alone(5, 2, ttl=64, number=2), alone(7, 2, ttl=62, number=2)]
    taken = Taken([*first, *whole, *less])
    assert (taken.path(), taken.flow()["changes"]) == ([5, 6, 7], 0)
    taken.take([alone(5, 3, ttl=64, number=3, interfaces=(1, 9))], time_ns=2 * 10**9)
    taken.index.settle(3 * 10**9)
    assert taken.flow()["changes"] == 1


def test_packets_are_waited_for_so_long() -> None:
    taken = Taken([alone(5, 0, ttl=64)])
    taken.take([alone(6, 0, ttl=63)], time_ns=SETTLE_NS - 1)
    taken.index.settle(SETTLE_NS - 1)
    assert taken.index.flows()["paths"].tolist() == [0]
    assert taken.path() == [5, 6]
    late = Taken([alone(5, 0, ttl=64)])
    late.take([alone(6, 0, ttl=63)], time_ns=SETTLE_NS)
    assert late.index.flows()["paths"].tolist() == [1]


def test_an_intermediate_report_and_the_last_one_are_one_path() -> None:
    first, last = [(5, 1, 1, 2), (6, 1, 3, 4)], [(7, 1, 5, 6)]
    taken = Taken([stacked(0, first, flags=3), stacked(0, last)])
    assert taken.path() == [5, 6, 7]
    assert taken.flow()["paths"] == 1


def test_dropped_packets_are_no_change_of_path() -> None:
    taken = Taken([stacked(0, [(5, 1, 1, 2), (6, 1, 3, 4)]),
                   stacked(1, [(5, 1, 1, 2)], flags=DROPPED | TRACKED, number=1),
                   alone(5, 2, number=2),
                   alone(4, 0, number=2, flags=DROPPED | TRACKED)])  # fmt: skip
    flow = taken.flow()
    assert (flow["dropped"], flow["drop_node"], flow["changes"]) == (2, 4, 0)
    assert flow["partial"] == 2


def test_a_dropped_packet_does_not_affect_the_paths_interfaces() -> None:
    taken = Taken([alone(5, 0, interfaces=(3, 4))])
    taken.take([alone(5, 1, number=1, flags=DROPPED | TRACKED)], time_ns=2 * SETTLE_NS)
    taken.index.settle(2**63)
    assert taken.flow()["path"][["ingress", "egress"]][0].tolist() == (3, 4)


def shortened(payload: bytes) -> bytes:
    """Return the report with a packet that is truncated, so that it cannot be identified."""
    return payload[:9] + bytes([payload[9] - 2]) + payload[10:-8]


def test_indistinguishable_packets_give_the_path_and_each_hop() -> None:
    """Even if packets cannot be identified, the path and the values of each hop are known.

    One report is lost. The values are those of all other reports.
    """
    payloads = [alone(node, number, ttl=69 - node, number=number, ingress=100 * number + node)
                for number in range(20) for node in (7, 5, 6)
                if (number, node) != (4, 6)]  # fmt: skip
    taken = Taken([shortened(payload) for payload in payloads])
    flow = taken.flow()
    assert (flow["unmatched"], flow["paths"], flow["changes"]) == (59, 1, 0)
    assert taken.path() == [5, 6, 7]
    assert flow["path"]["occupancy"]["count"][:3].tolist() == [20, 19, 20]
    assert flow["path"]["occupancy"]["last"][:3].tolist() == [50, 60, 70]
    assert flow["path"]["link_ns"]["count"].sum() == 0
    taken.take([shortened(alone(node, 20, ttl=69 - node)) for node in (5, 8)], time_ns=2 * 10**9)
    taken.index.settle(3 * 10**9)
    assert (taken.path(), taken.flow()["changes"]) == ([5, 8], 1)


def test_a_longer_path_than_is_kept_is_cut_and_counted() -> None:
    hops = [(node, 1, 1, 2) for node in range(20)]
    taken = Taken([stacked(0, hops)])
    assert taken.path() == [*range(16)]
    assert taken.index.counters()["long_paths"] == 1


def test_flows_are_evicted_by_when_they_were_last_seen() -> None:
    taken = Taken(limits=Limits(flows=3))
    hops = [(5, 1, 1, 2)]
    taken.take([stacked(number, hops, flow=flow) for number, flow in enumerate((1, 2, 3, 1, 1, 4))])
    assert taken.index.flows()["key"]["source_port"].tolist() == [4, 1, 3]
    counters = taken.index.counters()
    assert (counters["flows_evicted"], counters["reports_evicted"]) == (1, 1)
    assert taken.index.flows()["reports"].sum() == 5


def test_any_number_of_flows_and_packets_is_taken() -> None:
    taken = Taken(limits=Limits(flows=50, packets=20, settle_us=1e9))
    taken.take([alone(5, number, flow=1 + number % 97, number=number) for number in range(500)])
    taken.index.settle(2**63)
    counters = taken.index.counters()
    flows = taken.index.flows()
    assert len(flows) == 50
    assert counters["packets_hurried"] == 480
    assert counters["reports_evicted"] + flows["reports"].sum() == 500
    assert (flows["paths"] <= flows["reports"]).all()
    assert (flows["hops"] == 1).all()


def test_an_evicted_flows_packets_do_not_come_to_the_flow_in_its_place() -> None:
    taken = Taken([alone(5, 0, flow=1), alone(6, 0, flow=2)], Limits(flows=1))
    flow = taken.flow()
    assert (taken.path(), flow["paths"], flow["changes"]) == ([6], 1, 0)


def group(sequence: int, node: int = 1, hw_id: int = 0) -> bytes:
    """Return a datagram with an empty report."""
    words = (2 << 28 | hw_id << 22 | sequence, node, 0)
    return b"".join(word.to_bytes(4, "big") for word in words)


def sequence_of(numbers: Sequence[int]) -> tuple[dict[str, int], list[tuple[int, int]]]:
    """Return the final state of a source, and its gaps."""
    taken = Taken([group(number) for number in numbers])
    taken.index.end(5)
    [source] = taken.index.sources()
    names = ("datagrams", "lost", "missing", "reordered", "duplicates", "restarts")
    gaps = [(int(gap["first"]), int(gap["count"])) for gap in taken.index.gaps]
    return {name: int(source[name]) for name in names if source[name]}, gaps


END = 2**22


@pytest.mark.parametrize(
    ("numbers", "known", "gaps"),
    [
        ([5, 6, 7], {}, []),
        ([END - 2, END - 1, 0, 1], {}, []),
        ([1, 2, 5, 6], {"lost": 2}, [(3, 2)]),
        ([1, 3, 2, 4], {"reordered": 1}, []),
        ([1, 2, 2, 1], {"duplicates": 2}, []),
        ([END - 1, 3, 1], {"lost": 2, "reordered": 1}, [(0, 1), (2, 1)]),
        ([0, *range(2, 3000)], {"lost": 1}, [(1, 1)]),
        ([0, 1023, 1], {"lost": 1021, "reordered": 1}, [(2, 1021)]),
        # Some losses are known immediately, the others at the end.
        ([0, 5000, 5001], {"lost": 4999}, [(1, 3977), (3978, 1022)]),
        ([0, 65536], {"lost": 65535}, [(1, 64512), (64513, 1023)]),
        ([0, 65537, 65538], {"restarts": 1}, []),
        ([5000, 5002, 0, 1, 2], {"lost": 1, "restarts": 1}, [(5001, 1)]),
    ],
)
def test_sequences(numbers: list[int], known: dict[str, int], gaps: list[tuple[int, int]]) -> None:
    assert sequence_of(numbers) == ({"datagrams": len(numbers), **known}, gaps)


def test_sequences_against_ground_truth() -> None:
    """With random losses and with delays within the window, the reported losses are exact."""
    rng = np.random.default_rng(3)
    numbers = np.arange(END - 5000, END + 5000)
    is_kept = rng.random(len(numbers)) < 0.9
    is_kept[[0, -1]] = True
    late = np.argsort(np.arange(len(numbers)) + rng.uniform(0, 300, len(numbers)), kind="stable")
    late = np.concatenate([[0], late[late != 0]])
    sent = [int(numbers[at]) % END for at in late if is_kept[at]]
    known, gaps = sequence_of(sent)
    lost = {(first + step) % END for first, count in gaps for step in range(count)}
    assert lost == {int(number) % END for number in numbers[~is_kept]}
    assert known["lost"] == (~is_kept).sum()
    assert "restarts" not in known


def restarted(before: Sequence[int], after: Sequence[int], payload: int) -> dict[str, int]:
    """Return the state of a source that sends other packets and restarts its numbering."""
    lives = [[alone(1, sequence, number=sequence)for sequence in before],
             [alone(1, sequence, number=payload + sequence) for sequence in after]]  # fmt: skip
    taken = Taken([*lives[0], *lives[1]])
    taken.index.end(5)
    [source] = taken.index.sources()
    names = ("lost", "missing", "reordered", "duplicates", "restarts")
    return {name: int(source[name]) for name in names if source[name]}


@pytest.mark.parametrize(
    ("before", "after", "payload", "known"),
    [
        (range(100), range(50), 100, {"restarts": 1}),
        (range(100), range(150), 100, {"restarts": 1}),
        ([0], [0], 1, {"restarts": 1}),
        # Losses before and after the restart are detected.
        ([*range(5), *range(7, 100)], [*range(3), *range(9, 20)], 100, {"restarts": 1, "lost": 8}),
        (range(3000, 3100), range(3050, 3120), 100, {"restarts": 1}),
        # a duplicated burst
        (range(100), range(50), 0, {"duplicates": 50}),
        (range(100), range(95, 120), 0, {"duplicates": 5}),
    ],
)
def test_numbers_that_come_again_with_other_reports_are_a_new_beginning(
    before: Sequence[int], after: Sequence[int], payload: int, known: dict[str, int]
) -> None:
    assert restarted(before, after, payload) == known


def test_each_hardware_subsystem_has_a_sequence_of_its_own() -> None:
    taken = Taken([group(1, 1, 0), group(9, 1, 1), group(2, 1, 0), group(10, 2, 1)])
    assert taken.index.sources()["datagrams"].tolist() == [2, 1, 1]
    assert taken.index.sources()["missing"].sum() == 0


def test_too_many_sources_are_counted() -> None:
    taken = Taken([group(1, node) for node in range(100)], Limits(sources=30))
    assert len(taken.index.sources()) == 30
    assert taken.index.counters()["sources_refused"] == 70


def test_gaps_are_handed_out_and_the_last_ones_are_kept() -> None:
    taken = Taken([group(5000 * number) for number in range(50)], Limits(events=10))
    assert [int(gap["first"]) for gap in taken.index.gaps] == [
        5000 * number + 1 for number in range(39, 49)
    ]


def test_limits_are_checked() -> None:
    with pytest.raises(TestbedError, match="expected 1 to"):
        Index(Limits(flows=0))
