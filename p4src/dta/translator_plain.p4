/* Translator for prototype reporters that were built without loss tracking. */
#define DTA_NACK_TRACKING 0
#include "translator.p4"
