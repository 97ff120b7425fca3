/* What passes.c says of one type of numbers: T, with OF(name) for what is its own. */

/* y[m][o] = sum over i of x[m][i] w[o][i], for M rows that are laid in a panel [in / LANES][M][LANES], and O outputs. */
INLINE void OF(block)(const T *x, const T *w, T *y, long in, long ld, const int M, const int O) {
    v16 sums[ROWS * OUTPUTS];
    UNROLLED for (int k = 0; k < M * O; k++) sums[k] = spread(0);
    for (long i = 0; i < in; i += LANES, x += M * LANES, w += LANES) {
        OF(lanes) ws[OUTPUTS];
        UNROLLED for (int o = 0; o < O; o++) {
            ws[o] = OF(lanes_at)(w + o * in);
            __builtin_prefetch((const char *)(w + o * in) + (O == 1 ? AHEAD : O * in * (long)sizeof(T)), 0, 2);
        }
        UNROLLED for (int m = 0; m < M; m++) {
            OF(lanes) xs = OF(lanes_at)(x + m * LANES);
            UNROLLED for (int o = 0; o < O; o++) sums[m * O + o] = OF(onto)(sums[m * O + o], xs, ws[o]);
        }
    }
    UNROLLED for (int k = 0; k + 4 <= M * O; k += 4) {
        v4 some = totals(sums + k);
        if (O == 4) OF(put_four)(y + k / 4 * ld, some);
        else UNROLLED for (int j = 0; j < 4; j++) OF(put_one)(y + (k + j) * ld, some[j]);
    }
    if (O == 1) UNROLLED for (int m = M / 4 * 4; m < M; m++) OF(put_one)(y + m * ld, total(sums[m]));
}

static void OF(lay)(const T *x, T *laid, long n, long in, long of) {
    for (long m = 0; m < n; m += of) {
        long some = n - m < of ? n - m : of;
        for (long i = 0; i < in; i += LANES)
            for (long r = m; r < m + some; r++, laid += LANES) memcpy(laid, x + r * in + i, LANES * sizeof(T));
    }
}

/* A panel of n rows times outputs from .. to: few rows wait for the weights, which are read in one line. */
static void OF(line)(const T *laid, const T *w, T *y, long n, long in, long ld, part o) {
#define SOME(M) case M: for (long k = o.lo; k < o.hi; k++) OF(block)(laid, w + k * in, y + k, in, ld, M, 1); break;
    switch (n) { SOME(1) SOME(2) SOME(3) SOME(4) SOME(5) SOME(6) SOME(7) SOME(8) SOME(9) SOME(10) }
#undef SOME
}

/* A panel of n rows times four outputs. */
static void OF(square)(const T *laid, const T *w, T *y, long n, long in, long ld) {
#define SOME(M) case M: OF(block)(laid, w, y, in, ld, M, 4); break;
    switch (n) { SOME(1) SOME(2) SOME(3) SOME(4) SOME(5) SOME(6) }
#undef SOME
}

/* `laid`: `tile_bytes` of space; `known`: whether the rows lie there already. Without space rows go one by one: a panel
 * of one row is the row. */
static void OF(multiply)(const T *x, const T *w, T *y, long n, long in, long out, long ld, T *laid, int known) {
    long tile = tile_rows(n, in, sizeof(T));
    if (!laid) {
        for (long m = 0; m < n; m++) OF(line)(x + m * in, w, y + m * ld, 1, in, ld, (part){0, out});
        return;
    }
    for (long first = 0; first < n; first += tile) {
        long rows = n - first < tile ? n - first : tile, of = rows <= LINE ? rows : ROWS, o = 0;
        if (!known || tile < n) OF(lay)(x + first * in, laid, rows, in, of);
        if (rows > LINE)
            for (; o + OUTPUTS <= out; o += OUTPUTS)
                for (long m = 0; m < rows; m += of)
                    OF(square)(laid + m * in, w + o * in, y + (first + m) * ld + o, rows - m < of ? rows - m : of, in, ld);
        for (long m = 0; m < rows; m += of)
            OF(line)(laid + m * in, w, y + (first + m) * ld, rows - m < of ? rows - m : of, in, ld, (part){o, out});
    }
}

typedef struct { const T *x, *w; T *y; long n, in, out; char *space; size_t apart; } OF(product_of);

static void OF(share_product)(const void *what, hand mine) {
    const OF(product_of) *p = what;
    hand *h = &mine;
    T *laid = p->space ? (T *)(aligned(p->space) + h->me * p->apart) : 0;
    int known = 0;
    EACH(o, p->out, 16, FEW)
        OF(multiply)(p->x, p->w + o.lo * p->in, p->y + o.lo, p->n, p->in, o.hi - o.lo, p->out, laid, known++);
    meet(h);
}

/* Rows [n][in] times weights [out][in]; `in` is a multiple of 32. */
void OF(product)(const T *x, const T *w, T *y, long n, long in, long out, long threads) {
    step only;
    size_t apart = tile_bytes(n, in, sizeof(T));
    char *space = malloc((threads < 1 ? 1 : threads < MOST ? threads : MOST) * apart + 64);
    together(OF(share_product), &(OF(product_of)){x, w, y, n, in, out, space, apart}, threads, &only, 1);
    free(space);
}

INLINE void OF(ask)(const T *p, long n) { /* for what is needed soon */
    for (long i = 0; i < n; i += 64 / (long)sizeof(T)) __builtin_prefetch(p + i, 0, 2);
}

/* Scores of M rows with sixteen keys that lie across. */
INLINE void OF(score_some)(const T *x, const v16 *keys, float *y, long dim, long ld, const int M) {
    v16 sums[2 * ROWS];
    for (int m = 0; m < M; m++) sums[m] = spread(0);
    for (long d = 0; d < dim; d += PAIR)
        for (int m = 0; m < M; m++) sums[m] = OF(onto_keys)(sums[m], x + m * dim + d, keys[d / PAIR]);
    for (int m = 0; m < M; m++) store(y + m * ld, sums[m]);
}

/* y[m][k] = sum over d of x[m][d] keys[k][d] for sixteen keys: laid across, one to a lane. */
static void OF(scores)(const T *x, const T *const *keys, float *y, long n, long dim, long ld) {
    v16 laid[WIDEST];
    for (long d = 0; d < dim; d += 16 * PAIR) {
        for (int k = 0; k < 16; k++) laid[d / PAIR + k] = OF(key_at)(keys[k] + d);
        turned_over(laid + d / PAIR);
    }
    for (; n >= 12; n -= 12, x += 12 * dim, y += 12 * ld) OF(score_some)(x, laid, y, dim, ld, 12);
    for (; n >= 3; n -= 3, x += 3 * dim, y += 3 * ld) OF(score_some)(x, laid, y, dim, ld, 3);
    for (; n; n--, x += dim, y += ld) OF(score_some)(x, laid, y, dim, ld, 1);
}

/* Values of the slots lo .. hi by their weights w[m * ld + slot], on top of what stands in `sum`. */
INLINE void OF(mix_some)(const float *w, long ld, const T *v, long dim, long lo, long hi, float *sum, const int M) {
    for (long d = 0; d < dim; d += 32) {
        v16 a[ROWS], b[ROWS];
        for (int m = 0; m < M; m++) a[m] = load(sum + m * dim + d), b[m] = load(sum + m * dim + d + 16);
        for (long j = lo; j < hi; j++) {
            if (d == 0) OF(ask)(v + (j + SOON) * dim, dim);
            v16 x = OF(wide)(v + j * dim + d), y = OF(wide)(v + j * dim + d + 16);
            for (int m = 0; m < M; m++) {
                v16 k = spread(w[m * ld + j]);
                a[m] += k * x;
                b[m] += k * y;
            }
        }
        for (int m = 0; m < M; m++) store(sum + m * dim + d, a[m]), store(sum + m * dim + d + 16, b[m]);
    }
}

static void OF(mix)(const float *w, long ld, const T *v, long dim, long lo, long hi, float *sum, long rows) {
    if (lo >= hi) return;
    for (; rows >= 6; rows -= 6, w += 6 * ld, sum += 6 * dim) OF(mix_some)(w, ld, v, dim, lo, hi, sum, 6);
    switch (rows) {
    case 1: OF(mix_some)(w, ld, v, dim, lo, hi, sum, 1); break;
    case 2: OF(mix_some)(w, ld, v, dim, lo, hi, sum, 2); break;
    case 3: OF(mix_some)(w, ld, v, dim, lo, hi, sum, 3); break;
    case 4: OF(mix_some)(w, ld, v, dim, lo, hi, sum, 4); break;
    case 5: OF(mix_some)(w, ld, v, dim, lo, hi, sum, 5); break;
    }
}

/* The rows from .. to, all heads that share one head of keys and values: `query` [rows][group][dim]. */
static void OF(attend)(const shape *s, const paths *p, long from, long to, const T *query, const T *keys,
                       const T *values, float *scores, float *sums, float *all) {
    long dim = s->dim, group = s->heads / s->shared, rows = (to - from) * group, ld = longest(p, from, to);
    long common = p->lines[from], most = common;
    for (long r = from; r < to; r++) {
        if (p->lines[r] < common) common = p->lines[r];
        if (p->lines[r] > most) most = p->lines[r];
    }
    const T *of[16];
    for (long j = 0; j < most; j += 16) {
        for (long k = 0; k < 16; k++) of[k] = keys + (j + k < most ? j + k : most - 1) * dim;
        OF(ask)(keys + (j + SOON) * dim, 16 * dim);
        OF(ask)(values + j * dim, 16 * dim);
        OF(scores)(query, of, scores + j, rows, dim, ld);
    }
    for (long r = from; r < to; r++) {
        float *mine = scores + (r - from) * group * ld + p->lines[r];
        const int *tail = p->tails + r * p->most;
        for (long t = 0, n = p->counts[r]; t < n; t += 16) {
            float some[16 * group];
            for (long k = 0; k < 16; k++) of[k] = keys + tail[t + k < n ? t + k : n - 1] * dim;
            OF(scores)(query + (r - from) * group * dim, of, some, group, dim, 16);
            for (long m = 0; m < group; m++)
                memcpy(mine + m * ld + t, some + 16 * m, (n - t < 16 ? n - t : 16) * sizeof *some);
        }
    }
    for (long m = 0; m < rows; m++) {
        long r = from + m / group;
        all[m] = weigh(scores + m * ld, p->lines[r] + p->counts[r], s->scale);
    }
    memset(sums, 0, rows * dim * sizeof *sums);
    for (long lo = 0; lo < common; lo += SLICE)
        OF(mix)(scores, ld, values, dim, lo, common - lo < SLICE ? common : lo + SLICE, sums, rows);
    for (long r = from; r < to; r++) {
        long m = (r - from) * group, line = p->lines[r];
        OF(mix)(scores + m * ld, ld, values, dim, common, line, sums + m * dim, group);
        for (long t = 0; t < p->counts[r]; t++) /* the weight of place line + t, the value of its slot */
            OF(mix)(scores + m * ld + line + t, ld, values + p->tails[r * p->most + t] * dim, dim, 0, 1, sums + m * dim,
                    group);
    }
}

static void OF(norm)(const T *x, const T *w, T *y, long width, float eps) {
    v16 sum = spread(0);
    for (long i = 0; i < width; i += 16) {
        v16 v = OF(wide)(x + i);
        sum += v * v;
    }
    v16 by = spread(1.0f / sqrtf(total(sum) / (float)width + eps));
    for (long i = 0; i < width; i += 16) OF(put)(y + i, OF(near)(OF(wide)(x + i) * by) * OF(wide)(w + i));
}

/* Norms of rows [n][width]. */
void OF(norms)(const T *x, const T *w, T *y, long n, long width, float eps) {
    for (long r = 0; r < n; r++) OF(norm)(x + r * width, w, y + r * width, width, eps);
}

static void OF(turn)(T *x, const T *cos, const T *sin, long dim) {
    for (long i = 0, half = dim / 2; i < half; i += 16) {
        v16 a = OF(wide)(x + i), b = OF(wide)(x + half + i);
        v16 left = OF(near)(a * OF(wide)(cos + i)) + OF(near)(-b * OF(wide)(sin + i));
        v16 right = OF(near)(b * OF(wide)(cos + half + i)) + OF(near)(a * OF(wide)(sin + half + i));
        OF(put)(x + i, left);
        OF(put)(x + half + i, right);
    }
}

static void OF(add)(T *x, const T *y, long n) {
    for (long i = 0; i < n; i += 16) OF(put)(x + i, OF(wide)(x + i) + OF(wide)(y + i));
}

#include "four_bits_of_type.h"

/* A product of all rows with a bias; `space`: of a thread, for a tile of rows, or for rows in sixteen bits. */
static void OF(biased)(const shape *s, const T *x, const void *w, const T *bias, T *y, long n, long in, long out,
                       char *space, hand *h) {
    long bits = s->bits;
    fine f = fine_at(space, n, in);
    int known = 0;
    EACH(o, out, 16, FEW) {
        if (!bits) OF(multiply)(x, (const T *)w + o.lo * in, y + o.lo, n, in, o.hi - o.lo, out, (T *)space, known++);
        else {
            if (!known++) OF(refined)(x, f, n, in, s->eighths);
            OF(four)(f, w, y, n, in, out, s->eighths, o);
        }
        for (long r = 0; bias && r < n; r++) OF(add)(y + r * out + o.lo, bias + o.lo, o.hi - o.lo);
    }
    meet(h);
}

/* silu(gate) times up, [n][2 * inner] to [n][inner]: numbers lo .. hi of the results, by 16. */
static void OF(activate)(const T *x, T *y, long inner, part p) {
    for (long i = p.lo; i < p.hi; i += 16) {
        const T *at = x + i / inner * 2 * inner + i % inner;
        v16 gate = OF(wide)(at), up = OF(wide)(at + inner);
        OF(put)(y + i, OF(near)(gate / (spread(1.0f) + exponential(-gate))) * up);
    }
}

typedef struct { /* where a pass works: rows of the model's width, of products, of what is added; a side of queries */
    T *rows, *wide, *added, *query;
    float *scores, *sums, *all;
    char *fine;
} OF(desk);

/* Norms and positions of heads `i` of all, of queries, keys and values, [n][heads]; keys and values to the cache. */
static void OF(place)(const shape *s, const layer *l, const paths *p, const T *cos, const T *sin, T *keys, T *values,
                      T *wide, part i) {
    long dim = s->dim, turned = s->heads + s->shared, all = turned + s->shared;
    for (; i.lo < i.hi; i.lo++) {
        long r = i.lo / all, h = i.lo % all, to = (h - s->heads) % s->shared * p->stride + (p->start + r) * dim;
        T *head = wide + i.lo * dim;
        const T *by = h < s->heads ? l->of_query : l->of_key;
        if (h < turned) {
            if (by) OF(norm)(head, by, head, dim, s->eps);
            OF(turn)(head, cos + r * dim, sin + r * dim, dim);
        }
        if (h >= s->heads) memcpy((h < turned ? keys : values) + to, head, dim * sizeof(T));
    }
}

/* What heads of rows read, [n][heads][dim] to `rows`: for `i` of all sides of rows and heads of keys. */
static void OF(read)(const shape *s, const paths *p, const T *keys, const T *values, OF(desk) *at, part i) {
    long dim = s->dim, group = s->heads / s->shared, across = (s->heads + 2 * s->shared) * dim;
    for (; i.lo < i.hi; i.lo++) {
        long h = i.lo % s->shared, from = i.lo / s->shared * SIDE, to = from + SIDE < p->n ? from + SIDE : p->n;
        for (long r = from; r < to; r++)
            memcpy(at->query + (r - from) * group * dim, at->wide + r * across + h * group * dim, group * dim * sizeof(T));
        OF(attend)(s, p, from, to, at->query, keys + h * p->stride, values + h * p->stride, at->scores, at->sums, at->all);
        for (long m = 0; m < (to - from) * group; m++) {
            T *out = at->rows + ((from + m / group) * s->heads + h * group + m % group) * dim;
            v16 by = spread(1.0f / at->all[m]);
            for (long d = 0; d < dim; d += 16) OF(put)(out + d, load(at->sums + m * dim + d) * by);
        }
    }
}

typedef struct {
    const shape *s;
    const layer *l;
    long n_layers;
    const paths *p;
    T *hidden;
    const T *cos, *sin;
    T *keys, *values;
    T *const *kept;
    const T *read;
    long done;
    char *space;
} OF(pass_of);

static OF(desk) OF(desk_of)(const OF(pass_of) *o, int me) {
    room has = room_of(o->s, o->p, sizeof(T));
    OF(desk) at;
    char *space = o->space;
    at.rows = (T *)space, at.wide = (T *)(space += has.rows), at.added = (T *)(space += has.wide);
    space += has.added + me * of_thread(has);
    at.query = (T *)space, at.scores = (float *)(space += has.query);
    at.sums = (float *)(space += has.scores), at.all = (float *)(space += has.sums), at.fine = space + has.totals;
    return at;
}

/* Rows with what is added to them, copies of these, and their norms; `added`, `kept`, `w`: 0 where there is none. */
static void OF(join)(T *x, const T *added, T *kept, const T *w, T *y, long n, long width, float eps, hand *h) {
    EACH(r, n, 1, 1)
        for (; r.lo < r.hi; r.lo++) {
            if (added) OF(add)(x + r.lo * width, added + r.lo * width, width);
            if (kept) memcpy(kept + r.lo * width, x + r.lo * width, width * sizeof(T));
            if (w) OF(norm)(x + r.lo * width, w, y + r.lo * width, width, eps);
        }
    meet(h);
}

static void OF(share_pass)(const void *what, hand mine) {
    const OF(pass_of) *o = what;
    const shape *s = o->s;
    const paths *p = o->p;
    paths left;
    T *hidden = o->hidden, *keys = o->keys, *values = o->values, *added = 0;
    OF(desk) at = OF(desk_of)(o, mine.me);
    hand *h = &mine;
    long n = p->n, width = s->width, all = s->heads + 2 * s->shared, mixed = s->heads * s->dim;
    for (const layer *l = o->l; l < o->l + o->n_layers; l++, keys += p->apart, values += p->apart) {
        T *kept = o->kept ? o->kept[l - o->l] : 0;
        if (kept && !l->before) OF(join)(hidden, added, kept, 0, 0, n, width, s->eps, h), added = 0;
        if (l->before) {
            const T *read = o->read ? o->read : at.rows;
            if (!o->read) OF(join)(hidden, added, kept, l->before, at.rows, n, width, s->eps, h);
            OF(biased)(s, read, l->qkv, l->qkv_bias, at.wide, n, s->reads, all * s->dim, at.fine, h);
            EACH(i, n * all, 1, 16) OF(place)(s, l, p, o->cos, o->sin, keys, values, at.wide, i);
            meet(h);
            if (o->done && l == o->l + o->n_layers - 1) { /* these rows were wanted for their keys and values alone */
                hidden += o->done * width, at.wide += o->done * all * s->dim, n -= o->done;
                left = (paths){p->lines + o->done, p->counts + o->done, p->tails + o->done * p->most, n, p->most,
                               p->start + o->done, p->stride, p->apart};
                p = &left;
            }
            EACH(i, (n + SIDE - 1) / SIDE * s->shared, 1, 1) OF(read)(s, p, keys, values, &at, i);
            meet(h);
            OF(biased)(s, at.rows, l->out, l->out_bias, added = at.added, n, mixed, width, at.fine, h);
        }
        if (l->behind) {
            OF(join)(hidden, added, 0, l->behind, at.rows, n, width, s->eps, h);
            OF(biased)(s, at.rows, l->gate_up, l->gate_up_bias, at.wide, n, width, 2 * s->inner, at.fine, h);
            T *active = at.wide + 2 * n * s->inner;
            EACH(i, n * s->inner, 16, 64) OF(activate)(at.wide, active, s->inner, i);
            meet(h);
            OF(biased)(s, active, l->down, l->down_bias, added = at.added, n, s->inner, width, at.fine, h);
        }
    }
    if (added) OF(join)(hidden, added, 0, 0, 0, n, width, s->eps, h);
}

/* Rows through layers, in place. A layer without the norm before a part of it leaves that part out. `keys`, `values`: of
 * the first of these layers. `kept`: where the rows that come to each of them are copied to, and 0 for others; or 0.
 * `read`: what the attention of a single layer reads in place of the norm of its rows, [n][reads]; or 0. `done`: how
 * many of the first rows are wanted for their keys and values alone; what is left of them is of no use. */
void OF(pass)(const shape *s, const layer *l, long n_layers, const paths *p, T *hidden, const T *cos, const T *sin,
              T *keys, T *values, T *const *kept, const T *read, long done, char *space, long threads) {
    long steps = STEPS * n_layers + 1;
    space = aligned(space);
    char *rest = space + lines_of(steps * sizeof(step));
    together(OF(share_pass), &(OF(pass_of)){s, l, n_layers, p, hidden, cos, sin, keys, values, kept, read, done, rest}, threads,
             (step *)space, steps);
}

#include "heads_of_type.h"
#include "programs_of_type.h"
