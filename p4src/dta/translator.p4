/* DTA translator: converts reports to RDMA requests to collectors' memory. */
#include "pipeline.p4"

V1Switch(
    TranslatorParser(), TranslatorVerifyChecksum(), TranslatorIngress(), TranslatorEgress(),
    TranslatorComputeChecksum(), TranslatorDeparser()) main;
