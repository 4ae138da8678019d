/* Whether partitions are to run at once or in turn: as it was faster. Where links are short, or the machine's
 * cores have other work, threads mostly wait for each other: else turns can only be slower, and are not tried. */
#include "threads.h"

#define MUCH 0.25 /* of the threads' time */

enum { FIRST_INTERVAL = 8, LONGEST_INTERVAL = 1 << 12, FEW_EVENTS = 1 << 10 };

bool pace_wants_turns(const struct pace *pace)
{
    if (pace->cost_ns[1] == 0)
        return pace->has_waited;
    bool in_turn = pace->cost_ns[1] < pace->cost_ns[0];
    return pace->runs == pace->next_try && (in_turn || pace->has_waited) ? !in_turn : in_turn;
}

void pace_note(struct pace *pace, bool in_turn, uint64_t took_ns, double waited, uint64_t events)
{
    bool is_used_to = pace->is_settled && pace->was_in_turn == in_turn;
    pace->is_settled = true;
    pace->was_in_turn = in_turn;
    if (events < FEW_EVENTS || !is_used_to)
        return; /* after a change all memory comes out of the other core's cache: it is tried once more */
    if (!in_turn)
        pace->has_waited = waited > MUCH;
    bool was_slower = pace->cost_ns[in_turn] > pace->cost_ns[!in_turn];
    pace->cost_ns[in_turn] = (double)took_ns / (double)events;
    bool is_slower = pace->cost_ns[in_turn] > pace->cost_ns[!in_turn];
    if (pace->runs++ < pace->next_try && pace->interval)
        return;
    if (was_slower && is_slower && pace->interval < LONGEST_INTERVAL)
        pace->interval *= 2;
    else if (!pace->interval || !is_slower)
        pace->interval = FIRST_INTERVAL;
    pace->next_try = pace->runs + pace->interval;
}
