/* Postcarding: collects the reports of all switches on a packet's path, and writes them as one
 * chunk.
 *
 * A cache has one row per incomplete path. A path is written when all its hops have reported. It is
 * written earlier if another path needs its row.
 *
 * In memory, the word of a hop is the code of its value, or BLANK. A checksum of the key and the
 * hop masks this word. By the checksums, readers find out to which key a chunk belongs
 * (collectors/dta/postcarding.py). */
#ifndef TELEMARK_DTA_POSTCARDING_P4
#define TELEMARK_DTA_POSTCARDING_P4

#include "plan.p4"
#include "../roce/transport.p4"

#define DTA_ROWS 32768  // number of rows of all services together
const bit<8> MAX_HOPS = 5;

register<bit<128>>(DTA_ROWS) postcard_key;
register<bit<160>>(DTA_ROWS) postcard_codes;  // codes of the values; hop 0 is last
// the other fields of path_t; 0 means that the row is free
register<bit<13>>(DTA_ROWS) postcard_state;

struct path_t {
    bit<128> key;
    bit<160> codes;
    bit<5> seen;  // bitmap of the hops that have reported; hop 0 is last
    bit<3> hops;  // number of hops of the path; 0 means unknown
    bit<4> copies;
    bit<1> is_immediate;
}

struct cache_t {
    bit<8> first_session;  // first session of the store
    bit<8> sessions;
    bit<32> slot_mask;
    bit<32> row;
    path_t cached;   // new content of the row in the cache
    path_t written;  // path that is to be written to memory, if there is one
}

/* Plans the effect of a report on its row; in ingress. With `is_flush`, the key is the number of
 * the row. */
control PlanPostcard(
    in postcard_t report, in bit<1> is_immediate, in bit<1> is_flush, inout plan_t plan,
    inout cache_t cache) {
    path_t old = { 0, 0, 0, 0, 0, 0 };
    path_t path = { 0, 0, 0, 0, 0, 0 };

    /* Sets the rows of the service: `row_mask` + 1 rows, from `first_row` on. */
    action collect(
        bit<8> first_session, bit<8> sessions, bit<32> slot_mask, bit<32> first_row,
        bit<32> row_mask) {
        cache.first_session = first_session;
        cache.sessions = sessions;
        cache.slot_mask = slot_mask;
        cache.row =
            first_row
            + ((is_flush == 1 ? report.key[31:0] : murmur(report.key, ROW_SEED)) & row_mask);
    }

    table postcard_stores {
        key = { plan.service: exact @name("service"); }
        actions = { collect; NoAction; }
        default_action = NoAction();
        size = 64;
    }

    action look_up() {
        bit<13> state;
        postcard_key.read(old.key, cache.row);
        postcard_codes.read(old.codes, cache.row);
        postcard_state.read(state, cache.row);
        old.seen = state[4:0];
        old.hops = state[7:5];
        old.copies = state[11:8];
        old.is_immediate = state[12:12];
    }

    action add_hop() {
        bit<8> place = report.hop << 5;
        bit<160> word = 160w0xFFFFFFFF << place;
        path.key = report.key;
        path.codes = (path.codes & ~word) | ((bit<160>)value_code(report.value) << place);
        path.seen = path.seen | (5w1 << report.hop);
        path.hops = report.hops == 0 ? path.hops : report.hops[2:0];
        path.copies = report.redundancy[3:0];
        path.is_immediate = path.is_immediate | is_immediate;
    }

    /* Adds the report to its path. If the path is now complete, it is written, and another path in
     * the row stays there. Otherwise, the path is stored in the row. If the row contained another
     * path, this other path is written. */
    action add_report() {
        bool is_other = old.seen != 0 && old.key != report.key;
        if (!is_other) {
            path = old;
        }
        add_hop();
        bit<5> all_hops = path.hops == 0 ? 5w0x1F : (5w1 << path.hops) - 1;
        if ((path.seen & all_hops) == all_hops) {
            cache.written = path;
            cache.cached = old;
            cache.cached.seen = is_other ? old.seen : 0;
        } else {
            cache.cached = path;
            if (is_other) {
                cache.written = old;
            }
        }
    }

    apply {
        if (!postcard_stores.apply().hit) {
            plan.problem = NOT_CONFIGURED;
        } else if (is_flush == 1) {
            look_up();
            cache.written = old;
        } else if (
            report.redundancy == 0 || report.redundancy > 8 || report.hop >= MAX_HOPS
            || report.hops > MAX_HOPS || (report.hops != 0 && report.hop >= report.hops)) {
            plan.problem = OUT_OF_RANGE;
        } else {
            look_up();
            add_report();
        }
        if (cache.written.seen != 0) {
            choose_session(plan, cache.written.key, cache.first_session, cache.sessions);
            plan.copies = cache.written.copies;
            plan.cost = (bit<8>)plan.copies * ONE_REQUEST;
        }
    }
}

/* Masks one word of a path for memory, in ingress. */
control MaskHop(in path_t path, in bit<1> has_reported, in bit<32> hop, inout bit<32> word) {
    apply {
        word = (has_reported == 1 ? word : BLANK) ^ murmur(path.key, HOP_SEED + hop);
    }
}

/* Replaces the report by the path that is to be written. This path may belong to another flow. The
 * control runs in ingress if the report is not rejected. */
control CommitPostcard(inout headers_t hdr, in plan_t plan, in cache_t cache) {
    MaskHop() cover_0;
    MaskHop() cover_1;
    MaskHop() cover_2;
    MaskHop() cover_3;
    MaskHop() cover_4;

    action keep() {
        path_t path = cache.cached;
        bit<13> state = path.is_immediate ++ path.copies ++ path.hops ++ path.seen;
        postcard_key.write(cache.row, path.key);
        postcard_codes.write(cache.row, path.codes);
        postcard_state.write(cache.row, path.seen == 0 ? 0 : state);
    }

    apply {
        keep();
        if (plan.copies != 0) {
            path_t path = cache.written;
            bit<32> word_0 = path.codes[31:0];
            bit<32> word_1 = path.codes[63:32];
            bit<32> word_2 = path.codes[95:64];
            bit<32> word_3 = path.codes[127:96];
            bit<32> word_4 = path.codes[159:128];
            cover_0.apply(path, path.seen[0:0], 0, word_0);
            cover_1.apply(path, path.seen[1:1], 1, word_1);
            cover_2.apply(path, path.seen[2:2], 2, word_2);
            cover_3.apply(path, path.seen[3:3], 3, word_3);
            cover_4.apply(path, path.seen[4:4], 4, word_4);
            hdr.words_8.setValid();
            hdr.words_8.words = word_0 ++ word_1 ++ word_2 ++ word_3 ++ word_4 ++ 96w0;
            hdr.postcard.key = path.key;
            hdr.dta.immediate = path.is_immediate;
            hdr.prototype.immediate = path.is_immediate;
        }
    }
}

/* Creates the RDMA request of a copy; in egress. The immediate value is the number of the slot. */
control RequestPostcard(
    in postcard_t report, in bit<32> copy, in cache_t cache, inout request_t request) {
    apply {
        bit<32> slot = copy_hash(report.key, copy) & cache.slot_mask;
        request.payload_bytes = 32;
        request.offset = (bit<64>)slot << 5;
        request.immediate = slot;
    }
}

#endif
