"""docs/how-to/controllers.md: its code blocks work, in real and virtual time."""

import re
import textwrap
from pathlib import Path

import finsy as fy
import pytest
from loaded import StartExperiment

from minip4.compiler import compile_p4

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs" / "how-to" / "controllers.md").read_text()
PIECE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEAD = """
import asyncio
import finsy as fy
from controllers.readout import Readouts
from telemark.network import Network
from telemark.traffic.flows import Flow, Traffic
from topologies.basic import Line
LAST = 1
"""
TRAFFIC = """
async def present(entity):
    while not [entry async for entry in switch.read(entity)]:
        await asyncio.sleep(0.01)
await present(fy.P4DigestEntry("source_t"))
async with Traffic(net, [Flow(1, "h1", "h2", rate_pps=1000, count=10)]) as traffic:
    records = await traffic.finish()
print("received", len(records[1].received), "sent", *records[1].sent["sent_ns"][[0, -1]] // 1000)
await present(fy.P4TableEntry("sources"))  # the learnt entry
learning.cancel()
"""


@pytest.mark.parametrize("time", ["real", "virtual"])
def test_code_blocks(time: str, start_experiment: StartExperiment, tmp_path: Path) -> None:
    connect, *pieces = PIECE.findall(PAGE)
    table, default, digest, counter, register, readout = pieces
    body = "".join((table, default, digest, TRAFFIC, counter, register, readout))
    experiment = (
        f"async def control(net, switch):\n{textwrap.indent(body, '    ')}\n"
        f"{connect}\nreturn Report([], [Check('done', 1, 1)])"
    )
    process = start_experiment(experiment, "--time", time, head=HEAD)
    output, errors = process.communicate()
    assert process.returncode == 0, output + errors
    assert output.count("source 000000000001 is behind port 1\n") == 1, output
    assert output.count("source ") == 1  # h2 sent no frame
    found = re.search(r"received 10 sent (\d+) (\d+)\n", output)
    assert found is not None, output
    assert "port 1 received 10 packets, 640 bytes\n" in output
    (by_register,) = re.findall(r"register: the last came at (\d+) us\n", output)
    (by_readout,) = re.findall(r"readout: the last came at (\d+) us\n", output)
    assert by_register == by_readout
    assert int(found[2]) <= int(by_register) + 1
    if time == "virtual":
        assert by_register == found[2]


KINDS = ("exact", "lpm", "ternary", "range")
TABLE = "table {kind}_{key} {{ key = {{ {key}: {kind}; }} actions = {{ NoAction; }} }}"
TABLES = [(kind, key) for kind in KINDS for key in ("address", "mac")]
KEYS = f"""
#include "{REPOSITORY}/p4src/include/parser.p4"
struct metadata_t {{ }}
#include "{REPOSITORY}/p4src/include/switch.p4"
control Keys(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {{
    bit<32> address = 0;
    bit<48> mac = 0;
    {" ".join(TABLE.format(kind=k, key=n) for k, n in TABLES)}
    apply {{ {" ".join(f"{k}_{n}.apply();" for k, n in TABLES)} }}
}}
V1Switch(SwitchParser(), SwitchVerifyChecksum(), Keys(), NoEgress(), SwitchComputeChecksum(),
    SwitchDeparser()) main;
"""


def test_key_formats(tmp_path: Path) -> None:
    (tmp_path / "keys.p4").write_text(KEYS)
    schema = fy.P4Schema(compile_p4(tmp_path / "keys.p4").p4info)
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE, re.MULTILINE))
    assert {*rows} == {*KINDS}
    for kind, row in rows.items():
        examples = re.findall(r'`([("][^`]+)`', row)
        assert examples
        for example in examples:
            value = eval(example, {"value": 1, "mask": 3, "first": 1, "last": 2})
            name = "mac" if ":" in example else "address"
            entry = fy.P4TableEntry(f"{kind}_{name}", match=fy.Match({name: value}), priority=1)
            (match,) = entry.encode(schema).table_entry.match
            assert match.WhichOneof("field_match_type") == kind
