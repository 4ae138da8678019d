/* CRC-32, as in zlib and as HashAlgorithm.crc32 in switches. Four bits are processed at a time. */
#ifndef CRC32_H
#define CRC32_H

#include <linux/types.h>

#include <bpf/bpf_helpers.h>

static const __u32 crc_table[16] = {
    0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
    0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
};

/* Return the CRC of earlier bytes (with the CRC `crc`) and `data`. For the first bytes, `crc` is
 * 0. */
static __always_inline __u32 crc32(__u32 crc, const void *data, __u32 count)
{
    const __u8 *bytes = data;

    crc = ~crc;
    for (__u32 i = 0; i < count; i++) {
        crc ^= bytes[i];
        crc = crc >> 4 ^ crc_table[crc & 15];
        crc = crc >> 4 ^ crc_table[crc & 15];
    }
    return ~crc;
}

#endif
