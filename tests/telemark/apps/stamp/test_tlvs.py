"""TLVs of STAMP packets and the answers of reflectors."""

import random
from collections.abc import Callable

import pytest
from scapy.contrib.stamp import STAMPTestTLV

from telemark.apps.stamp import tlvs
from telemark.apps.stamp.tlvs import FollowUp, Observed, Tlv, TlvType
from telemark.errors import TestbedError

KEY = b"a secret"
OBSERVED = Observed(("10.0.0.1", 5000), ("10.0.0.2", 862), dscp=10, ecn=3, packets=7,
                    previous=FollowUp(6, 0x1122334455667788, 2))  # fmt: skip


def reflect(*sent: Tlv, key: bytes | None = None, sequence: int = 3) -> list[Tlv]:
    data = tlvs.pack_tlvs(tlvs.seal(sent, sequence, key))
    answer, _ = tlvs.reflect_tlvs(data, sequence, 9, key, OBSERVED)
    assert len(answer) == len(data)
    found, rest = tlvs.split_tlvs(answer)
    assert not rest
    return found


def test_scapy_reads_tlvs() -> None:
    sent = tlvs.access_report(1, 2)
    found = STAMPTestTLV(tlvs.pack_tlvs([sent]))
    assert (found.type, found.len, found.value, int(found.flags)) == (6, 4, b"\x10\2\0\0", 0x80)


def test_padding_and_access_reports_are_returned() -> None:
    padding, report = tlvs.extra_padding(13), tlvs.access_report(1, 2)
    assert reflect(padding, report) == [padding._replace(flags=0), report._replace(flags=0)]
    assert padding.value != bytes(13)


def test_location_has_addresses_and_ports() -> None:
    (found,) = reflect(tlvs.location())
    assert tlvs.read_location(found.value) == (OBSERVED.source, OBSERVED.destination)


def test_location_has_ipv6_addresses() -> None:
    ends = ("2001:db8::1", 5000), ("2001:db8::2", 862)
    observed = Observed(*ends, dscp=0, ecn=0, packets=1, previous=FollowUp(0, 0, 0))
    answer, _ = tlvs.reflect_tlvs(tlvs.pack_tlvs([tlvs.location()]), 0, 0, None, observed)
    assert tlvs.read_location(tlvs.split_tlvs(answer)[0][0].value) == ends


def test_other_parts_of_a_location_are_marked_as_unknown() -> None:
    mac = Tlv(1, bytes(8), 0)
    (found,) = reflect(Tlv(TlvType.LOCATION, bytes(4) + tlvs.pack_tlvs([mac])))
    assert tlvs.split_tlvs(found.value[4:])[0] == [mac._replace(flags=tlvs.UNRECOGNIZED)]


def test_timestamps_are_of_a_local_clock_and_taken_in_software() -> None:
    assert reflect(tlvs.timestamp_information())[0].value == bytes([5, 2, 5, 2])


def test_class_of_service_reports_the_received_marks() -> None:
    data = tlvs.pack_tlvs([tlvs.class_of_service(34)])
    answer, dscp = tlvs.reflect_tlvs(data, 0, 0, None, OBSERVED)
    (found,) = tlvs.split_tlvs(answer)[0]
    assert tlvs.read_class_of_service(found.value) == (34, 10, 3, 0)
    assert dscp == 34


def test_a_malformed_class_of_service_requests_nothing() -> None:
    malformed = Tlv(TlvType.CLASS_OF_SERVICE, tlvs.class_of_service(34).value[:3])
    assert tlvs.reflect_tlvs(tlvs.pack_tlvs([malformed]), 0, 0, None, OBSERVED)[1] == OBSERVED.dscp


def test_without_class_of_service_the_reply_has_the_received_dscp() -> None:
    assert tlvs.reflect_tlvs(b"", 0, 0, None, OBSERVED) == (b"", 10)


def test_direct_measurement_has_the_counters_of_both_ends() -> None:
    sent = Tlv(TlvType.DIRECT_MEASUREMENT, (11).to_bytes(4, "big") + bytes(8))
    assert tlvs.read_direct_measurement(reflect(sent)[0].value) == (11, 7, 7)


def test_follow_up_is_about_the_previous_reply() -> None:
    (found,) = reflect(tlvs.follow_up_telemetry())
    assert tlvs.read_follow_up_telemetry(found.value) == OBSERVED.previous


@pytest.mark.parametrize("type_", [0, 9, 176, 255])
def test_unknown_types_are_returned_and_marked(type_: int) -> None:
    sent = Tlv(type_, b"abc", 0)
    assert reflect(sent) == [sent._replace(flags=tlvs.UNRECOGNIZED)]


@pytest.mark.parametrize("type_", [2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("length", [0, 3, 5, 13, 17])
def test_wrong_lengths_are_marked_as_malformed(type_: int, length: int) -> None:
    sent = Tlv(type_, bytes(length))
    assert reflect(tlvs.extra_padding(2), sent) == [
        tlvs.extra_padding(2)._replace(flags=0), sent._replace(flags=tlvs.MALFORMED)
    ]  # fmt: skip


@pytest.mark.parametrize("key", [None, KEY])
def test_tlvs_after_a_malformed_one_are_copied(key: bytes | None) -> None:
    """The reflector does not answer the TLVs behind a malformed one (RFC 8972, section 4)."""
    malformed, after = Tlv(TlvType.ACCESS_REPORT, bytes(3)), tlvs.class_of_service(34)
    data = tlvs.pack_tlvs(tlvs.seal([malformed, after], 3, key))
    answer, dscp = tlvs.reflect_tlvs(data, 3, 9, key, OBSERVED)
    found, _ = tlvs.split_tlvs(answer)
    assert found[:2] == [malformed._replace(flags=tlvs.MALFORMED), after]
    assert tlvs.is_intact(found, 9, key)
    assert dscp == OBSERVED.dscp


def test_a_tlv_longer_than_the_packet_is_malformed() -> None:
    data = tlvs.pack_tlvs([tlvs.access_report(1, 2)]) + b"\x80\x01\x00\x09only"
    answer, _ = tlvs.reflect_tlvs(data, 0, 0, None, OBSERVED)
    assert answer == b"\0" + data[1:8] + bytes([tlvs.MALFORMED]) + data[9:]


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: tlvs.access_report(16, 0), "access_id 16"),
        (lambda: tlvs.access_report(1, 256), "return_code 256"),
        (lambda: tlvs.extra_padding(-1), "length -1: expected 0 to 65535"),
    ],
)
def test_values_out_of_range_are_refused(make: Callable[[], Tlv], why: str) -> None:
    with pytest.raises(TestbedError, match=why):
        make()


# --- integrity -----------------------------------------------------------------------------------


def test_answers_of_an_authenticated_session_have_a_new_hmac() -> None:
    answer = reflect(tlvs.class_of_service(34), tlvs.follow_up_telemetry(), key=KEY)
    assert [tlv.type for tlv in answer] == [4, 7, 8]
    assert [tlv.flags for tlv in answer] == [0, 0, 0]
    assert tlvs.is_intact(answer, 9, KEY)  # 9 is the sequence number of the reply
    assert not tlvs.is_intact(answer, 3, KEY)


def test_padding_alone_needs_no_hmac() -> None:
    assert reflect(tlvs.extra_padding(4), key=KEY) == [tlvs.extra_padding(4)._replace(flags=0)]


def test_padding_may_follow_the_hmac() -> None:
    sealed = tlvs.seal([tlvs.access_report(1, 2)], 3, KEY)
    answer = reflect(*sealed, tlvs.extra_padding(4), key=KEY)
    assert [(tlv.type, tlv.flags) for tlv in answer] == [(6, 0), (8, 0), (1, 0)]


SEALED = tlvs.seal([tlvs.access_report(1, 2)], 3, KEY)
BROKEN = {
    "missing": [tlvs.access_report(1, 2)],
    "changed TLV": [tlvs.access_report(1, 3), SEALED[1]],
    "changed HMAC": [SEALED[0], SEALED[1]._replace(value=bytes(16))],
    "short HMAC": [SEALED[0], SEALED[1]._replace(value=SEALED[1].value[:8])],
    "not last": [*SEALED, tlvs.timestamp_information()],
    "twice": [*SEALED, SEALED[1]],
    "other packet": tlvs.seal([tlvs.access_report(1, 2)], 4, KEY),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_failed_integrity_check_marks_all_tlvs(case: str) -> None:
    sent = BROKEN[case]
    answer, dscp = tlvs.reflect_tlvs(tlvs.pack_tlvs(sent), 3, 9, KEY, OBSERVED)
    marked = [tlv._replace(flags=tlvs.INTEGRITY_FAILED) for tlv in sent]
    assert tlvs.split_tlvs(answer) == (marked, b"")
    assert dscp == 10


def test_without_a_key_an_hmac_is_unknown() -> None:
    sent = Tlv(TlvType.HMAC, bytes(16))
    assert reflect(sent) == [sent]


@pytest.mark.parametrize("key", [None, KEY])
def test_answers_to_random_bytes_have_the_same_length(key: bytes | None) -> None:
    generator = random.Random(1)
    for _ in range(2000):
        chain = [
            Tlv(generator.randrange(12), generator.randbytes(generator.choice([0, 4, 12, 16, 44])))
            for _ in range(generator.randrange(4))
        ]
        if generator.random() < 0.5:
            chain = tlvs.seal(chain, 1, key)
        data = tlvs.pack_tlvs(chain) + generator.randbytes(generator.randrange(9))
        answer, dscp = tlvs.reflect_tlvs(data, 1, 2, key, OBSERVED)
        assert len(answer) == len(data)
        assert 0 <= dscp <= 63
