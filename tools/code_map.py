"""Tables of docs/reference/code-map.md: files of each system, in the order of a packet's path."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# For each system: the steps that a packet or report takes, in order, and the files of each step.
SYSTEMS: dict[str, dict[str, list[str]]] = {
    "Alternate marking": {
        "switch": [
            "p4src/ampm/ampm.p4", "p4src/ampm/watch.p4", "p4src/ampm/methods.p4",
            "p4src/ampm/step.p4", "p4src/ampm/pulse.p4", "p4src/ampm/multiplexed.p4",
            "p4src/ampm/hashed.p4", "p4src/ampm/routed.p4", "p4src/ampm/multicast.p4",
            "p4src/include/ipv6_options.p4", "p4src/include/readout.p4",
        ],
        "edge of a host": ["ebpf/edge/ampm.bpf.c", "ebpf/edge/ampm.py", "controllers/ampm/edge.py"],
        "controller": [
            "controllers/ampm/watch.py", "controllers/ampm/schedule.py",
            "controllers/ampm/session.py", "controllers/ampm/records.py",
            "controllers/ampm/collector.py", "controllers/ampm/clusters.py",
            "controllers/ampm/metrics.py",
        ],
        "experiments": ["experiments/shared/ampm/*.py", "experiments/ampm_*.py"],
    },
    "Bits set by hosts": {
        "switch": [
            "p4src/explicit/explicit.p4", "p4src/explicit/watch.p4", "p4src/explicit/delay.p4",
            "p4src/explicit/loss.p4", "p4src/include/readout.p4",
        ],
        "host": ["telemark/apps/explicit_bits.py", "telemark/apps/quic.py"],
        "controller": ["controllers/explicit.py", "controllers/explicit_metrics.py"],
        "experiments": ["experiments/shared/explicit/*.py", "experiments/ampm_quic.py"],
    },
    "INT": {
        "switch": [
            "p4src/int/int.p4", "p4src/int/with_ampm.p4", "p4src/int/headers.p4",
            "p4src/int/packet.p4", "p4src/int/switch.p4", "p4src/int/pipeline.p4",
            "p4src/int/ingress.p4", "p4src/int/outside.p4", "p4src/int/watch.p4",
            "p4src/int/source.p4", "p4src/int/hop.p4", "p4src/int/transit.p4",
            "p4src/int/lengths.p4", "p4src/int/sink.p4", "p4src/int/events.p4",
            "p4src/int/report.p4", "p4src/include/telemetry_report.p4", "p4src/int/paths.p4",
            "p4src/int/grouped.p4",
            "p4src/int/grouping.p4", "p4src/int/pieces.p4",
        ],
        "edge of a host": [
            "ebpf/edge/postcards.bpf.c", "ebpf/edge/postcards.py", "controllers/int/edge.py",
        ],
        "controller": [
            "controllers/int/domain.py", "controllers/int/watch.py", "controllers/int/*.py",
        ],
        "collector": [
            "collectors/int/application.py", "collectors/int/decoder.py",
            "collectors/int/c/decode.c", "collectors/int/c/packet.c", "collectors/int/c/stack.c",
            "collectors/int/c/metadata.c", "collectors/int/c/ioam.c",
            "collectors/int/index.py", "collectors/int/c/index.c",
            "collectors/int/c/sequences.c", "collectors/int/c/pending.c",
            "collectors/int/c/paths.c", "collectors/int/clocks.py", "collectors/int/store.py",
            "collectors/int/live.py", "collectors/int/export/*.py", "telemark/metrics/*.py",
            "collectors/wireshark/int.lua",
            "collectors/wireshark/telemetry_report.lua",
        ],
        "experiments": ["experiments/shared/int/*.py", "experiments/int_*.py"],
    },
    "IOAM": {
        "switch": [
            "p4src/ioam/ioam.p4", "p4src/ioam/with_ampm_int.p4", "p4src/ioam/headers.p4",
            "p4src/ioam/packet.p4", "p4src/ioam/parser.p4", "p4src/ioam/pipeline.p4",
            "p4src/ioam/watch.p4", "p4src/ioam/routing.p4", "p4src/ioam/insert.p4",
            "p4src/ioam/node_data.p4", "p4src/ioam/loopback.p4", "p4src/ioam/strip.p4",
            "p4src/ioam/report.p4", "p4src/include/telemetry_report.p4",
        ],
        "controller": ["controllers/ioam/domain.py", "controllers/ioam/*.py"],
        "collector": ["collectors/ioam/*.py"],
        "experiments": [
            "experiments/shared/ioam/*.py", "experiments/ioam_*.py",
            "experiments/shared/oam/*.py", "experiments/oam_*.py",
        ],
    },
    "RDMA": {
        "switch": [
            "p4src/roce/roce.p4", "p4src/roce/headers.p4", "p4src/roce/packet.p4",
            "p4src/roce/parser.p4", "p4src/roce/switch.p4", "p4src/roce/pipeline.p4",
            "p4src/roce/watch.p4", "p4src/roce/session.p4", "p4src/roce/records.p4",
            "p4src/roce/request.p4", "p4src/roce/write.p4", "p4src/roce/transport.p4",
            "p4src/roce/network.p4", "p4src/roce/cover.p4", "p4src/roce/icrc.p4",
            "p4src/roce/answers.p4", "p4src/roce/paths.p4", "p4src/roce/int_sink.p4",
            "p4src/roce/hold_off.p4",
        ],
        "controller": ["controllers/roce/*.py"],
        "collector": [
            "collectors/roce/raw_socket_nic.py", "collectors/roce/application.py",
            "collectors/roce/metrics.py",
            "collectors/roce/c/raw_socket.c", "collectors/roce/c/bypass.c",
            "collectors/roce/c/nic.c",
            "collectors/roce/c/packet.c", "collectors/roce/c/crc.c",
            "collectors/roce/c/responder.c", "collectors/roce/c/answer.c",
            "collectors/roce/softnic.py", "collectors/roce/region.py",
            "collectors/roce/work_partition.py", "collectors/roce/exchange.py",
            "collectors/roce/connection_manager.py",
            "collectors/roce/verbs.py", "telemark/backends/real/vm/machine.py",
        ],
        "experiments": ["experiments/shared/roce/*.py", "experiments/roce_*.py"],
    },
    "DTA": {
        "reporter": [
            "p4src/dta/reporter.p4", "p4src/dta/reporter_packet.p4",
            "p4src/dta/reporter_switch.p4", "p4src/dta/reporter_watch.p4",
            "p4src/dta/reporter_flows.p4", "p4src/dta/reporter_plan.p4",
            "p4src/dta/reporter_write.p4", "p4src/dta/reporter_send.p4",
            "p4src/dta/reporter_ring.p4", "p4src/dta/reporter_prototype.p4",
            "p4src/dta/reporter_prototype_plain.p4", "p4src/dta/int_sink.p4",
            "p4src/dta/int_paths.p4",
        ],
        "translator": [
            "p4src/dta/translator.p4", "p4src/dta/translator_plain.p4", "p4src/dta/headers.p4",
            "p4src/dta/packet.p4", "p4src/dta/parser.p4", "p4src/dta/pipeline.p4",
            "p4src/dta/prototype.p4", "p4src/dta/plan.p4", "p4src/dta/hashes.p4",
            "p4src/dta/key_write.p4", "p4src/dta/key_increment.p4", "p4src/dta/gather.p4",
            "p4src/dta/append.p4", "p4src/dta/postcarding.p4", "p4src/dta/sketch_merge.p4",
            "p4src/dta/sequence.p4", "p4src/dta/rate.p4", "p4src/dta/nack.p4",
            "p4src/dta/write.p4",
        ],
        "controller": ["controllers/dta/*.py", "controllers/dta/manager/*.py"],
        "collector": ["collectors/dta/*.py", "collectors/wireshark/dta.lua"],
        "experiments": ["experiments/shared/dta/*.py", "experiments/dta_*.py"],
    },
    "eBPF and XDP": {
        "loader": ["ebpf/loader/*.py"],
        "packet parsing": ["ebpf/include/*.h"],
        "datapath": ["ebpf/datapath/*.bpf.c", "ebpf/datapath/*.py"],
        "statistics": ["ebpf/statistics/*.bpf.c", "ebpf/statistics/*.py"],
        "threats": ["ebpf/threats/*.bpf.c", "ebpf/threats/*.py"],
        "experiments": [
            "experiments/shared/xdp/*.py", "experiments/xdp_*.py", "experiments/ebpf_*.py",
            "experiments/threat_detection.py",
        ],
    },
    "Active measurement": {
        "STAMP": [
            "telemark/apps/stamp/sender.py", "telemark/apps/stamp/reflector.py",
            "telemark/apps/stamp/packets.py", "telemark/apps/stamp/tlvs.py",
            "telemark/apps/stamp/statistics.py", "telemark/apps/ipv6.py",
        ],
        "ping and traceroute": ["telemark/apps/icmp.py", "telemark/apps/headers.py"],
    },
    "minip4": {
        "receive, in real time": ["minip4/ports/c/ports.c", "minip4/ports/c/socket.c"],
        "receive, in virtual time": ["minip4/simulator/c/loop.c", "minip4/simulator/c/events.c"],
        "pipeline": ["minip4/engine/c/pipeline.c", "minip4/engine/tna/c/pipeline.c"],
        "queues of a port": ["minip4/engine/c/queue_discipline.c"],
        "link": ["minip4/wire/c/link.c"],
        "transmit, in real time": ["minip4/ports/c/transmit.c"],
        "transmit, in virtual time": ["minip4/simulator/c/flights.c"],
        "host, in virtual time": ["minip4/simulator/c/host.c"],
        "control": ["minip4/engine/c/control.c", "minip4/engine/c/settings.c"],
    },
    "TCP and congestion": {
        "switch": [
            "p4src/congestion/switch.p4", "p4src/congestion/ecn.p4",
            "p4src/congestion/link_monitor.p4",
        ],
        "controller": ["controllers/forwarding.py"],
        "experiments": ["experiments/shared/tcp/*.py", "experiments/tcp_ecn.py"],
    },
}  # fmt: skip
COMPLETE = (  # folders in which each file must be in the map
    "p4src/ampm", "p4src/explicit", "p4src/int", "p4src/ioam", "p4src/roce", "p4src/dta",
    "p4src/congestion",
)  # fmt: skip


def _summary(path: Path) -> str:
    """Return the first sentence of a file's docstring or leading comment."""
    text = path.read_text()
    if path.suffix == ".py":
        found = (ast.get_docstring(ast.parse(text)) or "").partition("\n\n")[0]
    elif path.suffix == ".lua":
        found = text.partition("\n")[0].lstrip("- ")
    elif text.startswith("//"):
        found = text.partition("\n\n")[0].replace("//", "")
    else:
        comment = re.search(r"/\*(.*?)\*/", text, re.DOTALL)
        found = re.sub(r"^ \* ?", "", comment[1] if comment else "", flags=re.MULTILINE)
        found = found.strip().partition("\n\n")[0]
    sentence, _, _ = " ".join(found.split()).partition(". ")
    return sentence.rstrip(".").replace("|", "\\|")


def files(patterns: list[str]) -> list[Path]:
    """Return the files of a step in order, without duplicates. Each pattern must match a file."""
    found: list[Path] = []
    for pattern in patterns:
        matches = [path for path in sorted(ROOT.glob(pattern)) if path.name != "__init__.py"]
        if not matches:
            raise SystemExit(f"tools/code_map.py: {pattern}: no such file; update SYSTEMS")
        found += [path for path in matches if path not in found]
    return found


def missing() -> list[str]:
    """Return the files of complete folders that no system lists."""
    listed = {p for steps in SYSTEMS.values() for each in steps.values() for p in files(each)}
    here = {path for folder in COMPLETE for path in (ROOT / folder).glob("*.p4")}
    return sorted(str(path.relative_to(ROOT)) for path in here - listed)


def tables() -> str:
    """Return a table for each system."""
    parts = []
    for system, steps in SYSTEMS.items():
        rows = ["| step | file | content |", "|---|---|---|"]
        for step, patterns in steps.items():
            for path in files(patterns):
                name = path.relative_to(ROOT)
                rows.append(f"| {step} | [`{name}`](../../{name}) | {_summary(path)} |")
                step = ""
        parts.append(f"## {system}\n\n" + "\n".join(rows))
    return "\n\n".join(parts)
