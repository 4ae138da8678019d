/* DTA translator: converts reports to RDMA requests that write into the memory of collectors. */
#include "pipeline.p4"

V1Switch(
    TranslatorParser(), TranslatorVerifyChecksum(), TranslatorIngress(), TranslatorEgress(),
    TranslatorComputeChecksum(), TranslatorDeparser()) main;
