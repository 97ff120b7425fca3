/* The last norm and the head, of rows of one type of numbers (as passes_of_type.h): logits as floats.
 *
 * Logits are rounded to the type of the rows, as a product of it is. A head on a four-bit grid has beside it the weights
 * that it was made of: the best tokens, and some more, are scored once more with these, each as a product would.
 */

/* Logits [vocab] of a row that was scored by a grid: again, exactly, where a token may be among the best SHARP. */
static void OF(sharpen)(const T *x, const T *w, float *y, long in, long vocab) {
    float best[SHARP]; /* of pieces, the largest logits, falling */
    long n = 0, piece = larger(1, vocab / (12 * SHARP));
    for (long k = 0; k < SHARP; k++) best[k] = -INFINITY;
    for (long lo = 0; lo < vocab; lo += piece) {
        long hi = lo + piece < vocab ? lo + piece : vocab, k = SHARP - 1;
        float top = y[lo];
        for (long i = lo + 1; i < hi; i++) top = y[i] > top ? y[i] : top;
        if (!(top > best[k])) continue;
        for (; k && top > best[k - 1]; k--) best[k] = best[k - 1];
        best[k] = top;
    }
    for (long i = 0; i < vocab && n < 4 * SHARP; i++) {
        if (!(y[i] >= best[SHARP - 1])) continue;
        T one;
        OF(block)(x, w + i * in, &one, in, 1, 1, 1);
        y[i] = OF(alone)(one);
        n++;
    }
}

typedef struct { const T *x; const head *d; float *y; long n; char *space; } OF(head_of);

static void OF(share_head)(const void *what, hand mine) {
    const OF(head_of) *o = what;
    const head *d = o->d;
    hand *h = &mine;
    long n = o->n, in = d->in;
    T *rows = (T *)o->space;
    char *mine_at = o->space + lines_of(n * in * sizeof(T)) + h->me * speech_bytes(d, n, sizeof(T));
    T *some = (T *)mine_at, *tile = (T *)(mine_at += lines_of(n * SPEECH * sizeof(T)));
    fine f = fine_at(mine_at, n, in);
    int known = 0;
    OF(join)((T *)o->x, 0, 0, d->norm, rows, n, in, d->eps, h);
    EACH(v, d->vocab, 16, FEW) {
        if (d->packed && !known++) OF(refined)(rows, f, n, in, 0);
        for (long lo = v.lo; lo < v.hi; lo += SPEECH) {
            long wide = v.hi - lo < SPEECH ? v.hi - lo : SPEECH;
            if (d->packed) OF(four)(f, d->packed, some - lo, n, in, SPEECH, 0, (part){lo, lo + wide});
            else OF(multiply)(rows, (const T *)d->w + lo * in, some, n, in, wide, SPEECH, tile, known++);
            for (long r = 0; r < n; r++) {
                float *y = o->y + r * d->vocab + lo;
                long k = 0;
                for (; k + 16 <= wide; k += 16) store(y + k, OF(wide)(some + r * SPEECH + k));
                for (; k < wide; k++) y[k] = OF(alone)(some[r * SPEECH + k]);
            }
        }
    }
    meet(h);
    if (d->packed) {
        EACH(r, n, 1, 1)
            for (; r.lo < r.hi; r.lo++) OF(sharpen)(rows + r.lo * in, d->w, o->y + r.lo * d->vocab, in, d->vocab);
        meet(h);
    }
}

/* Logits [n][vocab] of rows [n][in] as they leave the layers; `space`: `speaking` bytes. */
void OF(speak)(const head *d, const T *x, float *y, long n, char *space, long threads) {
    step steps[3];
    together(OF(share_head), &(OF(head_of)){x, d, y, n, aligned(space)}, threads, steps, 3);
}
