"""Features of P4Runtime that minip4 lacks: UNIMPLEMENTED is returned, with the name of the feature.

docs/reference/minip4.md lists them.
"""

import grpc
import pytest
from finsy.proto import p4r
from harness import arbitration, asynchronous, bench, call, entry, error_details, insert, modify
from test_extras import meter, to
from test_state import clone

UNIMPLEMENTED = grpc.StatusCode.UNIMPLEMENTED


def backup() -> p4r.Entity:
    entity = clone(1, (1, 1))
    session = entity.packet_replication_engine_entry.clone_session_entry
    session.replicas[0].backup_replicas.add(port=b"\2", instance=1)
    return entity


def random_set() -> p4r.Entity:
    actions = p4r.ActionProfileActionSet(action_selection_mode="RANDOM")
    actions.action_profile_actions.add(action=call("drop", {}, "extras"), weight=1)
    return to("balanced", action_profile_action_set=actions)


def default_member() -> p4r.Entity:
    default = entry("direct", {}, None, program_name="extras", is_default_action=True)
    default.table_entry.action.action_profile_member_id = 1
    return default


UPDATES = {
    "extern entries": (insert(p4r.Entity(extern_entry=p4r.ExternEntry())), "extern_entry"),
    "class of service": (insert(clone(1, class_of_service=1)), "clone session 1: class_of_service"),
    "backup replicas": (insert(backup()), "clone session 1: backup replicas"),
    "random selection": (insert(random_set()), "random action selection"),
    "single-rate meters": (modify(meter(0, p4r.MeterConfig(eburst=1))), "eburst"),
    "default members": (modify(default_member()), "members and groups are not supported"),
}


@pytest.mark.parametrize(("update", "text"), UPDATES.values(), ids=UPDATES.keys())
@asynchronous
async def test_an_update(update: p4r.Update, text: str) -> None:
    async with bench("extras") as running:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.write(update)
        (detail,) = error_details(caught.value)
        assert detail.canonical_code == UNIMPLEMENTED.value[0]
        assert text in detail.message


def role_with_config() -> p4r.StreamMessageRequest:
    message = arbitration(1, role="r")
    message.arbitration.role.config.type_url = "type.example/config"
    return message


def role_by_number() -> p4r.StreamMessageRequest:
    message = arbitration(1)
    message.arbitration.role.id = 3
    return message


@pytest.mark.parametrize("message", [role_with_config(), role_by_number()], ids=["config", "id"])
@asynchronous
async def test_a_role(message: p4r.StreamMessageRequest) -> None:
    async with bench(primary=False) as running:
        stream = running.stub.StreamChannel()
        await stream.write(message)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stream.read()
        assert caught.value.code() == UNIMPLEMENTED
        assert "role" in str(caught.value.details())


@asynchronous
async def test_other_stream_messages() -> None:
    async with bench(primary=False) as running:
        stream = await running.arbitrate(1)
        await stream.read()
        message = p4r.StreamMessageRequest()
        message.other.type_url = "type.example/other"
        await stream.write(message)
        error = (await stream.read()).error
        assert error.canonical_code == UNIMPLEMENTED.value[0]
        assert "stream message other is not supported" in error.message
