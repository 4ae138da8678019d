/* Parts of reports that all programs with reports share: Telemetry Report 2.0, and clones. */
#ifndef TELEMARK_TELEMETRY_REPORT_P4
#define TELEMARK_TELEMETRY_REPORT_P4

#include "headers.p4"

header report_group_t {
    bit<4> version;
    bit<6> hw_id;
    bit<22> sequence;
    bit<32> node_id;
}

const bit<4> REPORT_VERSION = 2;
@noWarn("unused") const bit<4> INNER_IPV4 = 4;
const bit<4> INNER_IPV6 = 5;

// Parts of a switch (hw_id). Each has its own sequence numbers of reports.
@noWarn("unused") const bit<6> HW_EGRESS = 0;
@noWarn("unused") const bit<6> HW_INGRESS = 1;
@noWarn("unused") const bit<6> HW_QUEUES = 2;
@noWarn("unused") const bit<6> HW_IOAM = 3;

const bit<32> EGRESS_CLONE = 2;      // instance_type
const bit<32> REPORT_SESSION = 500;  // the clone session whose port leads to the collector

#endif
