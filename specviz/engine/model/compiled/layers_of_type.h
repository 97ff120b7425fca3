/* What passes.c says of one type of numbers: T, with OF(name) for what is its own. */

/* y[m][o] = sum over i of x[m][i] w[o][i], for M rows in a panel [in / LANES][M][LANES] and O outputs. PACKED: of
 * `packed`; else of T, as a row lies that is alone. */
INLINE void OF(tile)(const void *rows, const T *w, T *y, long in, long ld, const int M, const int O, const int PACKED) {
    const OF(packed) *panel = rows;
    const T *x = rows;
    const int part = LANES / PARTS;
    f32_part sum[TILE_SUMS * PARTS];
    f32x16 whole[TILE_SUMS];
    UNROLLED for (int k = 0; k < M * O * PARTS; k++) sum[k] = (f32_part){0};
    for (long i = 0; i < in; i += LANES, x += M * LANES, panel += M * LANES, w += LANES) {
        OF(lanes) ws[GEMM_OUTS * PARTS];
        UNROLLED for (int o = 0; o < O; o++) {
            UNROLLED for (int k = 0; k < PARTS; k++) ws[o * PARTS + k] = OF(load_lanes)(w + o * in + k * part);
            __builtin_prefetch((const char *)(w + o * in) + (O == 1 ? PREFETCH_BYTES : O * in * (long)sizeof(T)), 0, 2);
        }
        UNROLLED for (int m = 0; m < M; m++)
            UNROLLED for (int k = 0; k < PARTS; k++) {
                long at = m * LANES + k * part;
                OF(lanes) xs = PACKED ? OF(load_packed)(panel + at) : OF(load_lanes)(x + at);
                UNROLLED for (int o = 0; o < O; o++) {
                    f32_part *s = sum + (m * O + o) * PARTS + k;
                    *s = OF(madd)(*s, xs, ws[o * PARTS + k]);
                }
            }
    }
    UNROLLED for (int k = 0; k < M * O; k++) memcpy(whole + k, sum + k * PARTS, sizeof *whole);
    UNROLLED for (int k = 0; k + 4 <= M * O; k += 4) {
        f32x4 four = hsum4(whole + k);
        if (O == 4) OF(store4)(y + k / 4 * ld, four);
        else UNROLLED for (int j = 0; j < 4; j++) OF(store1)(y + (k + j) * ld, four[j]);
    }
    if (O == 1) UNROLLED for (int m = M / 4 * 4; m < M; m++) OF(store1)(y + m * ld, hsum(whole[m]));
}

/* Rows [n][in] to panels of `per_panel` rows each, [in / LANES][rows][LANES]. */
static void OF(pack_rows)(const T *x, OF(packed) *panel, long n, long in, long per_panel) {
    for (long m = 0; m < n; m += per_panel) {
        long rows = n - m < per_panel ? n - m : per_panel;
        for (long i = 0; i < in; i += LANES)
            for (long r = m; r < m + rows; r++, panel += LANES) OF(pack)(panel, x + r * in + i);
    }
}

/* A panel of n rows times outputs o.lo .. o.hi: few rows wait for the weights, which are read in one line. */
static void OF(gemv)(const OF(packed) *panel, const T *w, T *y, long n, long in, long ld, range o) {
#define ROWS(M) case M: for (long k = o.lo; k < o.hi; k++) OF(tile)(panel, w + k * in, y + k, in, ld, M, 1, 1); break;
    switch (n) { ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6) ROWS(7) ROWS(8) ROWS(9) ROWS(10) }
#undef ROWS
}

/* A panel of n rows times GEMM_OUTS outputs. */
static void OF(gemm)(const OF(packed) *panel, const T *w, T *y, long n, long in, long ld) {
#define ROWS(M) case M: OF(tile)(panel, w, y, in, ld, M, GEMM_OUTS, 1); break;
    switch (n) { ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6) }
#undef ROWS
}

/* y [n][ld] = x [n][in] times w [out][in]. `panel`: `panel_bytes` of space, or 0; `packed`: the rows lie there already.
 * Without space rows go one by one, as they lie. */
static void OF(matmul_range)(const T *x, const T *w, T *y, long n, long in, long out, long ld, OF(packed) *panel,
                             int packed) {
    long tile = panel_rows(n, in, sizeof(T));
    if (!panel) {
        for (long m = 0; m < n; m++)
            for (long o = 0; o < out; o++) OF(tile)(x + m * in, w + o * in, y + m * ld + o, in, ld, 1, 1, 0);
        return;
    }
    for (long first = 0; first < n; first += tile, y += tile * ld) {
        long rows = n - first < tile ? n - first : tile, per = rows <= GEMV_ROWS ? rows : GEMM_ROWS, o = 0;
        if (!packed || tile < n) OF(pack_rows)(x + first * in, panel, rows, in, per);
        if (rows > GEMV_ROWS)
            for (; o + GEMM_OUTS <= out; o += GEMM_OUTS)
                for (long m = 0; m < rows; m += per)
                    OF(gemm)(panel + m * in, w + o * in, y + m * ld + o, rows - m < per ? rows - m : per, in, ld);
        for (long m = 0; m < rows; m += per)
            OF(gemv)(panel + m * in, w, y + m * ld, rows - m < per ? rows - m : per, in, ld, (range){o, out});
    }
}

typedef struct { const T *x, *w; T *y; long n, in, out; char *space; size_t per_thread; } OF(matmul_args);

static void OF(matmul_task)(const void *args, worker w) {
    const OF(matmul_args) *p = args;
    worker *self = &w;
    OF(packed) *panel = p->space ? (OF(packed) *)(aligned(p->space) + self->id * p->per_thread) : 0;
    int packed = 0;
    parallel_for(o, p->out, 16, MIN_CHUNK)
        OF(matmul_range)(p->x, p->w + o.lo * p->in, p->y + o.lo, p->n, p->in, o.hi - o.lo, p->out, panel, packed++);
    barrier(self);
}

/* y [n][out] = x [n][in] times w [out][in]; `in` is a multiple of 32. */
void OF(matmul)(const T *x, const T *w, T *y, long n, long in, long out, long threads) {
    loop only;
    size_t per_thread = panel_bytes(n, in, sizeof(T));
    char *space = malloc((threads < 1 ? 1 : threads < MAX_THREADS ? threads : MAX_THREADS) * per_thread + 64);
    run_parallel(OF(matmul_task), &(OF(matmul_args)){x, w, y, n, in, out, space, per_thread}, threads, &only, 1);
    free(space);
}

INLINE void OF(prefetch)(const T *p, long n) {
    for (long i = 0; i < n; i += 64 / (long)sizeof(T)) __builtin_prefetch(p + i, 0, 2);
}

/* Scores of M queries with sixteen keys that lie across, [head_dim / PAIR][16 keys]. */
INLINE void OF(score_rows)(const T *q, const f32x16 *keys, float *y, long dim, long ld, const int M) {
    f32x16 sums[2 * GEMM_ROWS];
    for (int m = 0; m < M; m++) sums[m] = splat(0);
    for (long d = 0; d < dim; d += PAIR)
        for (int m = 0; m < M; m++) sums[m] = OF(madd_keys)(sums[m], q + m * dim + d, keys[d / PAIR]);
    for (int m = 0; m < M; m++) store_float(y + m * ld, sums[m]);
}

/* y[m][k] = sum over d of q[m][d] keys[k][d] for n queries [n][dim] and sixteen keys. */
static void OF(scores)(const T *q, const T *const *keys, float *y, long n, long dim, long ld) {
    f32x16 across[MAX_HEAD_DIM];
    for (long d = 0; d < dim; d += 16 * PAIR) {
        for (int k = 0; k < 16; k++) across[d / PAIR + k] = OF(load_keys)(keys[k] + d);
        transpose16(across + d / PAIR);
    }
    for (; n >= 12; n -= 12, q += 12 * dim, y += 12 * ld) OF(score_rows)(q, across, y, dim, ld, 12);
    for (; n >= 3; n -= 3, q += 3 * dim, y += 3 * ld) OF(score_rows)(q, across, y, dim, ld, 3);
    for (; n; n--, q += dim, y += ld) OF(score_rows)(q, across, y, dim, ld, 1);
}

/* acc [M][dim] += the values v [slots][dim] of the slots lo .. hi by their weights p[m * ld + slot]. */
INLINE void OF(add_values_rows)(const float *p, long ld, const T *v, long dim, long lo, long hi, float *acc,
                                const int M) {
    for (long d = 0; d < dim; d += 32) {
        f32x16 a[GEMM_ROWS], b[GEMM_ROWS];
        for (int m = 0; m < M; m++) a[m] = load_float(acc + m * dim + d), b[m] = load_float(acc + m * dim + d + 16);
        for (long j = lo; j < hi; j++) {
            if (d == 0) OF(prefetch)(v + (j + PREFETCH_SLOTS) * dim, dim);
            f32x16 x = OF(load)(v + j * dim + d), y = OF(load)(v + j * dim + d + 16);
            for (int m = 0; m < M; m++) {
                f32x16 k = splat(p[m * ld + j]);
                a[m] += k * x;
                b[m] += k * y;
            }
        }
        for (int m = 0; m < M; m++) store_float(acc + m * dim + d, a[m]), store_float(acc + m * dim + d + 16, b[m]);
    }
}

static void OF(add_values)(const float *p, long ld, const T *v, long dim, long lo, long hi, float *acc, long n) {
    if (lo >= hi) return;
    for (; n >= 6; n -= 6, p += 6 * ld, acc += 6 * dim) OF(add_values_rows)(p, ld, v, dim, lo, hi, acc, 6);
#define ROWS(M) case M: OF(add_values_rows)(p, ld, v, dim, lo, hi, acc, M); break;
    switch (n) { ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) }
#undef ROWS
}

/* Buffers of a pass; the last five are of a thread, for some rows and the group of query heads of one key head. */
typedef struct {
    T *xb;        /* [n][hidden] normed rows, then [n][n_heads][head_dim] what attention gives */
    T *hb;        /* [n][n_heads + 2 n_kv_heads][head_dim] q, k, v; then [n][2][ffn] gate and up, and [n][ffn] */
    T *xb2;       /* [n][hidden] what a block adds to its rows */
    T *low, *more; /* [n][lora_rank] a x, [n][out] b a x */
    T *q;         /* [rows][group][head_dim] */
    float *att;   /* [rows][group][max_context] scores, then weights */
    float *acc;   /* [rows][group][head_dim] sums of values */
    float *denom; /* [rows][group] sums of weights */
    char *panel;  /* packed rows of a product, or quantized ones */
} OF(state);

/* The rows from .. to of one key head, keys and values [slots][head_dim]: s->acc and s->denom of s->q. */
static void OF(attention)(const config *c, const attn_index *a, long from, long to, const T *keys, const T *values,
                          const OF(state) *s) {
    long dim = c->head_dim, group = c->n_heads / c->n_kv_heads, n = (to - from) * group, ld = max_context(a, from, to);
    long common = a->prefix[from], longest = common;
    for (long r = from; r < to; r++) {
        if (a->prefix[r] < common) common = a->prefix[r];
        if (a->prefix[r] > longest) longest = a->prefix[r];
    }
    const T *some[16];
    for (long j = 0; j < longest; j += 16) {
        for (long k = 0; k < 16; k++) some[k] = keys + (j + k < longest ? j + k : longest - 1) * dim;
        OF(prefetch)(keys + (j + PREFETCH_SLOTS) * dim, 16 * dim);
        OF(prefetch)(values + j * dim, 16 * dim);
        OF(scores)(s->q, some, s->att + j, n, dim, ld);
    }
    for (long r = from; r < to; r++) {
        float *att = s->att + (r - from) * group * ld + a->prefix[r];
        const int *extra = a->extra + r * a->max_extra;
        for (long t = 0, left = a->n_extra[r]; t < left; t += 16) {
            float sixteen[16 * group];
            for (long k = 0; k < 16; k++) some[k] = keys + extra[t + k < left ? t + k : left - 1] * dim;
            OF(scores)(s->q + (r - from) * group * dim, some, sixteen, group, dim, 16);
            for (long m = 0; m < group; m++)
                memcpy(att + m * ld + t, sixteen + 16 * m, (left - t < 16 ? left - t : 16) * sizeof *sixteen);
        }
    }
    for (long m = 0; m < n; m++) {
        long r = from + m / group;
        s->denom[m] = softmax(s->att + m * ld, a->prefix[r] + a->n_extra[r], c->scale);
    }
    memset(s->acc, 0, n * dim * sizeof *s->acc);
    for (long lo = 0; lo < common; lo += ATTN_SLOTS)
        OF(add_values)(s->att, ld, values, dim, lo, common - lo < ATTN_SLOTS ? common : lo + ATTN_SLOTS, s->acc, n);
    for (long r = from; r < to; r++) {
        long prefix = a->prefix[r];
        float *att = s->att + (r - from) * group * ld, *acc = s->acc + (r - from) * group * dim;
        OF(add_values)(att, ld, values, dim, common, prefix, acc, group);
        for (long t = 0; t < a->n_extra[r]; t++) /* the weight of place prefix + t, the value of its slot */
            OF(add_values)(att + prefix + t, ld, values + a->extra[r * a->max_extra + t] * dim, dim, 0, 1, acc, group);
    }
}

static void OF(rmsnorm)(const T *x, const T *w, T *y, long width, float eps) {
    f32x16 sum = splat(0);
    for (long i = 0; i < width; i += 16) {
        f32x16 v = OF(load)(x + i);
        sum += v * v;
    }
    f32x16 by = splat(1.0f / sqrtf(hsum(sum) / (float)width + eps));
    for (long i = 0; i < width; i += 16) OF(store)(y + i, OF(round)(OF(load)(x + i) * by) * OF(load)(w + i));
}

/* Norms of rows [n][width]. */
void OF(rmsnorm_rows)(const T *x, const T *w, T *y, long n, long width, float eps) {
    for (long r = 0; r < n; r++) OF(rmsnorm)(x + r * width, w, y + r * width, width, eps);
}

/* A head x [dim] turned by the angles of its position, [dim] each. */
static void OF(rope)(T *x, const T *cos, const T *sin, long dim) {
    for (long i = 0, half = dim / 2; i < half; i += 16) {
        f32x16 a = OF(load)(x + i), b = OF(load)(x + half + i);
        f32x16 left = OF(round)(a * OF(load)(cos + i)) + OF(round)(-b * OF(load)(sin + i));
        f32x16 right = OF(round)(b * OF(load)(cos + half + i)) + OF(round)(a * OF(load)(sin + half + i));
        OF(store)(x + i, left);
        OF(store)(x + half + i, right);
    }
}

static void OF(add)(T *x, const T *y, long n) {
    for (long i = 0; i < n; i += 16) OF(store)(x + i, OF(load)(x + i) + OF(load)(y + i));
}

#include "int4_of_type.h"

/* y [n][out] = x [n][in] times w, a bias [out], and b a x; `s`: of a thread. */
static void OF(linear)(const config *c, const T *x, const void *w, const T *bias, const lora *l, T *y, long n, long in,
                       long out, const OF(state) *s, worker *self) {
    quantized z = quantized_at(s->panel, n, in);
    OF(packed) *panel = (OF(packed) *)s->panel;
    int packed = 0;
    parallel_for(o, out, 16, MIN_CHUNK) {
        if (!c->bits)
            OF(matmul_range)(x, (const T *)w + o.lo * in, y + o.lo, n, in, o.hi - o.lo, out, panel, packed++);
        else {
            if (!packed++) OF(quantize)(x, z, n, in, c->int8);
            OF(matmul_int4_range)(z, w, y, n, in, out, c->int8, o);
        }
        for (long r = 0; bias && r < n; r++) OF(add)(y + r * out + o.lo, bias + o.lo, o.hi - o.lo);
    }
    barrier(self);
    if (!l->rank) return;
    packed = 0;
    parallel_for(o, l->rank, 16, MIN_CHUNK)
        OF(matmul_range)(x, (const T *)l->a + o.lo * in, s->low + o.lo, n, in, o.hi - o.lo, l->rank, panel, packed++);
    barrier(self);
    packed = 0;
    parallel_for(o, out, 16, MIN_CHUNK) {
        OF(matmul_range)(s->low, (const T *)l->b + o.lo * l->rank, s->more + o.lo, n, l->rank, o.hi - o.lo, out, panel,
                         packed++);
        for (long r = 0; r < n; r++) OF(add)(y + r * out + o.lo, s->more + r * out + o.lo, o.hi - o.lo);
    }
    barrier(self);
}

/* silu(gate) times up, [n][2][ffn] to [n][ffn]: numbers i.lo .. i.hi of the results, by 16. */
static void OF(silu_times_up)(const T *x, T *y, long ffn, range at) {
    for (long i = at.lo; i < at.hi; i += 16) {
        const T *from = x + i / ffn * 2 * ffn + i % ffn;
        f32x16 gate = OF(load)(from), up = OF(load)(from + ffn);
        OF(store)(y + i, OF(round)(gate / (splat(1.0f) + exp_f32(-gate))) * up);
    }
}

/* Norms and rope of heads `i` of all, of queries, keys and values, qkv [n][heads][head_dim]; keys and values to the
 * cache, [n_kv_heads][slots][head_dim]. */
static void OF(rope_and_store)(const config *c, const layer_weights *l, const attn_index *a, const T *cos, const T *sin,
                               T *keys, T *values, T *qkv, range i) {
    long dim = c->head_dim, first_value = c->n_heads + c->n_kv_heads, all = first_value + c->n_kv_heads;
    for (; i.lo < i.hi; i.lo++) {
        long r = i.lo / all, h = i.lo % all;
        long to = (h - c->n_heads) % c->n_kv_heads * a->head_stride + (a->start + r) * dim;
        T *head = qkv + i.lo * dim;
        const T *norm = h < c->n_heads ? l->q_norm : l->k_norm;
        if (h < first_value) {
            if (norm) OF(rmsnorm)(head, norm, head, dim, c->eps);
            OF(rope)(head, cos + r * dim, sin + r * dim, dim);
        }
        if (h >= c->n_heads) memcpy((h < first_value ? keys : values) + to, head, dim * sizeof(T));
    }
}

/* What heads of rows read, to s->xb: for `i` of all pairs of ATTN_ROWS rows and a key head. */
static void OF(attention_heads)(const config *c, const attn_index *a, const T *keys, const T *values,
                                const OF(state) *s, range i) {
    long dim = c->head_dim, group = c->n_heads / c->n_kv_heads, across = (c->n_heads + 2 * c->n_kv_heads) * dim;
    for (; i.lo < i.hi; i.lo++) {
        long h = i.lo % c->n_kv_heads, from = i.lo / c->n_kv_heads * ATTN_ROWS;
        long to = from + ATTN_ROWS < a->n ? from + ATTN_ROWS : a->n;
        for (long r = from; r < to; r++)
            memcpy(s->q + (r - from) * group * dim, s->hb + r * across + h * group * dim, group * dim * sizeof(T));
        OF(attention)(c, a, from, to, keys + h * a->head_stride, values + h * a->head_stride, s);
        for (long m = 0; m < (to - from) * group; m++) {
            T *out = s->xb + ((from + m / group) * c->n_heads + h * group + m % group) * dim;
            f32x16 by = splat(1.0f / s->denom[m]);
            for (long d = 0; d < dim; d += 16) OF(store)(out + d, load_float(s->acc + m * dim + d) * by);
        }
    }
}

typedef struct {
    const config *c;
    const layer_weights *l;
    long n_layers;
    const attn_index *a;
    T *x;
    const T *cos, *sin;
    T *keys, *values;
    T *const *copies;
    const T *qkv_in;
    long n_kv_only;
    char *space;
} OF(forward_args);

static OF(state) OF(state_at)(const OF(forward_args) *f, int thread) {
    state_bytes b = state_bytes_of(f->c, f->a, sizeof(T));
    OF(state) s;
    char *space = f->space;
    s.xb = (T *)space, s.hb = (T *)(space += b.xb), s.xb2 = (T *)(space += b.hb);
    s.low = (T *)(space += b.xb2), s.more = (T *)(space += b.low);
    space += b.more + thread * thread_bytes(b);
    s.q = (T *)space, s.att = (float *)(space += b.q);
    s.acc = (float *)(space += b.att), s.denom = (float *)(space += b.acc), s.panel = space + b.denom;
    return s;
}

/* x [n][width] += added; a copy of these; y = their norms. `added`, `copy`, `w`: 0 where there is none. */
static void OF(add_copy_norm)(T *x, const T *added, T *copy, const T *w, T *y, long n, long width, float eps,
                              worker *self) {
    parallel_for(r, n, 1, 1)
        for (; r.lo < r.hi; r.lo++) {
            if (added) OF(add)(x + r.lo * width, added + r.lo * width, width);
            if (copy) memcpy(copy + r.lo * width, x + r.lo * width, width * sizeof(T));
            if (w) OF(rmsnorm)(x + r.lo * width, w, y + r.lo * width, width, eps);
        }
    barrier(self);
}

static void OF(forward_task)(const void *args, worker w) {
    const OF(forward_args) *f = args;
    const config *c = f->c;
    const attn_index *a = f->a;
    attn_index rest;
    OF(state) s = OF(state_at)(f, w.id);
    T *x = f->x, *keys = f->keys, *values = f->values, *added = 0;
    worker *self = &w;
    long n = a->n, hidden = c->hidden, all = c->n_heads + 2 * c->n_kv_heads, heads_wide = c->n_heads * c->head_dim;
    for (long k = 0; k < f->n_layers; k++, keys += a->layer_stride, values += a->layer_stride) {
        const layer_weights *l = f->l + k;
        T *copy = f->copies ? f->copies[k] : 0;
        if (copy && !l->attn_norm) OF(add_copy_norm)(x, added, copy, 0, 0, n, hidden, c->eps, self), added = 0;
        if (l->attn_norm) {
            if (!f->qkv_in) OF(add_copy_norm)(x, added, copy, l->attn_norm, s.xb, n, hidden, c->eps, self);
            OF(linear)(c, f->qkv_in ? f->qkv_in : s.xb, l->qkv, l->qkv_bias, &l->qkv_lora, s.hb, n, c->qkv_in,
                       all * c->head_dim, &s, self);
            parallel_for(i, n * all, 1, 16) OF(rope_and_store)(c, l, a, f->cos, f->sin, keys, values, s.hb, i);
            barrier(self);
            if (f->n_kv_only && k == f->n_layers - 1) { /* the first rows are done */
                x += f->n_kv_only * hidden, s.hb += f->n_kv_only * all * c->head_dim, n -= f->n_kv_only;
                rest = (attn_index){a->prefix + f->n_kv_only, a->n_extra + f->n_kv_only,
                                    a->extra + f->n_kv_only * a->max_extra, n, a->max_extra, a->start + f->n_kv_only,
                                    a->head_stride, a->layer_stride};
                a = &rest;
            }
            parallel_for(i, (n + ATTN_ROWS - 1) / ATTN_ROWS * c->n_kv_heads, 1, 1)
                OF(attention_heads)(c, a, keys, values, &s, i);
            barrier(self);
            OF(linear)(c, s.xb, l->attn_out, l->attn_out_bias, &l->attn_out_lora, added = s.xb2, n, heads_wide, hidden, &s,
                       self);
        }
        if (l->ffn_norm) {
            OF(add_copy_norm)(x, added, 0, l->ffn_norm, s.xb, n, hidden, c->eps, self);
            OF(linear)(c, s.xb, l->gate_up, l->gate_up_bias, &l->gate_up_lora, s.hb, n, hidden, 2 * c->ffn, &s, self);
            T *active = s.hb + 2 * n * c->ffn;
            parallel_for(i, n * c->ffn, 16, 64) OF(silu_times_up)(s.hb, active, c->ffn, i);
            barrier(self);
            OF(linear)(c, active, l->down, l->down_bias, &l->down_lora, added = s.xb2, n, c->ffn, hidden, &s, self);
        }
    }
    if (added) OF(add_copy_norm)(x, added, 0, 0, 0, n, hidden, c->eps, self);
}

/* Rows x [n][hidden] through layers, in place. A layer without the norm before a part of it leaves that part out. cos,
 * sin [n][head_dim]. `keys`, `values`: of the first of these layers, [n_kv_heads][slots][head_dim] each. `copies`:
 * where the rows that come to each are copied to, [n][hidden], and 0 for others; or 0. `qkv_in`: what attention of a
 * single layer reads in place of the norm of its rows, [n][qkv_in]; or 0. `n_kv_only`: how many of the first rows are
 * wanted for their keys and values alone; what is left of them is of no use. `space`: `forward_bytes`. */
void OF(forward)(const config *c, const layer_weights *l, long n_layers, const attn_index *a, T *x, const T *cos,
                 const T *sin, T *keys, T *values, T *const *copies, const T *qkv_in, long n_kv_only, char *space,
                 long threads) {
    long n_loops = LOOPS_PER_LAYER * n_layers + 1;
    loop *loops = aligned(space);
    OF(forward_args) f = {c, l, n_layers, a, x, cos, sin, keys, values, copies, qkv_in, n_kv_only,
                          (char *)loops + align64(n_loops * sizeof(loop))};
    run_parallel(OF(forward_task), &f, threads, loops, n_loops);
}

#include "logits_of_type.h"
#include "graph_of_type.h"
