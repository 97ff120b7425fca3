/* What is told of rows over a vocabulary, each in one or two passes over it: rows.py says what.
 *
 * Sums of many numbers are taken in double, so that they do not depend on the order to any digit that is shown. Of level
 * entries the lowest places are among the highest, and come first.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef float f8 __attribute__((vector_size(32)));
typedef float f16 __attribute__((vector_size(64)));
typedef int i16 __attribute__((vector_size(64)));
typedef double d8 __attribute__((vector_size(64)));
typedef long long l8 __attribute__((vector_size(64)));

#define INLINE static inline __attribute__((always_inline))
#define BLOCK 64         /* entries that are held against the lowest of the highest at once */
#define SOME 64          /* entries that are added up in float together, or in double */
#define FAR 10           /* e to minus that: what is so much less than the second highest is added up in float */
#define LONG 8192        /* entries of a row from which on that is worth it */
#define LEAST -700.0     /* e to it is a number still, and nothing beside any other */
#define ZERO -1e9        /* the log of nothing, in a record */
#define SMALLEST -103.97 /* log of the smallest probability that a float holds */
#define LISTED 64        /* highest entries that are kept of a row, at most */

INLINE d8 all(double x) { return (d8){x, x, x, x, x, x, x, x}; }
INLINE d8 pick(l8 mask, d8 a, d8 b) { return (d8)(((l8)a & mask) | ((l8)b & ~mask)); }
INLINE d8 wide(f8 x) { return __builtin_convertvector(x, d8); }
INLINE double sum(d8 x) { return ((x[0] + x[4]) + (x[1] + x[5])) + ((x[2] + x[6]) + (x[3] + x[7])); }

/* Eight numbers of a row from place i on, those behind its end as `none`. */
INLINE f8 eight(const float *row, long i, long n, float none) {
    f8 out;
    if (i + 8 <= n) memcpy(&out, row + i, sizeof out);
    else for (int k = 0; k < 8; k++) out[k] = i + k < n ? row[i + k] : none;
    return out;
}

/* e^x of LEAST <= x <= 700, to 1e-12 of it; e^0 is 1. */
INLINE d8 exp8(d8 x) {
    const double magic = 6755399441055744.0; /* 1.5 * 2^52: what is added to it is rounded to an integer */
    d8 shifted = x * 1.4426950408889634 + magic, steps = shifted - magic, r = x - steps * 0.6931471805599453;
    d8 p = all(2.4732997438893076e-05);
    p = p * r + 0.0001991466636898359;
    p = p * r + 0.0013889154924149531;
    p = p * r + 0.00833326877995679;
    p = p * r + 0.04166666453751622;
    p = p * r + 0.16666666873214617;
    p = p * r + 0.500000000045801;
    p = p * r + 0.9999999999830725;
    p = p * r + 1.0;
    return (d8)((l8)p + ((l8)shifted << 52));
}

/* e^x of -87 <= x <= 0, to 2e-7 of it. */
INLINE f16 exp16(f16 x) {
    const float magic = 12582912.0f; /* 1.5 * 2^23 */
    f16 shifted = x * 1.44269504f + magic, steps = shifted - magic, r = x - steps * 0.693147182f;
    f16 p = r * 0.00829765294f + 0.0419153832f;
    p = p * r + 0.166675746f;
    p = p * r + 0.499988943f;
    p = p * r + 0.999999702f;
    p = p * r + 1.00000012f;
    return (f16)((i16)p + ((i16)shifted << 23));
}

/* log x of x > 0 that are no subnormal numbers, to 1e-12 and 1e-7 of it: x = 2^k m, 1/sqrt(2) <= m < sqrt(2). */
INLINE d8 log8(d8 x) {
    l8 k = ((l8)x - 0x3fe6a09e667f3bcdLL) >> 52;
    d8 f = (d8)((l8)x - (k << 52)) - 1.0, s = f / (f + 2.0), z = s * s;
    d8 p = all(1.0 / 15);
    p = p * z + 1.0 / 13;
    p = p * z + 1.0 / 11;
    p = p * z + 1.0 / 9;
    p = p * z + 1.0 / 7;
    p = p * z + 1.0 / 5;
    p = p * z + 1.0 / 3;
    return __builtin_convertvector(k, d8) * 0.6931471805599453 + 2.0 * (p * z * s + s);
}

INLINE f16 log16(f16 x) {
    i16 k = ((i16)x - 0x3f3504f3) >> 23;
    f16 f = (f16)((i16)x - (k << 23)) - 1.0f, s = f / (f + 2.0f), z = s * s;
    f16 p = z * 0.111111111f + 0.142857143f;
    p = p * z + 0.2f;
    p = p * z + 0.333333333f;
    return __builtin_convertvector(k, f16) * 0.693147181f + 2.0f * (p * z * s + s);
}

/* Sixteen numbers that were added up in float, as eight. */
INLINE d8 folded(f16 x) {
    f8 halves[2];
    memcpy(halves, &x, sizeof x);
    return wide(halves[0]) + wide(halves[1]);
}

/* Whether any of SOME numbers is above another. */
INLINE int any_above(const float *row, float floor) {
    int any = 0;
    for (int l = 0; l < SOME; l++) any |= row[l] > floor;
    return any;
}

/* The highest k entries of a row, best first; of level ones the lowest place first. */
typedef struct { float value; long place; } entry;

static __attribute__((noinline)) void highest(const float *row, long n, long k, entry *top) {
    long kept = 0;
    for (long i = 0; i < n;) {
        long end = i + BLOCK < n ? i + BLOCK : n;
        if (kept == k && end == i + BLOCK) {
            int any = 0;
            float floor = top[k - 1].value;
            for (int l = 0; l < BLOCK; l++) any |= row[i + l] > floor;
            if (!any) { i = end; continue; }
        }
        for (; i < end; i++) {
            if (kept == k && !(row[i] > top[k - 1].value)) continue;
            long at = kept < k ? kept++ : k - 1;
            for (; at > 0 && top[at - 1].value < row[i]; at--) top[at] = top[at - 1];
            top[at] = (entry){row[i], i};
        }
    }
}

/* Rounded to six significant digits, as "%.6g" does it. */
static double six(double x) {
    static const double tens[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14};
    double size = fabs(x);
    if (!(size <= 1e300)) return ZERO;
    if (size == 0) return x;
    if (size >= 1e-9 && size < 1e6) { /* by a power of ten that is exact; what is all but half way goes the long way */
        double by = tens[5 - (long)floor(log10(size))], whole = x * by, near = rint(whole);
        if (fabs(fabs(whole - near) - 0.5) >= 1e-6) return near / by;
    }
    char digits[32];
    snprintf(digits, sizeof digits, "%.6g", x);
    return strtod(digits, NULL);
}

/* The sum of e^(x - at), and of (x - at) e^(x - at) where `both` are wanted. What is not above `near` is added up in
 * float, SOME at a time. Meanwhile the next row is fetched. */
INLINE void weighed(const float *row, const float *next, long n, float at, float near, int both, double *mass, double *pull) {
    d8 masses = all(0), pulls = all(0);
    for (long i = 0; i < n; i += SOME) {
        for (int h = 0; h < SOME; h += 16) __builtin_prefetch(next + i + h);
        if (i + SOME > n || any_above(row + i, near)) {
            for (int h = 0; h < SOME; h += 8) {
                d8 x = wide(eight(row, i + h, n, -INFINITY)) - (double)at;
                l8 some = ~(x <= LEAST);
                x = pick(some, x, all(LEAST));
                d8 e = (d8)((l8)exp8(x) & some);
                masses += e;
                if (both) pulls += x * e;
            }
            continue;
        }
        f16 far_mass = {0}, far_pull = {0};
        for (int h = 0; h < SOME; h += 16) {
            f16 x;
            memcpy(&x, row + i + h, sizeof x);
            x -= at;
            i16 some = ~(x <= -87.0f);
            x = (f16)((i16)x & some);
            f16 e = (f16)((i16)exp16(x) & some);
            far_mass += e;
            if (both) far_pull += x * e;
        }
        masses += folded(far_mass);
        if (both) pulls += folded(far_pull);
    }
    *mass = sum(masses);
    *pull = sum(pulls);
}

/* The sum of p log p, in the same manner. */
static double informed(const float *row, const float *next, long n, float near) {
    d8 out = all(0);
    for (long i = 0; i < n; i += SOME) {
        for (int h = 0; h < SOME; h += 16) __builtin_prefetch(next + i + h);
        if (i + SOME > n || any_above(row + i, near)) {
            for (int h = 0; h < SOME; h += 8) {
                d8 p = wide(eight(row, i + h, n, 0));
                out += (d8)((l8)(p * log8(p)) & (p > 0));
            }
            continue;
        }
        f16 far = {0};
        for (int h = 0; h < SOME; h += 16) {
            f16 p;
            memcpy(&p, row + i + h, sizeof p);
            far += (f16)((i16)(p * log16(p)) & (p >= 1.2e-38f));
        }
        out += folded(far);
    }
    return sum(out);
}

static long above(const float *row, long n, float floor) {
    long count = 0, i = 0;
    for (; i + BLOCK <= n; i += BLOCK) {
        int here = 0;
        for (int l = 0; l < BLOCK; l++) here += row[i + l] > floor;
        count += here;
    }
    for (; i < n; i++) count += row[i] > floor;
    return count;
}

/* Rows of scores, or of probabilities (`shares`). `given`: addresses of rows, then the row of every token, then tokens.
 * `numbers`: of every row its highest entry less the second, its entropy, the logs of its `k` highest probabilities; then
 * the log of every token's. `counts`: of every row how many of the highest are told, and which they are; then every
 * token's rank. Where k is 0 leads and the logs of tokens alone, where it is below 0 leads alone. Returns 0, or 1 where a
 * row has no probabilities. */
long facts(const long *given, double *numbers, long *counts, long n, long size, long k, long m, long shares) {
    const long *rows = given, *of = given + n, *tokens = of + m;
    long told = k > 0 ? k : 0, kept = k > 2 ? k : 2;
    entry top[LISTED];
    double *logs = numbers + n * (2 + told);
    long *ranks = counts + n * (1 + told);
    for (long r = 0; r < n; r++, numbers += 2 + told, counts += 1 + told) {
        const float *row = (const float *)rows[r];
        const float *next = (const float *)rows[r + 1 < n ? r + 1 : r];
        double mass = 1, pull = 0;
        highest(row, size, kept, top);
        float at = top[0].value, second = top[1].value;
        numbers[0] = six((double)(at - second));
        if (k < 0) continue;
        if (!isfinite(at)) return 1;
        float near = size < LONG ? -INFINITY : shares ? second * (float)exp(-FAR) : second - FAR;
        if (!shares && k) weighed(row, next, size, at, near, 1, &mass, &pull);
        else if (!shares) weighed(row, next, size, at, near, 0, &mass, &pull);
        else if (k) pull = informed(row, next, size, near);
        if (!(mass >= 1) || isnan(pull)) return 1;
        double log_mass = log(mass), entropy = log_mass - pull / mass;
        numbers[1] = six(entropy > 0 ? entropy : 0);
        for (counts[0] = 0; counts[0] < k; counts[0]++) {
            entry each = top[counts[0]];
            double share = shares ? log(each.value) : (double)each.value - at - log_mass;
            if (!(share > SMALLEST)) break;
            counts[1 + counts[0]] = each.place;
            numbers[2 + counts[0]] = six(share);
        }
        for (long t = 0; t < m; t++) {
            if (of[t] != r) continue;
            float mine = row[tokens[t]];
            logs[t] = six(shares ? log(mine) : (double)mine - at - log_mass);
            if (!k) continue;
            ranks[t] = 1;
            if (mine >= top[kept - 1].value) while (top[ranks[t] - 1].value > mine) ranks[t]++;
            else ranks[t] += above(row, size, mine);
        }
    }
    return 0;
}

/* Of rows of scores whose k highest were told (`facts`), out of these alone: ten log probabilities, the best score less the
 * second, the third and the fifth, the best probability, the entropy; [n][15]. Returns 1 where fewer were told. */
long summaries(const long *given, const long *counts, float *out, long n, long k) {
    for (long r = 0; r < n; r++, counts += 1 + k, out += 15) {
        const float *row = (const float *)given[r];
        double x[LISTED], mass = 0, entropy = 0;
        if (counts[0] < k || k < 10) return 1;
        for (long i = 0; i < k; i++) mass += exp(x[i] = (double)row[counts[1 + i]] - row[counts[1]]);
        for (long i = 0; i < k; i++) x[i] -= log(mass), entropy -= exp(x[i]) * x[i];
        for (long i = 0; i < 10; i++) out[i] = (float)x[i];
        out[10] = (float)(x[0] - x[1]), out[11] = (float)(x[0] - x[2]), out[12] = (float)(x[0] - x[4]);
        out[13] = (float)exp(x[0]), out[14] = (float)entropy;
    }
    return 0;
}

/* The k highest entries of a row, their places, and the sum of all. */
double largest(const float *row, long size, long k, long *places, double *values) {
    entry top[LISTED];
    d8 total = all(0);
    highest(row, size, k, top);
    for (long i = 0; i < k; i++) places[i] = top[i].place, values[i] = top[i].value;
    for (long i = 0; i < size; i += 8) total += wide(eight(row, i, size, 0));
    return sum(total);
}
