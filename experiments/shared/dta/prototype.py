"""The published prototype of a DTA translator: its programs, its tables, and a model of its memory.

The programs are not part of Telemark; the user fetches them. The tables get the entries that the
published controller inserts. The model computes the memory from reports with zlib and numpy, and
shares no code with the programs.
"""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import finsy as fy
import numpy as np
from numpy.typing import NDArray

from collectors.roce.endpoint import Target
from controllers.roce.running import replace

COMMIT = "6da6cb5"
TRANSLATOR, REPORTER = "dta_translator.p4", "dta_reporter.p4"
SOURCE = (
    f"Translator/p4src/{TRANSLATOR} and Reporter/p4src/{REPORTER} of "
    f"https://github.com/jonlanglet/DTA (commit {COMMIT})"
)

# constants of the programs
PEER_ADDR, COLLECTOR_ADDR = "10.0.0.101", "10.0.0.51"
PEER_MAC, COLLECTOR_MAC = "b8:ce:f6:d2:13:26", "b8:ce:f6:d2:12:c7"
BATCH = 4  # entries per batch of an Append
MAX_COPIES = 4  # number of multicast groups of the published controller
CARD_QPN, KEY_QPN, FIRST_LIST_QPN = 1336, 1337, 1338  # queue pairs of the translator
DROPS_MACRO, TRACKING_MACRO = "QP_RESYNC_PACKET_DROP_NUM", "DO_NACK_TRACKING"
COMPLETE, POSTCARD_WRAP = 5, 256  # counter of a row: value that causes a write; number of values

SLOT = np.dtype([("checksum", "<u4"), ("data", ">u4")])  # slot of Key-Write
CARD = np.dtype([("hops", ">u4", (5,)), ("zeros", ">u4", (3,))])
ENTRY, COUNTER = np.dtype("<u4"), np.dtype("<u8")

_GROUPS = "SwitchIngress.ProcessDTAPacket.tbl_Prep_KeyWrite"
_SERVERS = "SwitchEgress.{}.tbl_getCollectorMetadataFromIP"
_LISTS = "SwitchEgress.PrepareAppend.tbl_getCollectorMetadataFromListID_{}"


@dataclass(frozen=True)
class Collector:
    """Collector of the prototype: its address and port, and the targets of its queue pairs."""

    address: str
    port: int  # port of the translator that leads to the collector
    cards: Target
    keys: Target  # target of Key-Write or Key-Increment, which share a table
    lists: Sequence[Target] = ()


async def configure_translator(
    switch: fy.Switch, collectors: Sequence[Collector], ports: Mapping[str, int]
) -> None:
    """Fill the tables of the translator in the order of the published controller.

    `ports` maps addresses of reporters to ports of the translator. Raises finsy's P4ClientError.
    """
    entries = [_forward(address, port) for address, port in ports.items()]
    for number, each in enumerate(collectors):
        entries.append(_forward(each.address, each.port))
        for copies in range(1, MAX_COPIES + 1):
            group = number * MAX_COPIES + copies
            # The published controller numbers the nodes of all groups consecutively.
            replicas = [(each.port, group * MAX_COPIES + copy) for copy in range(copies)]
            await replace(switch, fy.P4MulticastGroupEntry(group, replicas=replicas))
            match = {"hdr.ipv4.dstAddr": each.address, "hdr.dta_keyval.redundancyLevel": copies}
            entries.append(_entry(_GROUPS, match, "prep_MultiWrite", mcast_grp=group))
    servers = [
        *((CARD_QPN, "PreparePostcarder", CARD, each, each.cards) for each in collectors),
        *((KEY_QPN, "PrepareKeyWrite", SLOT, each, each.keys) for each in collectors),
    ]
    for index, (_, control, slot, each, target) in enumerate(servers):
        entries.append(_entry(
            _SERVERS.format(control), {"hdr.ipv4.dstAddr": each.address}, "set_server_info",
            **_place(target), collector_num_storage_slots=target.length // slot.itemsize,
            qp_reg_index=index,
        ))  # fmt: skip
    lists = collectors[0].lists  # their tables do not match the address of a collector
    for number, target in enumerate(lists):
        match = {"hdr.dta_append.listID": number}
        entries += [
            _entry(_LISTS.format(1), match, "set_server_info_1", **_place(target)),
            _entry(_LISTS.format(2), match, "set_server_info_2",
                   collector_num_storage_slots=target.length // ENTRY.itemsize,
                   qp_reg_index=len(servers) + number),
        ]  # fmt: skip
    for index, target in enumerate([*(server[-1] for server in servers), *lists]):
        register = "SwitchEgress.CraftRDMA.reg_rdma_sequence_number"
        await switch.modify([fy.P4RegisterEntry(register, index=index, data=target.psn)])
    if len(collectors) == 1:  # the table has one entry per queue pair number of the translator
        of_lists = range(FIRST_LIST_QPN, FIRST_LIST_QPN + len(lists))
        qpns = [*(server[0] for server in servers), *of_lists]
        entries += [
            _entry("SwitchEgress.RDMARatelimit.tbl_get_qp_reg_num", {"eg_md.queue_pair": qpn},
                   "set_qp_reg_num", qp_reg_index=index)
            for index, qpn in enumerate(qpns)
        ]  # fmt: skip
    await switch.insert(entries)


async def configure_reporter(
    switch: fy.Switch, ports: Mapping[str, int], collector: str, mirror_port: int
) -> None:
    """Fill the tables of the reporter as the published controller does.

    `ports` maps addresses of users to ports. All reports are sent to `collector` through
    `mirror_port`. Raises finsy's P4ClientError.
    """
    # 43 bytes: mirror header, Ethernet and IPv4
    session = fy.P4CloneSessionEntry(1, replicas=[mirror_port], packet_length_bytes=43)
    await replace(switch, session)
    table = "SwitchEgress.Reporting.tbl_hashToCollectorServer"
    await switch.insert([
        *(_forward(address, port) for address, port in ports.items()),
        *(_entry(table, {"eg_md.collector_hash": value}, "set_collector_info",
                 collector_ip=collector) for value in range(256)),
    ])  # fmt: skip


def _forward(address: str, port: int) -> fy.P4TableEntry:
    match = {"hdr.ipv4.dstAddr": address}
    return _entry("SwitchIngress.tbl_forward", match, "forward", port=port)


def _entry(table: str, match: Mapping[str, Any], action: str, **values: Any) -> fy.P4TableEntry:
    # actions of several controls have the same last word, so they need full names
    control = "SwitchIngress" if action == "forward" else table.rpartition(".")[0]
    return fy.P4TableEntry(
        table, match=fy.Match(match), action=fy.Action(f"{control}.{action}", **values)
    )


def _place(target: Target) -> dict[str, int]:
    return {"remote_key": target.rkey, "queue_pair": target.qpn,
            "memory_address_start": target.base}  # fmt: skip


def key_slots(keys: NDArray[np.uint32], copies: int, slots: int) -> NDArray[np.int64]:
    """Return the slot of each copy of keys (n,): shape (copies, n)."""
    return np.array(
        [[_crc(key, bytes([copy])) & slots - 1 for key in keys.tolist()] for copy in range(copies)]
    )


def key_checksums(keys: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the checksum in the slot of each key (n,)."""
    return np.array([_crc(key) for key in keys.tolist()], np.uint32)


def write_keys(
    memory: NDArray[Any], keys: NDArray[np.uint32], data: NDArray[np.uint32], copies: int
) -> None:
    """Write Key-Writes to memory (slots,) one by one."""
    places = key_slots(keys, copies, len(memory)).T.tolist()
    for slots, *record in zip(places, key_checksums(keys).tolist(), data.tolist(), strict=True):
        for slot in slots:
            memory[slot] = tuple(record)


def add_keys(
    memory: NDArray[np.uint64], keys: NDArray[np.uint32], addend: int, copies: int
) -> None:
    """Add Key-Increments to the counters in memory (slots,)."""
    for slots in key_slots(keys, copies, len(memory)):
        np.add.at(memory, slots, np.uint64(addend))


def is_found(memory: NDArray[Any], keys: NDArray[np.uint32], data: NDArray[np.uint32],
             copies: int) -> NDArray[np.bool_]:  # fmt: skip
    """Return whether a slot of each key (n,) has the checksum of the key and its data."""
    slots = memory[key_slots(keys, copies, len(memory))]
    found = (slots["checksum"] == key_checksums(keys)) & (slots["data"] == data)
    return np.asarray(found.any(axis=0))


def ring_slots(batches: int, ring: int) -> NDArray[np.int64]:
    """Return the place of each batch in a ring of `ring` batches.

    After a lap, the head is 0 for two batches, so a lap has one batch more than the ring.
    """
    lap = np.arange(batches) % (ring + 1)
    return np.where(lap == ring, 0, lap)


def append_entries(memory: NDArray[np.uint32], entries: NDArray[np.uint32]) -> None:
    """Append full batches of entries (n,) to an empty list in memory (entries,)."""
    full = entries[: len(entries) // BATCH * BATCH].reshape(-1, BATCH)
    rings = memory.reshape(-1, BATCH)
    for slot, batch in zip(ring_slots(len(full), len(rings)).tolist(), full, strict=True):
        rings[slot] = batch


def postcard_writes(postcards: int) -> int:
    """Return the number of memory writes that this number of postcards causes.

    Egress does not parse postcards, so all of them have key 0 and one row. Its counter has 8 bits,
    and causes a write when it is COMPLETE.
    """
    return max(0, (postcards - COMPLETE) // POSTCARD_WRAP + 1)


def rejected_reports(sequence: Iterable[int]) -> int:
    """Count the reports that cause a NACK, in order of arrival, for any number of reporters."""
    last = rejected = 0
    for number in sequence:
        last = (last + (last == (number - 1) % 256)) % 256
        rejected += number != last
    return rejected


def mean_success(load: NDArray[np.float64] | float, copies: int) -> NDArray[np.float64]:
    """Return the fraction of found keys at a load; `copies` is a power of two.

    The CRCs from which a key gets the slots of its copies differ by constants. So a later key
    overwrites either all copies of an earlier key or none. It overwrites them from `copies` of its
    possible slots. Therefore a key is lost as fast as a key with one copy at `copies` times the
    load.
    """
    total = np.asarray(load, float) * copies
    return (1 - np.exp(-total)) / total


def _crc(key: int, more: bytes = b"") -> int:
    return zlib.crc32(key.to_bytes(4, "little") + more)
