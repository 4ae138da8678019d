/* Translator for reporters of the prototype that were compiled without loss tracking. */
#define DTA_NACK_TRACKING 0
#include "translator.p4"
