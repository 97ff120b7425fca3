/* By how much a row is above another: (a p - b q)+ and its mass, in one pass. Nothing here may be contracted: entries are
 * those of numpy, to the last bit. Their sum is taken in double.
 */
#include <string.h>

typedef float f8 __attribute__((vector_size(32)));
typedef int i8 __attribute__((vector_size(32)));
typedef double d8 __attribute__((vector_size(64)));

#define INLINE static inline __attribute__((always_inline))
#define AT_ONCE 4 /* eights, with a sum each */

INLINE f8 load(const float *p) { f8 v; memcpy(&v, p, sizeof v); return v; }

INLINE double sum(d8 x) { return ((x[0] + x[4]) + (x[1] + x[5])) + ((x[2] + x[6]) + (x[3] + x[7])); }

/* The mass of (a p - b q)+, and of (b q - a p)+ where `over` is not 0; entries of the first go to `out` unless it is 0. */
INLINE double one(const float *p, const float *q, long n, float a, float b, int scaled, float *out, double *over) {
    d8 sums[AT_ONCE] = {{0}}, others[AT_ONCE] = {{0}};
    double rest = 0, other_rest = 0;
    long i = 0;
    for (; i + 8 * AT_ONCE <= n; i += 8 * AT_ONCE)
        for (int k = 0; k < AT_ONCE; k++) {
            f8 law = load(q + i + 8 * k), x = load(p + i + 8 * k) * a - (scaled ? law * b : law);
            f8 more = (f8)((i8)x & (x > 0));
            if (out) memcpy(out + i + 8 * k, &more, sizeof more);
            sums[k] += __builtin_convertvector(more, d8);
            if (over) others[k] += __builtin_convertvector(more - x, d8);
        }
    for (; i < n; i++) {
        float law = scaled ? q[i] * b : q[i], x = p[i] * a - law, more = x > 0 ? x : 0;
        if (out) out[i] = more;
        rest += more;
        other_rest += more - x;
    }
    if (over) *over = sum((others[0] + others[1]) + (others[2] + others[3])) + other_rest;
    return sum((sums[0] + sums[1]) + (sums[2] + sums[3])) + rest;
}

/* Of rows and laws that are `step` and `law_step` entries apart; `b`: 0 for ones. */
void masses(const float *rows, const float *laws, long n, long size, long step, long law_step, const double *a, const double *b,
            double *lack, double *over) {
    for (long r = 0; r < n; r++) {
        const float *row = rows + r * step, *law = laws + r * law_step;
        lack[r] = one(row, law, size, (float)a[r], b ? (float)b[r] : 1, 1, 0, over + r);
    }
}

/* Of one row, written to `out` unless that is 0. */
double left(const float *row, const float *law, long size, float weight, float *out) {
    return out ? one(row, law, size, weight, 1, 0, out, 0) : one(row, law, size, weight, 1, 0, 0, 0);
}
