"""Text for rejected packets: cause, expected value and hint."""

from collections.abc import Mapping

import numpy as np

from collectors.roce.native import Reason

TEXTS: Mapping[Reason, str] = {
    Reason.MANAGED: "connection management, to queue pair 1",
    Reason.FOREIGN: "no RoCE, in a VLAN, or for another MAC address",
    Reason.TRUNCATED: "shorter than its headers say",
    Reason.IP_HEADER: "IP header with a wrong checksum, options or a fragment; or a GRH with "
    "another version than 6 or another next header than 0x1b",
    Reason.UDP_CHECKSUM: "UDP checksum is wrong: RoCEv2 may send 0",
    Reason.ICRC: "iCRC is {got:#010x}, {expected:#010x} would be right for these bytes: is it "
    "computed with fields that change on the way as ones, and written lowest byte first?",
    Reason.VERSION: "transport version {got}: expected 0",
    Reason.OPCODE: "opcode {opcode:#04x} is no request of this queue pair's transport",
    Reason.QUEUE_PAIR: "there is no queue pair {qpn:#x}: was it connected, and not disconnected "
    "since?",
    Reason.BROKEN: "queue pair {qpn:#x} had a fatal error: connect again",
    Reason.ADDRESS: "addresses are not those of queue pair {qpn:#x} and its peer",
    Reason.PARTITION: "P_Key {got:#06x}: expected {expected:#06x}",
    Reason.GAP: "PSN {got} where {expected} was expected: a packet was lost; a NAK asks for it",
    Reason.GAP_AGAIN: "PSN {got} where {expected} was expected, and a NAK was sent: the peer must "
    "resume at {expected}",
    Reason.DUPLICATE: "PSN {got} was carried out before, {expected} is expected: answer repeated",
    Reason.FORGOTTEN: "PSN {got} was carried out before, and its answer is no longer kept",
    Reason.NOT_BEGUN: "opcode {opcode:#04x} continues a message that was not started",
    Reason.NOT_ENDED: "opcode {opcode:#04x} starts a message before the last one ended",
    Reason.MESSAGE_CUT: "rest of a message whose PSN {expected} is missing",
    Reason.UNSUPPORTED: "opcode {opcode:#04x}: peers may only write, and add or swap",
    Reason.ACCESS: "opcode {opcode:#04x}: queue pair {qpn:#x} does not have this right",
    Reason.NO_RECEIVE: "too many completions wait: call completions() more often",
    Reason.KEY: "R_Key {got:#010x}: not that of the queue pair's region",
    Reason.KEY_ACCESS: "opcode {opcode:#04x}: the region does not allow it",
    Reason.BOUNDS: "it would reach to {got:#x}, and the region ends at {expected:#x}",
    Reason.LENGTH: "{got} bytes of payload where {expected} were expected, by RETH, path MTU or "
    "opcode",
    Reason.PADDING: "Pad Count {got}: expected {expected}",
    Reason.ALIGNMENT: "an atomic operation's address is {got} bytes past a multiple of 8",
}


def explain_refusal(refusal: np.void) -> str:
    """Return a REFUSAL record as one line of text."""
    numbers = {name: int(refusal[name]) for name in ("got", "expected", "qpn", "opcode")}
    text = TEXTS[Reason(refusal["reason"])].format(**numbers)
    where = f"queue pair {refusal['qpn']:#x}, PSN {refusal['psn']}"
    return f"{refusal['time_ns'] / 1e9:.6f} s, {where}: {text}"
