/* Remote memory (Kim et al., HotNets 2018): a switch uses the memory of a server by RDMA. MODE
 * selects one of three primitives:
 *
 * - COUNTERS: each packet increments a counter by FETCH ADD.
 * - TABLE: each packet needs an entry of a table. The switch writes the packet next to the entry,
 *   and reads both back. The response contains the packet and its entry.
 * - BUFFER: if the queue of port OUT is long, the switch writes packets to a ring, and reads them
 *   back when the queue is short again. Packets stay in order.
 *
 * All frames have 64 bytes. Port SERVER leads to the server. */
#include "../roce/headers.p4"

#define COUNTERS 1
#define TABLE 2
#define BUFFER 3
#ifndef MODE
#define MODE COUNTERS
#endif
#ifndef CELLS
#define CELLS 1024  // counters, entries, or packets in the ring
#endif
#ifndef HIGH
#define HIGH 48  // length of the queue from which on packets go to the ring
#endif
#ifndef LOW
#define LOW 8  // length of the queue below which packets are read back
#endif

const bit<9> OUT = 2;
const bit<9> SERVER = 4;
const bit<32> SERVER_CLONES = 1;
const bit<8> READ_REQUEST = 0x0C;
const bit<8> READ_RESPONSE = 0x10;
const bit<8> CLONE_LIST = 1;
const bit<32> INGRESS_CLONE = 1;
const bit<32> EGRESS_CLONE = 2;

// Sessions: one queue pair for WRITE or FETCH ADD, and one for READ.
const bit<8> CHANGE = 1;
const bit<8> READ = 2;

header frame_t {
    bit<48> dst_addr;
    bit<464> bytes;
}

header entry_t {
    bit<48> dst_addr;
    bit<16> port;
}

struct headers_t {
    ethernet_t ethernet;
    grh_t grh;
    ipv4_t ipv4;
    ipv6_t ipv6;
    ports_t ports;
    bth_t bth;
    reth_t reth;
    atomic_t atomic;
    immediate_t immediate;
    aeth_t aeth;
    atomic_ack_t atomic_ack;
    entry_t entry;
    frame_t frame;
    icrc_t icrc;
}

struct metadata_t {
    @field_list(CLONE_LIST)
    bit<32> slot;  // slot in the ring
}

#define COVERED_BITS 1344

control CoverPayload(in headers_t hdr, inout bit<COVERED_BITS> covered) {
    apply {
        if (hdr.frame.isValid()) {
            covered = covered[COVERED_BITS - 513:0] ++ hdr.frame.dst_addr ++ hdr.frame.bytes;
        }
    }
}

#include "../roce/network.p4"
#include "../roce/transport.p4"

// State of the ring. Ingress and egress use it.
register<bit<32>>(1) depth;     // number of packets in the queue of OUT
register<bit<32>>(1) stored;    // number of packets that were sent to the ring
register<bit<32>>(1) asked;     // number of packets that were requested from the ring
register<bit<32>>(1) returned;  // number of packets that came back from the ring

parser MemoryParser(
    packet_in packet, out headers_t hdr, inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    state start {
        transition select(standard_metadata.ingress_port) {
            SERVER: parse_response;
            default: parse_frame;
        }
    }

    state parse_response {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.ipv4);
        packet.extract(hdr.ports);
        packet.extract(hdr.bth);
        transition select(hdr.bth.opcode) {
            READ_RESPONSE: parse_data;
            default: accept;
        }
    }

    state parse_data {
        packet.extract(hdr.aeth);
#if MODE == TABLE
        packet.extract(hdr.entry);
#endif
        packet.extract(hdr.frame);
        packet.extract(hdr.icrc);
        transition accept;
    }

    state parse_frame {
        packet.extract(hdr.frame);
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

/* Returns the counter or entry of the flow of a frame: offsets 23 and 26 to 37. */
action find_cell(in frame_t frame, out bit<32> cell) {
    bit<32> flow;
    hash(
        flow, HashAlgorithm.crc32, 32w0,
        { frame.bytes[303:240], frame.bytes[327:320], frame.bytes[239:208] }, 64w1 << 32);
    cell = flow % CELLS;
}

control MemoryIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    action unpack() {
        hdr.ethernet.setInvalid();
        hdr.ipv4.setInvalid();
        hdr.ports.setInvalid();
        hdr.bth.setInvalid();
        hdr.aeth.setInvalid();
        hdr.icrc.setInvalid();
        standard_metadata.egress_spec = OUT;
    }

    action use_entry() {
        hdr.frame.dst_addr = hdr.entry.dst_addr;
        standard_metadata.egress_spec = hdr.entry.port[8:0];
        hdr.entry.setInvalid();
    }

    action count_returned() {
        bit<32> number;
        returned.read(number, 0);
        returned.write(0, number + 1);
    }

    /* Keeps the order of packets: while packets are in the ring, all new packets go to the ring. */
    action store_if_long() {
        bit<32> length;
        bit<32> back;
        depth.read(length, 0);
        stored.read(meta.slot, 0);
        returned.read(back, 0);
        bool is_stored = length >= HIGH || meta.slot != back;
        stored.write(0, is_stored ? meta.slot + 1 : meta.slot);
        standard_metadata.egress_spec = is_stored ? SERVER : OUT;
    }

    apply {
        if (!hdr.frame.isValid()) {
            mark_to_drop(standard_metadata);  // ACK
        } else if (hdr.bth.isValid()) {
            unpack();
            if (MODE == TABLE) {
                use_entry();
            } else {
                count_returned();
            }
        } else if (MODE == BUFFER) {
            store_if_long();
        } else {
            // The clone becomes the FETCH ADD or WRITE. It is in front of the packet in the queue.
            clone_preserving_field_list(CloneType.I2E, SERVER_CLONES, CLONE_LIST);
            standard_metadata.egress_spec = MODE == TABLE ? SERVER : OUT;
        }
    }
}

control MemoryEgress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    PutRequest() put_request;
    ToCollector() to_server;
    register<bit<24>>(4) psns;
    queue_pair_t queue_pair = { 0, 0, 0, 0, 0, 0, 0 };
    request_t request = { 0, 64, 0, 0, 1 };
    number_t number = { 0, 0, 0, 0 };
    bit<8> session = CHANGE;
    bit<16> bytes = 0;

    action connect(bit<24> qpn, bit<32> rkey, bit<64> base) {
        queue_pair.opcode = MODE == COUNTERS ? FETCH_ADD : WRITE_ONLY;
        queue_pair.number = qpn;
        queue_pair.rkey = rkey;
        queue_pair.base = base;
        queue_pair.ack_mask = 0xFFFFFF;
    }

    table queue_pairs {
        key = { session: exact @name("session"); }
        actions = { connect; NoAction; }
        default_action = NoAction();
        size = 4;
    }

    action take_number() {
        psns.read(number.psn, (bit<32>)session);
        psns.write((bit<32>)session, number.psn + 1);
    }

    action put_read(in bit<64> offset, in bit<32> length) {
        put_bth(hdr.bth, READ_REQUEST, queue_pair.number, number.psn);
        hdr.reth.setValid();
        hdr.reth.address = queue_pair.base + offset;
        hdr.reth.rkey = queue_pair.rkey;
        hdr.reth.length = length;
        hdr.frame.setInvalid();
        bytes = BTH_ICRC_BYTES + RETH_BYTES;
    }

    /* A packet leaves the queue: reads the next packet of the ring if there is room. */
    action ask_for_next(out bool is_asked) {
        bit<32> last;
        bit<32> back;
        bit<32> length = (bit<32>)standard_metadata.deq_qdepth;
        depth.write(0, length);
        stored.read(last, 0);
        asked.read(meta.slot, 0);
        returned.read(back, 0);
        is_asked = meta.slot != last && length + (meta.slot - back) < LOW;
        asked.write(0, is_asked ? meta.slot + 1 : meta.slot);
    }

    apply {
        if (standard_metadata.egress_port == SERVER) {
            bool is_read = false;
            if (MODE == TABLE) {
                is_read = standard_metadata.instance_type != INGRESS_CLONE;
            } else if (MODE == BUFFER) {
                is_read = standard_metadata.instance_type == EGRESS_CLONE;
            }
            bit<32> cell = meta.slot % CELLS;
            if (MODE != BUFFER) {
                find_cell(hdr.frame, cell);
            }
            session = is_read ? READ : CHANGE;
            queue_pairs.apply();
            take_number();
            if (MODE == COUNTERS) {
                hdr.frame.setInvalid();
                request.offset = (bit<64>)cell << 3;
            } else if (MODE == TABLE) {
                request.offset = (bit<64>)cell * 72 + 8;
            } else {
                request.offset = (bit<64>)cell << 6;
            }
            if (!is_read) {
                put_request.apply(hdr, queue_pair, request, number, bytes);
            } else if (MODE == TABLE) {
                put_read(request.offset - 8, 72);
            } else {
                put_read(request.offset, 64);
            }
            to_server.apply(hdr, session, bytes, standard_metadata);
        } else if (MODE == BUFFER && standard_metadata.egress_port == OUT) {
            bool is_asked = false;
            ask_for_next(is_asked);
            if (is_asked) {
                clone_preserving_field_list(CloneType.E2E, SERVER_CLONES, CLONE_LIST);
            }
        }
    }
}

control MemoryDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(
    MemoryParser(), NoChecksum(), MemoryIngress(), MemoryEgress(), NoChecksum(),
    MemoryDeparser()) main;
