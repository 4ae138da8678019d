"""Programs at devices: their order, their replacement, and their removal when the process ends."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from ebpf.loader import LoadError, ProgramObject, attach_tc, attach_xdp, hooks, load, run_live

COUNTS = """
const volatile int verdict = XDP_PASS;
__u64 seen;
SEC("xdp") int at_xdp(struct xdp_md *packet)
{
    __sync_fetch_and_add(&seen, 1);
    return verdict == XDP_PASS ? pass_on(packet) : verdict;
}
SEC("tc") int at_tc(struct __sk_buff *packet)
{
    __sync_fetch_and_add(&seen, 1);
    return verdict;
}
"""
PASS, DROP, TX = 2, 1, 3  # verdicts of XDP
GO_ON, SHOT = -1, 2  # verdicts of tc
LEAST, MOST = 1_000_000, 40_000_000  # number of packets
FRAME = b"\xff" * 6 + bytes(6) + b"\x88\xb5" + bytes(46)
Veth = tuple[str, str]
Loaded = Callable[[int], ProgramObject]


@pytest.fixture
def loaded(write_bpf: Callable[[str], Path]) -> Loaded:
    """Return a function that loads a program.

    The program counts packets and returns a given verdict.
    """
    source = write_bpf(COUNTS)
    return lambda verdict: load(source, {"verdict": verdict})


def seen(*objects: ProgramObject) -> list[int]:
    return [int(each.maps[".bss"].mapped()["seen"][0]) for each in objects]


def arrive(loaded: Loaded, veth: Veth, count: int = 100) -> None:
    """Let packets arrive at v1. They are sent by a program at v0 that returns XDP_TX."""
    back = loaded(TX)
    with attach_xdp(loaded(PASS).programs["at_xdp"], veth[0]):
        run_live(back.programs["at_xdp"], FRAME, count, ingress=veth[0])


def test_programs_come_in_their_order(loaded: Loaded, veth: Veth) -> None:
    first, second, last = loaded(PASS), loaded(PASS), loaded(DROP)
    with attach_xdp(last.programs["at_xdp"], veth[1], order=7):
        arrive(loaded, veth)
        with attach_xdp(first.programs["at_xdp"], veth[1], order=1):
            arrive(loaded, veth)
            with attach_xdp(second.programs["at_xdp"], veth[1], order=4) as link:
                arrive(loaded, veth)
                assert seen(first, second, last) == [200, 100, 300]
                link.replace(loaded(DROP).programs["at_xdp"])
                arrive(loaded, veth)
                assert seen(first, second, last) == [300, 100, 300]
            arrive(loaded, veth)
            assert seen(first, second, last) == [400, 100, 400]
        arrive(loaded, veth)
    arrive(loaded, veth)
    assert seen(first, second, last) == [400, 100, 500]


@pytest.mark.parametrize("hook", ["tcx", "clsact"])
def test_programs_at_tc_come_in_their_order(
    loaded: Loaded, veth: Veth, hook: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if hook == "clsact":  # an unknown hook: the error of kernels before 6.6, which lack tcx
        monkeypatch.setitem(hooks.TCX_HOOKS, "ingress", 9999)
    subprocess.run(["ethtool", "-K", veth[1], "gro", "on"], check=True)
    first, second, last = loaded(GO_ON), loaded(GO_ON), loaded(SHOT)
    with attach_tc(last.programs["at_tc"], veth[1], order=7):
        with attach_tc(first.programs["at_tc"], veth[1], order=1) as link:
            with attach_tc(second.programs["at_tc"], veth[1], order=4):
                arrive(loaded, veth)
                assert seen(first, second, last) == [100, 100, 100]
            arrive(loaded, veth)
            assert seen(first, second, last) == [200, 100, 200]
            other = loaded(SHOT)
            link.replace(other.programs["at_tc"])
            arrive(loaded, veth)
            assert seen(first, other, last) == [200, 100, 200]
        arrive(loaded, veth)
    arrive(loaded, veth)
    assert seen(first, other, last) == [200, 100, 300]


@pytest.mark.parametrize("hook", ["tcx", "clsact"])
def test_programs_of_one_order_at_tc_come_as_they_were_attached(
    loaded: Loaded, veth: Veth, hook: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if hook == "clsact":
        monkeypatch.setitem(hooks.TCX_HOOKS, "ingress", 9999)
    subprocess.run(["ethtool", "-K", veth[1], "gro", "on"], check=True)
    first, second, last = loaded(GO_ON), loaded(SHOT), loaded(SHOT)
    link = attach_tc(first.programs["at_tc"], veth[1], order=1022)
    with attach_tc(second.programs["at_tc"], veth[1], order=1022):
        with attach_tc(last.programs["at_tc"], veth[1], order=1022):
            arrive(loaded, veth)
            assert seen(first, second, last) == [100, 100, 0]
        link.close()
        with attach_tc(first.programs["at_tc"], veth[1], order=1022):
            arrive(loaded, veth)
            assert seen(first, second, last) == [100, 200, 0]


def test_at_clsact_there_is_room_for_so_many_of_one_order(
    loaded: Loaded, veth: Veth, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(hooks.TCX_HOOKS, "ingress", 9999)
    program = loaded(GO_ON).programs["at_tc"]
    with ExitStack() as stack:
        for _ in range(hooks.EQUAL_ORDERS):
            stack.enter_context(attach_tc(program, veth[1]))
        with pytest.raises(LoadError, match=r"^interface v1: tc: no free priority for order"):
            attach_tc(program, veth[1])
        stack.enter_context(attach_tc(program, veth[1], order=1))


@pytest.mark.parametrize("at", [0, 1])
def test_no_packet_is_lost_while_programs_are_replaced(loaded: Loaded, veth: Veth, at: int) -> None:
    before, old, new = loaded(PASS), loaded(DROP), loaded(DROP)
    replaced = count = 0

    def send() -> None:
        """Send packets until both programs have seen some.

        This may take long on a loaded machine.
        """
        nonlocal count
        while count < LEAST or (count < MOST and not min(seen(old, new))):
            arrive(loaded, veth, LEAST // 4)
            count += LEAST // 4

    sender = threading.Thread(target=send)
    with (
        attach_xdp(before.programs["at_xdp"], veth[1], order=2 - 2 * at),
        attach_xdp(old.programs["at_xdp"], veth[1], order=1) as link,
    ):
        sender.start()
        while sender.is_alive():
            link.replace((new, old)[replaced % 2].programs["at_xdp"])
            replaced += 1
        sender.join()
    assert replaced > 3
    assert sum(seen(old, new)) == count
    assert min(seen(old, new)) > 0
    assert seen(before) == [count if at else 0]


KILLED = """
import sys, time
from ebpf.loader import attach_tc, attach_xdp, load
whole = load(sys.argv[1])
links = attach_xdp(whole.programs["at_xdp"], "v1"), attach_tc(whole.programs["at_tc"], "v1")
print(flush=True)
time.sleep(60)
"""


def test_programs_go_with_who_attached_them(
    loaded: Loaded, veth: Veth, write_bpf: Callable[[str], Path]
) -> None:
    source = write_bpf(COUNTS)
    holder = subprocess.Popen([sys.executable, "-c", KILLED, source], stdout=subprocess.PIPE)
    assert holder.stdout
    holder.stdout.readline()
    assert "prog/xdp" in shown()
    with loaded(PASS) as whole, pytest.raises(LoadError, match="an XDP program of another process"):
        attach_xdp(whole.programs["at_xdp"], veth[1])
    holder.kill()
    holder.wait()
    until = time.monotonic() + 60  # the kernel removes programs some time after the process ended
    while "prog/xdp" in shown() and time.monotonic() < until:
        time.sleep(0.01)
    assert "prog/xdp" not in shown()


def shown() -> str:
    return subprocess.run(["ip", "link", "show", "v1"], capture_output=True, text=True,
                          check=True).stdout  # fmt: skip


def test_what_cannot_be_attached_is_refused(loaded: Loaded, veth: Veth) -> None:
    whole, other = loaded(PASS), loaded(PASS)
    xdp, tc = whole.programs["at_xdp"], whole.programs["at_tc"]
    for call, text in [
        (lambda: attach_xdp(tc, veth[0]), r'at_tc cannot be attached there: expected SEC\("xdp"\)'),
        (lambda: attach_tc(xdp, veth[0]), r'at_xdp cannot be attached there: expected SEC\("tc"\)'),
        (lambda: attach_xdp(xdp, "nothing"), "no interface nothing in this network namespace"),
        (
            lambda: attach_xdp(xdp, "lo"),
            'lo: its driver does not support native XDP; .* mode="generic"',
        ),
        (lambda: attach_xdp(xdp, veth[0], mode="fast"), "mode fast: expected native or generic"),
        (lambda: attach_tc(tc, veth[0], "out"), "point out: expected ingress or egress"),
        (lambda: attach_xdp(xdp, veth[0], order=-1), "order -1: expected 0 to 1022"),
    ]:
        with pytest.raises(LoadError, match=text):
            call()
    with attach_xdp(xdp, veth[0]), attach_xdp(xdp, veth[1]):
        with pytest.raises(LoadError, match=r"several devices .* load it once per device"):
            attach_xdp(other.programs["at_xdp"], veth[0], order=1)
        with pytest.raises(LoadError, match="already has XDP programs in mode native"):
            attach_xdp(other.programs["at_xdp"], veth[0], mode="generic")
    with attach_xdp(xdp, "lo", mode="generic"), attach_xdp(xdp, veth[0]):
        pass


def test_who_hands_nothing_on_has_nobody_after_it(
    loaded: Loaded, veth: Veth, write_bpf: Callable[..., Path]
) -> None:
    last = loaded(DROP)
    text = 'SEC("xdp") int passes(struct xdp_md *packet) { return XDP_PASS; }'
    passing = write_bpf(text, "passes")
    headers = "<linux/bpf.h>\n#include <bpf/bpf_helpers.h>"
    passing.write_text(passing.read_text().replace('"chain.h"', headers))
    whole = load(passing)
    with attach_xdp(whole.programs["passes"], veth[1], order=1):
        with pytest.raises(
            LoadError, match=r"passes: cannot be followed by another program; .* pass_on\(\)"
        ):
            attach_xdp(last.programs["at_xdp"], veth[1], order=2)
        with attach_xdp(last.programs["at_xdp"], veth[1], order=0):
            arrive(loaded, veth)
    assert seen(last) == [100]
