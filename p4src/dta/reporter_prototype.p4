/* The reporter with packets of DTA's published prototype: 32-bit keys, NACK tracking. */
#define DTA_PROTOTYPE
#include "reporter.p4"
