"""Packet traces for the gallery: Zipf, published flow sizes, or a capture.

Each packet has a flow and a length. The frames are UDP over IPv4 and contain the packet's number,
so a capture shows which packets passed.
"""

import argparse
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ebpf.statistics.offer import UDP
from experiments.shared.xdp.streams import Stream, random_flows, read_stream, zipf
from telemark.topology.links import ETHERNET_BYTES

EXPONENT = 1.1
SEGMENT = 1460  # bytes of payload in a full packet
OTHER_TRACE = "the capture is not the paper's trace"  # reason of a Reproduction with --pcap

# Cumulative distribution of flow sizes in bytes: (size, fraction of flows up to this size). The
# points approximate the published curves: web search (Alizadeh et al., DCTCP, SIGCOMM 2010) and
# data mining (Greenberg et al., VL2, SIGCOMM 2009).
WEB_SEARCH = ((1, 0.0), (10_000, 0.15), (20_000, 0.2), (30_000, 0.3), (50_000, 0.4), (80_000, 0.53),
              (200_000, 0.6), (1_000_000, 0.7), (2_000_000, 0.8), (5_000_000, 0.9),
              (10_000_000, 0.97), (30_000_000, 1.0))  # fmt: skip
DATA_MINING = ((1, 0.0), (180, 0.1), (216, 0.2), (560, 0.3), (900, 0.4), (1_100, 0.5), (1_870, 0.6),
               (3_160, 0.7), (10_000, 0.8), (400_000, 0.9), (3_160_000, 0.95),
               (100_000_000, 0.98), (1_000_000_000, 1.0))  # fmt: skip
WORKLOADS = {"web search": WEB_SEARCH, "data mining": DATA_MINING}

HEADER = np.dtype([
    ("dst_mac", "V6"), ("src_mac", "V6"), ("ether_type", ">u2"),
    ("version_ihl", "u1"), ("tos", "u1"), ("total_length", ">u2"), ("identification", ">u2"),
    ("fragment", ">u2"), ("ttl", "u1"), ("protocol", "u1"), ("checksum", ">u2"),
    ("source", ">u4"), ("destination", ">u4"),
    ("source_port", ">u2"), ("destination_port", ">u2"), ("length", ">u2"), ("udp_checksum", ">u2"),
    ("number", ">u4"),
])  # fmt: skip
NUMBER_AT = HEADER.itemsize - 4  # offset of the packet's number


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the option for a trace of the user."""
    parser.add_argument(
        "--pcap", type=Path, metavar="FILE", help="capture to use instead of flows with Zipf sizes"
    )


def trace(
    options: argparse.Namespace, packets: int, flows: int, seed: int, exponent: float = EXPONENT
) -> Stream:
    """Return the capture that the user gives, or a trace with Zipf sizes.

    The trace has at most `packets` packets. All flows are UDP. Raises TestbedError.
    """
    if options.pcap:
        given = read_stream(options.pcap, packets)
        given.flows["protocol"] = UDP
        return given
    return zipf(packets, flows, np.random.default_rng([seed, 0]), exponent)


def workload(name: str, packets: int, seed: int) -> Stream:
    """Return a trace of flows whose sizes have a published distribution (WORKLOADS).

    Flows are interleaved at random. A flow has one packet per SEGMENT bytes. The trace ends after
    `packets` packets, so the last flows may be incomplete.
    """
    rng = np.random.default_rng([seed, 1])
    sizes, fractions = (np.array(each, float) for each in zip(*WORKLOADS[name], strict=True))
    # The logarithm of the size is interpolated, because sizes span many orders of magnitude.
    drawn = np.exp(np.interp(rng.random(packets), fractions, np.log(sizes)))
    counts = np.minimum(np.ceil(drawn / SEGMENT), packets).astype(np.int64)
    flows = int(np.searchsorted(np.cumsum(counts), packets)) + 1
    numbers = rng.permutation(np.repeat(np.arange(flows), counts[:flows])[:packets])
    return Stream(numbers, random_flows(flows, rng), np.full(packets, SEGMENT + 42))


def flow_hashes(stream: Stream) -> NDArray[np.uint32]:
    """Return the key that FlowHash (p4src/include/hash_function.p4) computes; shape (flows,)."""
    names = ("source", "destination", "protocol", "source_port", "destination_port")
    fields = np.zeros(len(stream.flows), [("source", ">u4"), ("destination", ">u4"),
                                          ("protocol", "u1"), ("source_port", ">u2"),
                                          ("destination_port", ">u2")])  # fmt: skip
    for name in names:
        fields[name] = stream.flows[name]
    return np.array([zlib.crc32(flow.tobytes()) for flow in fields], np.uint32)


def flow_keys(stream: Stream) -> list[int]:
    """Return the 104-bit key of each flow: its five fields."""
    return [
        int(f["source"]) << 72 | int(f["destination"]) << 40 | int(f["protocol"]) << 32
        | int(f["source_port"]) << 16 | int(f["destination_port"]) for f in stream.flows
    ]  # fmt: skip


def make_frames(stream: Stream, source_mac: str, destination_mac: str) -> list[bytes]:
    """Return the frames of the packets, in the order of the trace."""
    rows = stream.flows[stream.numbers]
    headers = np.zeros(len(rows), HEADER)
    headers["dst_mac"] = np.void(_mac(destination_mac))
    headers["src_mac"] = np.void(_mac(source_mac))
    headers["ether_type"], headers["version_ihl"], headers["ttl"] = 0x0800, 0x45, 64
    headers["total_length"] = stream.lengths - ETHERNET_BYTES
    headers["length"] = stream.lengths - ETHERNET_BYTES - 20
    for name in ("source", "destination", "source_port", "destination_port", "protocol"):
        headers[name] = rows[name]
    headers["number"] = np.arange(len(rows))
    headers["identification"] = np.arange(len(rows)) & 0xFFFF
    words = headers.view(np.uint8).reshape(len(rows), -1)[:, 14:34].view(">u2").astype(np.uint32)
    total = words.sum(axis=1)
    total = (total & 0xFFFF) + (total >> 16)
    headers["checksum"] = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    padding = [bytes(size) for size in range(int(stream.lengths.max()) - HEADER.itemsize + 1)]
    data, step = headers.tobytes(), HEADER.itemsize
    return [
        data[step * number : step * (number + 1)] + padding[length - step]
        for number, length in enumerate(stream.lengths.tolist())
    ]


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))
