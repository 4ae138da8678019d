"""SetForwardingPipelineConfig and GetForwardingPipelineConfig (P4Runtime spec 10)."""

import grpc
import pytest
from finsy.proto import p4i, p4r
from google.protobuf import text_format
from harness import Bench, asynchronous, bench, config, entry, exact, insert, modify

Set = p4r.SetForwardingPipelineConfigRequest
Get = p4r.GetForwardingPipelineConfigRequest

ENTRY = entry("switching", {"hdr.ethernet.destination": exact(b"\x01")}, ("drop", {}))
EVERYTHING = p4r.Entity(table_entry=p4r.TableEntry(table_id=ENTRY.table_entry.table_id))


async def get(running: Bench, response_type: int = Get.ALL) -> p4r.ForwardingPipelineConfig:
    request = Get(device_id=1, response_type=response_type)  # type: ignore[arg-type]
    return (await running.stub.GetForwardingPipelineConfig(request)).config


@asynchronous
async def test_without_a_pipeline_each_request_fails() -> None:
    async with bench(None) as running:
        for call in (get(running), running.read(EVERYTHING), running.write(insert(ENTRY))):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call
            assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
            assert "No forwarding pipeline config" in caught.value.details()


@asynchronous
async def test_a_pushed_pipeline_can_be_had_back_whole_and_in_parts() -> None:
    async with bench(None) as running:
        await running.push(Set.VERIFY_AND_COMMIT, config(cookie=99))
        assert await get(running) == config(cookie=99)
        cookie = await get(running, Get.COOKIE_ONLY)
        assert cookie.cookie.cookie == 99
        assert not cookie.HasField("p4info")
        assert not cookie.p4_device_config
        assert (await get(running, Get.P4INFO_AND_COOKIE)).p4info == config().p4info
        blob = (await get(running, Get.DEVICE_CONFIG_AND_COOKIE)).p4_device_config
        assert blob == config().p4_device_config


@asynchronous
async def test_commit_starts_from_empty_tables() -> None:
    async with bench() as running:
        await running.write(insert(ENTRY))
        await running.push(Set.VERIFY_AND_COMMIT, config())
        assert await running.read(EVERYTHING) == []


@asynchronous
async def test_verify_changes_nothing() -> None:
    async with bench() as running:
        await running.write(insert(ENTRY))
        engine = running.driver.engine
        await running.push(Set.VERIFY, config())
        assert running.driver.engine is engine
        assert await running.read(EVERYTHING) == [ENTRY]


@asynchronous
async def test_a_saved_pipeline_is_filled_before_it_runs() -> None:
    async with bench() as running:
        engine = running.driver.engine
        await running.push(Set.VERIFY_AND_SAVE, config())
        await running.write(insert(ENTRY))
        assert running.driver.engine is engine
        assert engine.table_entries("MyIngress.switching") == []
        await running.push(Set.COMMIT, None)
        assert running.driver.engine is not engine
        assert await running.read(EVERYTHING) == [ENTRY]
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.push(Set.COMMIT, None)
        assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION


@asynchronous
async def test_reconcile_keeps_entries_and_defaults() -> None:
    async with bench() as running:
        default = entry("switching", {}, ("forward", {"port": b"\x03"}), is_default_action=True)
        await running.write(insert(ENTRY), modify(default))
        engine = running.driver.engine
        await running.push(Set.RECONCILE_AND_COMMIT, config(cookie=8))
        assert running.driver.engine is not engine
        assert await running.read(EVERYTHING, default) == [ENTRY, default]


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ("bitwidth: 48", "bitwidth: 47", "has 47 bits in P4Info, but 48 in the JSON"),
        ("match_type: LPM", "match_type: TERNARY", "is ternary in P4Info, but lpm in the JSON"),
        ("size: 16", "size: 17", "port_counter has 17 cells in P4Info, but 16 in the JSON"),
        ('name: "MyIngress.', 'name: "Other.', "the BMv2 JSON has none of the tables"),
    ],
)
@asynchronous
async def test_p4info_of_another_program_is_refused(before: str, after: str, text: str) -> None:
    async with bench() as running:
        other = config()
        changed = str(other.p4info).replace(before, after)
        other.p4info.CopyFrom(text_format.Parse(changed, p4i.P4Info()))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.push(Set.VERIFY_AND_COMMIT, other)
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert text in caught.value.details()


def _device_config(device_data: bytes) -> bytes:
    """Return a serialized p4.tmp.P4DeviceConfig with `reassign`, `extras` and `device_data`."""
    size, length = len(device_data), b""
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    return b"\x08\x01" + b"\x12\x00" + b"\x1a" + length + bytes([size]) + device_data


@asynchronous
async def test_a_program_inside_a_p4_device_config_is_taken_and_had_back_as_pushed() -> None:
    pushed = config()
    pushed.p4_device_config = _device_config(config().p4_device_config)
    async with bench(None) as running:
        await running.push(Set.VERIFY_AND_COMMIT, pushed)
        await running.write(insert(ENTRY))
        assert await running.read(EVERYTHING) == [ENTRY]
        assert await get(running) == pushed


def _bad(blob: bytes) -> p4r.ForwardingPipelineConfig:
    message = config()
    message.p4_device_config = blob
    return message


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"{",
        b"[]",
        pytest.param(b"[" * 10**5, id="nested"),
        pytest.param(b"\x1b" * 10**5, id="nested groups"),
        b"\xff\xfe",
        b'{"headers": 1}',
        _device_config(b""),
        _device_config(b"[]"),
        _device_config(b"{}")[:-1],
    ],
)
@asynchronous
async def test_a_bad_device_config_leaves_the_running_pipeline(blob: bytes) -> None:
    async with bench() as running:
        await running.write(insert(ENTRY))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.push(Set.VERIFY_AND_COMMIT, _bad(blob))
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert "p4_device_config" in caught.value.details()
        assert await running.read(EVERYTHING) == [ENTRY]
