/* The translator for reporters of the prototype that were built without the tracking of losses. */
#define DTA_NACK_TRACKING 0
#include "translator.p4"
