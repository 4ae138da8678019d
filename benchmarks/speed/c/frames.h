/* IPv4/UDP frames to random addresses in 10.0.0.0/12. */
#ifndef FRAMES_H
#define FRAMES_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { KINDS = 4096, HEADERS = 14 + 20 + 8, MAX_FRAME = 1514 };

static uint8_t frames[KINDS][MAX_FRAME];

/* Returns the RFC 1071 checksum of an even number of bytes. */
static inline uint16_t checksum(const uint8_t *bytes, int size, uint32_t sum)
{
    for (int i = 0; i < size; i += 2)
        sum += (uint32_t)(bytes[i] << 8 | bytes[i + 1]);
    sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t) ~((sum & 0xffff) + (sum >> 16));
}

/* Returns the checksum of the pseudo-header only. */
static inline uint16_t udp_checksum(const uint8_t *ip, unsigned size)
{
    return checksum(ip + 12, 8, 17 + size);
}

static inline void put16(uint8_t *to, unsigned value)
{
    to[0] = (uint8_t)(value >> 8);
    to[1] = (uint8_t)value;
}

static inline void make_frame(uint8_t *frame, unsigned length)
{
    static const uint8_t start[] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45};
    uint32_t address = 0x0a000000 | ((uint32_t)random() & 0xfffff);
    memcpy(frame, start, sizeof start);
    uint8_t *ip = frame + 14, *udp = ip + 20;
    put16(ip + 2, length - 14);
    ip[8] = 64;
    ip[9] = 17;
    put16(ip + 12, 0xc0a8);
    put16(ip + 14, 0x0101);
    put16(ip + 16, address >> 16);
    put16(ip + 18, address & 0xffff);
    put16(ip + 10, checksum(ip, 20, 0));
    put16(udp, 1000);
    put16(udp + 2, 2000);
    put16(udp + 4, length - 34);
}

static inline void make_frames(unsigned length)
{
    if (length < HEADERS + sizeof(uint64_t) || length > MAX_FRAME)
        exit(2);
    for (int i = 0; i < KINDS; i++)
        make_frame(frames[i], length);
}

#endif
