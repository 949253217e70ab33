/* A leader and its helpers, threads of one parallel region or Python's, share out the items of one step after
 * another. Waking a thread takes longer than a short step: helpers are there for many steps, look for work
 * for some microseconds, then let other threads have the processor. The leader waits only for items that a
 * helper has begun, never for a helper that is not awake. */
#ifndef CRAFTC_TEAM_H
#define CRAFTC_TEAM_H

#include <stdint.h>
#include <string.h>

#ifdef _MSC_VER
#include <intrin.h>
__declspec(dllimport) int __stdcall SwitchToThread(void);
#define TEAM_READ(place) (_InterlockedOr64(place, 0))
#define TEAM_WRITE(place, value) ((void)_InterlockedExchange64(place, value))
#define TEAM_REPLACE(place, old, value) (_InterlockedCompareExchange64(place, value, old) == (old))
#define TEAM_ADD(place, value) ((void)_InterlockedExchangeAdd64(place, value))
#define TEAM_YIELD() ((void)SwitchToThread())
typedef volatile int64_t team_int;
#else
#include <sched.h>
#define TEAM_READ(place) __atomic_load_n(place, __ATOMIC_ACQUIRE)
#define TEAM_WRITE(place, value) __atomic_store_n(place, value, __ATOMIC_RELEASE)
#define TEAM_REPLACE(place, old, value) __sync_bool_compare_and_swap(place, old, value)
#define TEAM_ADD(place, value) ((void)__atomic_fetch_add(place, value, __ATOMIC_RELEASE))
#define TEAM_YIELD() ((void)sched_yield())
typedef int64_t team_int;
#if defined(__linux__) && defined(CPU_CLR)
#define TEAM_MOVES
#endif
#endif

#define TEAM_ITEMS(first, stop) ((int64_t)(stop) << 32 | (int64_t)(first))
#define TEAM_PATIENCE 5000      /* readings before a waiting thread yields its processor */
#define TEAM_SPELL 100000       /* readings and works of a helper before it may be interrupted */

typedef void (*team_job)(void *context, int item, int thread);

typedef struct {
    team_int items;             /* of the step, not yet begun, [first, stop): the leader takes the first, a
                                   helper the last */
    team_int done;              /* items that are done */
    team_int over;              /* whether there are no more steps */
    team_int led;               /* of a team that outlives a call: whether a call leads it */
    team_int helpers;           /* and the threads that have joined it */
    int cpu;                    /* where the leader runs, if that is known */
    team_job job;
    void *context;
} team;

/* the leader, before the helpers are woken */
static inline void team_start(team *t)
{
    memset(t, 0, sizeof *t);
#ifdef TEAM_MOVES
    t->cpu = sched_getcpu();
#endif
}

/* A helper goes to another processor than the leader's, where some schedulers leave it although others are
 * idle. */
static inline void team_leave(const team *t)
{
#ifdef TEAM_MOVES
    cpu_set_t allowed, others;
    if (sched_getcpu() != t->cpu || sched_getaffinity(0, sizeof allowed, &allowed))
        return;
    others = allowed;
    CPU_CLR(t->cpu, &others);
    if (!sched_setaffinity(0, sizeof others, &others))
        sched_setaffinity(0, sizeof allowed, &allowed);
#else
    (void)t;
#endif
}

static inline void team_wait(int *readings)
{
    if (++*readings > TEAM_PATIENCE)
        TEAM_YIELD();
#if defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__))
    else
        __builtin_ia32_pause();
#endif
}

/* items of the present step, until all are begun; returns how many this thread did */
static inline int team_work(team *t, int thread)
{
    int done = 0;
    for (;;) {
        const team_int items = TEAM_READ(&t->items);
        const int first = (int)(items & 0xffffffff), stop = (int)(items >> 32);
        if (first == stop)
            break;
        if (TEAM_REPLACE(&t->items, items,
                         thread ? TEAM_ITEMS(first, stop - 1) : TEAM_ITEMS(first + 1, stop))) {
            t->job(t->context, thread ? stop - 1 : first, thread);
            done++;
        }
    }
    if (done)
        TEAM_ADD(&t->done, done);
    return done;
}

/* the leader: job(context, item, thread) for the items 0 to n - 1, in any order */
static inline void team_step(team *t, team_job job, void *context, int n)
{
    int readings = 0;
    t->job = job;
    t->context = context;
    TEAM_WRITE(&t->done, 0);
    TEAM_WRITE(&t->items, TEAM_ITEMS(0, n));
    team_work(t, 0);
    while (TEAM_READ(&t->done) < n)
        team_wait(&readings);
}

/* the leader, after the last step */
static inline void team_end(team *t)
{
    TEAM_WRITE(&t->over, 1);
}

/* another thread, for a while; returns whether the leader has ended */
static inline int team_help_some(team *t, int thread)
{
    int readings = 0;
    for (int i = 0; i < TEAM_SPELL && !TEAM_READ(&t->over); i++, team_wait(&readings))
        if (team_work(t, thread))
            readings = 0;
    return TEAM_READ(&t->over) != 0;
}

/* another thread, until the leader ends */
static inline void team_help(team *t, int thread)
{
    team_leave(t);
    while (!team_help_some(t, thread)) {
    }
}

/* the number of a thread that joins a team of at most `most`; 0 if there is no room */
static inline int team_join(team *t, int most)
{
    for (;;) {
        const team_int helpers = TEAM_READ(&t->helpers);
        if (helpers + 1 >= most)
            return 0;
        if (TEAM_REPLACE(&t->helpers, helpers, helpers + 1))
            return (int)helpers + 1;
    }
}

/* whether this call leads from now on: no other one does */
static inline int team_lead(team *t)
{
    return TEAM_REPLACE(&t->led, 0, 1);
}

static inline void team_rest(team *t)
{
    TEAM_WRITE(&t->led, 0);
}

#endif
