/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators made without blocking: the call returns a handle at once, and the ranks meet on a
 * thread of Keel's.
 *
 *   keel_comm_init_rank_start(device, &id, rank, world, NULL, &comm);
 *   load_weights();                                            // meanwhile the ranks meet
 *   if (keel_comm_wait_ready(comm, KEEL_TIMEOUT_DEFAULT) != KEEL_OK) return 1;
 *   keel_all_reduce(comm, ...);
 *
 * While the communicator forms:
 *  - keel_comm_async_error returns KEEL_NOT_READY; afterwards KEEL_OK, or why the ranks did not
 * meet, with the code and the text that the blocking call returns. options.timeout_ns is the
 * deadline.
 *  - keel_comm_abort and keel_comm_destroy end the formation: the other ranks fail as with a rank
 *    that gives up. keel_comm_destroy waits for Keel's thread, which notices within 50 ms, a TCP
 *    connection that is being opened within 5 s. keel_shutdown ends it in the same way.
 *  - Every other call with the handle returns KEEL_FAILED_PRECONDITION, and counts as no operation
 *    of the rank. A failed formation makes all calls return its failure.
 * The caller destroys the handle in every case. Other ranks of the communicator may use the
 * blocking functions. */
#ifndef KEEL_COMM_START_H_
#define KEEL_COMM_START_H_

#include <keel/keel.h>

#ifdef __cplusplus
extern "C" {
#endif

/* keel_comm_init_rank without waiting. A wrong argument is refused at once, an |id| that is not one
 * by keel_comm_async_error. |id| is copied. KEEL_OUT_OF_MEMORY without a thread. Analogue:
 * ncclCommInitRankConfig with blocking = 0. */
KEEL_API keel_status keel_comm_init_rank_start(keel_device device, const keel_unique_id* id,
                                               uint32_t rank, uint32_t world,
                                               const keel_comm_options* options,
                                               keel_comm* out_comm);
/* keel_comm_init_env without waiting. Keel's thread reads the launcher's variables. */
KEEL_API keel_status keel_comm_init_env_start(keel_device device, const keel_comm_options* options,
                                              keel_comm* out_comm);
/* Waits until |comm| has formed, and returns what keel_comm_async_error then does. KEEL_TIMED_OUT:
 * |comm| still forms. A communicator of a blocking function has formed. */
KEEL_API keel_status keel_comm_wait_ready(keel_comm comm, int64_t timeout_ns);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* KEEL_COMM_START_H_ */
