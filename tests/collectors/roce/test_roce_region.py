"""Regions: persistent files, and the layout of their content."""

import os
from pathlib import Path

import numpy as np
import pytest

from collectors.roce.endpoint import gid
from collectors.roce.region import TCP, Region
from collectors.roce.softnic import SoftNic
from telemark.errors import TestbedError


def test_a_file_holds_what_was_written_and_is_found_again(tmp_path: Path) -> None:
    path = tmp_path / "records"
    region = Region(TCP, 3, path)
    assert not region.bytes.any()
    region.bytes[44:88] = np.arange(44)
    region.sync()
    assert path.read_bytes() == bytes(44) + bytes(range(44)) + bytes(44)
    again = Region(TCP, 3, path)
    assert again.records["source_port"].tolist() == [0, 0x2021, 0]
    assert again.records["acknowledgment"].tolist() == [0, 0x28292A2B, 0]
    region.records["sequence"][2] = 7  # both regions are the same memory
    assert again.records["sequence"].tolist() == [0, 0x24252627, 7]


def test_a_file_has_one_collector_and_any_readers(tmp_path: Path) -> None:
    path = tmp_path / "records"
    region = Region(TCP, 3, path)
    nic = SoftNic("10.0.0.2")
    nic.register(region)
    nic.register(region)  # allowed: the same endpoint has claimed the file
    reader = Region(TCP, 3, path)
    region.records["sequence"][1] = 7
    assert reader.records["sequence"][1] == 7
    with pytest.raises(TestbedError, match=r"records: another collector uses it"):
        SoftNic("10.0.0.2").register(reader)
    del nic, region  # the collector ends, and another one starts
    SoftNic("10.0.0.2").register(reader)


@pytest.mark.parametrize("dies", [False, True])
def test_a_collectors_workers_do_not_keep_its_file(dies: bool, tmp_path: Path) -> None:
    """A running worker process does not keep the file of its ended collector locked.

    Otherwise, the file would stay locked as long as a worker has a copy of the descriptor.
    """
    path, (stop_read, stop_write), (here, there) = tmp_path / "records", os.pipe(), os.pipe()
    region = Region(TCP, 3, path)
    region.claim()
    worker = os.fork()
    if not worker:
        os.close(stop_write)
        os.write(there, b"!")
        os.read(stop_read, 1)  # wait until the test ends
        os._exit(0)
    assert os.read(here, 1)
    if dies:
        del region
        Region(TCP, 3, path).claim()
    else:
        with pytest.raises(TestbedError, match="another collector"):
            Region(TCP, 3, path).claim()
    os.close(stop_write)
    os.waitpid(worker, 0)
    for descriptor in (stop_read, here, there):
        os.close(descriptor)


def test_memory_without_a_file_is_zeros() -> None:
    region = Region(np.dtype("<u8"), 512)
    assert (region.length, region.records.shape) == (4096, (512,))
    assert not region.records.any()
    assert region.address % 8 == 0


def test_a_file_of_another_length_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "records"
    path.write_bytes(b"something else")
    with pytest.raises(TestbedError, match="14 bytes, but the region has 132"):
        Region(TCP, 3, path)
    assert path.read_bytes() == b"something else"


def test_what_cannot_be_a_region_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(TestbedError, match="expected at least one record"):
        Region(TCP, 0)
    with pytest.raises(TestbedError, match="No such file"):
        Region(TCP, 1, tmp_path / "missing" / "records")
    with pytest.raises(TestbedError, match=r"region in memory of .*: Cannot allocate"):
        Region(TCP, 1 << 50)


def test_gids_of_ipv4_addresses_are_mapped() -> None:
    assert gid("10.0.0.1") == bytes(10) + b"\xff\xff\x0a\0\0\1" == gid("::ffff:10.0.0.1")
    assert gid("fd00::1") == b"\xfd" + bytes(14) + b"\1"
