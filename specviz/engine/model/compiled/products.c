/* Rows times weights, y[m][o] = sum over i of x[m][i] w[o][i]: every sum is taken in one order, whatever other rows and
 * outputs are in the call. The weights are read once for all rows. `in` is a multiple of LANES of its type.
 */
#include <string.h>
#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

typedef float v4 __attribute__((vector_size(16)));
typedef float v8 __attribute__((vector_size(32)));
typedef float v16 __attribute__((vector_size(64)));
typedef unsigned short bf16;

#define ROWS 6      /* rows and outputs whose sums are held in registers */
#define OUTPUTS 4
#define TILE 96     /* rows that stay in the cache while the weights go by */

static inline float total(v16 a) {
    v8 b[2]; v4 c[2];
    memcpy(b, &a, sizeof b);
    b[0] += b[1];
    memcpy(c, b, sizeof c);
    c[0] += c[1];
    return (c[0][0] + c[0][2]) + (c[0][1] + c[0][3]);
}

static inline void put_float(float *y, float sum) { *y = sum; }

static inline void put_bf16(bf16 *y, float sum) { /* to the nearest, ties to even; NaN stays one */
    unsigned bits;
    memcpy(&bits, &sum, 4);
    *y = sum != sum ? 0x7fc0 : (bf16)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static inline v16 load_float(const float *p) { v16 v; memcpy(&v, p, sizeof v); return v; }
static inline v16 add_float(v16 sum, v16 x, v16 w) { return sum + x * w; }

#ifdef __AVX512BF16__
typedef __m512bh wide_bf16;
#define LANES_BF16 32
static inline wide_bf16 load_bf16(const bf16 *p) { return (__m512bh)_mm512_loadu_si512(p); }
static inline v16 add_bf16(v16 sum, wide_bf16 x, wide_bf16 w) { return (v16)_mm512_dpbf16_ps((__m512)sum, x, w); }
#else
typedef v16 wide_bf16;
#define LANES_BF16 16
static inline wide_bf16 load_bf16(const bf16 *p) {
    unsigned wide[16];
    v16 v;
    for (int k = 0; k < 16; k++) wide[k] = (unsigned)p[k] << 16;
    memcpy(&v, wide, sizeof v);
    return v;
}
static inline v16 add_bf16(v16 sum, wide_bf16 x, wide_bf16 w) { return sum + x * w; }
#endif

#define BLOCK(T, WIDE, LANES, M, O)                                                                                  \
    static void block_##T##_##M##_##O(const T *x, const T *w, T *y, long in, long out) {                             \
        v16 sums[M][O];                                                                                              \
        memset(sums, 0, sizeof sums);                                                                                \
        for (long i = 0; i < in; i += LANES) {                                                                       \
            WIDE ws[O];                                                                                              \
            for (int o = 0; o < O; o++) {                                                                            \
                ws[o] = load_##T(w + o * in + i);                                                                    \
                __builtin_prefetch((const char *)(w + o * in + i) + 1024);                                           \
            }                                                                                                        \
            for (int m = 0; m < M; m++) {                                                                            \
                WIDE xs = load_##T(x + m * in + i);                                                                  \
                for (int o = 0; o < O; o++) sums[m][o] = add_##T(sums[m][o], xs, ws[o]);                             \
            }                                                                                                        \
        }                                                                                                            \
        for (int m = 0; m < M; m++)                                                                                  \
            for (int o = 0; o < O; o++) put_##T(y + m * out + o, total(sums[m][o]));                                 \
    }

#define ALL(T, WIDE, LANES)                                                                                          \
    BLOCK(T, WIDE, LANES, 1, 4) BLOCK(T, WIDE, LANES, 2, 4) BLOCK(T, WIDE, LANES, 3, 4)                              \
    BLOCK(T, WIDE, LANES, 4, 4) BLOCK(T, WIDE, LANES, 5, 4) BLOCK(T, WIDE, LANES, 6, 4) BLOCK(T, WIDE, LANES, 1, 1)  \
    static void some_##T(const T *x, const T *w, T *y, long n, long in, long out) {                                  \
        long m = 0;                                                                                                  \
        for (; m + ROWS <= n; m += ROWS) block_##T##_6_4(x + m * in, w, y + m * out, in, out);                       \
        x += m * in;                                                                                                 \
        y += m * out;                                                                                                \
        switch (n - m) {                                                                                             \
        case 1: block_##T##_1_4(x, w, y, in, out); break;                                                            \
        case 2: block_##T##_2_4(x, w, y, in, out); break;                                                            \
        case 3: block_##T##_3_4(x, w, y, in, out); break;                                                            \
        case 4: block_##T##_4_4(x, w, y, in, out); break;                                                            \
        case 5: block_##T##_5_4(x, w, y, in, out); break;                                                            \
        }                                                                                                            \
    }                                                                                                                \
    void product_##T(const T *x, const T *w, T *y, long n, long in, long out) {                                      \
        for (long at = 0; at < n; at += TILE) {                                                                      \
            long rows = n - at < TILE ? n - at : TILE, o = 0;                                                        \
            for (; o + OUTPUTS <= out; o += OUTPUTS) some_##T(x + at * in, w + o * in, y + at * out + o, rows, in, out); \
            for (; o < out; o++)                                                                                     \
                for (long m = at; m < at + rows; m++) block_##T##_1_1(x + m * in, w + o * in, y + m * out + o, in, out); \
        }                                                                                                            \
    }

ALL(float, v16, 16)
ALL(bf16, wide_bf16, LANES_BF16)
