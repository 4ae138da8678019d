/* The reporter with the packets of DTA's published prototype: keys of 32 bits, no sequence
 * numbers. */
#define DTA_PROTOTYPE
#define DTA_NACK_TRACKING 0
#include "reporter.p4"
