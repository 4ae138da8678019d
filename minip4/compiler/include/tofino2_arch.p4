/* A part of t2na.p4 in its public interface. */
#include <t2na.p4>
