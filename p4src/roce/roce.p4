/* The RoCE switch: for each watched packet, writes a record into the memory of a collector, by
 * RDMA. */
#include "pipeline.p4"

V1Switch(
    RoceParser(), RoceVerifyChecksum(), RoceIngress(), RoceEgress(), RoceComputeChecksum(),
    RoceDeparser()) main;
