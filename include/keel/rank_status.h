/* SPDX-License-Identifier: Apache-2.0 */
/* Presence of one rank in a communicator: for waits outside of Keel that only that rank can end,
 * such as the wait for a key that the rank writes to a store. */
#ifndef KEEL_RANK_STATUS_H_
#define KEEL_RANK_STATUS_H_

#include <keel/keel.h>

#ifdef __cplusplus
extern "C" {
#endif

/* KEEL_OK while |rank| takes part in |comm|, else why it does not:
 *  - the failure of the communicator, as keel_comm_async_error returns it once an operation has
 *    failed, a rank has aborted, or a rank of another host is lost;
 *  - KEEL_RANK_FAILED if the process of |rank| died or called exec;
 *  - KEEL_ABORTED if |rank| left (keel_comm_destroy), seen from ranks of the same host alone.
 * Unlike keel_comm_async_error, KEEL_OK when another rank of the host has died and no operation has
 * waited for that rank yet. KEEL_FAILED_PRECONDITION while |comm| forms. Never blocks; any thread
 * may call. */
KEEL_API keel_status keel_comm_rank_status(keel_comm comm, uint32_t rank);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* KEEL_RANK_STATUS_H_ */
