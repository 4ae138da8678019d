/* The reporter, with the packets of DTA's published prototype: keys of 32 bits, NACK tracking. */
#define DTA_PROTOTYPE
#include "reporter.p4"
