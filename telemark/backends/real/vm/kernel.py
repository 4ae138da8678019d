"""Kernel of the virtual machine: Debian's kernel and the modules that it needs.

    Command: python -m telemark.backends.real.vm.kernel PACKAGE.deb

The command extracts kernel and modules from a linux-image-* package into FOLDER. It does not
install the package, so the boot loader and the kernel of the machine do not change.
"""

import lzma
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from telemark import REPOSITORY
from telemark.errors import TestbedError

FOLDER = REPOSITORY / ".vm"
# Modules that the guest loads; the dependencies of these modules are not listed.
MODULES = (
    "virtio_pci", "9pnet_virtio", "9p", "overlay",  # root file system
    "virtio_console", "virtio_net",  # console and network
    # RDMA; rxe uses "crc32" from the kernel's crypto API
    "crc32_generic", "rdma_rxe", "ib_uverbs", "rdma_ucm",
    "veth", "sch_ingress", "cls_bpf",  # XDP, and eBPF programs on tc for kernels without tcx
)  # fmt: skip
XZ = b"\xfd7zXZ\0"


@dataclass(frozen=True)
class Kernel:
    """Bootable kernel image, and its modules in load order."""

    image: Path
    modules: list[Path]


def find() -> Kernel:
    """Return the kernel that setup.sh extracted. Raises TestbedError if there is none."""
    order = FOLDER / "order"  # the file that unpack() writes last
    names = order.read_text().split() if order.exists() else []
    if not {f"{name}.ko" for name in MODULES} <= {*names}:
        raise TestbedError("no kernel for a virtual machine; run ./setup.sh --rdma")
    image = FOLDER / "vmlinux"
    if not image.exists():
        made = FOLDER / f"vmlinux.{os.getpid()}"
        made.write_bytes(unpacked((FOLDER / "vmlinuz").read_bytes()))
        made.rename(image)
    return Kernel(image, [FOLDER / name for name in names])


def unpacked(image: bytes) -> bytes:
    """Decompress the kernel in an image. An emulated CPU would need seconds to decompress it.

    Documentation/arch/x86/boot.rst of the kernel describes the format. An image without xz
    compression is returned unchanged; qemu can boot it as well.
    """
    setup_sectors = image[0x1F1] or 4
    (at,) = struct.unpack_from("<I", image, 0x248)
    packed = image[(setup_sectors + 1) * 512 + at :]
    if not packed.startswith(XZ):
        return image
    return lzma.LZMADecompressor().decompress(packed)  # ignores bytes after the end marker of xz


def unpack(package: Path) -> None:
    """Extract the kernel from Debian's package.

    Raises TestbedError if the package is incomplete.
    """
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:  # needs 400 MB for a few seconds
        subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
        images = [*Path(folder).glob("boot/vmlinuz-*")]
        modules = loading_order(MODULES, [*Path(folder).glob("lib/modules/*/kernel/**/*.ko")])
        if len(images) != 1:
            raise TestbedError(f"{package.name}: expected one boot/vmlinuz-*, found {len(images)}")
        for module in modules:
            shutil.copy(module, FOLDER)
        shutil.copy(images[0], FOLDER / "vmlinuz")
    (FOLDER / "vmlinux").unlink(missing_ok=True)
    (FOLDER / "order").write_text("".join(f"{module.name}\n" for module in modules))
    find()


def loading_order(names: tuple[str, ...], files: list[Path]) -> list[Path]:
    """Return the given modules and their dependencies, in load order.

    The section .modinfo of a module names its dependencies ("depends="). Names of module files
    contain either - or _. Raises TestbedError if a module is missing.
    """
    by_name = {file.stem.replace("-", "_"): file for file in files}
    ordered: dict[str, Path] = {}

    def add(name: str) -> None:
        if name in ordered:
            return
        if name not in by_name:
            raise TestbedError(f"kernel: no module {name}")
        found = re.search(rb"\0depends=([^\0]*)\0", by_name[name].read_bytes())
        for needed in found[1].decode().split(",") if found else ():
            if needed:
                add(needed.replace("-", "_"))
        ordered[name] = by_name[name]

    for name in names:
        add(name)
    return [*ordered.values()]


if __name__ == "__main__":
    try:
        unpack(Path(sys.argv[1]))
    except TestbedError as error:
        sys.exit(f"error: {error}")
