"""Scenes of live.py in which a controller pushes programs.

These programs need too many resources, or there are very many of them.
"""

import copy
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import finsy as fy
import grpc
from finsy.proto import U128, p4r, p4r_grpc
from harness import arbitration, compiled
from rig import DEADLINE_S, FORWARDED, Flow, Host, Switch

Code = grpc.StatusCode
Document = dict[str, Any]
VERIFY, COMMIT = p4r.SetForwardingPipelineConfigRequest.Action.Value("VERIFY"), (
    p4r.SetForwardingPipelineConfigRequest.Action.Value("VERIFY_AND_COMMIT")
)  # fmt: skip
ANSWER_S = DEADLINE_S  # timeout; on an idle machine, a rejection takes a second at most
MORE_MB = 400  # memory that a switch may keep after all rejections: Python gives little back
PROGRAMS = 6
ELECTION_ID = 100  # higher than the election id of finsy


def registers(document: Document) -> None:
    document["register_arrays"][0]["size"] = 2**32 - 1


def counters(document: Document) -> None:
    document["counter_arrays"][0].update(size=2**32 - 1, is_direct=False)


def long_headers(document: Document, count: int = 1500) -> None:
    """Add a stack of headers of 16 KB to a program.

    The data plane would need 24 MB of thread stack for this header stack.
    """
    kind = {"name": "big", "id": 900, "fields": [["x", "*"]], "max_length": 16384}
    document["header_types"].append(kind)
    names = [f"big[{i}]" for i in range(count)]
    document["headers"] += [
        {"name": name, "id": 1000 + i, "header_type": "big", "metadata": False, "pi_omit": True}
        for i, name in enumerate(names)
    ]
    document["header_stacks"].append(
        {"name": "big", "id": 900, "header_type": "big", "size": count,
         "header_ids": [1000 + i for i in range(count)]}
    )  # fmt: skip
    document["deparsers"][0]["order"] += names


def parser_chain(document: Document) -> None:
    """Add 20,000 parser states without effect to a program.

    With the optimisation level for large programs, cc needs a second for them.
    """
    parser = document["parsers"][0]
    last = {**parser["parse_states"][0], "name": "s0"}
    first = parser["init_state"]
    for number in range(1, 20_000):
        jump = {"type": "default", "value": None, "mask": None, "next_state": f"s{number - 1}"}
        state = {"name": f"s{number}", "id": 10_000 + number, "parser_ops": [],
                 "transition_key": [], "transitions": [jump]}  # fmt: skip
        parser["parse_states"].append(state)
    parser["parse_states"].append(last)
    loop = {"type": "default", "value": None, "mask": None, "next_state": "s19999"}
    next(s for s in parser["parse_states"] if s["name"] == first)["transitions"] = [loop]


def statements(document: Document) -> None:
    action = next(a for a in document["actions"] if a["primitives"])
    action["primitives"] = [{"op": "mark_to_drop", "parameters": []}] * 110_000


def deep_expression(document: Document) -> None:
    value: Any = {"type": "hexstr", "value": "0x1"}
    for _ in range(250):
        value = {"type": "expression", "value": {"op": "+", "left": value, "right": value}}
        value["value"]["right"] = {"type": "hexstr", "value": "0x1"}
    document["pipelines"][0]["conditionals"].append({"name": "deep", "expression": value})


def wide_fields(document: Document) -> None:
    document["actions"][0]["runtime_data"] = [{"name": "x", "bitwidth": 2**32 - 1}]


def huge_json(document: Document) -> None:
    document["padding"] = " " * (17 << 20)


def huge_table(document: Document) -> None:
    """Make the tables of a program huge.

    The switch accepts this: a table needs memory per entry only.
    """
    for table in document["pipelines"][0]["tables"]:
        table["max_size"] = 2**32 - 1


def resize(document: Document, size: int) -> None:
    document["pipelines"][0]["tables"][0]["max_size"] = size


PUSHED: dict[Callable[[Document], None], tuple[grpc.StatusCode, str]] = {
    registers: (Code.RESOURCE_EXHAUSTED, "the program's state (largest part: register"),
    counters: (Code.RESOURCE_EXHAUSTED, "the program's state (largest part: counter"),
    long_headers: (Code.RESOURCE_EXHAUSTED, "a parsed packet"),
    parser_chain: (Code.OK, ""),
    statements: (Code.RESOURCE_EXHAUSTED, "lines of C, but at most 100000 are accepted"),
    deep_expression: (Code.INVALID_ARGUMENT, "at most 400 levels"),
    wide_fields: (Code.RESOURCE_EXHAUSTED, "wider than 64 bits"),
    huge_json: (Code.RESOURCE_EXHAUSTED, "16777216 are accepted"),
    huge_table: (Code.OK, ""),
}


def changed(change: Callable[[Document], None]) -> bytes:
    document = copy.deepcopy(compiled().bmv2_json)
    change(document)
    return json.dumps(document).encode()


async def push(stub: Any, program: bytes, action: int) -> tuple[grpc.StatusCode, str]:
    """Push a program. Return the status and the message of the response."""
    config = p4r.ForwardingPipelineConfig(p4info=compiled().p4info, p4_device_config=program)
    request = p4r.SetForwardingPipelineConfigRequest(
        device_id=1,
        election_id=U128.encode(ELECTION_ID),
        action=action,
        config=config,  # type: ignore[arg-type]
    )
    try:
        await stub.SetForwardingPipelineConfig(request)
    except grpc.aio.AioRpcError as error:
        return error.code(), error.details() or ""
    return Code.OK, ""


async def hostile_programs(folder: Path) -> None:
    """The switch answers to each hostile program in one line. It still forwards each frame."""
    switch = Switch(folder, p4info=True)
    async with switch.controller() as sw:
        match = fy.Match(destination="02:00:00:00:00:03")
        await sw.write([+fy.P4TableEntry("switching", match=match,
                                         action=fy.Action("forward", port=2))])  # fmt: skip
    before_mb = switch.rss_mb()
    options = [("grpc.max_send_message_length", -1)]
    async with grpc.aio.insecure_channel(switch.address, options=options) as channel:
        stub = p4r_grpc.P4RuntimeStub(channel)
        stream = stub.StreamChannel()
        await stream.write(arbitration(ELECTION_ID))
        await stream.read()
        flow = Flow(Host("p1"), Host("p2"))
        for change, (code, words) in PUSHED.items():
            program, start = changed(change), time.monotonic()
            answer = await push(stub, program, VERIFY)
            took_s = time.monotonic() - start
            print(f"{change.__name__}: {took_s:.1f} s, {switch.rss_mb():.0f} MB, {answer}")
            assert answer[0] == code, answer
            assert words in answer[1]
            assert len(answer[1].splitlines()) <= 1
            assert took_s < ANSWER_S
        flow.stop()
    assert switch.rss_mb() < before_mb + MORE_MB
    switch.stop()


def mapped(switch: Switch) -> set[str]:
    """Return the paths of the shared objects that a switch has mapped."""
    lines = Path(f"/proc/{switch.process.pid}/maps").read_text().splitlines()
    return {line.split()[-1] for line in lines if "/minip4/" in line and line.endswith(".so")}


async def many_programs(folder: Path) -> None:
    """When programs replace each other, only the first one and the current one stay mapped.

    The first one stays, because the capture files of the switch use its code. The threads have a
    shared object of their own (minip4/ports/c/worker.c).
    """
    switch = Switch(folder, "--pcap", str(folder), p4info=True)
    left, right = Host("p1"), Host("p2")
    seen: set[str] = set()
    async with grpc.aio.insecure_channel(switch.address) as channel:
        stub = p4r_grpc.P4RuntimeStub(channel)
        stream = stub.StreamChannel()
        await stream.write(arbitration(ELECTION_ID))
        await stream.read()
        for number in range(PROGRAMS):
            assert len(mapped(switch)) == 1 + min(number + 1, 2)
            program = changed(lambda document, size=1000 + number: resize(document, size))
            answer = await push(stub, program, COMMIT)
            assert answer == (Code.OK, ""), answer
            seen |= mapped(switch)
        assert len(seen) == 1 + PROGRAMS + 1
    async with switch.controller(initial_election_id=ELECTION_ID + 1) as sw:
        match = fy.Match(destination="02:00:00:00:00:03")
        await sw.write([+fy.P4TableEntry("switching", match=match,
                                         action=fy.Action("forward", port=2))])  # fmt: skip
        left.send(FORWARDED)
        assert right.receive() == FORWARDED
    switch.stop()
    assert (folder / "v2_out.pcap").stat().st_size == 24 + 16 + len(FORWARDED)
