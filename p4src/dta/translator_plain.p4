/* Translator for reporters of the prototype built without loss tracking. */
#define DTA_NACK_TRACKING 0
#include "translator.p4"
