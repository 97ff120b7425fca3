/* By how much a row is above another: (a p - b q)+ and its mass, in one pass. Nothing here may be contracted: entries
 * are those of numpy, to the last bit. Their sum is taken in double.
 */
#include "vec.h"

#define N_SUMS 4 /* of eights, side by side */

/* Of p [n] and q [n] the mass of (a p - b q)+, and of (b q - a p)+ where `q_over_p` is not 0; entries of the first go
 * to `out` [n] unless it is 0. Without `scaled` b is 1. */
INLINE double surplus(const float *p, const float *q, long n, float a, float b, int scaled, float *out,
                      double *q_over_p) {
    f64x8 sums[N_SUMS] = {{0}}, others[N_SUMS] = {{0}};
    double rest = 0, other_rest = 0;
    long i = 0;
    for (; i + 8 * N_SUMS <= n; i += 8 * N_SUMS)
        for (int k = 0; k < N_SUMS; k++) {
            f32x8 y = load8_float(q + i + 8 * k), x = load8_float(p + i + 8 * k) * a - (scaled ? y * b : y);
            f32x8 more = (f32x8)((i32x8)x & (x > 0));
            if (out) memcpy(out + i + 8 * k, &more, sizeof more);
            sums[k] += __builtin_convertvector(more, f64x8);
            if (q_over_p) others[k] += __builtin_convertvector(more - x, f64x8);
        }
    for (; i < n; i++) {
        float y = scaled ? q[i] * b : q[i], x = p[i] * a - y, more = x > 0 ? x : 0;
        if (out) out[i] = more;
        rest += more;
        other_rest += more - x;
    }
    if (q_over_p) *q_over_p = hsum_f64((others[0] + others[1]) + (others[2] + others[3])) + other_rest;
    return hsum_f64((sums[0] + sums[1]) + (sums[2] + sums[3])) + rest;
}

/* Both masses of rows p and q [n][size] that begin `p_step` and `q_step` entries apart; a, b [n]; b: 0 for ones. */
void masses(const float *p, const float *q, long n, long size, long p_step, long q_step, const double *a,
            const double *b, double *p_over_q, double *q_over_p) {
    for (long r = 0; r < n; r++, p += p_step, q += q_step)
        p_over_q[r] = surplus(p, q, size, (float)a[r], b ? (float)b[r] : 1, 1, 0, q_over_p + r);
}

/* The first mass of one row; its entries go to `out` unless it is 0. */
double left(const float *p, const float *q, long size, float a, float *out) {
    return out ? surplus(p, q, size, a, 1, 0, out, 0) : surplus(p, q, size, a, 1, 0, 0, 0);
}
