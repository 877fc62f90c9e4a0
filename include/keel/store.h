/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators whose ranks meet through a key-value store of the caller's, as c10d::Store, PMI and
 * etcd are, instead of a socket: for ranks that share no network namespace, and for launchers that
 * have a store anyway.
 *
 *   keel_store store = KEEL_STRUCT_INIT(keel_store, KEEL_STRUCT_STORE);
 *   store.user = &client;
 *   store.prefix = "job 4711, step 3";         // another one for each communicator
 *   store.set = &client_set;
 *   store.get = &client_get;
 *   keel_comm_init_store(device, &store, rank, world, NULL, &comm);
 *
 * Trust: whoever can write to the store decides which processes a rank shares memory with and which
 * host it connects to. Keel neither encrypts nor signs values; the store must be the job's own. */
#ifndef KEEL_STORE_H_
#define KEEL_STORE_H_

#include <keel/keel.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Type of a keel_store in its header. */
enum { KEEL_STRUCT_STORE = 75 };

/* A store, as one rank sees it. Keys are text, "keel-1/PREFIX/rank/3"; values are bytes, at most
 * 2 KiB, and 1 KiB + 256 bytes a rank for the one key "keel-1/PREFIX/roster". One rank writes each
 * key, once; any rank writes "keel-1/PREFIX/failed". Keel deletes no key: keys may stay, or go once
 * all ranks have the communicator.
 *
 * Threads: Keel calls |set| and |get| on the thread that calls keel_comm_init_store, one at a time,
 * and never after the return; keel_comm_init_store_start calls them on a thread of Keel's until the
 * communicator has formed, or keel_comm_destroy has returned. Several ranks of a process call each
 * on its own thread, also with one |user|. The functions may block, up to |timeout_ns|, and may
 * call Keel; they must not throw. keel_shutdown and keel_comm_destroy wait for a function that does
 * not return. */
typedef struct keel_store {
  keel_header header;
  void* user; /* for |set| and |get| */
  /* Name of the communicator in the store: up to 128 bytes without control characters, the same on
   * all ranks; NULL: "". Serves one call of each rank, also one that fails. */
  const char* prefix;
  /* Writes the value of |key|, for |get| on all ranks to find. KEEL_OK, or a failure. */
  keel_status (*set)(void* user, const char* key, const void* data, uint64_t size,
                     int64_t timeout_ns);
  /* Reads the value of |key|, and waits for |key| up to |timeout_ns|; 0: does not wait.
   * |*in_out_size|: room in |out_data|; returns the size of the value. KEEL_TIMED_OUT if |key| is
   * not there in time; a store that cannot wait returns KEEL_NOT_FOUND at once, and is asked again.
   * KEEL_OUT_OF_RANGE if the room is too small. Any other failure ends keel_comm_init_store. */
  keel_status (*get)(void* user, const char* key, void* out_data, uint64_t* in_out_size,
                     int64_t timeout_ns);
} keel_store;

/* keel_comm_init_rank through |store|: joins as rank |rank| of |world|, and blocks until all ranks
 * have joined, or until the deadline in |options|. |store| is copied.
 *
 * Ranks of one machine, one pid namespace and one user share memory as after keel_comm_init_rank,
 * in any network namespaces: descriptors then pass through /proc/PID/fd, for which the ranks need
 * one user namespace and equal capabilities. Native libraries that meet over sockets need
 * options.forbid_native where the network is not shared. Otherwise rank 0 serves a rendezvous of
 * hosts over TCP, whose address is in the store (docs/hosts.md: secret, interface).
 *
 * Failures are those of keel_comm_init_rank, and reach all ranks by the store. Beyond them:
 *  - the code that |set| or |get| returned; the text names rank, function and key;
 *  - KEEL_DATA_LOSS: a value is not what a rank wrote; the text names the key;
 *  - KEEL_ALREADY_EXISTS: two processes are the same rank, or |prefix| was used before;
 *  - KEEL_INVALID_ARGUMENT on all ranks: the ranks differ in |world|.
 * A rank whose process ends is noticed within a second. Analogues: torch's ProcessGroupNCCL over a
 * Store, MPI_Init over PMI. */
KEEL_API keel_status keel_comm_init_store(keel_device device, const keel_store* store,
                                          uint32_t rank, uint32_t world,
                                          const keel_comm_options* options, keel_comm* out_comm);
/* keel_comm_init_store without waiting, as in keel/comm_start.h. |store->user| must stay valid
 * until the communicator has formed or keel_comm_destroy has returned. */
KEEL_API keel_status keel_comm_init_store_start(keel_device device, const keel_store* store,
                                                uint32_t rank, uint32_t world,
                                                const keel_comm_options* options,
                                                keel_comm* out_comm);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* KEEL_STORE_H_ */
