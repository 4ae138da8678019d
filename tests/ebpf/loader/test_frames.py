"""Frames that need no sender: test runs of a program with one frame, and with many live frames."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ebpf.loader import LoadError, attach_xdp, live, load, run, run_live

SOURCE = """
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 5000); __type(key, __be32);
         __type(value, __u64); } seen SEC(".maps");
SEC("xdp") int example(struct xdp_md *packet)
{
    char *data = (char *)(long)packet->data, *end = (char *)(long)packet->data_end;
    __u64 one = 1, *count;

    if (data + 30 > end)
        return XDP_ABORTED;
    count = bpf_map_lookup_elem(&seen, data + 26);
    if (count)
        (*count)++;
    else
        bpf_map_update_elem(&seen, data + 26, &one, BPF_ANY);
    data[0]++;
    return data[0] == 1 ? XDP_DROP : XDP_TX;
}
"""


def frames(count: int, length: int = 64) -> list[bytes]:
    return [bytes(26) + i.to_bytes(4, "big") + bytes(length - 30) for i in range(count)]


@pytest.mark.parametrize("length", [32, 64, 1500])
def test_packets_are_the_frames_in_turns(
    write_bpf: Callable[[str], Path], veth: tuple[str, str], length: int
) -> None:
    with load(write_bpf(SOURCE)) as whole:
        example = whole.programs["example"]
        run(example, frames(1000, length), repeat=5000)
        counts = dict(whole.maps["seen"].items())
        assert counts == dict.fromkeys(range(1000), 5)
        with attach_xdp(example, veth[0]):
            sent = run_live(example, frames(1000, length), 20_000, ingress=veth[0])
        assert sent.packets == 20_000
        assert sent.wall_ns > 0 < sent.cpu_ns
        assert dict(whole.maps["seen"].items()) == dict.fromkeys(range(1000), 25)


@pytest.mark.parametrize("restored", [0, 8])
def test_what_a_program_changes_is_restored(
    write_bpf: Callable[[str], Path], veth: tuple[str, str], restored: int
) -> None:
    text = SOURCE.replace("data[0]++;", "again += data[0]++ > 0;").replace("XDP_TX", "XDP_DROP")
    with load(write_bpf("__u64 again;" + text)) as whole:
        with attach_xdp(whole.programs["example"], veth[0]):
            run_live(whole.programs["example"], frames(1), 200, ingress=veth[0], batch=50,
                     restored=restored)  # fmt: skip
        again = whole.maps[".bss"].mapped()["again"][0]
        assert (again == 0) == (restored > 0)


def test_what_came_out_is_given(write_bpf: Callable[[str], Path]) -> None:
    with load(write_bpf(SOURCE)) as whole:
        tried = run(whole.programs["example"], frames(1)[0])
    assert tried.verdict == 1
    assert tried.frame == b"\1" + frames(1)[0][1:]


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        ([bytes(60), bytes(64)], "frames of 60 to 64 bytes: expected one length for all"),
        ([bytes(200), b"\1" * 200], "frames differ in bytes 0 to 200: expected at most 128 bytes"),
        (bytes(13), "frames of 13 to 13 bytes"),
        ([], "frames of 0 to 0 bytes"),
    ],
)
def test_frames_that_cannot_be(
    write_bpf: Callable[[str], Path], sent: list[bytes], text: str
) -> None:
    with load(write_bpf(SOURCE)) as whole, pytest.raises(LoadError, match=text):
        run(whole.programs["example"], sent)


def test_a_program_is_held_at_a_device_for_as_long_as_frames_come(
    write_bpf: Callable[[str], Path], veth: tuple[str, str]
) -> None:
    with load(write_bpf(SOURCE)) as whole, load(write_bpf(SOURCE)) as other:
        example, another = whole.programs["example"], other.programs["example"]
        with attach_xdp(another, veth[1]):
            with live(example, frames(2), ingress=veth[1], held_at=veth[0]) as arrive:
                with pytest.raises(
                    LoadError, match=f"interface {veth[0]}: it has an XDP program of another"
                ):
                    attach_xdp(example, veth[0])
                arrive(2)
            with attach_xdp(example, veth[0]):
                pass
            with pytest.raises(LoadError, match="no interface nowhere"), live(
                example, frames(2), ingress=veth[1], held_at="nowhere"
            ):  # fmt: skip
                pass
