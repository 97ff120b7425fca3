/* A thread pool: `run_parallel` calls a task on every worker, `parallel_for` shares a loop between them in chunks, a
 * `barrier` ends it.
 *
 * A barrier waits for chunks, not for workers, so nobody waits for a thread that has not come yet: on a busy machine
 * one does it alone. Threads are started when they are first wanted and sleep between calls. A caller that finds the
 * pool taken by another thread of Python works without it.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#define MAX_THREADS 64
#define SPINS 2000          /* looks before sleeping: tens of microseconds */
#define CHUNKS_PER_WORKER 4 /* of a loop */
#define CLOSED (1 << 20)

typedef struct { long lo, hi; } range;
typedef struct { atomic_int next, done; } loop; /* chunks taken and finished; a task has one for every parallel_for */
typedef struct {
    int id, n_workers, has_chunk;
    long n_chunks;
    loop *at; /* the loop it is in */
} worker;
typedef void (*task)(const void *args, worker w);

typedef struct {
    pid_t owner; /* threads do not live on in a forked process */
    int started, n_workers;
    task work;
    const void *args;
    loop *loops;
    atomic_uint generation;       /* calls so far */
    atomic_int active, sleeping;  /* threads in a call, and CLOSED; threads that wait for others */
    pthread_mutex_t lock;
    pthread_cond_t wake;
} thread_pool;

#define THREAD_POOL {.active = CLOSED, .lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER}
static thread_pool pool = THREAD_POOL;
static pthread_mutex_t pool_in_use = PTHREAD_MUTEX_INITIALIZER;

static void cpu_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#define WAIT_UNTIL(condition) do { \
        int spins = SPINS; \
        while (spins && !(condition)) spins--, cpu_pause(); \
        if (spins) break; \
        pthread_mutex_lock(&pool.lock); \
        atomic_fetch_add(&pool.sleeping, 1); \
        while (!(condition)) pthread_cond_wait(&pool.wake, &pool.lock); \
        atomic_fetch_sub(&pool.sleeping, 1); \
        pthread_mutex_unlock(&pool.lock); \
    } while (0)

static void wake_all(void) { /* behind what somebody may wait for */
    if (!atomic_load(&pool.sleeping)) return;
    pthread_mutex_lock(&pool.lock);
    pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.lock);
}

/* The next chunk of a loop over n items, of at least `least` units; 0 when all are taken. */
static int next_chunk(worker *w, long n, long unit, long least, range *out) {
    long units = (n + unit - 1) / unit, k = w->has_chunk;
    if (w->n_workers > 1) {
        if (w->has_chunk && atomic_fetch_add(&w->at->done, 1) + 1 == w->n_chunks) wake_all();
        long most = CHUNKS_PER_WORKER * w->n_workers;
        w->n_chunks = units / least < 1 ? 1 : units / least < most ? units / least : most;
        k = atomic_fetch_add(&w->at->next, 1);
    } else w->n_chunks = 1;
    if (!(w->has_chunk = k < w->n_chunks)) return 0;
    out->lo = units * k / w->n_chunks * unit, out->hi = units * (k + 1) / w->n_chunks * unit;
    if (out->hi > n) out->hi = n;
    return 1;
}

/* `for` over chunks i.lo .. i.hi of n items, for the worker `self`. A barrier follows every one. */
#define parallel_for(i, n, unit, least) for (range i; next_chunk(self, n, unit, least, &i);)

static void barrier(worker *w) { /* what any worker wrote before it, all read behind it */
    if (w->n_workers < 2) return;
    WAIT_UNTIL(atomic_load(&w->at->done) == w->n_chunks);
    w->at++;
}

static unsigned started_at[MAX_THREADS]; /* the generation when a thread was started */

static void *thread_main(void *number) {
    int id = (int)(long)number;
    for (unsigned generation = started_at[id];;) {
        WAIT_UNTIL(atomic_load(&pool.generation) != generation);
        generation = atomic_load(&pool.generation);
        int active = atomic_load(&pool.active);
        while (active < CLOSED && !atomic_compare_exchange_weak(&pool.active, &active, active + 1));
        if (active >= CLOSED) continue; /* too late */
        if (id < pool.n_workers) pool.work(pool.args, (worker){id, pool.n_workers, 0, 0, pool.loops});
        atomic_fetch_sub(&pool.active, 1);
        wake_all();
    }
    return 0;
}

static void start_threads(int n) { /* as many as can be had, n with the caller */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the threads that Python knows */
    while (pool.started + 1 < n) {
        pthread_t thread;
        int id = pool.started + 1;
        started_at[id] = atomic_load(&pool.generation);
        if (pthread_create(&thread, 0, thread_main, (void *)(long)id)) break;
        pthread_detach(thread);
        pool.started = id;
    }
    pthread_sigmask(SIG_SETMASK, &before, 0);
}

/* The task on n threads, the caller's among them; `loops` [n_loops]: memory for all its parallel_for. */
static void run_parallel(task work, const void *args, long n, loop *loops, long n_loops) {
    if (n > MAX_THREADS) n = MAX_THREADS;
    if (n < 2 || pthread_mutex_trylock(&pool_in_use)) {
        work(args, (worker){0, 1, 0, 0, 0});
        return;
    }
    if (pool.owner != getpid()) {
        pool = (thread_pool)THREAD_POOL;
        pool.owner = getpid();
    }
    start_threads((int)n);
    memset(loops, 0, n_loops * sizeof *loops);
    pool.work = work, pool.args = args, pool.loops = loops;
    pool.n_workers = n < pool.started + 1 ? (int)n : pool.started + 1;
    atomic_store(&pool.active, 0);
    atomic_fetch_add(&pool.generation, 1);
    wake_all();
    work(args, (worker){0, pool.n_workers, 0, 0, loops});
    atomic_fetch_or(&pool.active, CLOSED);
    WAIT_UNTIL(atomic_load(&pool.active) == CLOSED);
    pthread_mutex_unlock(&pool_in_use);
}
