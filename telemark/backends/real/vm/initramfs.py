"""initramfs of the virtual machine: an archive of busybox, kernel modules and an init script.

The script mounts the root file system of the physical machine read-only (9p over virtio). An
overlay in memory stores changes. Then the script executes a program in this file system as process
1. Until then, the kernel cannot find /sbin/modprobe and other helpers.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path

BUSYBOX = Path("/usr/bin/busybox")
ROOT_TAG = "root"  # mount tag of the 9p share
FOLDERS = ("bin", "dev", "proc", "modules", "host", "layer", "root")
S_IFDIR, S_IFREG = 0o040000, 0o100000

INIT = """#!/bin/busybox sh
set -e
b=/bin/busybox
$b mount -t devtmpfs dev /dev
for module in {modules}; do $b insmod /modules/$module; done
$b mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=512000,cache=loose {tag} /host
$b mount -t tmpfs layer /layer
$b mkdir /layer/upper /layer/work
$b mount -t overlay -o lowerdir=/host,upperdir=/layer/upper,workdir=/layer/work overlay /root
$b mount -t devtmpfs dev /root/dev
$b mount -t proc proc /root/proc
$b mount -t sysfs sys /root/sys
exec $b switch_root /root {program}
"""


def archive(modules: Sequence[Path], program: Sequence[str]) -> bytes:
    """Create the archive.

    `modules` must be in load order. `program` is a command line that begins with an absolute path.

    The format is "newc". Documentation/driver-api/early-userspace/buffer-format.rst of the kernel
    describes it.
    """
    init = INIT.format(modules=" ".join(module.name for module in modules), tag=ROOT_TAG,
                       program=shlex.join(program))  # fmt: skip
    entries = [_entry(name, S_IFDIR | 0o755, b"") for name in FOLDERS]
    entries.append(_entry("init", S_IFREG | 0o755, init.encode()))
    entries.append(_entry("bin/busybox", S_IFREG | 0o755, BUSYBOX.read_bytes()))
    entries += [_entry(f"modules/{m.name}", S_IFREG | 0o644, m.read_bytes()) for m in modules]
    return b"".join([*entries, _entry("TRAILER!!!", 0, b"")])


def _entry(name: str, mode: int, content: bytes) -> bytes:
    # inode, mode, uid, gid, links, time, size, 4 device numbers, name length, checksum
    fields = [0] * 13
    fields[1], fields[4], fields[6] = mode, 1, len(content)
    fields[11] = len(name) + 1
    head = b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0"

    return _pad(head) + _pad(content)


def _pad(part: bytes) -> bytes:
    return part + bytes(-len(part) % 4)
