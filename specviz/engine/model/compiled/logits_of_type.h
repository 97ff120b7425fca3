/* The last norm and the head, of rows of one type of numbers (as layers_of_type.h): logits as floats.
 *
 * Logits are rounded to the type of the rows, as a product of it is. A head in int4 has beside it the weights that it
 * was made of: the best tokens, and some more, are scored once more with these, each as a product would.
 */

/* Logits y [vocab] of a row x [in] that was scored in int4: again, exactly, where a token may be among the best. */
static void OF(rescore)(const T *x, const T *w, float *y, long in, long vocab) {
    float best[RESCORED]; /* of pieces of the vocabulary, the largest logits, falling */
    long n = 0, piece = max_of(1, vocab / (12 * RESCORED));
    for (long k = 0; k < RESCORED; k++) best[k] = -INFINITY;
    for (long lo = 0; lo < vocab; lo += piece) {
        long hi = lo + piece < vocab ? lo + piece : vocab, k = RESCORED - 1;
        float top = y[lo];
        for (long i = lo + 1; i < hi; i++) top = y[i] > top ? y[i] : top;
        if (!(top > best[k])) continue;
        for (; k && top > best[k - 1]; k--) best[k] = best[k - 1];
        best[k] = top;
    }
    for (long i = 0; i < vocab && n < 4 * RESCORED; i++) {
        if (!(y[i] >= best[RESCORED - 1])) continue;
        T one;
        OF(tile)(x, w + i * in, &one, in, 1, 1, 1, 0);
        y[i] = OF(to_float)(one);
        n++;
    }
}

typedef struct { const T *x; const lm_head *d; float *y; long n; char *space; } OF(logits_args);

static void OF(logits_task)(const void *args, worker w) {
    const OF(logits_args) *f = args;
    const lm_head *d = f->d;
    worker *self = &w;
    long n = f->n, in = d->in;
    T *xb = (T *)f->space; /* [n][in] */
    char *own = f->space + align64(n * in * sizeof(T)) + self->id * logits_thread_bytes(d, n, sizeof(T));
    T *chunk = (T *)own; /* [n][LOGITS_CHUNK] */
    OF(packed) *panel = (OF(packed) *)(own += align64(n * LOGITS_CHUNK * sizeof(T)));
    quantized z = quantized_at(own, n, in);
    int packed = 0;
    OF(add_copy_norm)((T *)f->x, 0, 0, d->norm, xb, n, in, d->eps, self);
    parallel_for(v, d->vocab, 16, MIN_CHUNK) {
        if (d->packed && !packed++) OF(quantize)(xb, z, n, in, 0);
        for (long lo = v.lo; lo < v.hi; lo += LOGITS_CHUNK) {
            long wide = v.hi - lo < LOGITS_CHUNK ? v.hi - lo : LOGITS_CHUNK;
            range some = {lo, lo + wide};
            if (d->packed) OF(matmul_int4_range)(z, d->packed, chunk - lo, n, in, LOGITS_CHUNK, 0, some);
            else OF(matmul_range)(xb, (const T *)d->w + lo * in, chunk, n, in, wide, LOGITS_CHUNK, panel, packed++);
            for (long r = 0; r < n; r++) {
                float *y = f->y + r * d->vocab + lo;
                long k = 0;
                for (; k + 16 <= wide; k += 16) store_float(y + k, OF(load)(chunk + r * LOGITS_CHUNK + k));
                for (; k < wide; k++) y[k] = OF(to_float)(chunk[r * LOGITS_CHUNK + k]);
            }
        }
    }
    barrier(self);
    if (d->packed) {
        parallel_for(r, n, 1, 1)
            for (; r.lo < r.hi; r.lo++) OF(rescore)(xb + r.lo * in, d->w, f->y + r.lo * d->vocab, in, d->vocab);
        barrier(self);
    }
}

/* Logits y [n][vocab] of rows x [n][in] as they leave the layers; `space`: `logits_bytes`. */
void OF(logits)(const lm_head *d, const T *x, float *y, long n, char *space, long threads) {
    loop loops[3];
    run_parallel(OF(logits_task), &(OF(logits_args)){x, d, y, n, aligned(space)}, threads, loops, 3);
}
