/* A simple fuzzer for machines without libFuzzer. It mutates inputs at random, without feedback.
 *
 * Usage: mutate SECONDS SEED CORPUS... CORPUS are files with inputs to mutate. While the fuzzer
 * runs, the file ./last-input has the latest mutated input. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>

enum { MAX_INPUT = 4096, MAX_SEEDS = 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static struct seed {
    uint8_t *bytes;
    size_t size;
} seeds[MAX_SEEDS];
static size_t seed_count;
static uint64_t rng;

/* xorshift64* (Vigna, 2016). */
static uint32_t below(uint32_t limit)
{
    rng ^= rng >> 12;
    rng ^= rng << 25;
    rng ^= rng >> 27;
    return (uint32_t)(((rng * UINT64_C(0x2545f4914f6cdd1d)) >> 32) * limit >> 32);
}

static void read_seed(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = malloc(MAX_INPUT);
    if (!file || !bytes) {
        perror(path);
        exit(2);
    }
    seeds[seed_count++] = (struct seed){bytes, fread(bytes, 1, MAX_INPUT, file)};
    fclose(file);
}

static void change_byte(uint8_t *byte)
{
    static const uint8_t edges[] = {0, 1, 0x7f, 0x80, 0xff};
    switch (below(3)) {
    case 0:
        *byte ^= (uint8_t)(1 << below(8));
        break;
    case 1:
        *byte = (uint8_t)below(256);
        break;
    default:
        *byte = edges[below(sizeof edges)];
    }
}

/* Concatenate up to four inputs of the corpus, change some bytes, and sometimes cut off the end. */
static size_t make_input(uint8_t *input)
{
    size_t size = 0;
    for (uint32_t parts = 1 + below(4); parts; parts--) {
        const struct seed *seed = &seeds[below((uint32_t)seed_count)];
        size_t part = seed->size < MAX_INPUT - size ? seed->size : MAX_INPUT - size;
        memcpy(input + size, seed->bytes, part);
        size += part;
    }
    for (uint32_t changes = size ? below(12) : 0; changes; changes--)
        change_byte(&input[below((uint32_t)size)]);
    return below(4) || !size ? size : below((uint32_t)size);
}

int main(int argc, char **argv)
{
    if (argc < 4 || argc - 3 > MAX_SEEDS)
        return 2;
    time_t end = time(NULL) + atoi(argv[1]);
    rng = strtoull(argv[2], NULL, 0) * 2 + 1;
    for (int i = 3; i < argc; i++)
        read_seed(argv[i]);
    int fd = open("last-input", O_RDWR | O_CREAT | O_TRUNC, 0644);
    uint8_t *last = fd < 0 || ftruncate(fd, MAX_INPUT)
                        ? MAP_FAILED
                        : mmap(NULL, MAX_INPUT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (last == MAP_FAILED) {
        perror("last-input");
        return 2;
    }
    uint64_t runs = 0;
    for (; time(NULL) < end; runs++) {
        size_t size = make_input(last);
        uint8_t *exact = malloc(size); /* a read beyond the end of this memory is detected */
        if (size && !exact)
            return 2;
        if (size)
            memcpy(exact, last, size);
        LLVMFuzzerTestOneInput(exact, size);
        free(exact);
    }
    printf("%llu inputs\n", (unsigned long long)runs);
    return 0;
}
