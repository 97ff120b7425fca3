/* Threads that go through one piece of work together.
 *
 * All of them call it; it is made of steps, and each step of pieces that are taken by whoever is free. A step is over
 * when its pieces are done, so nobody waits for a thread that has not come yet: on a busy machine one does it alone.
 * Threads are started when they are first wanted and sleep between calls. Who finds them busy, from another thread of
 * Python, works without them.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#define MOST 64       /* threads */
#define PATIENCE 2000 /* looks before sleeping: tens of microseconds */
#define PIECES 4      /* of a step, for each thread */
#define CLOSED (1 << 20)

typedef struct { long lo, hi; } part;
typedef struct { atomic_int next, done; } step;
typedef struct { /* thread `me` of `all`, at a step of which it holds a piece or not */
    int me, all, holds;
    long pieces;
    step *at;
} hand;
typedef void (*job)(const void *what, hand h);

typedef struct {
    pid_t owner; /* threads do not live on in a forked process */
    int started, all;
    job work;
    const void *what;
    step *steps;
    atomic_uint turn;           /* calls so far */
    atomic_int inside, sleeping; /* threads in a call, and CLOSED; threads that wait for others */
    pthread_mutex_t lock;
    pthread_cond_t told;
} crew;

#define CREW {.inside = CLOSED, .lock = PTHREAD_MUTEX_INITIALIZER, .told = PTHREAD_COND_INITIALIZER}
static crew team = CREW;
static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER;

static void pause_a_little(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#define WAIT_UNTIL(what) do { \
        int left = PATIENCE; \
        while (left && !(what)) left--, pause_a_little(); \
        if (left) break; \
        pthread_mutex_lock(&team.lock); \
        atomic_fetch_add(&team.sleeping, 1); \
        while (!(what)) pthread_cond_wait(&team.told, &team.lock); \
        atomic_fetch_sub(&team.sleeping, 1); \
        pthread_mutex_unlock(&team.lock); \
    } while (0)

static void tell(void) { /* behind what somebody may wait for */
    if (!atomic_load(&team.sleeping)) return;
    pthread_mutex_lock(&team.lock);
    pthread_cond_broadcast(&team.told);
    pthread_mutex_unlock(&team.lock);
}

/* The next piece of n things, of at least `least` units; 0 when all are taken. */
static int take(hand *h, long n, long unit, long least, part *out) {
    long units = (n + unit - 1) / unit, k = h->holds;
    if (h->all > 1) {
        if (h->holds && atomic_fetch_add(&h->at->done, 1) + 1 == h->pieces) tell();
        h->pieces = units / least < PIECES * h->all ? units / least : PIECES * h->all;
        if (h->pieces < 1) h->pieces = 1;
        k = atomic_fetch_add(&h->at->next, 1);
    } else h->pieces = 1;
    if (!(h->holds = k < h->pieces)) return 0;
    out->lo = units * k / h->pieces * unit, out->hi = units * (k + 1) / h->pieces * unit;
    if (out->hi > n) out->hi = n;
    return 1;
}

static void meet(hand *h) { /* what any thread wrote in this step, all read behind */
    if (h->all < 2) return;
    WAIT_UNTIL(atomic_load(&h->at->done) == h->pieces);
    h->at++;
}

#define EACH(o, n, unit, least) for (part o; take(h, n, unit, least, &o);)

static unsigned begun[MOST]; /* the turn when a thread was started */

static void *serve(void *number) {
    int me = (int)(long)number;
    for (unsigned turn = begun[me];;) {
        WAIT_UNTIL(atomic_load(&team.turn) != turn);
        turn = atomic_load(&team.turn);
        int in = atomic_load(&team.inside);
        while (in < CLOSED && !atomic_compare_exchange_weak(&team.inside, &in, in + 1));
        if (in >= CLOSED) continue; /* too late */
        if (me < team.all) team.work(team.what, (hand){me, team.all, 0, 0, team.steps});
        atomic_fetch_sub(&team.inside, 1);
        tell();
    }
    return 0;
}

static void start(int n) { /* as many as can be had, n with the caller */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the threads that Python knows */
    while (team.started + 1 < n) {
        pthread_t thread;
        int me = team.started + 1;
        begun[me] = atomic_load(&team.turn);
        if (pthread_create(&thread, 0, serve, (void *)(long)me)) break;
        pthread_detach(thread);
        team.started = me;
    }
    pthread_sigmask(SIG_SETMASK, &before, 0);
}

static void together(job work, const void *what, long n, step *steps, long n_steps) {
    if (n > MOST) n = MOST;
    if (n < 2 || pthread_mutex_trylock(&busy)) {
        work(what, (hand){0, 1, 0, 0, 0});
        return;
    }
    if (team.owner != getpid()) {
        team = (crew)CREW;
        team.owner = getpid();
    }
    start((int)n);
    memset(steps, 0, n_steps * sizeof *steps);
    team.work = work, team.what = what, team.steps = steps;
    team.all = n < team.started + 1 ? (int)n : team.started + 1;
    atomic_store(&team.inside, 0);
    atomic_fetch_add(&team.turn, 1);
    tell();
    work(what, (hand){0, team.all, 0, 0, steps});
    atomic_fetch_or(&team.inside, CLOSED);
    WAIT_UNTIL(atomic_load(&team.inside) == CLOSED);
    pthread_mutex_unlock(&busy);
}
