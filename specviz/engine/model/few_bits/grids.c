/* Groups of thirty-two weights, looked at for a grid that they are on, and put on one: what grids.py says, number by
 * number. Nothing here may be contracted or reordered: its results have to be those of torch, to the last bit. Sums
 * that depend on their order are left to torch; the two taken here are of numbers that add up without rounding.
 */
#include "../compiled/vec.h"

#define GROUP 32
#define TOP 15
#define MIDDLE 8

/* The smallest and the largest of a group: halves are compared until one number is left. */
static inline void ends(const float *w, float *low, float *high) {
    float a[GROUP], b[GROUP];
    memcpy(a, w, sizeof a), memcpy(b, w, sizeof b);
    for (int half = GROUP / 2; half; half /= 2)
        for (int k = 0; k < half; k++) {
            a[k] = a[k + half] < a[k] ? a[k + half] : a[k];
            b[k] = b[k + half] > b[k] ? b[k + half] : b[k];
        }
    *low = a[0], *high = b[0];
}

/* Whether a group lies on so many steps between its ends; `place`: the step nearest to each weight. */
static inline int is_on(const float *w, float low, float high, int n, float rounding, float flat, float *place) {
    float step = (high - low) / (float)n, by = step > 0 ? step : 1, far = fmaxf(fabsf(low), fabsf(high));
    int off = 0;
    for (int k = 0; k < GROUP; k++) {
        place[k] = rintf((w[k] - low) / by);
        float apart = fabsf(w[k] - (low + place[k] * step));
        off |= !(apart <= (fabsf(w[k]) + far) * rounding);
    }
    return !off && (flat * far < step || step == 0);
}

/* Group g, w [GROUP]: ends; the steps they are on (0: no grid), then what the line through their weights is made of. */
static inline void fit_group(const float *w, long g, long most, float rounding, float flat, float *pulls, float *low,
                             float *high, int *steps, float *centre, float *spread) {
    float place[GROUP], sum = 0, squares = 0;
    int n = (int)most;
    ends(w, low + g, high + g);
    while (n && !is_on(w, low[g], high[g], n, rounding, flat, place)) n--;
    steps[g] = n;
    if (n) for (int k = 0; k < GROUP; k++) sum += place[k];
    centre[g] = sum / GROUP;
    for (int k = 0; k < GROUP; k++) {
        float from = n ? place[k] - centre[g] : 0;
        pulls[g * GROUP + k] = from * w[k];
        squares += from * from;
    }
    spread[g] = squares;
}

/* weights, numbers, pulls, levels [n][GROUP]; all others [n]. */
#define OF_TYPE(T, NAME)                                                                                               \
    void fit_##NAME(const T *weights, long n, long most, float rounding, float flat, float *numbers, float *pulls,     \
                    float *low, float *high, int *steps, float *centre, float *spread) {                               \
        for (long g = 0; g < n; g++) {                                                                                 \
            float *w = numbers + g * GROUP;                                                                            \
            for (int k = 0; k < GROUP; k++) w[k] = to_float_##NAME(weights[g * GROUP + k]);                            \
            fit_group(w, g, most, rounding, flat, pulls, low, high, steps, centre, spread);                            \
        }                                                                                                              \
    }                                                                                                                  \
    void put_##NAME(const T *weights, long n, const float *step, const float *middle, unsigned char *levels) {         \
        for (long g = 0; g < n; g++) {                                                                                 \
            float by = step[g] > 0 ? step[g] : 1, at = middle[g];                                                      \
            for (int k = 0; k < GROUP; k++) {                                                                          \
                float x = rintf((to_float_##NAME(weights[g * GROUP + k]) - at) / by) + MIDDLE;                         \
                x = x < 0 ? 0 : x > TOP ? TOP : x;                                                                     \
                levels[g * GROUP + k] = (unsigned char)(int)x;                                                         \
            }                                                                                                          \
        }                                                                                                              \
    }

OF_TYPE(float, float)
OF_TYPE(bf16, bf16)
