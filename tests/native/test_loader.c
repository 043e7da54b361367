/* test_loader.c: objects run from executable memory, strange ones are refused, none reads outside
 * its bytes, and memory is given back. The first argument is the folder of the object files. */
#include "check.h"

#include "../../npaccel/native/system/linux/linux.h"

#include <elf.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *folder;

typedef struct { char *bytes; size_t size; } image;

/* Exactly its size on the heap, so that the address sanitizer sees a read beyond it. */
static image
read_image(const char *name)
{
    char path[4096];
    struct stat about;
    snprintf(path, sizeof path, "%s/%s.o", folder, name);
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL && fstat(fileno(file), &about) == 0);
    image made = {malloc((size_t)about.st_size), (size_t)about.st_size};
    CHECK(fread(made.bytes, 1, made.size, file) == made.size);
    fclose(file);
    return made;
}

static const char *const names[] = {"weighted", "rest", "spread"};
enum { NAMES = sizeof names / sizeof *names };

static const char *
load(image from, uint64_t *addresses, npa_code *code)
{
    return npa_code_load(from.bytes, from.size, names, NAMES, addresses, code);
}

static void
check_runs(const uint64_t *addresses)
{
    double (*weighted)(const double *, int) = (void *)(uintptr_t)addresses[0];
    double (*rest)(double, double) = (void *)(uintptr_t)addresses[1];
    void (*spread)(char *, const char *, unsigned long) = (void *)(uintptr_t)addresses[2];
    double x[5] = {1, 2, 3, 4, 5};
    char to[7] = "......";
    CHECK(weighted(x, 5) == 0.5 + 3 + 7.5 + 14 + 2.5);
    CHECK(rest(7.5, 2) == 1.75);
    spread(to, "abc", 3);
    CHECK(memcmp(to, "abc\1\1\1", 6) == 0);
}

static void
test_code_runs_and_can_t_be_written(image good)
{
    uint64_t addresses[NAMES];
    npa_code code;
    CHECK(load(good, addresses, &code) == NULL);
    CHECK(npa_code_bytes() == code.size);
    check_runs(addresses);
    int ends[2];
    CHECK(pipe(ends) == 0 && write(ends[1], "x", 1) == 1);
    CHECK(read(ends[0], code.base, 1) == -1); /* the system can't write there either */
    close(ends[0]), close(ends[1]);
    npa_code_free(&code);
    npa_code_free(&code);
    CHECK(npa_code_bytes() == 0);
}

static int
executable_mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096];
    int n = 0;
    CHECK(maps != NULL);
    while (fgets(line, sizeof line, maps) != NULL) {
        n += strstr(line, " r-xp ") != NULL && strchr(line, '/') == NULL;
    }
    fclose(maps);
    return n;
}

static void
test_many_share_few_mappings_and_all_is_given_back(image good)
{
    enum { MANY = 2000 };
    static npa_code codes[MANY];
    uint64_t addresses[NAMES], state = 7;
    int before = executable_mappings();
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < MANY; i++) {
            if (codes[i].base == NULL) {
                CHECK(load(good, addresses, &codes[i]) == NULL);
                check_runs(addresses);
            }
        }
        CHECK(npa_code_bytes() == MANY * codes[0].size);
        CHECK(executable_mappings() - before <= 3 * (MANY / 256 + 1));
        for (int i = 0; i < MANY; i++) {
            if (round == 3 || next_random(&state) % 3 == 0) {
                npa_code_free(&codes[i]);
            }
        }
    }
    CHECK(npa_code_bytes() == 0);
    CHECK(executable_mappings() == before);
}

static void
test_strange_objects_are_refused(void)
{
    static const char *const count[] = {"count"}, *const speak[] = {"speak"};
    uint64_t address;
    npa_code code;
    image made = read_image("variables");
    CHECK(npa_code_load(made.bytes, made.size, count, 1, &address, &code) != NULL);
    free(made.bytes);
    made = read_image("unknown");
    CHECK(npa_code_load(made.bytes, made.size, speak, 1, &address, &code) != NULL);
    free(made.bytes);
    made = read_image("loaded");
    CHECK(npa_code_load(made.bytes, made.size, count, 1, &address, &code) != NULL);
    made.bytes[EI_DATA] = ELFDATA2MSB;
    CHECK(load(made, &address, &code) != NULL);
    free(made.bytes);
    CHECK(npa_code_bytes() == 0);
}

/* Whatever the bytes say, nothing outside them is read and nothing outside its pages written. */
static void
test_damaged_objects(image good)
{
    uint64_t addresses[NAMES], state = 11;
    npa_code code;
    for (size_t size = 0; size < good.size; size += size < 64 ? 1 : 37) {
        image cut = {malloc(size + 1), size};
        memcpy(cut.bytes, good.bytes, size);
        if (load(cut, addresses, &code) == NULL) {
            npa_code_free(&code);
        }
        free(cut.bytes);
    }
    for (int i = 0; i < 20000; i++) {
        image changed = {malloc(good.size), good.size};
        memcpy(changed.bytes, good.bytes, good.size);
        for (int k = 0; k < 1 + i % 3; k++) {
            changed.bytes[next_random(&state) % good.size] ^= (char)(1 << next_random(&state) % 8);
        }
        if (load(changed, addresses, &code) == NULL) {
            npa_code_free(&code); /* never run */
        }
        free(changed.bytes);
    }
    CHECK(npa_code_bytes() == 0);
}

static uint32_t
instruction(uint32_t word, uint32_t type, uint64_t place, uint64_t target, bool good)
{
    char at[8] = {0};
    memcpy(at, &word, 4);
    CHECK(npa_relocate(EM_AARCH64, at, type, place, target) == good);
    memcpy(&word, at, 4);
    return word;
}

/* The encodings of the other processor, against what its assembler makes. */
static void
test_arm_instructions(void)
{
    CHECK(instruction(0x94000000, R_AARCH64_CALL26, 0x1000, 0x1040, true) == 0x94000010);
    CHECK(instruction(0x94000000, R_AARCH64_CALL26, 0x1000, 0xfc0, true) == 0x97fffff0);
    CHECK(instruction(0x14000000, R_AARCH64_JUMP26, 0x1000, 0x1004, true) == 0x14000001);
    instruction(0x94000000, R_AARCH64_CALL26, 0, (uint64_t)1 << 28, false);
    CHECK(instruction(0x90000000, R_AARCH64_ADR_PREL_PG_HI21, 0x1ffc, 0x3010, true) == 0xd0000000);
    CHECK(instruction(0x90000001, R_AARCH64_ADR_PREL_PG_HI21, 0x5000, 0x4fff, true) == 0xf0ffffe1);
    CHECK(instruction(0x91000000, R_AARCH64_ADD_ABS_LO12_NC, 0, 0x3010, true) == 0x91004000);
    CHECK(instruction(0xfd400000, R_AARCH64_LDST64_ABS_LO12_NC, 0, 0x3010, true) == 0xfd400800);
    CHECK(instruction(0x3dc00000, R_AARCH64_LDST128_ABS_LO12_NC, 0, 0x3010, true) == 0x3dc00400);
    CHECK(instruction(0x10000000, R_AARCH64_ADR_PREL_LO21, 0x1000, 0x1005, true) == 0x30000020);
    instruction(0xfd400000, R_AARCH64_LDST64_ABS_LO12_NC, 0, 0x3014, false);
    instruction(0, 9999, 0, 0, false);
}

static void
test_x86_fields(void)
{
    char at[8] = {0};
    int32_t near;
    CHECK(npa_relocate(EM_X86_64, at, R_X86_64_PC32, 0x1000, 0x0ffc));
    memcpy(&near, at, 4);
    CHECK(near == -4);
    CHECK(!npa_relocate(EM_X86_64, at, R_X86_64_PC32, 0, (uint64_t)1 << 31));
    CHECK(!npa_relocate(EM_X86_64, at, R_X86_64_32S, 0, 0));
    CHECK(npa_relocate(EM_X86_64, at, R_X86_64_64, 0, 0x0123456789abcdef));
    uint64_t far;
    memcpy(&far, at, 8);
    CHECK(far == 0x0123456789abcdef);
}

static void
test_processor(void)
{
    char first[512], second[512], little[8];
    npa_cpu_identity(first, sizeof first);
    npa_cpu_identity(second, sizeof second);
    npa_cpu_identity(little, sizeof little);
    CHECK(strlen(first) > 8 && strcmp(first, second) == 0 && memchr(little, 0, sizeof little));
    int bytes = npa_cpu_vector_bytes();
    CHECK(bytes == 16 || bytes == 32 || bytes == 64);
}

int
main(int argc, char **argv)
{
    folder = argc > 1 ? argv[1] : "build";
    image good = read_image("loaded");
    test_code_runs_and_can_t_be_written(good);
    test_many_share_few_mappings_and_all_is_given_back(good);
    test_strange_objects_are_refused();
    test_damaged_objects(good);
    test_arm_instructions();
    test_x86_fields();
    test_processor();
    free(good.bytes);
    return 0;
}
