/* Rows through decoder layers of the Llama kind: docs/kernel.md has the layout of everything that is in memory.
 *
 * A row's numbers depend on its own path alone: every sum over numbers of a row, and every sum over the keys that it
 * sees, is taken in one order, whatever other rows are in the pass and in whatever slots the keys lie. Weights are
 * read once for all rows, and outputs are shared between threads, so their number changes nothing either. Numbers are
 * rounded to their type where the library rounds them.
 */
#include <stddef.h>
#include <stdlib.h>
#include "vec.h"
#include "thread_pool.h"

#define GEMM_ROWS 6       /* rows and outputs of a tile whose sums are held in registers; */
#if PARTS == 1 || defined __clang__
#define GEMM_OUTS 4
#define GEMV_ROWS 10      /* rows for which weights are read in one line */
#else /* gcc, with half as many registers of half the size */
#define GEMM_OUTS 1
#define GEMV_ROWS GEMM_ROWS
#endif
#define TILE_SUMS 24      /* of any tile at most */
#define PANEL_ROWS 96     /* rows that stay in the cache while the weights go by, */
#define PANEL_BYTES (256 << 10) /* and the bytes that they may take */
#define PREFETCH_BYTES 8192
#define PREFETCH_SLOTS 32 /* of keys and values */
#define ATTN_ROWS 32      /* rows of a pass whose scores are held at once */
#define ATTN_SLOTS 256    /* slots whose values stay in the cache while rows go by */
#define MAX_HEAD_DIM 256

#define MIN_CHUNK 2       /* sixteens of outputs that are worth a thread's while */
#define LOOPS_PER_LAYER 18 /* norm, qkv, rope, attention, attn_out, copies; norm, gate and up, silu, down; LoRA: 2 x 4 */
#define GROUP 32          /* int4 weights that share a scale, along a row */
#define INT4_BLOCK 320    /* bytes */
#define RESCORED 64       /* tokens that an int4 head scores again, at least */
#define LOGITS_CHUNK 512  /* logits that are rounded and widened at once; whole sixteens */
#define INT16_MAX_Q 32639.0f /* 127 * 256 + 127: the largest activation in sixteen bits, */
#define INT8_MAX_Q 127.0f    /* and in eight */

typedef struct {
    long hidden, qkv_in, ffn, n_heads, n_kv_heads, head_dim; /* `qkv_in`: numbers of a row that attention reads */
    long bits;               /* 4 where the weights of products are int4, else 0 */
    long int8;               /* activations that meet int4 are quantized to eight bits, not sixteen */
    float eps, scale;        /* of rmsnorm; of scores */
    long lora_rank;          /* the largest of a layer's; 0 where no product has one */
} config;

typedef struct { /* b a x is added to a product: a [rank][in], b [out][rank], `rank` a multiple of 32 or 0 */
    const void *a, *b;
    long rank;
} lora;

typedef struct { /* biases, and norms of queries and keys: 0 where there are none */
    const void *attn_norm, *qkv, *qkv_bias, *q_norm, *k_norm, *attn_out, *attn_out_bias;
    const void *ffn_norm, *gate_up, *gate_up_bias, *down, *down_bias;
    lora qkv_lora, attn_out_lora, gate_up_lora, down_lora;
} layer_weights;

typedef struct { /* w [vocab][in]; `packed`: the same weights in int4, or 0 */
    const void *norm, *w;
    const char *packed;
    long in, vocab;
    float eps;
} lm_head;

typedef struct { /* row r sees the slots 0 .. prefix[r], then extra[r * max_extra] .. of which it has n_extra[r] */
    const int *prefix, *n_extra, *extra;
    long n, max_extra, start; /* keys and values of row r go to slot start + r */
    long head_stride, layer_stride; /* numbers between the heads of a layer's keys, and between layers */
} attn_index;

/* A graph of ops on buffers [per_row * n_rows + fixed][width], made once for a network. */
typedef struct { long width, per_row, fixed; } buffer;
enum { MATMUL, RMSNORM, COPY, ADD, SILU, TO_FLOAT, LAYER };   /* what is done: to buffer y, by buffer x */
enum { SAME, REPEAT, CYCLE, PREVIOUS, LAST };                 /* which row of x is copied to a row of y */

typedef struct {
    long kind, x, y, column; /* `column`: of y, from which on it is written to */
    long map, group;         /* REPEAT: each row is copied to `group`; PREVIOUS: the row before, of each `group` */
    long cache, last;        /* a layer's number in the cache, and a buffer with as many rows as go on behind it */
    const void *w;
    const layer_weights *l;
    const config *c;
    long bits, int8;         /* as of a config */
    float eps;
} op;

#define MAX_BUFFERS 32

typedef struct {
    const buffer *buffers;
    const op *ops;
    long n_buffers, n_ops, head_dim;
} graph;

typedef struct { /* arguments of a run; `external`: where buffers lie that are not the graph's own, else 0 */
    long n_rows;
    void *const *external, *const *keys, *const *values;
    const void *cos, *sin;   /* [all positions][head_dim] */
    const long *positions;   /* [n] */
    const attn_index *index; /* 0 where no layer is */
} graph_args;

/* Scores [0 .. len) to weights that are not divided by their sum yet, zeros up to the next whole vector; the sum. */
static float softmax(float *s, long len, float scale) {
    long whole = (len + 15) / 16 * 16;
    for (long j = len; j < whole; j++) s[j] = s[0];
    f32x16 most = load_float(s), sum = splat(0);
    for (long j = 16; j < whole; j += 16) most = blend(load_float(s + j) > most, load_float(s + j), most);
    float top = most[0];
    for (int k = 1; k < 16; k++) top = most[k] > top ? most[k] : top;
    for (long j = 0; j < whole; j += 16) store_float(s + j, exp_f32((load_float(s + j) - splat(top)) * splat(scale)));
    for (long j = len; j < whole; j++) s[j] = 0;
    for (long j = 0; j < whole; j += 16) sum += load_float(s + j);
    return hsum(sum);
}

/* The most slots that one of these rows sees, in whole vectors. */
static long max_context(const attn_index *a, long from, long to) {
    long most = 0;
    for (long r = from; r < to; r++)
        if (a->prefix[r] + a->n_extra[r] > most) most = a->prefix[r] + a->n_extra[r];
    return (most + 15) / 16 * 16;
}

static long max_of(long a, long b) { return a > b ? a : b; }

static void *aligned(char *space) { return space + (64 - (size_t)space % 64) % 64; }

static size_t align64(size_t n) { return (n + 63) / 64 * 64; }

/* Rows of numbers of `item` bytes that are packed at once, in panels of as many as a tile takes: all of them where they
 * are few. They lie in memory of the caller, as do all large things: a thread's stack may be half a megabyte. */
static long panel_rows(long n, long in, long item) {
    long most = PANEL_BYTES / (in * PACKED_BYTES(item));
    most = most < GEMM_ROWS ? 1 : most < PANEL_ROWS ? most / GEMM_ROWS * GEMM_ROWS : PANEL_ROWS;
    return n < most ? n : most;
}

static size_t panel_bytes(long n, long in, long item) {
    return align64(panel_rows(n, in, item) * in * PACKED_BYTES(item));
}

typedef struct { /* activations [n][in] as 256 high + low, and of every GROUP the scale and the sum of its numbers */
    signed char *high, *low; /* [n][in] */
    float *scale, *sum;      /* [n][in / GROUP] */
} quantized;

size_t quantized_bytes(long n, long in) { return 2 * align64(n * in) + 2 * align64(n * in / GROUP * sizeof(float)); }

static quantized quantized_at(char *space, long n, long in) {
    signed char *high = (signed char *)space, *low = high + align64(n * in);
    float *scale = (float *)(low + align64(n * in));
    return (quantized){high, low, scale, (float *)((char *)scale + align64(n * in / GROUP * sizeof(float)))};
}

typedef struct { /* bytes of the buffers of a pass (`state`), one behind another; the last five are of each thread */
    size_t xb, hb, xb2, low, more, q, att, acc, denom, panel;
} state_bytes;

static state_bytes state_bytes_of(const config *c, const attn_index *a, long item) {
    long heads_wide = c->n_heads * c->head_dim, qkv_wide = heads_wide + 2 * c->n_kv_heads * c->head_dim;
    long queries = (a->n < ATTN_ROWS ? a->n : ATTN_ROWS) * (c->n_heads / c->n_kv_heads);
    long widest_in = max_of(max_of(c->ffn, c->qkv_in), max_of(c->hidden, heads_wide)), rank = c->lora_rank;
    long widest_out = rank ? max_of(max_of(qkv_wide, 2 * c->ffn), c->hidden) : 0;
    size_t panel = c->bits && !rank ? 0 : max_of(
        max_of(panel_bytes(a->n, c->ffn, item), panel_bytes(a->n, c->qkv_in, item)),
        max_of(panel_bytes(a->n, c->hidden, item), panel_bytes(a->n, heads_wide, item)));
    if (rank) panel = max_of(panel, panel_bytes(a->n, rank, item));
    return (state_bytes){
        align64(a->n * max_of(c->hidden, heads_wide) * item),
        align64(a->n * max_of(qkv_wide, 3 * c->ffn) * item),
        align64(a->n * c->hidden * item),
        align64(a->n * rank * item),
        align64(a->n * widest_out * item),
        align64(queries * c->head_dim * item),
        align64(queries * max_context(a, 0, a->n) * sizeof(float)),
        align64(queries * c->head_dim * sizeof(float)),
        align64(queries * sizeof(float)),
        (size_t)max_of(panel, c->bits ? quantized_bytes(a->n, widest_in) : 0),
    };
}

static size_t thread_bytes(state_bytes b) { return b.q + b.att + b.acc + b.denom + b.panel; }

/* Bytes that `forward` works in, for numbers of `item` bytes. */
size_t forward_bytes(const config *c, const attn_index *a, long n_layers, long item, long threads) {
    state_bytes b = state_bytes_of(c, a, item);
    size_t loops = align64((LOOPS_PER_LAYER * n_layers + 1) * sizeof(loop));
    return b.xb + b.hb + b.xb2 + b.low + b.more + threads * thread_bytes(b) + loops + 64;
}

/* Bytes that a thread of `logits` works in, for n rows of numbers of `item` bytes; and all of them. */
static size_t logits_thread_bytes(const lm_head *d, long n, long item) {
    return align64(n * LOGITS_CHUNK * item) + (d->packed ? quantized_bytes(n, d->in) : panel_bytes(n, d->in, item));
}

size_t logits_bytes(const lm_head *d, long n, long item, long threads) {
    return align64(n * d->in * item) + threads * logits_thread_bytes(d, n, item) + 64;
}

#define T float
#define OF(name) name##_float
#define LANES LANES_float
#define PAIR PAIR_float
#include "layers_of_type.h"
#undef T
#undef OF
#undef LANES
#undef PAIR

#define T bf16
#define OF(name) name##_bf16
#define LANES LANES_bf16
#define PAIR PAIR_bf16
#include "layers_of_type.h"
