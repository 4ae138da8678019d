/* A DTA translator: reports come in, requests go to collectors' memory by RDMA. */
#include "pipeline.p4"

V1Switch(
    TranslatorParser(), TranslatorVerifyChecksum(), TranslatorIngress(), TranslatorEgress(),
    TranslatorComputeChecksum(), TranslatorDeparser()) main;
