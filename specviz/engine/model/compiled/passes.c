/* Rows through decoder layers of the Llama kind.
 *
 * A row's numbers depend on its own path alone: every sum over numbers of a row, and every sum over the keys that it
 * sees, is taken in one order, whatever other rows are in the pass and in whatever slots the keys lie. Weights are read
 * once for all rows, and outputs are shared between threads, so their number changes nothing either. Numbers are rounded
 * to their type where the library rounds them.
 */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif
#include "team.h"

typedef float v4 __attribute__((vector_size(16)));
typedef float v8 __attribute__((vector_size(32)));
typedef float v16 __attribute__((vector_size(64)));
typedef int i4 __attribute__((vector_size(16)));
typedef int i16 __attribute__((vector_size(64)));
typedef unsigned u16 __attribute__((vector_size(64)));
typedef unsigned short h16 __attribute__((vector_size(32)));
typedef signed char b16 __attribute__((vector_size(16)));
typedef unsigned short h4 __attribute__((vector_size(8)));
typedef unsigned short bf16;

#define INLINE static inline __attribute__((always_inline))
#define UNROLLED _Pragma("GCC unroll 32")
#define ROWS 6    /* rows and outputs of a product whose sums are held in registers */
#define OUTPUTS 4
#define LINE 10   /* rows for which weights are read in one line */
#define TILE 96   /* rows that stay in the cache while the weights go by, */
#define LAID (256 << 10) /* and the bytes that they may take */
#define AHEAD 8192 /* bytes that are asked for before they are needed */
#define SOON 32   /* slots that keys and values are asked for ahead */
#define SIDE 32   /* rows of a pass whose scores are held at once */
#define SLICE 256 /* slots whose values stay in the cache while rows go by */
#define WIDEST 256 /* numbers of a head, at most */

#define FEW 2     /* sixteens of outputs that are worth a thread's while */
#define STEPS 10  /* of a layer: copies, join, queries .., places, reads, out; join, gate and up, active, down */
#define GROUP 32  /* weights of a grid that share a step, along a row */
#define FOUR_BLOCK 320
#define SHARP 64  /* tokens that a head on a grid scores again, at least */
#define SPEECH 512 /* logits that are rounded and widened at once; whole sixteens */
#define FINEST 32639.0f /* 127 * 256 + 127: the largest number of a row in sixteen bits, */
#define COARSEST 127.0f /* and in eight */

typedef struct {
    long width, reads, inner, heads, shared, dim; /* `reads`: numbers of a row that attention reads, `shared`: heads of
                                                     keys and values */
    long bits;                             /* 4 where the weights of products are on a grid; 0: numbers as any other */
    long eighths;                          /* rows that meet a grid are taken in eight bits, not sixteen */
    float eps, scale;
} shape;

typedef struct { /* biases, and norms of queries and keys: 0 where there are none */
    const void *before, *qkv, *qkv_bias, *of_query, *of_key, *out, *out_bias;
    const void *behind, *gate_up, *gate_up_bias, *down, *down_bias;
} layer;

typedef struct { /* `packed`: the same weights on a grid, or 0 */
    const void *norm, *w;
    const char *packed;
    long in, vocab;
    float eps;
} head;

typedef struct { /* row r sees the slots 0 .. lines[r], then tails[r * most] .. of which it has counts[r] */
    const int *lines, *counts, *tails;
    long n, most, start; /* keys and values of row r go to slot start + r */
    long stride, apart;  /* numbers between the heads of a layer's keys, and between layers */
} paths;

typedef struct { long width, each, fixed; } table; /* of `each` rows for every one that an occasion counts, and `fixed` */

enum { PRODUCT, NORM, COPY, ADD, SILU, WIDEN, LAYER };      /* what is done: to table y, by table x */
enum { SAME, SPREAD, CYCLE, BEFORE, LAST };                 /* which row of x is copied to a row of y */

typedef struct {
    long kind, x, y, column; /* `column`: of y, from which on it is written to */
    long map, group;         /* SPREAD: each row is copied to `group`; BEFORE: the row before, of each `group` */
    long place, last;        /* a layer's number in the cache, and a table with as many rows as go on behind it */
    const void *w;
    const layer *l;
    const shape *s;
    long bits, eighths;      /* as of a shape */
    float eps;
} deed;

#define TABLES 32

typedef struct {
    const table *tables;
    const deed *deeds;
    long n_tables, n_deeds, dim; /* `dim`: numbers of an angle */
} program;

typedef struct { /* `given`: where tables lie that are not the program's own, else 0; `p`: 0 where no layer is */
    long count;
    void *const *given, *const *keys, *const *values;
    const void *cos, *sin;
    const long *positions;
    const paths *p;
} occasion;

INLINE v16 spread(float x) { return (v16){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }
INLINE v16 pick(i16 mask, v16 a, v16 b) { return (v16)(((i16)a & mask) | ((i16)b & ~mask)); }
INLINE v16 load(const float *p) { v16 v; memcpy(&v, p, sizeof v); return v; }
INLINE void store(float *p, v16 v) { memcpy(p, &v, sizeof v); }

INLINE v4 halved(v16 a) {
    v8 b[2];
    v4 c[2];
    memcpy(b, &a, sizeof b);
    b[0] += b[1];
    memcpy(c, b, sizeof c);
    return c[0] + c[1];
}

INLINE float total(v16 a) {
    v4 c = halved(a);
    return (c[0] + c[2]) + (c[1] + c[3]);
}

#ifdef __clang__
#define PICK(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#define MIXED(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PICK(a, b, i, j, k, l) __builtin_shuffle(a, b, (i4){i, j, k, l})
#define MIXED(a, b, ...) __builtin_shuffle(a, b, (i16){__VA_ARGS__})
#endif

INLINE v4 totals(const v16 *a) { /* of four, each added up as `total` does */
    v4 c[4];
    for (int k = 0; k < 4; k++) c[k] = halved(a[k]);
    v4 p = PICK(c[0], c[1], 0, 4, 1, 5), q = PICK(c[0], c[1], 2, 6, 3, 7);
    v4 r = PICK(c[2], c[3], 0, 4, 1, 5), s = PICK(c[2], c[3], 2, 6, 3, 7);
    v4 x = p + q, y = r + s; /* lanes 0 and 2, of both, then 1 and 3 */
    return PICK(x, y, 0, 1, 4, 5) + PICK(x, y, 2, 3, 6, 7);
}

INLINE void turned_over(v16 *a) { /* sixteen rows of sixteen to columns: blocks off the diagonal change places */
#define CHANGE(step, low, high) \
    for (int i = 0; i < 16; i++) \
        if (!(i & step)) { \
            v16 x = a[i], y = a[i + step]; \
            a[i] = MIXED(x, y, low), a[i + step] = MIXED(x, y, high); \
        }
#define LOW1 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#define HIGH1 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31
#define LOW2 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define HIGH2 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define LOW4 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27
#define HIGH4 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31
#define LOW8 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define HIGH8 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31
    CHANGE(1, LOW1, HIGH1)
    CHANGE(2, LOW2, HIGH2)
    CHANGE(4, LOW4, HIGH4)
    CHANGE(8, LOW8, HIGH8)
#undef CHANGE
}

INLINE v16 exponential(v16 x) { /* as Cephes' expf, within two units of the last place */
    const v16 magic = spread(12582912.0f);
    x = pick(x < spread(-87.3f), spread(-87.3f), x);
    x = pick(x > spread(88.3f), spread(88.3f), x);
    v16 t = x * spread(1.44269504088896341f) + magic;
    i16 n = (i16)t - (i16)magic;
    t -= magic;
    v16 r = x - t * spread(0.693359375f) - t * spread(-2.12194440e-4f);
    v16 p = spread(1.9875691500e-4f);
    p = p * r + spread(1.3981999507e-3f);
    p = p * r + spread(8.3334519073e-3f);
    p = p * r + spread(4.1665795894e-2f);
    p = p * r + spread(1.6666665459e-1f);
    p = p * r + spread(5.0000001201e-1f);
    p = p * (r * r) + r + spread(1.0f);
    return p * (v16)((n + 127) << 23);
}

/* Scores [0 .. len) to weights, zeros up to the next whole vector; their sum. */
static float weigh(float *s, long len, float scale) {
    long whole = (len + 15) / 16 * 16;
    for (long j = len; j < whole; j++) s[j] = s[0];
    v16 most = load(s), sum = spread(0);
    for (long j = 16; j < whole; j += 16) most = pick(load(s + j) > most, load(s + j), most);
    float top = most[0];
    for (int k = 1; k < 16; k++) top = most[k] > top ? most[k] : top;
    for (long j = 0; j < whole; j += 16) store(s + j, exponential((load(s + j) - spread(top)) * spread(scale)));
    for (long j = len; j < whole; j++) s[j] = 0;
    for (long j = 0; j < whole; j += 16) sum += load(s + j);
    return total(sum);
}

static long longest(const paths *p, long from, long to) { /* a path of these rows, in whole vectors */
    long most = 0;
    for (long r = from; r < to; r++)
        if (p->lines[r] + p->counts[r] > most) most = p->lines[r] + p->counts[r];
    return (most + 15) / 16 * 16;
}

static long larger(long a, long b) { return a > b ? a : b; }

static void *aligned(char *space) { return space + (64 - (size_t)space % 64) % 64; }

static size_t lines_of(size_t n) { return (n + 63) / 64 * 64; }

/* Rows of numbers of `item` bytes that are laid at once, in panels of as many as are taken at once: all of them where
 * they are few. They lie in memory that the caller has, as do all large things: a thread's stack may be half a megabyte. */
static long tile_rows(long n, long in, long item) {
    long most = LAID / (in * item);
    most = most < ROWS ? 1 : most < TILE ? most / ROWS * ROWS : TILE;
    return n < most ? n : most;
}

static size_t tile_bytes(long n, long in, long item) { return lines_of(tile_rows(n, in, item) * in * item); }

INLINE float largest(v16 a) {
#ifdef __AVX512F__
    return _mm512_reduce_max_ps((__m512)a);
#else
    float top = a[0];
    for (int k = 1; k < 16; k++) top = a[k] > top ? a[k] : top;
    return top;
#endif
}

typedef struct { /* rows in sixteen bits: 256 high + low, and of every group the step and the sum of its numbers */
    signed char *high, *low;
    float *step, *sum;
} fine;

size_t fine_bytes(long n, long in) { return 2 * lines_of(n * in) + 2 * lines_of(n * in / GROUP * sizeof(float)); }

static fine fine_at(char *space, long n, long in) {
    signed char *high = (signed char *)space, *low = high + lines_of(n * in);
    float *step = (float *)(low + lines_of(n * in));
    return (fine){high, low, step, (float *)((char *)step + lines_of(n * in / GROUP * sizeof(float)))};
}

INLINE i16 dot_four(i16 sum, i16 levels, const signed char *x) { /* in every lane, four levels by four numbers */
#ifdef __AVX512VNNI__
    int four;
    memcpy(&four, x, sizeof four);
    return (i16)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)levels, _mm512_set1_epi32(four));
#else
    for (int b = 0; b < 4; b++) sum += ((levels >> 8 * b) & 0xff) * x[b];
    return sum;
#endif
}

typedef struct { /* bytes of the pieces of memory that a pass works in, one behind another; the last five of a thread */
    size_t rows, wide, added, query, scores, sums, totals, fine;
} room;

static room room_of(const shape *s, const paths *p, long item) {
    long mixed = s->heads * s->dim, all = mixed + 2 * s->shared * s->dim;
    long side = (p->n < SIDE ? p->n : SIDE) * (s->heads / s->shared);
    return (room){
        lines_of(p->n * larger(s->width, mixed) * item),
        lines_of(p->n * larger(all, 3 * s->inner) * item),
        lines_of(p->n * s->width * item),
        lines_of(side * s->dim * item),
        lines_of(side * longest(p, 0, p->n) * sizeof(float)),
        lines_of(side * s->dim * sizeof(float)),
        lines_of(side * sizeof(float)),
        s->bits ? fine_bytes(p->n, larger(larger(s->inner, s->reads), larger(s->width, mixed)))
                : (size_t)larger(larger(tile_bytes(p->n, s->inner, item), tile_bytes(p->n, s->reads, item)),
                                 larger(tile_bytes(p->n, s->width, item), tile_bytes(p->n, mixed, item))),
    };
}

/* Bytes that a thread of a head works in, for n rows of numbers of `item` bytes; and a head with all of them. */
static size_t speech_bytes(const head *d, long n, long item) {
    return lines_of(n * SPEECH * item) + (d->packed ? fine_bytes(n, d->in) : tile_bytes(n, d->in, item));
}

size_t speaking(const head *d, long n, long item, long threads) {
    return lines_of(n * d->in * item) + threads * speech_bytes(d, n, item) + 64;
}

static size_t of_thread(room r) { return r.query + r.scores + r.sums + r.totals + r.fine; }

/* Bytes that a pass works in, for numbers of `item` bytes. */
size_t working(const shape *s, const paths *p, long n_layers, long item, long threads) {
    room r = room_of(s, p, item);
    size_t steps = lines_of((STEPS * n_layers + 1) * sizeof(step));
    return r.rows + r.wide + r.added + threads * of_thread(r) + steps + 64;
}

#define T float
#define OF(name) name##_float
#define LANES 16
#define PAIR 1 /* numbers of a key that lie in one lane */
typedef v16 OF(lanes);
INLINE v16 OF(lanes_at)(const float *p) { return load(p); }
INLINE v16 OF(key_at)(const float *p) { return load(p); }
INLINE v16 OF(onto_keys)(v16 sum, const float *x, v16 keys) { return sum + spread(*x) * keys; }
INLINE v16 OF(onto)(v16 sum, v16 x, v16 w) { return sum + x * w; }
INLINE v16 OF(wide)(const float *p) { return load(p); }
INLINE v16 OF(near)(v16 v) { return v; }
INLINE void OF(put)(float *p, v16 v) { store(p, v); }
INLINE float OF(alone)(float v) { return v; }
INLINE void OF(put_four)(float *p, v4 v) { memcpy(p, &v, sizeof v); }
INLINE void OF(put_one)(float *p, float v) { *p = v; }
#include "passes_of_type.h"
#undef T
#undef OF
#undef LANES
#undef PAIR

#define T bf16
#define OF(name) name##_bf16
INLINE v16 OF(wide)(const bf16 *p) {
    h16 h;
    memcpy(&h, p, sizeof h);
    return (v16)(__builtin_convertvector(h, u16) << 16);
}
INLINE float OF(alone)(bf16 v) {
    unsigned bits = (unsigned)v << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
INLINE v16 OF(near)(v16 v) { /* to the nearest, ties to even; what is no number stays none */
    u16 bits = (u16)v, up = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000u;
    return pick(v == v, (v16)up, (v16)((u16)v | 0x7fc00000u));
}
INLINE void OF(put)(bf16 *p, v16 v) {
    h16 h = __builtin_convertvector((u16)OF(near)(v) >> 16, h16);
    memcpy(p, &h, sizeof h);
}
INLINE void OF(put_one)(bf16 *p, float v) {
    unsigned bits;
    memcpy(&bits, &v, sizeof bits);
    *p = v != v ? 0x7fc0 : (bf16)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
INLINE void OF(put_four)(bf16 *p, v4 v) {
    i4 bits = (i4)v, up = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16, none = v != v;
    h4 h = __builtin_convertvector((up & ~none) | (0x7fc0 & none), h4);
    memcpy(p, &h, sizeof h);
}
#ifdef __AVX512BF16__
#define LANES 32
#define PAIR 2
typedef __m512bh OF(lanes);
INLINE v16 OF(key_at)(const bf16 *p) { v16 v; memcpy(&v, p, sizeof v); return v; }
INLINE v16 OF(onto_keys)(v16 sum, const bf16 *x, v16 keys) {
    int both;
    memcpy(&both, x, sizeof both);
    return (v16)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32(both), (__m512bh)keys);
}
INLINE __m512bh OF(lanes_at)(const bf16 *p) { return (__m512bh)_mm512_loadu_si512(p); }
INLINE v16 OF(onto)(v16 sum, __m512bh x, __m512bh w) { return (v16)_mm512_dpbf16_ps((__m512)sum, x, w); }
#else
#define LANES 16
#define PAIR 1
typedef v16 OF(lanes);
INLINE v16 OF(key_at)(const bf16 *p) { return OF(wide)(p); }
INLINE v16 OF(onto_keys)(v16 sum, const bf16 *x, v16 keys) {
    return sum + spread(OF(alone)(*x)) * keys;
}
INLINE v16 OF(lanes_at)(const bf16 *p) { return OF(wide)(p); }
INLINE v16 OF(onto)(v16 sum, v16 x, v16 w) { return sum + x * w; }
#endif
#include "passes_of_type.h"
