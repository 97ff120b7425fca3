/* Vectors of numbers for all kernels: f32x16 is sixteen floats, f64x8 eight doubles.
 *
 * The vector types of gcc and clang become what the processor has: AVX-512, two of AVX2, four of NEON or SSE, or plain
 * numbers, with the same bits. Where AVX-512 has an instruction that they do not reach it stands beside its plain form.
 * Of these AVX512_BF16 alone gives other bits: it adds up products of bfloat16 in an order and a rounding of its own.
 */
#include <math.h>
#include <string.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

typedef float f32x4 __attribute__((vector_size(16)));
typedef float f32x8 __attribute__((vector_size(32)));
typedef float f32x16 __attribute__((vector_size(64)));
typedef double f64x8 __attribute__((vector_size(64)));
typedef int i32x4 __attribute__((vector_size(16)));
typedef int i32x8 __attribute__((vector_size(32)));
typedef int i32x16 __attribute__((vector_size(64)));
typedef long long i64x8 __attribute__((vector_size(64)));
typedef unsigned u32x4 __attribute__((vector_size(16)));
typedef unsigned u32x8 __attribute__((vector_size(32)));
typedef unsigned u32x16 __attribute__((vector_size(64)));
typedef unsigned short u16x4 __attribute__((vector_size(8)));
typedef unsigned short u16x8 __attribute__((vector_size(16)));
typedef unsigned short u16x16 __attribute__((vector_size(32)));
typedef signed char i8x16 __attribute__((vector_size(16)));
typedef unsigned short bf16;

#define INLINE static inline __attribute__((always_inline))
#define UNROLLED _Pragma("GCC unroll 32")

INLINE f32x16 splat(float x) { return (f32x16){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }
INLINE f64x8 splat_f64(double x) { return (f64x8){x, x, x, x, x, x, x, x}; }
INLINE f32x16 blend(i32x16 mask, f32x16 a, f32x16 b) { return (f32x16)(((i32x16)a & mask) | ((i32x16)b & ~mask)); }
INLINE f64x8 blend_f64(i64x8 mask, f64x8 a, f64x8 b) { return (f64x8)(((i64x8)a & mask) | ((i64x8)b & ~mask)); }
INLINE f64x8 to_f64(f32x8 x) { return __builtin_convertvector(x, f64x8); }

/* Numbers in memory by their type: load_bf16, store_float, .. all work on sixteen unless they say otherwise. */
INLINE f32x16 load_float(const float *p) { f32x16 v; memcpy(&v, p, sizeof v); return v; }
INLINE f32x16 round_float(f32x16 v) { return v; }
INLINE void store_float(float *p, f32x16 v) { memcpy(p, &v, sizeof v); }
INLINE void store4_float(float *p, f32x4 v) { memcpy(p, &v, sizeof v); }
INLINE void store1_float(float *p, float v) { *p = v; }
INLINE float to_float_float(float v) { return v; }
INLINE f32x8 load8_float(const float *p) { f32x8 v; memcpy(&v, p, sizeof v); return v; }

INLINE f32x16 load_bf16(const bf16 *p) {
    u16x16 h;
    memcpy(&h, p, sizeof h);
    return (f32x16)(__builtin_convertvector(h, u32x16) << 16);
}
INLINE f32x16 round_bf16(f32x16 v) { /* to the nearest, ties to even; NaN stays NaN */
    u32x16 bits = (u32x16)v, up = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000u;
    return blend(v == v, (f32x16)up, (f32x16)((u32x16)v | 0x7fc00000u));
}
INLINE void store_bf16(bf16 *p, f32x16 v) {
    u16x16 h = __builtin_convertvector((u32x16)round_bf16(v) >> 16, u16x16);
    memcpy(p, &h, sizeof h);
}
INLINE void store4_bf16(bf16 *p, f32x4 v) {
    i32x4 bits = (i32x4)v, up = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16, is_nan = v != v;
    u16x4 h = __builtin_convertvector((up & ~is_nan) | (0x7fc0 & is_nan), u16x4);
    memcpy(p, &h, sizeof h);
}
INLINE void store1_bf16(bf16 *p, float v) {
    unsigned bits;
    memcpy(&bits, &v, sizeof bits);
    *p = v != v ? 0x7fc0 : (bf16)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
INLINE float to_float_bf16(bf16 v) {
    unsigned bits = (unsigned)v << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Sixteen sums as PARTS vectors that a register holds: compilers keep what is wider than one in memory. */
#if defined __AVX512F__
#define PARTS 1
typedef f32x16 f32_part;
typedef u32x16 u32_part;
typedef u16x16 u16_part;
#elif defined __AVX__
#define PARTS 2
typedef f32x8 f32_part;
typedef u32x8 u32_part;
typedef u16x8 u16_part;
#else
#define PARTS 4
typedef f32x4 f32_part;
typedef u32x4 u32_part;
typedef u16x4 u16_part;
#endif

/* Sums of products by type: `lanes_T` holds LANES_T / PARTS numbers of a row or a weight, madd_T adds their products to
 * sums; madd_keys_T does it for the next PAIR_T numbers of one query and of sixteen keys, one key to a lane. In a panel a
 * row's numbers are `packed_T`: what is multiplied, so that a row is made wide once and not for every output. */
#define LANES_float 16
#define PAIR_float 1
typedef f32_part lanes_float;
typedef float packed_float;
INLINE f32_part load_lanes_float(const float *p) { f32_part v; memcpy(&v, p, sizeof v); return v; }
#define load_packed_float load_lanes_float
#define pack_float(to, from) memcpy(to, from, 16 * sizeof(float))
INLINE f32_part madd_float(f32_part sum, f32_part x, f32_part w) { return sum + x * w; }
INLINE f32x16 load_keys_float(const float *p) { return load_float(p); }
INLINE f32x16 madd_keys_float(f32x16 sum, const float *x, f32x16 keys) { return sum + splat(*x) * keys; }
#ifdef __AVX512BF16__
#define LANES_bf16 32
#define PAIR_bf16 2
typedef __m512bh lanes_bf16;
typedef bf16 packed_bf16;
#define PACKED_BYTES(item) (item)
INLINE __m512bh load_lanes_bf16(const bf16 *p) { return (__m512bh)_mm512_loadu_si512(p); }
#define load_packed_bf16 load_lanes_bf16
#define pack_bf16(to, from) memcpy(to, from, 32 * sizeof(bf16))
INLINE f32x16 madd_bf16(f32x16 sum, __m512bh x, __m512bh w) { return (f32x16)_mm512_dpbf16_ps((__m512)sum, x, w); }
INLINE f32x16 load_keys_bf16(const bf16 *p) { f32x16 v; memcpy(&v, p, sizeof v); return v; }
INLINE f32x16 madd_keys_bf16(f32x16 sum, const bf16 *x, f32x16 keys) {
    int pair;
    memcpy(&pair, x, sizeof pair);
    return (f32x16)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32(pair), (__m512bh)keys);
}
#else
#define LANES_bf16 16
#define PAIR_bf16 1
typedef f32_part lanes_bf16;
typedef float packed_bf16;
#define PACKED_BYTES(item) ((long)sizeof(float))
INLINE f32_part load_lanes_bf16(const bf16 *p) {
    u16_part h;
    memcpy(&h, p, sizeof h);
    return (f32_part)(__builtin_convertvector(h, u32_part) << 16);
}
#define load_packed_bf16 load_lanes_float
#define pack_bf16(to, from) store_float(to, load_bf16(from))
#define madd_bf16 madd_float
INLINE f32x16 load_keys_bf16(const bf16 *p) { return load_bf16(p); }
INLINE f32x16 madd_keys_bf16(f32x16 sum, const bf16 *x, f32x16 keys) { return sum + splat(to_float_bf16(*x)) * keys; }
#endif

/* In every lane, four bytes by the same four of x. */
INLINE i32x16 dot4(i32x16 sum, i32x16 levels, const signed char *x) {
#ifdef __AVX512VNNI__
    int four;
    memcpy(&four, x, sizeof four);
    return (i32x16)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)levels, _mm512_set1_epi32(four));
#else
    for (int b = 0; b < 4; b++) sum += ((levels >> 8 * b) & 0xff) * x[b];
    return sum;
#endif
}

/* Over the lanes of a vector, in one order whatever the processor. */
INLINE float hmax(f32x16 a) {
#ifdef __AVX512F__
    return _mm512_reduce_max_ps((__m512)a);
#else
    float top = a[0];
    for (int k = 1; k < 16; k++) top = a[k] > top ? a[k] : top;
    return top;
#endif
}

INLINE double hsum_f64(f64x8 x) { return ((x[0] + x[4]) + (x[1] + x[5])) + ((x[2] + x[6]) + (x[3] + x[7])); }

INLINE f32x4 fold4(f32x16 a) { /* sixteen sums to four */
    f32x8 b[2];
    f32x4 c[2];
    memcpy(b, &a, sizeof b);
    b[0] += b[1];
    memcpy(c, b, sizeof c);
    return c[0] + c[1];
}

INLINE float hsum(f32x16 a) {
    f32x4 c = fold4(a);
    return (c[0] + c[2]) + (c[1] + c[3]);
}

#ifdef __clang__
#define SHUFFLE4(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#define SHUFFLE16(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE4(a, b, i, j, k, l) __builtin_shuffle(a, b, (i32x4){i, j, k, l})
#define SHUFFLE16(a, b, ...) __builtin_shuffle(a, b, (i32x16){__VA_ARGS__})
#endif

INLINE f32x4 hsum4(const f32x16 *a) { /* of four vectors, each as `hsum` */
    f32x4 c[4];
    for (int k = 0; k < 4; k++) c[k] = fold4(a[k]);
    f32x4 p = SHUFFLE4(c[0], c[1], 0, 4, 1, 5), q = SHUFFLE4(c[0], c[1], 2, 6, 3, 7);
    f32x4 r = SHUFFLE4(c[2], c[3], 0, 4, 1, 5), s = SHUFFLE4(c[2], c[3], 2, 6, 3, 7);
    f32x4 x = p + q, y = r + s; /* lanes 0 and 2 of both, then 1 and 3 */
    return SHUFFLE4(x, y, 0, 1, 4, 5) + SHUFFLE4(x, y, 2, 3, 6, 7);
}

INLINE void transpose16(f32x16 *a) { /* [16][16] in place: blocks off the diagonal change places */
#define SWAP(width, low, high) \
    for (int i = 0; i < 16; i++) \
        if (!(i & width)) { \
            f32x16 x = a[i], y = a[i + width]; \
            a[i] = SHUFFLE16(x, y, low), a[i + width] = SHUFFLE16(x, y, high); \
        }
#define LOW1 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#define HIGH1 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31
#define LOW2 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define HIGH2 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define LOW4 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27
#define HIGH4 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31
#define LOW8 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define HIGH8 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31
    SWAP(1, LOW1, HIGH1)
    SWAP(2, LOW2, HIGH2)
    SWAP(4, LOW4, HIGH4)
    SWAP(8, LOW8, HIGH8)
#undef SWAP
}

/* e^x, within two units of the last place (Cephes' expf). */
INLINE f32x16 exp_f32(f32x16 x) {
    const f32x16 magic = splat(12582912.0f); /* 1.5 * 2^23: what is added to it is rounded to an integer */
    x = blend(x < splat(-87.3f), splat(-87.3f), x);
    x = blend(x > splat(88.3f), splat(88.3f), x);
    f32x16 t = x * splat(1.44269504088896341f) + magic;
    i32x16 n = (i32x16)t - (i32x16)magic;
    t -= magic;
    f32x16 r = x - t * splat(0.693359375f) - t * splat(-2.12194440e-4f);
    f32x16 p = splat(1.9875691500e-4f);
    p = p * r + splat(1.3981999507e-3f);
    p = p * r + splat(8.3334519073e-3f);
    p = p * r + splat(4.1665795894e-2f);
    p = p * r + splat(1.6666665459e-1f);
    p = p * r + splat(5.0000001201e-1f);
    p = p * (r * r) + r + splat(1.0f);
    return p * (f32x16)((n + 127) << 23);
}

/* e^x of -87 <= x <= 0, to 2e-7 of it, in half the time. */
INLINE f32x16 exp_fast_f32(f32x16 x) {
    const float magic = 12582912.0f;
    f32x16 shifted = x * 1.44269504f + magic, steps = shifted - magic, r = x - steps * 0.693147182f;
    f32x16 p = r * 0.00829765294f + 0.0419153832f;
    p = p * r + 0.166675746f;
    p = p * r + 0.499988943f;
    p = p * r + 0.999999702f;
    p = p * r + 1.00000012f;
    return (f32x16)((i32x16)p + ((i32x16)shifted << 23));
}

/* e^x of -700 <= x <= 700, to 1e-12 of it; e^0 is 1. */
INLINE f64x8 exp_f64(f64x8 x) {
    const double magic = 6755399441055744.0; /* 1.5 * 2^52 */
    f64x8 shifted = x * 1.4426950408889634 + magic, steps = shifted - magic, r = x - steps * 0.6931471805599453;
    f64x8 p = splat_f64(2.4732997438893076e-05);
    p = p * r + 0.0001991466636898359;
    p = p * r + 0.0013889154924149531;
    p = p * r + 0.00833326877995679;
    p = p * r + 0.04166666453751622;
    p = p * r + 0.16666666873214617;
    p = p * r + 0.500000000045801;
    p = p * r + 0.9999999999830725;
    p = p * r + 1.0;
    return (f64x8)((i64x8)p + ((i64x8)shifted << 52));
}

/* log x of x > 0 that are no subnormal numbers, to 1e-12 and 1e-7 of it: x = 2^k m, 1/sqrt(2) <= m < sqrt(2). */
INLINE f64x8 log_f64(f64x8 x) {
    i64x8 k = ((i64x8)x - 0x3fe6a09e667f3bcdLL) >> 52;
    f64x8 f = (f64x8)((i64x8)x - (k << 52)) - 1.0, s = f / (f + 2.0), z = s * s;
    f64x8 p = splat_f64(1.0 / 15);
    p = p * z + 1.0 / 13;
    p = p * z + 1.0 / 11;
    p = p * z + 1.0 / 9;
    p = p * z + 1.0 / 7;
    p = p * z + 1.0 / 5;
    p = p * z + 1.0 / 3;
    return __builtin_convertvector(k, f64x8) * 0.6931471805599453 + 2.0 * (p * z * s + s);
}

INLINE f32x16 log_f32(f32x16 x) {
    i32x16 k = ((i32x16)x - 0x3f3504f3) >> 23;
    f32x16 f = (f32x16)((i32x16)x - (k << 23)) - 1.0f, s = f / (f + 2.0f), z = s * s;
    f32x16 p = z * 0.111111111f + 0.142857143f;
    p = p * z + 0.2f;
    p = p * z + 0.333333333f;
    return __builtin_convertvector(k, f32x16) * 0.693147181f + 2.0f * (p * z * s + s);
}
