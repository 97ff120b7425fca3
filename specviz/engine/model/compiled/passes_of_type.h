/* What passes.c says of one type of numbers: T, with OF(name) for what is its own. */

/* y[m][o] = sum over i of x[m][i] w[o][i], for M rows and O outputs; `exactly` leaves the sums in float. */
INLINE void OF(block)(const T *x, const T *w, T *y, float *exactly, long in, long ld, const int M, const int O) {
    v16 sums[ROWS][OUTPUTS];
    for (int m = 0; m < M; m++)
        for (int o = 0; o < O; o++) sums[m][o] = spread(0);
    for (long i = 0; i < in; i += LANES) {
        OF(lanes) ws[OUTPUTS];
        for (int o = 0; o < O; o++) {
            ws[o] = OF(lanes_at)(w + o * in + i);
            __builtin_prefetch((const char *)(w + o * in + i) + (O == 1 ? AHEAD : O * in * (long)sizeof(T)), 0, 2);
        }
        for (int m = 0; m < M; m++) {
            OF(lanes) xs = OF(lanes_at)(x + m * in + i);
            for (int o = 0; o < O; o++) sums[m][o] = OF(onto)(sums[m][o], xs, ws[o]);
        }
    }
    for (int m = 0; m < M; m++)
        if (O == 1) {
            if (exactly) exactly[m * ld] = total(sums[m][0]);
            else OF(put_one)(y + m * ld, total(sums[m][0]));
        } else if (exactly) {
            v4 all = totals(sums[m]);
            memcpy(exactly + m * ld, &all, sizeof all);
        } else OF(put_four)(y + m * ld, totals(sums[m]));
}

/* `exactly` is a constant, 0 or 1, in every call: which of `y` and `f` is written. */
INLINE void OF(multiply)(const T *x, const T *w, T *y, float *f, const int exactly, long n, long in, long out, long ld) {
#define BLOCK(at, o, M, O) OF(block)(x + (at) * in, w + (o) * in, exactly ? 0 : y + (at) * ld + (o), \
                                     exactly ? f + (at) * ld + (o) : 0, in, ld, M, O)
#define LINE(M) for (; o < out; o++) BLOCK(first, o, M, 1); break
    for (long first = 0; first < n; first += TILE) {
        long end = n - first < TILE ? n : first + TILE, o = 0;
        switch (end - first) { /* few rows wait for the weights: those are read in one line */
        case 1: LINE(1);
        case 2: LINE(2);
        case 3: LINE(3);
        case 4: LINE(4);
        case 5: LINE(5);
        case 6: LINE(6);
        }
        for (; o + OUTPUTS <= out; o += OUTPUTS) {
            long m = first;
            for (; m + ROWS <= end; m += ROWS) BLOCK(m, o, 6, 4);
            switch (end - m) {
            case 1: BLOCK(m, o, 1, 4); break;
            case 2: BLOCK(m, o, 2, 4); break;
            case 3: BLOCK(m, o, 3, 4); break;
            case 4: BLOCK(m, o, 4, 4); break;
            case 5: BLOCK(m, o, 5, 4); break;
            }
        }
        for (; o < out; o++)
            for (long m = first; m < end; m++) BLOCK(m, o, 1, 1);
    }
#undef BLOCK
#undef LINE
}

/* Rows [n][in] times weights [out][in]; `in` is a multiple of 32. */
void OF(product)(const T *x, const T *w, T *y, long n, long in, long out) {
    OF(multiply)(x, w, y, 0, 0, n, in, out, out);
}

static void OF(scores)(const T *x, const T *keys, float *y, long n, long dim, long slots, long ld) {
    OF(multiply)(x, keys, 0, y, 1, n, dim, slots, ld);
}

/* Values of the slots lo .. hi by their weights w[m * ld + slot], on top of what stands in `sum`. */
INLINE void OF(mix_some)(const float *w, long ld, const T *v, long dim, long lo, long hi, float *sum, const int M) {
    for (long d = 0; d < dim; d += 32) {
        v16 a[ROWS], b[ROWS];
        for (int m = 0; m < M; m++) a[m] = load(sum + m * dim + d), b[m] = load(sum + m * dim + d + 16);
        for (long j = lo; j < hi; j++) {
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
    OF(scores)(query, keys, scores, rows, dim, most, ld);
    for (long m = 0; m < rows; m++) {
        long r = from + m / group, line = p->lines[r];
        for (long t = 0; t < p->counts[r]; t++)
            OF(scores)(query + m * dim, keys + p->tails[r * p->most + t] * dim, scores + m * ld + line + t, 1, dim, 1, 1);
        all[m] = weigh(scores + m * ld, line + p->counts[r], s->scale);
    }
    memset(sums, 0, rows * dim * sizeof *sums);
    OF(mix)(scores, ld, values, dim, 0, common, sums, rows);
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

static void OF(biased)(const T *x, const T *w, const T *bias, T *y, long n, long in, long out) {
    OF(product)(x, w, y, n, in, out);
    for (long r = 0; bias && r < n; r++) OF(add)(y + r * out, bias, out);
}

/* silu(gate) times up, [n][2 * inner] to [n][inner], in place */
static void OF(activate)(T *x, long n, long inner) {
    for (long r = 0; r < n; r++)
        for (long i = 0; i < inner; i += 16) {
            v16 gate = OF(wide)(x + 2 * r * inner + i), up = OF(wide)(x + (2 * r + 1) * inner + i);
            OF(put)(x + r * inner + i, OF(near)(gate / (spread(1.0f) + exponential(-gate))) * up);
        }
}

typedef struct { /* where a pass works: rows of the model's width, of products, of what is added; a side of queries */
    T *rows, *wide, *added, *query;
    float *scores, *sums, *all;
} OF(desk);

/* Queries, keys and values of rows [n][width] to `wide`, with their positions; keys and values to the cache. */
static void OF(project)(const shape *s, const layer *l, const paths *p, const T *hidden, const T *cos, const T *sin,
                        T *keys, T *values, OF(desk) *at) {
    long dim = s->dim, turned = s->heads + s->shared, across = (turned + s->shared) * dim;
    for (long r = 0; r < p->n; r++) OF(norm)(hidden + r * s->width, l->before, at->rows + r * s->width, s->width, s->eps);
    OF(biased)(at->rows, l->qkv, l->qkv_bias, at->wide, p->n, s->width, across);
    for (long r = 0; r < p->n; r++) {
        T *row = at->wide + r * across;
        for (long h = 0; h < turned; h++) {
            const T *by = h < s->heads ? l->of_query : l->of_key;
            if (by) OF(norm)(row + h * dim, by, row + h * dim, dim, s->eps);
            OF(turn)(row + h * dim, cos + r * dim, sin + r * dim, dim);
        }
        for (long h = 0; h < s->shared; h++) {
            long to = h * p->stride + (p->start + r) * dim;
            memcpy(keys + to, row + (s->heads + h) * dim, dim * sizeof(T));
            memcpy(values + to, row + (turned + h) * dim, dim * sizeof(T));
        }
    }
}

/* What the heads of rows read, [n][heads][dim] to `rows`. */
static void OF(read)(const shape *s, const paths *p, const T *keys, const T *values, OF(desk) *at) {
    long dim = s->dim, group = s->heads / s->shared, across = (s->heads + 2 * s->shared) * dim;
    for (long from = 0; from < p->n; from += SIDE) {
        long to = from + SIDE < p->n ? from + SIDE : p->n;
        for (long h = 0; h < s->shared; h++) {
            for (long r = from; r < to; r++)
                memcpy(at->query + (r - from) * group * dim, at->wide + r * across + h * group * dim,
                       group * dim * sizeof(T));
            OF(attend)(s, p, from, to, at->query, keys + h * p->stride, values + h * p->stride, at->scores, at->sums,
                       at->all);
            for (long m = 0; m < (to - from) * group; m++) {
                T *out = at->rows + ((from + m / group) * s->heads + h * group + m % group) * dim;
                v16 by = spread(1.0f / at->all[m]);
                for (long d = 0; d < dim; d += 16) OF(put)(out + d, load(at->sums + m * dim + d) * by);
            }
        }
    }
}

/* Rows through layers, in place. A layer without the norm before a part of it leaves that part out. `keys`, `values`: of
 * the first of these layers. */
void OF(pass)(const shape *s, const layer *l, long n_layers, const paths *p, T *hidden, const T *cos, const T *sin,
              T *keys, T *values, char *space) {
    room has = room_of(s, p, sizeof(T));
    OF(desk) at;
    space += (64 - (size_t)space % 64) % 64;
    at.rows = (T *)space, at.wide = (T *)(space += has.rows), at.added = (T *)(space += has.wide);
    at.query = (T *)(space += has.added), at.scores = (float *)(space += has.query);
    at.sums = (float *)(space += has.scores), at.all = (float *)(space += has.sums);
    for (; n_layers--; l++, keys += p->apart, values += p->apart) {
        if (l->before) {
            OF(project)(s, l, p, hidden, cos, sin, keys, values, &at);
            OF(read)(s, p, keys, values, &at);
            OF(biased)(at.rows, l->out, l->out_bias, at.added, p->n, s->heads * s->dim, s->width);
            OF(add)(hidden, at.added, p->n * s->width);
        }
        if (l->behind) {
            for (long r = 0; r < p->n; r++)
                OF(norm)(hidden + r * s->width, l->behind, at.rows + r * s->width, s->width, s->eps);
            OF(biased)(at.rows, l->gate_up, l->gate_up_bias, at.wide, p->n, s->width, 2 * s->inner);
            OF(activate)(at.wide, p->n, s->inner);
            OF(biased)(at.wide, l->down, l->down_bias, at.added, p->n, s->inner, s->width);
            OF(add)(hidden, at.added, p->n * s->width);
        }
    }
}
