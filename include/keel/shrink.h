/* SPDX-License-Identifier: Apache-2.0 */
/* Going on after a failure: the ranks that are left form a new communicator, without a restart.
 *
 *   while (train_step(comm, stream) != KEEL_OK) {       // some rank has ended
 *     keel_comm left;
 *     if (keel_comm_shrink(comm, KEEL_TIMEOUT_DEFAULT, 0, NULL, &left) != KEEL_OK) return 1;
 *     keel_comm_destroy(comm);
 *     keel_stream_recover(stream, KEEL_TIMEOUT_DEFAULT);
 *     comm = left;
 *   }
 */
#ifndef KEEL_SHRINK_H_
#define KEEL_SHRINK_H_

#include <keel/keel.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Creates a communicator of the ranks of |comm| that are left, in the order of |comm|. A rank is
 * left unless its process has ended, its host was cut off, it has destroyed |comm|, or the other
 * ranks left it out. Every rank that is left calls, on a thread of its own; the call blocks until
 * all have called.
 *
 * Result: all callers get the same group with the same epoch, or a caller gets a failure. A rank
 * whose process ends at any step of the call is left out too, also the server between hosts: the
 * remaining ranks agree again. A rank without a result may call again.
 *
 * |comm| may have failed in any way, or be whole, and ends in both cases: operations in flight have
 * failed before the new communicator exists, and touch no buffer afterwards. An operation that is
 * over for one rank may still be in flight on another. The caller still destroys |comm|, and
 * recovers streams whose operations failed.
 *
 * |timeout_ns|: deadline of the whole call; KEEL_TIMEOUT_DEFAULT as elsewhere. KEEL_TIMED_OUT then
 * names the ranks that have not called.
 * |absent_ns|: a rank with a live process is left out if the rank does not call, or makes no
 * progress, for |absent_ns|. 0: the callers wait for such a rank until the deadline. The smallest
 * |absent_ns| of the callers counts.
 * |options|: as in keel_comm_split, but the priority stays. Native libraries form their
 * communicators anew.
 *
 * KEEL_FAILED_PRECONDITION: |comm| was shrunk before, another thread shrinks |comm|, or the
 * remaining ranks have left this rank out, and no call of this rank on |comm| reaches the remaining
 * ranks any more. Analogue: MPIX_Comm_shrink of ULFM. */
KEEL_API keel_status keel_comm_shrink(keel_comm comm, int64_t timeout_ns, int64_t absent_ns,
                                      const keel_comm_options* options, keel_comm* out_comm);

/* For a communicator of keel_comm_shrink: |out_ranks|[i] is the number that rank i had in the
 * communicator that was shrunk. |*in_out_count|: room in |out_ranks|; returns the number of ranks.
 * With |out_ranks| NULL only the number is returned; KEEL_INVALID_ARGUMENT if the room is too
 * small. A communicator made in another way has the epoch 1, and each rank its own number.
 * |out_epoch|, unless NULL: increases with each shrink, the same on all ranks. */
KEEL_API keel_status keel_comm_survivors(keel_comm comm, uint32_t* out_ranks,
                                         uint32_t* in_out_count, uint64_t* out_epoch);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* KEEL_SHRINK_H_ */
