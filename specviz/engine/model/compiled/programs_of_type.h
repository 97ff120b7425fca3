/* Products, norms and layers on tables of rows, one after another in one call (as passes_of_type.h).
 *
 * Between the small products of a drafter most of its time is calls. A program is made once for a network; an occasion
 * says how many rows there are, and where those lie that come from outside or go there.
 */

/* Where the tables of an occasion lie, how many rows they have, and how many bytes of `space` (0: none yet) they take. */
static size_t OF(laid)(const program *g, const occasion *c, char *space, T **at, long *rows) {
    size_t taken = 0;
    for (long k = 0; k < g->n_tables; k++) {
        rows[k] = g->tables[k].each * c->count + g->tables[k].fixed;
        at[k] = c->given[k] ? c->given[k] : space ? (T *)(space + taken) : 0;
        if (!c->given[k]) taken += lines_of(rows[k] * g->tables[k].width * sizeof(T));
    }
    return taken;
}

/* Angles of rows, from those of all positions. */
static void OF(turns)(const T *all, const long *positions, T *out, long n, long dim) {
    for (long r = 0; r < n; r++) memcpy(out + r * dim, all + positions[r] * dim, dim * sizeof(T));
}

static void OF(moved)(const deed *d, const T *x, T *y, long n_x, long n_y, long width, long ld) {
    for (long r = 0; r < n_y; r++) {
        long from = d->map == SPREAD ? r / d->group : d->map == CYCLE ? r % n_x : d->map == LAST ? n_x - n_y + r
                  : d->map == BEFORE && r % d->group ? r - 1 : r;
        if (d->kind == ADD) OF(add)(y + r * ld + d->column, x + from * width, width);
        else memcpy(y + r * ld + d->column, x + from * width, width * sizeof(T));
    }
}

void OF(perform)(const program *g, const occasion *c, char *space, long threads) {
    T *at[TABLES];
    long rows[TABLES], turned = c->p ? c->p->n * g->dim : 0;
    char *rest = aligned(space) + OF(laid)(g, c, aligned(space), at, rows);
    T *cos = (T *)rest, *sin = cos + turned;
    rest += lines_of(2 * turned * sizeof(T));
    if (turned) OF(turns)(c->cos, c->positions, cos, c->p->n, g->dim), OF(turns)(c->sin, c->positions, sin, c->p->n, g->dim);
    for (const deed *d = g->deeds; d < g->deeds + g->n_deeds; d++) {
        T *x = at[d->x], *y = at[d->y];
        long n = rows[d->y], width = g->tables[d->x].width, ld = g->tables[d->y].width;
        switch (d->kind) {
        case PRODUCT:
            if (d->bits) OF(product_four)(x, d->w, y, n, width, ld, d->eighths, rest, threads);
            else OF(product)(x, d->w, y, n, width, ld, threads);
            break;
        case NORM:
            for (long r = 0; r < n; r++) OF(norm)(x + r * width, d->w, y + r * ld + d->column, width, d->eps);
            break;
        case SILU:
            for (long i = 0; i < n * ld; i += 16) {
                v16 v = OF(wide)(y + i);
                OF(put)(y + i, v / (spread(1.0f) + exponential(-v)));
            }
            break;
        case WIDEN: /* the other table holds floats */
            for (long i = 0; i < n * width; i += 16) store((float *)y + i, OF(wide)(x + i));
            break;
        case LAYER:
            OF(pass)(d->s, d->l, 1, c->p, x, cos, sin, c->keys[d->place], c->values[d->place], 0, d->y == d->x ? 0 : y,
                     rows[d->x] - rows[d->last], rest, threads);
            break;
        default: OF(moved)(d, x, y, rows[d->x], n, width, ld);
        }
    }
}

/* Bytes that an occasion works in. */
size_t OF(performing)(const program *g, const occasion *c, long threads) {
    T *at[TABLES];
    long rows[TABLES];
    size_t most = 0, tables = OF(laid)(g, c, 0, at, rows);
    for (const deed *d = g->deeds; d < g->deeds + g->n_deeds; d++) {
        size_t need = 0;
        if (d->kind == PRODUCT && d->bits) need = threads * fine_bytes(rows[d->y], g->tables[d->x].width);
        if (d->kind == LAYER) need = working(d->s, c->p, 1, sizeof(T), threads);
        if (need > most) most = need;
    }
    return tables + lines_of(c->p ? 2 * c->p->n * g->dim * sizeof(T) : 0) + most + 64;
}
