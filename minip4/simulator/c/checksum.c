/* The Internet checksum (RFC 1071). */
#include <string.h>

#include "virtual_internal.h"

uint64_t checksum_add(uint64_t sum, const uint8_t *bytes, uint32_t length)
{
    /* Folding a sum of 32-bit words gives the same result as a sum of 16-bit words (section 2, part
     * C). */
    uint32_t word;
    for (; length >= 4; bytes += 4, length -= 4) {
        memcpy(&word, bytes, 4);
        sum += word;
    }
    word = 0;
    memcpy(&word, bytes, length);
    return sum + word;
}

uint16_t checksum_fold(uint64_t sum)
{
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~sum;
}
