/* The RoCE switch: writes a record of each watched packet into the memory of a collector, by RDMA. */
#include "pipeline.p4"

V1Switch(
    RoceParser(), RoceVerifyChecksum(), RoceIngress(), RoceEgress(), RoceComputeChecksum(),
    RoceDeparser()) main;
