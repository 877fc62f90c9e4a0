// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_GPU_COMMUNICATOR_H_
#define KEEL_BACKENDS_GPU_COMMUNICATOR_H_

#include <ccl_target.h>
#include <keel/abi.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "backends/gpu/device.h"
#include "backends/gpu/nccl.h"
#include "backends/gpu/scratch.h"
#include "backends/gpu/stream.h"

namespace keel::gpu {

// One rank of an NCCL communicator, created in non-blocking mode: the communicator polls NCCL for
// pending work (the bootstrap of the ranks, the connections of the first operation) and gives up at
// a deadline. Thread-safe; only one thread at a time calls run(). Analogue: ncclComm_t.
class Communicator {
 public:
  // Blocks until all ranks have joined; returns KEEL_TIMED_OUT after |timeout_ns|. |timeout_ns|
  // also limits how long a later call waits for NCCL to enqueue the call's work.
  static keel_status create(Device& device, const Nccl& nccl, const ncclUniqueId& id, int rank,
                            int world, int64_t timeout_ns,
                            std::unique_ptr<Communicator>* out_communicator);
  // Creates a communicator of the |ranks| of this communicator, in the given order; this rank is
  // number |rank|. |out_part| stays empty if |ranks| is empty. All ranks must call. Returns
  // KEEL_UNSUPPORTED if NCCL has no splits. Any other failure aborts this communicator.
  keel_status split(std::span<const uint32_t> ranks, uint32_t rank, int64_t timeout_ns,
                    std::unique_ptr<Communicator>* out_part);
  // Requires that enqueued work has finished or was aborted.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Enqueues |calls| as one group. Returns KEEL_TIMED_OUT if NCCL does not enqueue the group in
  // time; the communicator is then aborted.
  keel_status run(const Stream& stream, std::span<const keel_ccl_call> calls);
  // Aborts running work; every later call returns KEEL_ABORTED. NCCL waits for its own kernels to
  // end.
  keel_status abort();
  // Returns an asynchronous error of the communicator, or KEEL_OK.
  keel_status async_error();
  keel_status register_buffer(void* pointer, uint64_t size, void** out_registration);
  keel_status deregister_buffer(void* registration);

 private:
  using Time = std::chrono::steady_clock::time_point;
  // Owns the pre-multiplied-sum reductions of a group until the group is enqueued.
  class FactorSums;

  Communicator(Device& device, const Nccl& nccl, int world, int64_t timeout_ns)
      : device_(device), nccl_(nccl), world_(world), timeout_ns_(timeout_ns), scratch_(device) {}

  // All functions below require |mutex_|.

  // Runs |body|, which calls function |name| of the table passed to |body|, in the device's
  // context.
  template <typename Body>
  keel_status call(const char* name, Body&& body);
  keel_status check(const char* name, ncclResult_t result) const;
  Time deadline() const;
  // Blocks until NCCL has finished the pending call |name|, until |deadline|, or until an abort.
  keel_status settle(const char* name, Time deadline);
  keel_status say_aborted() const;
  void abort_native();

  // Determines the send buffers of |calls|. An in-place all-to-all sends from a copy in scratch
  // memory.
  keel_status copy_in_place(const Stream& stream, std::span<const keel_ccl_call> calls,
                            std::vector<const void*>* in_out_sources, bool* out_copied);
  // How much of |call| is enqueued as a call of its own, before the rest: usually all.
  uint64_t first_count(const keel_ccl_call& call) const;
  keel_status enqueue(const Stream& stream, std::span<const keel_ccl_call> calls,
                      const std::vector<const void*>& sources);
  ncclResult_t enqueue_one(const keel_ccl_call& call, const void* source, ncclRedOp_t reduction,
                           NativeStream stream) const;

  Device& device_;
  const Nccl& nccl_;
  const int world_;
  const int64_t timeout_ns_;
  std::atomic<bool> aborting_{false};
  std::mutex mutex_;
  ncclComm_t native_ = nullptr;  // NULL: aborted
  Scratch scratch_;
};

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_GPU_COMMUNICATOR_H_
