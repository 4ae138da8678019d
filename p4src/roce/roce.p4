/* The RoCE switch: writes a record of each watched packet to a collector's memory, by RDMA. */
#include "pipeline.p4"

V1Switch(
    RoceParser(), RoceVerifyChecksum(), RoceIngress(), RoceEgress(), RoceComputeChecksum(),
    RoceDeparser()) main;
