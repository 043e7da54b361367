/* compress_body.h: how what a mask picks is gone through by lines of 64 places, for a file that
 * says what its processor has (WIDE), and how it moves a part of a line: line_of, move_line,
 * pick_longs (eight of them), pick_ints (sixteen). */

/* Each of eight bits twice. */
static inline unsigned doubled(unsigned bits)
{
    bits = (bits | bits << 4) & 0x0f0f;
    bits = (bits | bits << 2) & 0x3333;
    bits = (bits | bits << 1) & 0x5555;
    return bits | bits << 1;
}

static inline void move_one(char *to, const char *from, int64_t size)
{
    switch (size) { /* each with a length that is known */
    case 4: memcpy(to, from, 4); break;
    case 8: memcpy(to, from, 8); break;
    default: memcpy(to, from, 16); break;
    }
}

/* MOVE_LONGS and MOVE_INTS go through a line of the mask; `at` is where its first element lies,
 * `packed` where what is in lies one behind the other. */
#define LINE_OF_MASK(size, MOVE_LONGS, MOVE_INTS)                              \
    if ((size) == 4) {                                                         \
        for (int k = 0; k < LINE; k += 16) {                                   \
            packed += MOVE_INTS(k * 4, (unsigned)(bits >> k));                 \
        }                                                                      \
    } else if ((size) == 8) {                                                  \
        for (int k = 0; k < LINE; k += 8) {                                    \
            packed += MOVE_LONGS(k * 8, (unsigned)(bits >> k));                \
        }                                                                      \
    } else {                                                                   \
        for (int k = 0; k < LINE; k += 8) {                                    \
            unsigned pairs = doubled((unsigned)(bits >> k) & 0xff);            \
            packed += MOVE_LONGS(k * 16, pairs);                               \
            packed += MOVE_LONGS(k * 16 + VECTOR, pairs >> 8);                 \
        }                                                                      \
    }

#define PICK_LONGS(offset, in) pick_longs(packed, at + (offset), in)
#define PICK_INTS(offset, in) pick_ints(packed, at + (offset), in)

WIDE static int64_t pick(char **to, const char *end, const char *from, const char *mask, int64_t n,
                         int64_t size)
{
    enum { FEW = 6 };
    char *packed = *to, room[LINE * 16];
    int64_t i = 0;
    for (; i + LINE <= n && packed != end; i += LINE) {
        uint64_t bits = line_of(mask + i);
        const char *at = from + i * size;
        if (end - packed < LINE * size && __builtin_popcountll(bits) <= FEW) {
            for (; bits != 0 && packed != end; bits &= bits - 1, packed += size) {
                move_one(packed, at + __builtin_ctzll(bits) * size, size);
            }
        } else if (end - packed < LINE * size) { /* instructions write further than that */
            char *there = packed;
            packed = room;
            LINE_OF_MASK(size, PICK_LONGS, PICK_INTS)
            int64_t bytes = packed - room < end - there ? packed - room : end - there;
            memcpy(there, room, (size_t)bytes);
            packed = there + bytes;
        } else if (bits == ~(uint64_t)0) {
            move_line(packed, at, size);
            packed += LINE * size;
        } else if (bits != 0) {
            LINE_OF_MASK(size, PICK_LONGS, PICK_INTS)
        }
    }
    *to = packed;
    return i;
}
