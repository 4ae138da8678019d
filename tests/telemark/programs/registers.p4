// Registers of several widths. Each packet writes all of them and leaves by port 2.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
struct headers_t { ethernet_t ethernet; }
struct metadata_t { }

parser RegistersParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                       inout standard_metadata_t std) {
    state start { packet.extract(hdr.ethernet); transition accept; }
}
control RegistersVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }
control RegistersIngress(inout headers_t hdr, inout metadata_t meta,
                         inout standard_metadata_t std) {
    register<bit<32>>(4) packets;
    register<int<8>>(2) below;
    register<bit<100>>(2) wide;
    apply {
        bit<32> count;
        packets.read(count, 3);
        packets.write(3, count + 1);
        below.write(0, -8s3);
        wide.write(1, 100w5);
        std.egress_spec = 2;
    }
}
control RegistersEgress(inout headers_t hdr, inout metadata_t meta,
                        inout standard_metadata_t std) { apply { } }
control RegistersCompute(inout headers_t hdr, inout metadata_t meta) { apply { } }
control RegistersDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.ethernet); }
}
V1Switch(RegistersParser(), RegistersVerify(), RegistersIngress(), RegistersEgress(),
         RegistersCompute(), RegistersDeparser()) main;
