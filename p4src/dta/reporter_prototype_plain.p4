/* The reporter with packets of DTA's published prototype: 32-bit keys, no sequence numbers. */
#define DTA_PROTOTYPE
#define DTA_NACK_TRACKING 0
#include "reporter.p4"
