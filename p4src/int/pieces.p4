/* A waiting report, in pieces of 2^n words. The report has one piece for each bit that is set in
 * its length. */
#ifndef TELEMARK_INT_PIECES_P4
#define TELEMARK_INT_PIECES_P4

header int_32_words_t {
    bit<1024> words;
}

header int_16_words_t {
    bit<512> words;
}

header int_8_words_t {
    bit<256> words;
}

header int_4_words_t {
    bit<128> words;
}

header int_2_words_t {
    bit<64> words;
}

header int_1_word_t {
    bit<32> words;
}

struct int_pieces_t {
    int_32_words_t of_32;
    int_16_words_t of_16;
    int_8_words_t of_8;
    int_4_words_t of_4;
    int_2_words_t of_2;
    int_1_word_t of_1;
}

#endif
