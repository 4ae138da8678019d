/* Handwritten C version of p4/ipv4_lpm.p4 for one port, with the same output. The generated
 * pipeline is compared with it. Prefixes are in a list, the longest first. */
#include <arpa/inet.h>
#include <stdint.h>
#include <string.h>

enum { ETHERNET = 14, IPV4 = 20, ETHER_TYPE = 12, TTL = 8, CHECKSUM = 10, DESTINATION = 16 };

struct prefix {
    uint32_t value, mask;
};

/* Returns the ones' complement sum of an IPv4 header (RFC 1071). */
static uint16_t checksum(const uint8_t *header)
{
    uint32_t sum = 0;
    for (int i = 0; i < IPV4; i += 2) {
        uint16_t word;
        memcpy(&word, header + i, sizeof word);
        sum += word;
    }
    sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~((sum & 0xffff) + (sum >> 16));
}

/* Writes the forwarded frame; returns 0 if the frame is dropped. */
__attribute__((noinline)) uint32_t by_hand(const struct prefix *prefixes, uint32_t count,
                                           const uint8_t *frame, uint32_t length, uint8_t *out)
{
    static const uint8_t mac[6] = {0, 0, 0, 0, 0, 2};
    memcpy(out, frame, length);
    uint8_t *ipv4 = out + ETHERNET;
    if (length < ETHERNET + IPV4 || out[ETHER_TYPE] != 8 || out[ETHER_TYPE + 1] != 0)
        return 0;
    if (ipv4[TTL] <= 1 || checksum(ipv4) != 0)
        return 0;
    uint32_t address;
    memcpy(&address, ipv4 + DESTINATION, sizeof address);
    address = ntohl(address);
    for (uint32_t i = 0; i < count; i++)
        if ((address & prefixes[i].mask) == prefixes[i].value) {
            memcpy(out + 6, out, 6);
            memcpy(out, mac, 6);
            ipv4[TTL]--;
            memset(ipv4 + CHECKSUM, 0, 2);
            uint16_t sum = checksum(ipv4);
            memcpy(ipv4 + CHECKSUM, &sum, sizeof sum);
            return 1;
        }
    return 0;
}

/* Processes all frames `rounds` times; returns the number of forwarded frames. */
uint32_t by_hand_repeat(const struct prefix *prefixes, uint32_t count, const uint8_t *frames,
                        uint32_t length, uint32_t frame_count, uint32_t rounds)
{
    static uint8_t out[2048];
    uint32_t left = 0;
    for (uint32_t round = 0; round < rounds; round++)
        for (uint32_t i = 0; i < frame_count; i++)
            left += by_hand(prefixes, count, frames + (uint64_t)i * length, length, out);
    return left;
}
