/* Sends the reports about a packet. Each report is made from a clone of the previous report.
 * Reports that are sent again are handled in the same way. */
#ifndef TELEMARK_DTA_REPORTER_SEND_P4
#define TELEMARK_DTA_REPORTER_SEND_P4

#include "reporter_plan.p4"
#include "reporter_write.p4"

// There is one clone session per translator. Its number is DTA_SESSIONS plus the number of the
// translator.
const bit<32> DTA_SESSIONS = 400;

/* `is_clone`: the packet is a clone, and becomes the report that was planned before. */
control SendReports(
    inout dta_headers_t headers, inout dta_flow_t flow, inout dta_report_t report,
    inout dta_resend_t resend, in bool is_clone, inout standard_metadata_t standard_metadata) {
    Resend() send_again;
    PutReport() write_report;
    PlanReport() plan;
    NumberReport() number;

    apply {
        if (resend.translator != 0) {
            send_again.apply(resend, report);
        }
        if (is_clone || resend.translator != 0) {
            write_report.apply(headers, report, standard_metadata);
        }
        bit<8> next = 0;  // translator of the next clone
        if (resend.remaining != 0) {
            next = resend.translator;
        } else if (resend.translator == 0) {
            plan.apply(flow, report);
            if (report.translator != 0) {
                number.apply(report);
                next = report.translator;
            }
        }
        if (next != 0) {
            clone_preserving_field_list(
                CloneType.E2E, DTA_SESSIONS + (bit<32>)next, DTA_FIELDS);
        }
    }
}

#endif
