"""Path of a packet through simple_switch, with the interpreter of BMv2 JSON.

A packet passes the parser and ingress. Then it is cloned, resubmitted, multicast, dropped or sent
to one port. After egress, it is cloned, dropped, deparsed or recirculated. There are no queues and
no clock, so metadata about queues and times are not set.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from bmv2_interpreter import DROP_PORT, Interpreter
from bmv2_storage import Name, Parsed

CLONED, CLONED_IN_EGRESS, RECIRCULATED, REPLICATED, RESUBMITTED = 1, 2, 4, 5, 6
INGRESS, EGRESS = 0, 1
ROUNDS = 1000


class EndlessPacket(Exception):
    """Raised for a packet that recirculates or is resubmitted without end."""


class Switch(Interpreter):
    groups: dict[int, list[tuple[int, int]]] = {}  # port and replica of each copy
    sessions: dict[int, list[tuple[int, int]]] = {}

    def process(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """Process a frame. Return port and content of all frames that leave, in any order."""
        self.sent: list[tuple[int, bytes]] = []
        self.waiting: deque[Callable[[], None]] = deque()
        self.clear()
        self.set_metadata("ingress_port", port)
        self.ingress(frame, port)
        for _ in range(ROUNDS):
            if not self.waiting:
                return self.sent
            self.waiting.popleft()()
        raise EndlessPacket

    def fields_of_list(self, number: object) -> list[Name]:
        lists = {f["id"]: f["elements"] for f in self.program["field_lists"]}
        return [tuple(e["value"]) for e in lists.get(number, [])]

    def ingress(self, frame: bytes, port: int) -> None:
        self.set_metadata("packet_length", len(frame))
        self.parse(frame)
        self.pipeline(INGRESS)
        requests = self.requests
        if "clone_ingress_pkt_to_egress" in requests:
            self.clone_ingress(*requests["clone_ingress_pkt_to_egress"], port)
        if requests.get("resubmit", [0])[0]:
            self.again(frame, requests["resubmit"][0], RESUBMITTED)
        elif group := self.read("standard_metadata", "mcast_grp"):
            self.set_metadata("instance_type", REPLICATED)
            self.replicate(self.groups.get(group, []))
        elif self.read("standard_metadata", "egress_spec") != DROP_PORT:
            self.set_metadata("instance_type", 0)
            self.enqueue(self.read("standard_metadata", "egress_spec"))

    def clone_ingress(self, session: int, fields: int, port: int) -> None:
        """Clone the received frame and parse the clone."""
        original, payload = self.parsed, self.payload
        kept = {name: original.values[name] for name in self.fields_of_list(fields)}
        self.clear()
        self.set_metadata("ingress_port", port)
        self.set_metadata("packet_length", len(self.frame))
        self.parse(self.frame)
        self.clear_metadata([])
        self.parsed.values.update(kept)
        self.set_metadata("instance_type", CLONED)
        self.replicate(self.sessions.get(session, []))
        self.parsed, self.payload = original, payload

    def replicate(self, copies: list[tuple[int, int]]) -> None:
        original = self.parsed
        for port, replica in copies:
            self.parsed = original
            self.parsed = self.copied()
            self.set_metadata("egress_rid", replica)
            self.enqueue(port)
        self.parsed = original

    def enqueue(self, port: int) -> None:
        parsed, payload, length = self.copied(), self.payload, self.ingress_length
        self.waiting.append(lambda: self.egress(port, parsed, payload, length))

    def egress(self, port: int, parsed: Parsed, payload: bytes, length: int) -> None:
        self.parsed, self.payload, self.ingress_length = parsed, payload, length
        self.set_metadata("egress_port", port)
        self.set_metadata("egress_spec", DROP_PORT + 1)
        self.set_metadata("packet_length", parsed.length)
        self.pipeline(EGRESS)
        requests = self.requests
        if "clone_egress_pkt_to_egress" in requests:
            self.clone_egress(*requests["clone_egress_pkt_to_egress"])
        if self.read("standard_metadata", "egress_spec") == DROP_PORT:
            return
        frame = self.deparse()
        if requests.get("recirculate", [0])[0]:
            self.again(frame, requests["recirculate"][0], RECIRCULATED)
        else:
            self.sent.append((port, frame))

    def clone_egress(self, session: int, fields: int) -> None:
        """Clone the packet with its headers at the end of egress."""
        original = self.parsed
        self.parsed = self.copied()
        self.parsed.truncate_to = None
        self.clear_metadata(self.fields_of_list(fields))
        self.set_metadata("instance_type", CLONED_IN_EGRESS)
        self.replicate(self.sessions.get(session, []))
        self.parsed = original

    def again(self, frame: bytes, fields: int, instance: int) -> None:
        """Process a packet again, from the parser on.

        Of the packet's metadata, only the fields in the list `fields` are kept.
        """
        kept = {name: self.parsed.values[name] for name in self.fields_of_list(fields)}

        def start() -> None:
            self.clear()
            self.parsed.values.update(kept)
            self.set_metadata("instance_type", instance)
            self.ingress(frame, 0)

        self.waiting.append(start)
