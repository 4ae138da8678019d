/* Conversion of integers between host and network byte order: endian.h, which macOS lacks. */
#ifndef MINIP4_BYTE_ORDER_H
#define MINIP4_BYTE_ORDER_H

#ifdef __APPLE__
#include <libkern/OSByteOrder.h>
#define htobe64(x) OSSwapHostToBigInt64(x)
#define be64toh(x) OSSwapBigToHostInt64(x)
#define be16toh(x) OSSwapBigToHostInt16(x)
#else
#include <endian.h>
#endif

#endif
