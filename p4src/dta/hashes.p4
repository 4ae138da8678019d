/* Hashes of keys. They give the slots of the copies, and the checksum by which readers identify the
 * key.
 *
 * The function is MurmurHash3_x86_32, with another seed for each use. CRCs are unsuitable: two CRCs
 * of one key with different initial values differ by a constant. So two keys that have the same
 * slot for one copy have the same slot for every copy. */
#ifndef TELEMARK_DTA_HASHES_P4
#define TELEMARK_DTA_HASHES_P4

// it is multiplied by the number of the copy; copies are numbered from 1
const bit<32> COPY_SEED = 0x9E3779B1;
const bit<32> CHECKSUM_SEED = 0x7FEB352D;
const bit<32> SESSION_SEED = 0x165667B1;

const bit<32> ROW_SEED = 0xD3A2646C;
const bit<32> HOP_SEED = 0x2C1B3C6D;  // the number of the hop is added to this seed
const bit<32> VALUE_SEED = 0x846CA68B;
const bit<32> BLANK = 0x5BD1E995;  // code of a hop without a value

bit<32> murmur_block(in bit<32> state, in bit<32> word) {
    bit<32> mixed = word * 0xCC9E2D51;
    mixed = (mixed[16:0] ++ mixed[31:17]) * 0x1B873593;
    mixed = mixed ^ state;
    return (mixed[18:0] ++ mixed[31:19]) * 5 + 0xE6546B64;
}

/* Hash of the four words of a key. Each word is a block; the most significant word is first. */
bit<32> murmur(in bit<128> key, in bit<32> seed) {
    bit<32> state = murmur_block(seed, key[127:96]);
    state = murmur_block(state, key[95:64]);
    state = murmur_block(state, key[63:32]);
    state = murmur_block(state, key[31:0]) ^ 16;  // bytes
    state = (state ^ (state >> 16)) * 0x85EBCA6B;
    state = (state ^ (state >> 13)) * 0xC2B2AE35;
    return state ^ (state >> 16);
}

/* Hash that selects the slot of a copy. The caller applies the mask of the store. Copies are
 * numbered from 0. */
bit<32> copy_hash(in bit<128> key, in bit<32> copy) {
    return murmur(key, COPY_SEED * (copy + 1));
}

/* Code of the value of a hop. Different values have different codes. */
bit<32> value_code(in bit<32> value) {
    return murmur((bit<128>)value, VALUE_SEED);
}

/* Index of the session of a key, from 0 to `count` - 1. */
bit<8> session_of(in bit<128> key, in bit<8> count) {
    bit<64> scaled = (bit<64>)murmur(key, SESSION_SEED) * (bit<64>)count;
    return scaled[39:32];
}

#endif
