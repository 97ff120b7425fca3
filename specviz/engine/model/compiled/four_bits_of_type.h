/* Products with weights on a four-bit grid, of rows of one type of numbers (as passes_of_type.h).
 *
 * Weights lie in blocks of sixteen outputs by a group of thirty-two inputs, 320 bytes: for every output two bfloat16,
 * the step of its group and the value of its level 8; then four lines, in which a byte of an output holds the levels of
 * two inputs: in line v, byte b of an output those of the inputs 8 v + b (low half) and 8 v + 4 + b.
 * Rows are taken in sixteen bits, with a step for each group: whole numbers are multiplied, and added up without
 * rounding. Eight bits take half the time where there are many rows, and lose a tenth of what the grid does; but more
 * than weights do that were trained on a grid.
 */

INLINE void OF(bytes)(signed char *p, i16 a, i16 b) {
    b16 narrow[2] = {__builtin_convertvector(a, b16), __builtin_convertvector(b, b16)};
    memcpy(p, narrow, sizeof narrow);
}

/* Rows [n][in] in sixteen bits, or in eight. */
static void OF(refined)(const T *x, fine f, long n, long in, long eighths) {
    float finest = eighths ? COARSEST : FINEST;
    for (long g = 0; g < n * in / GROUP; g++) {
        v16 a = OF(wide)(x + g * GROUP), b = OF(wide)(x + g * GROUP + 16), most = spread(0);
        most = pick(a > most, a, most), most = pick(-a > most, -a, most);
        most = pick(b > most, b, most), most = pick(-b > most, -b, most);
        float top = largest(most);
        v16 by = spread(top > 0 ? finest / top : 0), magic = spread(12582912.0f);
        i16 near_a = (i16)(a * by + magic) - (i16)magic, near_b = (i16)(b * by + magic) - (i16)magic, all = near_a + near_b;
        i16 high_a = (near_a + 128) >> 8, high_b = (near_b + 128) >> 8;
        int sum = 0;
        if (eighths) OF(bytes)(f.low + g * GROUP, near_a, near_b);
        else {
            OF(bytes)(f.high + g * GROUP, high_a, high_b);
            OF(bytes)(f.low + g * GROUP, near_a - (high_a << 8), near_b - (high_b << 8));
        }
        for (int k = 0; k < 16; k++) sum += all[k];
        f.step[g] = top / finest;
        f.sum[g] = top / finest * (float)sum;
    }
}

INLINE fine OF(fine_row)(fine f, long m, long in) {
    return (fine){f.high + m * in, f.low + m * in, f.step + m * in / GROUP, f.sum + m * in / GROUP};
}

/* Sixteen outputs of M rows. */
INLINE void OF(four_some)(fine f, const char *w, T *y, long in, long ld, const int M, const int EIGHTHS) {
    v16 sums[8];
    long groups = in / GROUP;
    UNROLLED for (int m = 0; m < M; m++) sums[m] = spread(0);
    for (long g = 0; g < groups; g++, w += FOUR_BLOCK) {
        i16 both, level[8];
        memcpy(&both, w, sizeof both);
        for (int v = 0; v < 4; v++) {
            i16 line;
            memcpy(&line, w + 64 + 64 * v, sizeof line);
            level[2 * v] = line & 0x0f0f0f0f, level[2 * v + 1] = (line >> 4) & 0x0f0f0f0f;
            __builtin_prefetch(w + 64 + 64 * v + AHEAD / 2, 0, 2);
        }
        __builtin_prefetch(w + AHEAD / 2, 0, 2);
        v16 step = (v16)(both << 16), base = (v16)(both & (int)0xffff0000) - spread(8) * step;
        UNROLLED for (int m = 0; m < M; m++) {
            const signed char *high = f.high + m * in + g * GROUP, *low = f.low + m * in + g * GROUP;
            i16 a = {0}, b = {0};
            UNROLLED for (int v = 0; v < 8; v++) {
                if (!EIGHTHS) a = dot_four(a, level[v], high + 4 * v);
                b = dot_four(b, level[v], low + 4 * v);
            }
            sums[m] += __builtin_convertvector((a << 8) + b, v16) * (step * spread(f.step[m * groups + g]));
            sums[m] += base * spread(f.sum[m * groups + g]);
        }
    }
    for (int m = 0; m < M; m++) OF(put)(y + m * ld, sums[m]);
}

/* Rows [n][in] times sixteen-fold blocks of outputs from .. to, [n][ld]. */
static void OF(four)(fine f, const char *w, T *y, long n, long in, long ld, long eighths, part o) {
    for (long first = o.lo; first < o.hi; first += 16) {
        const char *block = w + first / 16 * (in / GROUP) * FOUR_BLOCK;
        long m = 0;
#define OF_EACH(M, E) OF(four_some)(OF(fine_row)(f, m, in), block, y + m * ld + first, in, ld, M, E)
#define SOME(M) if (eighths) OF_EACH(M, 1); else OF_EACH(M, 0)
        for (; m + 8 <= n; m += 8) {
            SOME(8);
        }
        switch (n - m) {
        case 1: SOME(1); break;
        case 2: SOME(2); break;
        case 3: SOME(3); break;
        case 4: SOME(4); break;
        case 5: SOME(5); break;
        case 6: SOME(6); break;
        case 7: SOME(7); break;
        }
#undef SOME
#undef OF_EACH
    }
}

typedef struct { const T *x; const char *w; T *y; long n, in, out, eighths; char *space; } OF(four_of);

static void OF(share_four)(const void *what, hand mine) {
    const OF(four_of) *o = what;
    hand *h = &mine;
    fine f = fine_at(o->space + h->me * fine_bytes(o->n, o->in), o->n, o->in);
    int known = 0;
    EACH(i, o->out, 16, FEW) {
        if (!known++) OF(refined)(o->x, f, o->n, o->in, o->eighths);
        OF(four)(f, o->w, o->y, o->n, o->in, o->out, o->eighths, i);
    }
    meet(h);
}

/* Rows [n][in] times weights in four bits, [n][out]; `space`: `fine_bytes` for every thread. */
void OF(product_four)(const T *x, const char *w, T *y, long n, long in, long out, long eighths, char *space,
                      long threads) {
    step only;
    together(OF(share_four), &(OF(four_of)){x, w, y, n, in, out, eighths, space}, threads, &only, 1);
}
