/* Whether partitions are to run at once or in turn: as it was faster. Where links are short, or the machine's
 * cores have other work, threads mostly wait for each other: else turns can only be slower, and are not tried.
 *
 * Runs are judged in groups, by the best of each: one that was held up says nothing of the others, nor does the
 * first after a change, when all memory comes out of the other core's cache. */
#include "threads.h"

#define MUCH 0.25 /* of the threads' time */

enum { GROUP = 4 /* runs */, FIRST_INTERVAL = 8, LONGEST_INTERVAL = 1 << 8, FEW_EVENTS = 1 << 10 };

bool pace_wants_turns(const struct pace *pace)
{
    return pace->in_turn;
}

/* Sets when the way that is not the best is tried next. */
static void set_next_try(struct pace *pace, bool best)
{
    if (best != pace->best)
        pace->interval = FIRST_INTERVAL;
    else if (pace->interval < LONGEST_INTERVAL)
        pace->interval = pace->interval ? 2 * pace->interval : FIRST_INTERVAL;
    pace->best = best;
    pace->next_try = pace->groups + pace->interval;
}

/* A group has ended. */
static void decide(struct pace *pace)
{
    pace->cost_ns[pace->in_turn] = pace->least_ns;
    if (!pace->in_turn)
        pace->has_waited = pace->least_waited > MUCH;
    pace->groups++;
    bool best = pace->cost_ns[1] && pace->cost_ns[1] < pace->cost_ns[0];
    if (best != pace->best || best != pace->in_turn)
        set_next_try(pace, best);
    bool is_tried = pace->groups >= pace->next_try && (best || pace->has_waited);
    pace->in_turn = best != is_tried;
    pace->runs = 0;
}

void pace_note(struct pace *pace, uint64_t took_ns, double waited, uint64_t events)
{
    double cost_ns = (double)took_ns / (double)events;
    if (events < FEW_EVENTS)
        return;
    if (!pace->runs || cost_ns < pace->least_ns)
        pace->least_ns = cost_ns;
    if (!pace->runs || waited < pace->least_waited)
        pace->least_waited = waited;
    if (++pace->runs == GROUP)
        decide(pace);
}
