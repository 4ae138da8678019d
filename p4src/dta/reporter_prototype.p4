/* The reporter with the packets of DTA's published prototype: keys of 32 bits, loss tracking by
 * NACKs. */
#define DTA_PROTOTYPE
#include "reporter.p4"
