"""Print `listening`, then each frame received by an interface as a line of hex digits.

Usage: python3 print_frames.py INTERFACE
"""

import socket
import sys

ETH_P_ALL = 3
PACKET_OUTGOING = 4  # sent by this machine (linux/if_packet.h)

with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as interface:
    interface.bind((sys.argv[1], 0))
    print("listening", flush=True)
    while True:
        frame, (_, _, kind, *_) = interface.recvfrom(65535)
        if kind != PACKET_OUTGOING:
            print(frame.hex(), flush=True)
