/* The program for Tofino 2. */
#define TOFINO2
#include "tofino.p4"
