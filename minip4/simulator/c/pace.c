/* Decides whether partitions run in parallel or sequentially on one core (called `in_turn` in the
 * code). The decision depends on the cost per event of the latest runs in each mode. If links are
 * short, or a core has other work, parallel threads mostly wait for each other, and sequential runs
 * may be faster. If threads hardly wait, sequential runs can only be slower and are not tried.
 *
 * The cost of a mode is the median of its latest runs. So a single disturbed run does not change
 * the decision. The first run after a change of mode does not change it either. This run is slow,
 * because its memory is in the other core's cache. One parallel run decides only if it ended early
 * because threads waited: where another process uses a core, such a run takes several milliseconds. */
#include "threads.h"

enum {
    LEAST_RUNS = 2, /* number of runs after a change of mode before the next decision */
    FIRST_INTERVAL = 16,
    LONGEST_INTERVAL = 1 << 8,
    FEW_EVENTS = 1 << 10
};

bool pace_wants_turns(const struct pace *pace)
{
    return pace->in_turn;
}

/* Return the median of the latest values; for an even number of values, the lower median. */
static double median(const double *values, uint32_t count)
{
    double low = values[0], high = values[0];
    for (uint32_t i = 1; i < 2 && i < count; i++) {
        low = values[i] < low ? values[i] : low;
        high = values[i] > high ? values[i] : high;
    }
    if (count < PACE_RECENT || values[2] < low)
        return low;
    return values[2] < high ? values[2] : high;
}

/* Choose the mode of the next run. The longer a mode has been faster, the more rarely the other
 * mode is tried. */
static void decide(struct pace *pace)
{
    bool in_turn = pace->in_turn, turns_are_better = pace->cost_ns[1] && pace->cost_ns[1] < pace->cost_ns[0];
    if (turns_are_better != pace->turns_are_better)
        pace->interval = FIRST_INTERVAL;
    else if (in_turn != turns_are_better && pace->interval < LONGEST_INTERVAL)
        pace->interval = pace->interval ? 2 * pace->interval : FIRST_INTERVAL;
    pace->turns_are_better = turns_are_better;
    bool tries_other = in_turn == turns_are_better && pace->runs >= pace->interval &&
                       (in_turn || pace->has_waited);
    pace->in_turn = turns_are_better != tries_other;
    if (pace->in_turn != in_turn)
        pace->runs = 0;
}

void pace_note(struct pace *pace, uint64_t took_ns, double waited, uint64_t events, bool was_slow)
{
    if (events < FEW_EVENTS && !was_slow)
        return;
    uint32_t latest = pace->runs % PACE_RECENT;
    pace->latest_cost_ns[latest] = (double)took_ns / (double)(events + 1);
    pace->latest_waited[latest] = waited;
    pace->runs++;
    uint32_t count = pace->runs < PACE_RECENT ? pace->runs : PACE_RECENT;
    pace->cost_ns[pace->in_turn] = median(pace->latest_cost_ns, count);
    if (!pace->in_turn)
        pace->has_waited = median(pace->latest_waited, count) > PACE_MUCH;
    if (pace->runs >= LEAST_RUNS || was_slow)
        decide(pace);
}
