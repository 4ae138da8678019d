"""The kernel of the virtual machine: Debian's, with those of its modules that are needed there.

    python -m telemark.backends.real.vm.kernel PACKAGE.deb

takes them out of a package linux-image-*, and puts them where find() looks. Nothing of the package
is installed: neither a boot loader nor the kernel that the machine starts with is touched.
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
# What the guest is given by name; with them come those that they depend on.
MODULES = (
    "virtio_pci", "9pnet_virtio", "9p", "overlay",  # its files
    "virtio_console", "virtio_net",  # what it says, and its network
    "crc32_generic", "rdma_rxe", "ib_uverbs", "rdma_ucm",  # RDMA: rxe asks crypto for "crc32"
    "veth", "sch_ingress", "cls_bpf",  # XDP, and tc as it was before tcx
)  # fmt: skip
XZ = b"\xfd7zXZ\0"


@dataclass(frozen=True)
class Kernel:
    """A kernel that boots: its image, and its modules in the order in which they load."""

    image: Path
    modules: list[Path]


def find() -> Kernel:
    """The kernel that setup left. Raises TestbedError where there is none."""
    order = FOLDER / "order"  # which is written last
    names = order.read_text().split() if order.exists() else []
    if not {f"{name}.ko" for name in MODULES} <= {*names}:
        raise TestbedError("there is no kernel for a virtual machine: run ./setup.sh --rdma")
    image = FOLDER / "vmlinux"
    if not image.exists():
        made = FOLDER / f"vmlinux.{os.getpid()}"
        made.write_bytes(unpacked((FOLDER / "vmlinuz").read_bytes()))
        made.rename(image)
    return Kernel(image, [FOLDER / name for name in names])


def unpacked(image: bytes) -> bytes:
    """The kernel that is packed in an image: an emulated processor takes seconds to unpack it.

    Where it lies, Documentation/arch/x86/boot.rst says. qemu boots what is not packed by xz, too.
    """
    setup_sectors = image[0x1F1] or 4
    (at,) = struct.unpack_from("<I", image, 0x248)
    packed = image[(setup_sectors + 1) * 512 + at :]
    if not packed.startswith(XZ):
        return image
    return lzma.LZMADecompressor().decompress(packed)  # up to xz's own end


def unpack(package: Path) -> None:
    """Take the kernel out of Debian's package. Raises TestbedError where something is missing."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:  # 400 MB, for some seconds
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
    """The modules of these names, each behind those that it depends on.

    A module's own section .modinfo names them ("depends="), with either - or _ as files have it.
    Raises TestbedError for one that is not there.
    """
    by_name = {file.stem.replace("-", "_"): file for file in files}
    ordered: dict[str, Path] = {}

    def add(name: str) -> None:
        if name in ordered:
            return
        if name not in by_name:
            raise TestbedError(f"the kernel has no module {name}")
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
