"""Candidates that receive records: the RoCE responder, and collectors with other sockets.

The sockets are UDP sockets and packet sockets.
"""

from experiments.shared.roce.interleaved_rounds import NAP_US, Kind
from experiments.shared.roce.offered import RECORDS_SENT, RECORDS_WRITTEN, UNUSED_MAC

# No process receives the frames of the baseline. The kernel drops them at its first lookup, as it
# drops frames for the responder.
BASELINE = Kind("baseline", RECORDS_WRITTEN, mac=UNUSED_MAC)
UNREAD = Kind("packet socket, unread", RECORDS_WRITTEN, "nothing", nap_us=NAP_US, mac=UNUSED_MAC)
ROCE = Kind("RoCE into memory", RECORDS_WRITTEN, python="roce")
UDP = Kind("UDP, C", RECORDS_SENT, "udp")
UDP_NAPS = Kind("UDP, C, naps", RECORDS_SENT, "udp", nap_us=NAP_US)
PACKET = Kind("packet socket, C, naps", RECORDS_SENT, "packet", nap_us=NAP_US)
PYTHON = Kind("UDP, Python", RECORDS_SENT, python="udp")
COLLECTORS = (UNREAD, ROCE, UDP, UDP_NAPS, PACKET, PYTHON)
