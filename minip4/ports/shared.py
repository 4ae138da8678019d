"""Structures and constants shared by the C code and Python of the real-time driver."""

import ctypes

from minip4.native.layouts import Shared

NO_CPU_PORT = 0xFFFF  # PORTS_NO_CPU


class PortsCounters(ctypes.Structure):
    """struct ports_counters."""

    _fields_ = [
        (name, ctypes.c_uint64) for name in ("cpu_ns", "to_cpu_drops", "from_cpu_drops", "unread")
    ]


class NicCounters(ctypes.Structure):
    """struct nic_counters."""

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            "received_packets",
            "received_bytes",
            "receive_kernel_drops",
            "receive_too_long",
            "receive_memory_drops",
            "unfinished_checksums",
            "transmitted_packets",
            "transmitted_bytes",
            "transmit_kernel_drops",
            "transmit_errors",
            "transmit_retries",
            "transmitted_in_trains",
        )
    ]


SHARED = (
    Shared("ports.h", "struct ports_counters", PortsCounters),
    Shared("socket.h", "struct nic_counters", NicCounters),
)
NUMBERS = {"PORTS_NO_CPU": NO_CPU_PORT}
