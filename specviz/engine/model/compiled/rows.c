/* Statistics of rows over a vocabulary, each in one or two passes over it: rows.py says which.
 *
 * Sums of many numbers are taken in double, so that they do not depend on the order to any digit that is shown. Of
 * equal entries the lowest places are among the highest, and come first.
 */
#include <stdio.h>
#include <stdlib.h>
#include "vec.h"

#define CHUNK 64         /* entries that are compared at once, and added up in float together, or in double */
#define FAR 10           /* e to minus that: what is so much less than the second highest is added up in float */
#define LONG_ROW 8192    /* entries of a row from which on that is worth it */
#define MIN_EXP -700.0   /* e to it is a number still, and nothing beside any other */
#define LOG_ZERO -1e9    /* the log of nothing, in a record */
#define MIN_LOG -103.97  /* log of the smallest probability that a float holds */
#define MAX_TOP 64       /* highest entries that are kept of a row, at most */

/* Eight numbers of a row from place i on, those behind its end as `none`. */
INLINE f32x8 load8_or(const float *row, long i, long n, float none) {
    if (i + 8 <= n) return load8_float(row + i);
    f32x8 out;
    for (int k = 0; k < 8; k++) out[k] = i + k < n ? row[i + k] : none;
    return out;
}

/* Sixteen numbers that were added up in float, as eight. */
INLINE f64x8 fold_to_f64(f32x16 x) {
    f32x8 halves[2];
    memcpy(halves, &x, sizeof x);
    return to_f64(halves[0]) + to_f64(halves[1]);
}

/* Whether any of CHUNK numbers is above another. */
INLINE int any_above(const float *row, float floor) {
    int any = 0;
    for (int l = 0; l < CHUNK; l++) any |= row[l] > floor;
    return any;
}

/* The highest k entries of a row, best first; of equal ones the lowest place first. */
typedef struct { float value; long place; } entry;

static __attribute__((noinline)) void top_k(const float *row, long n, long k, entry *top) {
    long kept = 0;
    for (long i = 0; i < n;) {
        long end = i + CHUNK < n ? i + CHUNK : n;
        if (kept == k && end == i + CHUNK) {
            if (!any_above(row + i, top[k - 1].value)) { i = end; continue; }
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
static double round_6_digits(double x) {
    static const double tens[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14};
    double size = fabs(x);
    if (!(size <= 1e300)) return LOG_ZERO;
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
 * float, CHUNK at a time. Meanwhile the next row is fetched. */
INLINE void sum_exp(const float *row, const float *next, long n, float at, float near, int both, double *sum_e,
                    double *sum_xe) {
    f64x8 exps = splat_f64(0), x_exps = splat_f64(0);
    for (long i = 0; i < n; i += CHUNK) {
        for (int h = 0; h < CHUNK; h += 16) __builtin_prefetch(next + i + h);
        if (i + CHUNK > n || any_above(row + i, near)) {
            for (int h = 0; h < CHUNK; h += 8) {
                f64x8 x = to_f64(load8_or(row, i + h, n, -INFINITY)) - (double)at;
                i64x8 counted = ~(x <= MIN_EXP);
                x = blend_f64(counted, x, splat_f64(MIN_EXP));
                f64x8 e = (f64x8)((i64x8)exp_f64(x) & counted);
                exps += e;
                if (both) x_exps += x * e;
            }
            continue;
        }
        f32x16 far_exp = {0}, far_x_exp = {0};
        for (int h = 0; h < CHUNK; h += 16) {
            f32x16 x = load_float(row + i + h) - at;
            i32x16 counted = ~(x <= -87.0f);
            x = (f32x16)((i32x16)x & counted);
            f32x16 e = (f32x16)((i32x16)exp_fast_f32(x) & counted);
            far_exp += e;
            if (both) far_x_exp += x * e;
        }
        exps += fold_to_f64(far_exp);
        if (both) x_exps += fold_to_f64(far_x_exp);
    }
    *sum_e = hsum_f64(exps);
    *sum_xe = hsum_f64(x_exps);
}

/* The sum of p log p, in the same manner. */
static double sum_p_log_p(const float *row, const float *next, long n, float near) {
    f64x8 out = splat_f64(0);
    for (long i = 0; i < n; i += CHUNK) {
        for (int h = 0; h < CHUNK; h += 16) __builtin_prefetch(next + i + h);
        if (i + CHUNK > n || any_above(row + i, near)) {
            for (int h = 0; h < CHUNK; h += 8) {
                f64x8 p = to_f64(load8_or(row, i + h, n, 0));
                out += (f64x8)((i64x8)(p * log_f64(p)) & (p > 0));
            }
            continue;
        }
        f32x16 far = {0};
        for (int h = 0; h < CHUNK; h += 16) {
            f32x16 p = load_float(row + i + h);
            far += (f32x16)((i32x16)(p * log_f32(p)) & (p >= 1.2e-38f));
        }
        out += fold_to_f64(far);
    }
    return hsum_f64(out);
}

static long count_above(const float *row, long n, float floor) {
    long count = 0, i = 0;
    for (; i + CHUNK <= n; i += CHUNK) {
        int here = 0;
        for (int l = 0; l < CHUNK; l++) here += row[i + l] > floor;
        count += here;
    }
    for (; i < n; i++) count += row[i] > floor;
    return count;
}

/* Rows [size] of scores, or of probabilities (`probs`). `addresses` [n + 2 m]: of rows, then the row of every token,
 * then tokens. `numbers` [n][2 + k], [m]: of every row its highest entry less the second, its entropy, the logs of its
 * k highest probabilities; then the log of every token's. `counts` [n][1 + k], [m]: of every row how many of the
 * highest there are, and their places; then every token's rank. Where k is 0 leads and the logs of tokens alone, where
 * it is below 0 leads alone. Returns 0, or 1 where a row has no probabilities. */
long facts(const long *addresses, double *numbers, long *counts, long n, long size, long k, long m, long probs) {
    const long *rows = addresses, *of = addresses + n, *tokens = of + m;
    long n_top = k > 0 ? k : 0, kept = k > 2 ? k : 2;
    entry top[MAX_TOP];
    double *logs = numbers + n * (2 + n_top);
    long *ranks = counts + n * (1 + n_top);
    for (long r = 0; r < n; r++, numbers += 2 + n_top, counts += 1 + n_top) {
        const float *row = (const float *)rows[r];
        const float *next = (const float *)rows[r + 1 < n ? r + 1 : r];
        double sum_e = 1, sum_xe = 0;
        top_k(row, size, kept, top);
        float at = top[0].value, second = top[1].value;
        numbers[0] = round_6_digits((double)(at - second));
        if (k < 0) continue;
        if (!isfinite(at)) return 1;
        float near = size < LONG_ROW ? -INFINITY : probs ? second * (float)exp(-FAR) : second - FAR;
        if (!probs && k) sum_exp(row, next, size, at, near, 1, &sum_e, &sum_xe);
        else if (!probs) sum_exp(row, next, size, at, near, 0, &sum_e, &sum_xe);
        else if (k) sum_xe = sum_p_log_p(row, next, size, near);
        if (!(sum_e >= 1) || isnan(sum_xe)) return 1;
        double log_mass = log(sum_e), entropy = log_mass - sum_xe / sum_e;
        numbers[1] = round_6_digits(entropy > 0 ? entropy : 0);
        for (counts[0] = 0; counts[0] < k; counts[0]++) {
            entry best = top[counts[0]];
            double log_p = probs ? log(best.value) : (double)best.value - at - log_mass;
            if (!(log_p > MIN_LOG)) break;
            counts[1 + counts[0]] = best.place;
            numbers[2 + counts[0]] = round_6_digits(log_p);
        }
        for (long t = 0; t < m; t++) {
            if (of[t] != r) continue;
            float mine = row[tokens[t]];
            logs[t] = round_6_digits(probs ? log(mine) : (double)mine - at - log_mass);
            if (!k) continue;
            ranks[t] = 1;
            if (mine >= top[kept - 1].value) while (top[ranks[t] - 1].value > mine) ranks[t]++;
            else ranks[t] += count_above(row, size, mine);
        }
    }
    return 0;
}

/* Of rows of scores whose k highest are in `counts` (`facts`), by these alone, out [n][15]: ten log probabilities, the
 * best score less the second, third and fifth, the best probability, the entropy. Returns 1 for fewer than k. */
long summaries(const long *addresses, const long *counts, float *out, long n, long k) {
    for (long r = 0; r < n; r++, counts += 1 + k, out += 15) {
        const float *row = (const float *)addresses[r];
        double x[MAX_TOP], sum_e = 0, entropy = 0;
        if (counts[0] < k || k < 10) return 1;
        for (long i = 0; i < k; i++) sum_e += exp(x[i] = (double)row[counts[1 + i]] - row[counts[1]]);
        for (long i = 0; i < k; i++) x[i] -= log(sum_e), entropy -= exp(x[i]) * x[i];
        for (long i = 0; i < 10; i++) out[i] = (float)x[i];
        out[10] = (float)(x[0] - x[1]), out[11] = (float)(x[0] - x[2]), out[12] = (float)(x[0] - x[4]);
        out[13] = (float)exp(x[0]), out[14] = (float)entropy;
    }
    return 0;
}

/* The k highest entries of a row [size], their places [k], and the sum of all. */
double largest(const float *row, long size, long k, long *places, double *values) {
    entry top[MAX_TOP];
    f64x8 total = splat_f64(0);
    top_k(row, size, k, top);
    for (long i = 0; i < k; i++) places[i] = top[i].place, values[i] = top[i].value;
    for (long i = 0; i < size; i += 8) total += to_f64(load8_or(row, i, size, 0));
    return hsum_f64(total);
}
