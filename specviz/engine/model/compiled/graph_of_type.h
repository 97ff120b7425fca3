/* Products, norms and layers on buffers of rows, one after another in one call (as layers_of_type.h).
 *
 * Between the small products of a drafter most of its time is calls. A graph is made once for a network; the
 * arguments of a run say how many rows there are, and where those lie that come from outside or go there.
 */

/* Where buffers lie, how many rows they have, and how many bytes of `space` (0: none yet) they take. */
static size_t OF(place_buffers)(const graph *g, const graph_args *f, char *space, T **at, long *rows) {
    size_t bytes = 0;
    for (long k = 0; k < g->n_buffers; k++) {
        rows[k] = g->buffers[k].per_row * f->n_rows + g->buffers[k].fixed;
        at[k] = f->external[k] ? f->external[k] : space ? (T *)(space + bytes) : 0;
        if (!f->external[k]) bytes += align64(rows[k] * g->buffers[k].width * sizeof(T));
    }
    return bytes;
}

/* out [n][dim]: the rows of a table [..][dim] at some positions. */
static void OF(gather)(const T *table, const long *positions, T *out, long n, long dim) {
    for (long r = 0; r < n; r++) memcpy(out + r * dim, table + positions[r] * dim, dim * sizeof(T));
}

/* COPY and ADD: y [n_y][ld] from a column on, by rows of x [n_x][width]. */
static void OF(copy_or_add)(const op *p, const T *x, T *y, long n_x, long n_y, long width, long ld) {
    for (long r = 0; r < n_y; r++) {
        long from = p->map == REPEAT ? r / p->group : p->map == CYCLE ? r % n_x : p->map == LAST ? n_x - n_y + r
                  : p->map == PREVIOUS && r % p->group ? r - 1 : r;
        if (p->kind == ADD) OF(add)(y + r * ld + p->column, x + from * width, width);
        else memcpy(y + r * ld + p->column, x + from * width, width * sizeof(T));
    }
}

/* All ops in their order; `space`: `graph_bytes`. */
void OF(run_graph)(const graph *g, const graph_args *f, char *space, long threads) {
    T *at[MAX_BUFFERS];
    long rows[MAX_BUFFERS], angles = f->index ? f->index->n * g->head_dim : 0;
    char *rest = aligned(space) + OF(place_buffers)(g, f, aligned(space), at, rows);
    T *cos = (T *)rest, *sin = cos + angles; /* [n][head_dim] */
    rest += align64(2 * angles * sizeof(T));
    if (angles) {
        OF(gather)(f->cos, f->positions, cos, f->index->n, g->head_dim);
        OF(gather)(f->sin, f->positions, sin, f->index->n, g->head_dim);
    }
    for (const op *p = g->ops; p < g->ops + g->n_ops; p++) {
        T *x = at[p->x], *y = at[p->y];
        long n = rows[p->y], width = g->buffers[p->x].width, ld = g->buffers[p->y].width;
        switch (p->kind) {
        case MATMUL:
            if (p->bits) OF(matmul_int4)(x, p->w, y, n, width, ld, p->int8, rest, threads);
            else OF(matmul)(x, p->w, y, n, width, ld, threads);
            break;
        case RMSNORM:
            for (long r = 0; r < n; r++) OF(rmsnorm)(x + r * width, p->w, y + r * ld + p->column, width, p->eps);
            break;
        case SILU:
            for (long i = 0; i < n * ld; i += 16) {
                f32x16 v = OF(load)(y + i);
                OF(store)(y + i, v / (splat(1.0f) + exp_f32(-v)));
            }
            break;
        case TO_FLOAT: /* buffer y holds floats */
            for (long i = 0; i < n * width; i += 16) store_float((float *)y + i, OF(load)(x + i));
            break;
        case LAYER:
            OF(forward)(p->c, p->l, 1, f->index, x, cos, sin, f->keys[p->cache], f->values[p->cache], 0,
                        p->y == p->x ? 0 : y, rows[p->x] - rows[p->last], rest, threads);
            break;
        default: OF(copy_or_add)(p, x, y, rows[p->x], n, width, ld);
        }
    }
}

/* Bytes that `run_graph` works in. */
size_t OF(graph_bytes)(const graph *g, const graph_args *f, long threads) {
    T *at[MAX_BUFFERS];
    long rows[MAX_BUFFERS];
    size_t most = 0, buffers = OF(place_buffers)(g, f, 0, at, rows);
    for (const op *p = g->ops; p < g->ops + g->n_ops; p++) {
        size_t need = 0;
        if (p->kind == MATMUL && p->bits) need = threads * quantized_bytes(rows[p->y], g->buffers[p->x].width);
        if (p->kind == LAYER) need = forward_bytes(p->c, f->index, 1, sizeof(T), threads);
        if (need > most) most = need;
    }
    return buffers + align64(f->index ? 2 * f->index->n * g->head_dim * sizeof(T) : 0) + most + 64;
}
