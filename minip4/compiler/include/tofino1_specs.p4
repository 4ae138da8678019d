/* A part of tna.p4 in its public interface. */
#include <tna.p4>
