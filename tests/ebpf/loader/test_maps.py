"""Maps as numpy arrays with the types of the C code."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from ebpf.loader import LoadError, ProgramObject, load, maps, run
from ebpf.loader.libbpf import library

SOURCE = """
enum colour { RED = -1, GREEN };
struct inner { __u8 a; __u16 b[3]; };
struct value {
    __s32 number; __be16 port; _Bool flag; enum colour colour; struct inner inner[2];
    union { __u64 whole; __u32 halves[2]; }; void *place;
};
struct bits { int low : 3; int high : 5; };
#define MAP(name, kind, entries, more, k, v)                                                   \\
    struct { __uint(type, BPF_MAP_TYPE_##kind); __uint(max_entries, entries);                  \\
             __uint(map_flags, more); __type(key, k); __type(value, v); } name SEC(".maps");
struct pair { __u32 a; __u16 b; __u16 c; };
struct prefix { __u32 length; __be32 address; };
typedef __u32 three[3];
MAP(array, ARRAY, 3, BPF_F_MMAPABLE, __u32, three)
MAP(values, HASH, 4, 0, struct pair, struct value)
MAP(counts, PERCPU_ARRAY, 3, 0, __u32, __u32)
MAP(flows, LRU_PERCPU_HASH, 100, 0, __u32, __u16)
MAP(routes, LPM_TRIE, 10, BPF_F_NO_PREALLOC, struct prefix, __u32)
__u64 seen;
__u8 window;
SEC("xdp") int example(struct xdp_md *packet)
{
    __u32 key = 1, *count = bpf_map_lookup_elem(&counts, &key);
    __u16 one = 5;

    if (count)
        (*count)++;
    bpf_map_update_elem(&flows, &key, &one, BPF_ANY);
    seen += window;
    return XDP_DROP;
}
"""


@pytest.fixture
def whole(write_bpf: Callable[[str], Path]) -> Iterator[ProgramObject]:
    with load(write_bpf(SOURCE)) as loaded:
        yield loaded


def test_an_array_is_read_written_and_mapped(whole: ProgramObject) -> None:
    array = whole.maps["array"]
    array.write([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    assert array.read().tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert array[1].tolist() == [4, 5, 6]
    mapped = array.mapped()
    assert mapped.tolist() == array.read().tolist()
    mapped[2, 1] = 99
    assert array.read()[2].tolist() == [7, 99, 9]
    with pytest.raises(LoadError, match="array has 3 values, but 2"):
        array.write([[1, 2, 3]] * 2)
    with pytest.raises(LoadError, match="counts cannot be mapped"):
        whole.maps["counts"].mapped()


def test_values_have_the_fields_of_the_c(whole: ProgramObject) -> None:
    values = whole.maps["values"]
    value = np.zeros((), values.value)
    value["number"], value["port"], value["flag"], value["colour"] = -5, 0x1234, True, -1
    value["inner"]["b"] = [[1, 2, 3], [4, 5, 6]]
    value["whole"] = 0x1_0000_0002
    assert value["halves"].tolist() == [2, 1]
    values[(1, 2, 3)] = value
    assert values[(1, 2, 3)] == value
    assert value.tobytes()[4:6] == b"\x12\x34"
    assert value.dtype.fields["place"][1] == 40
    entries = values.read()
    assert entries["key"].tolist() == [(1, 2, 3)]
    assert entries["value"]["inner"]["b"].tolist() == [[[1, 2, 3], [4, 5, 6]]]


def test_a_hash_takes_no_more_than_its_entries(whole: ProgramObject) -> None:
    values = whole.maps["values"]
    for a in range(4):
        values[(a, 0, 0)] = np.zeros((), values.value)
    assert sorted(key[0] for key, _ in values.items()) == [0, 1, 2, 3]
    with pytest.raises(LoadError, match=r"map values \(4 entries\): it is full"):
        values[(4, 0, 0)] = np.zeros((), values.value)
    with pytest.raises(KeyError):
        values[(4, 0, 0)]
    del values[(3, 0, 0)]
    with pytest.raises(KeyError):
        del values[(3, 0, 0)]
    assert len(values.read()) == 3


def test_each_cpu_has_values_of_its_own(whole: ProgramObject) -> None:
    cpus = library().libbpf_num_possible_cpus()
    run(whole.programs["example"], bytes(64), repeat=1000)
    counts = whole.maps["counts"].read()
    assert counts.shape == (3, cpus)
    assert counts.sum(axis=1).tolist() == [0, 1000, 0]
    flows = whole.maps["flows"].read()
    assert flows["value"].shape == (1, cpus)
    assert whole.maps["flows"][1].sum() == 5
    written = np.arange(3 * cpus).reshape(3, cpus)
    whole.maps["counts"].write(written)
    assert (whole.maps["counts"].read() == written).all()


def test_global_variables_are_seen_by_both_sides(whole: ProgramObject) -> None:
    globals_ = whole.maps[".bss"].mapped()
    globals_["window"] = 3
    run(whole.programs["example"], bytes(64), repeat=10)
    assert globals_["seen"].tolist() == [30]


def test_one_by_one_gives_what_a_batch_gives(
    whole: ProgramObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    routes = whole.maps["routes"]
    entries = np.zeros(3, routes.read().dtype)
    entries["key"] = [(8, 0x0A000000), (16, 0x0A010000), (24, 0x0A010200)]
    entries["value"] = [1, 2, 3]
    routes.write(entries)
    assert routes[(32, 0x0A0102FF)] == 3
    assert routes[(32, 0x0A01FFFF)] == 2
    in_batches = np.sort(routes.read(), order="value")
    assert (in_batches == entries).all()
    monkeypatch.setattr(maps, "NO_BATCH", range(1000))
    for each in ("bpf_map_lookup_batch", "bpf_map_update_batch"):
        monkeypatch.setattr(library(), each, lambda *_: -1)
    assert (np.sort(routes.read(), order="value") == entries).all()
    entries["value"] = [4, 5, 6]
    routes.write(entries)
    assert (np.sort(routes.read(), order="value") == entries).all()


def test_bit_fields_are_refused(write_bpf: Callable[[str], Path]) -> None:
    source = write_bpf(SOURCE.replace("typedef __u32 three[3];", "typedef struct bits three;"))
    with pytest.raises(LoadError, match="struct bits: low is a bit field"):
        load(source)


INNER = """
struct inner { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 4); __type(key, __u32);
               __type(value, __u32); };
struct { __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS); __uint(max_entries, 2); __type(key, __u32);
         __array(values, struct inner); } outer SEC(".maps");
SEC("xdp") int example(struct xdp_md *packet)
{
    __u32 first = 0, third = 2, *value;
    void *inner = bpf_map_lookup_elem(&outer, &first);

    value = inner ? bpf_map_lookup_elem(inner, &third) : 0;
    return value ? *value : 77;
}
"""


def test_a_new_map_takes_the_place_of_another_in_a_map_of_maps(
    write_bpf: Callable[[str], Path],
) -> None:
    with load(write_bpf(INNER)) as whole:
        example, outer = whole.programs["example"], whole.maps["outer"]
        assert run(example, bytes(64)).verdict == 77
        first = outer.put_new(0, [5, 6, 7, 8])
        assert run(example, bytes(64)).verdict == 7
        first[2] = 9
        assert run(example, bytes(64)).verdict == 9
        second = outer.put_new(0)
        assert run(example, bytes(64)).verdict == 0
        assert second.max_entries == 4
        with pytest.raises(LoadError, match="4 values, but 3"):
            outer.put_new(0, [1, 2, 3])
        with pytest.raises(LoadError, match="is not a map of maps"):
            second.put_new(0)
        os.close(first.fd)
        os.close(second.fd)


def test_a_key_is_kept_until_it_is_deleted(
    whole: ProgramObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory of a key is not freed before bpf_map_delete_elem() has read the key.

    Otherwise, another thread could reuse this memory before the call.
    """
    values, delete = whole.maps["values"], library().bpf_map_delete_elem

    def late(fd: int, key: int) -> int:
        others = [np.full(1, -1, values.key) for _ in range(100)]
        return int(delete(fd, key)) if others else 0

    values[7, 8, 9] = np.zeros((), values.value)
    monkeypatch.setattr(library(), "bpf_map_delete_elem", late)
    del values[7, 8, 9]
    assert len(values.read()) == 0
