"""A collector process that a test kills.

The process reads frames from standard input and writes responses to standard output, each after its
length (4 bytes). Usage: persistent_collector.py FILE COUNT PSN
"""

import struct
import sys
from pathlib import Path

import numpy as np
from arriving import frames

from collectors.roce.endpoint import Peer
from collectors.roce.region import Region
from collectors.roce.softnic import SoftNic


def main() -> None:
    path, count, psn = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    nic = SoftNic("10.0.0.2")
    domain = nic.register(Region(np.dtype("<u8"), count, path), rkey=0x1234)
    nic.connect(domain, Peer("10.0.0.1", qpn=7, psn=psn))
    sys.stdout.buffer.write(b"ready")
    sys.stdout.buffer.flush()
    while head := sys.stdin.buffer.read(4):
        frame = sys.stdin.buffer.read(*struct.unpack("<I", head))
        for answer in nic.receive(frames([frame])):
            sys.stdout.buffer.write(struct.pack("<I", len(answer)) + answer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
