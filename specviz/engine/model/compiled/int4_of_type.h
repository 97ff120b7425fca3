/* Products with weights in four bits, of rows of one type of numbers (as layers_of_type.h).
 *
 * Weights lie in blocks of sixteen outputs by a GROUP of thirty-two inputs, 320 bytes: for every output two bfloat16,
 * the scale of its group and the value of its level 8; then four lines, in which a byte of an output holds the levels
 * of two inputs: in line v, byte b of an output those of the inputs 8 v + b (low half) and 8 v + 4 + b.
 * Activations are quantized to sixteen bits, with a scale for each group: whole numbers are multiplied, and added up
 * without rounding. Eight bits take half the time where there are many rows, and lose a tenth of what the grid of the
 * weights does; but more than weights do that were trained on a grid.
 */

INLINE void OF(store_bytes)(signed char *p, i32x16 a, i32x16 b) {
    i8x16 narrow[2] = {__builtin_convertvector(a, i8x16), __builtin_convertvector(b, i8x16)};
    memcpy(p, narrow, sizeof narrow);
}

/* Rows x [n][in] in sixteen bits, or in eight (z.low alone). */
static void OF(quantize)(const T *x, quantized z, long n, long in, long int8) {
    float max_q = int8 ? INT8_MAX_Q : INT16_MAX_Q;
    for (long g = 0; g < n * in / GROUP; g++) {
        f32x16 a = OF(load)(x + g * GROUP), b = OF(load)(x + g * GROUP + 16), most = splat(0);
        most = blend(a > most, a, most), most = blend(-a > most, -a, most);
        most = blend(b > most, b, most), most = blend(-b > most, -b, most);
        float top = hmax(most);
        f32x16 by = splat(top > 0 ? max_q / top : 0), magic = splat(12582912.0f);
        i32x16 qa = (i32x16)(a * by + magic) - (i32x16)magic, qb = (i32x16)(b * by + magic) - (i32x16)magic;
        i32x16 both = qa + qb, high_a = (qa + 128) >> 8, high_b = (qb + 128) >> 8;
        int sum = 0;
        if (int8) OF(store_bytes)(z.low + g * GROUP, qa, qb);
        else {
            OF(store_bytes)(z.high + g * GROUP, high_a, high_b);
            OF(store_bytes)(z.low + g * GROUP, qa - (high_a << 8), qb - (high_b << 8));
        }
        for (int k = 0; k < 16; k++) sum += both[k];
        z.scale[g] = top / max_q;
        z.sum[g] = top / max_q * (float)sum;
    }
}

/* Sixteen outputs of M rows, whose first is the first of z. */
INLINE void OF(int4_tile)(quantized z, const char *w, T *y, long in, long ld, const int M, const int INT8) {
    f32x16 sums[8];
    long groups = in / GROUP;
    UNROLLED for (int m = 0; m < M; m++) sums[m] = splat(0);
    for (long g = 0; g < groups; g++, w += INT4_BLOCK) {
        i32x16 head, level[8];
        memcpy(&head, w, sizeof head);
        for (int v = 0; v < 4; v++) {
            i32x16 line;
            memcpy(&line, w + 64 + 64 * v, sizeof line);
            level[2 * v] = line & 0x0f0f0f0f, level[2 * v + 1] = (line >> 4) & 0x0f0f0f0f;
            __builtin_prefetch(w + 64 + 64 * v + PREFETCH_BYTES / 2, 0, 2);
        }
        __builtin_prefetch(w + PREFETCH_BYTES / 2, 0, 2);
        f32x16 scale = (f32x16)(head << 16), base = (f32x16)(head & (int)0xffff0000) - splat(8) * scale;
        UNROLLED for (int m = 0; m < M; m++) {
            const signed char *high = z.high + m * in + g * GROUP, *low = z.low + m * in + g * GROUP;
            i32x16 a = {0}, b = {0};
            UNROLLED for (int v = 0; v < 8; v++) {
                if (!INT8) a = dot4(a, level[v], high + 4 * v);
                b = dot4(b, level[v], low + 4 * v);
            }
            sums[m] += __builtin_convertvector((a << 8) + b, f32x16) * (scale * splat(z.scale[m * groups + g]));
            sums[m] += base * splat(z.sum[m * groups + g]);
        }
    }
    for (int m = 0; m < M; m++) OF(store)(y + m * ld, sums[m]);
}

/* Quantized rows [n][in] times blocks of outputs o.lo .. o.hi (whole sixteens), to y [n][ld]. */
static void OF(matmul_int4_range)(quantized z, const char *w, T *y, long n, long in, long ld, long int8, range o) {
    for (long first = o.lo; first < o.hi; first += 16) {
        const char *block = w + first / 16 * (in / GROUP) * INT4_BLOCK;
        for (long m = 0; m < n; m += 8) {
            quantized at = {z.high + m * in, z.low + m * in, z.scale + m * in / GROUP, z.sum + m * in / GROUP};
            T *to = y + m * ld + first;
#define ROWS(M) case M: OF(int4_tile)(at, block, to, in, ld, M, 0); break; \
                case -M: OF(int4_tile)(at, block, to, in, ld, M, 1); break;
            switch ((n - m < 8 ? n - m : 8) * (int8 ? -1 : 1)) {
                ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6) ROWS(7) ROWS(8)
            }
#undef ROWS
        }
    }
}

typedef struct { const T *x; const char *w; T *y; long n, in, out, int8; char *space; } OF(matmul_int4_args);

static void OF(matmul_int4_task)(const void *args, worker w) {
    const OF(matmul_int4_args) *f = args;
    worker *self = &w;
    quantized z = quantized_at(f->space + self->id * quantized_bytes(f->n, f->in), f->n, f->in);
    int packed = 0;
    parallel_for(o, f->out, 16, MIN_CHUNK) {
        if (!packed++) OF(quantize)(f->x, z, f->n, f->in, f->int8);
        OF(matmul_int4_range)(z, f->w, f->y, f->n, f->in, f->out, f->int8, o);
    }
    barrier(self);
}

/* y [n][out] = x [n][in] times int4 weights; `space`: `quantized_bytes` for every thread. */
void OF(matmul_int4)(const T *x, const char *w, T *y, long n, long in, long out, long int8, char *space, long threads) {
    loop only;
    run_parallel(OF(matmul_int4_task), &(OF(matmul_int4_args)){x, w, y, n, in, out, int8, space}, threads, &only, 1);
}
