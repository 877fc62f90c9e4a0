// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_CUDA_COMMUNICATOR_H_
#define KEEL_BACKENDS_CUDA_COMMUNICATOR_H_

#include <keel/abi.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "backends/cuda/device.h"
#include "backends/cuda/nccl.h"
#include "backends/cuda/scratch.h"
#include "backends/cuda/stream.h"

namespace keel::cuda {

// One rank of an NCCL communicator, made so that no call of the library blocks: what it is still
// at (meeting the others, connecting to them in the first operation) is asked for, and given up at
// a deadline. Thread-safe; run() is for one thread at a time. Analogue: ncclComm_t.
class Communicator {
 public:
  // Blocks until all ranks have come; KEEL_TIMED_OUT after |timeout_ns|. That is also how long a
  // later call waits for the library to have enqueued it.
  static keel_status create(Device& device, const Nccl& nccl, const ncclUniqueId& id, int rank,
                            int world, int64_t timeout_ns,
                            std::unique_ptr<Communicator>* out_communicator);
  // Of |ranks| of these, in this order, of which this one is number |rank|; none where there are
  // none. All ranks call. KEEL_UNSUPPORTED where the library has no splits.
  keel_status split(std::span<const uint32_t> ranks, uint32_t rank, int64_t timeout_ns,
                    std::unique_ptr<Communicator>* out_part);
  // What runs is over, or was aborted.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Enqueues |calls| as one group. KEEL_TIMED_OUT where the library does not get them onto the
  // stream; then it was made to abort.
  keel_status run(const Stream& stream, std::span<const keel_ccl_call> calls);
  // Ends what runs; every later call is KEEL_ABORTED. The library waits for its own kernels to end.
  keel_status abort();
  // What went wrong while nobody asked.
  keel_status async_error();
  keel_status register_buffer(void* pointer, uint64_t size, void** out_registration);
  keel_status deregister_buffer(void* registration);

 private:
  using Time = std::chrono::steady_clock::time_point;
  // A reduction with a factor lives as long as its group is enqueued.
  class FactorSums;

  Communicator(Device& device, const Nccl& nccl, int world, int64_t timeout_ns)
      : device_(device), nccl_(nccl), world_(world), timeout_ns_(timeout_ns), scratch_(device) {}

  // The rest is called with |mutex_| held.

  // Runs |body|, which calls |name| of the functions it is given, in the device's context.
  template <typename Body>
  keel_status call(const char* name, Body&& body);
  keel_status check(const char* name, ncclResult_t result) const;
  Time deadline() const;
  // Until the library is no longer at what it was called for, or |deadline|, or an abort.
  keel_status settle(const char* name, Time deadline);
  keel_status say_aborted() const;
  void abort_native();

  // Where |calls| are to send from: an exchange in place goes from a copy.
  keel_status copy_in_place(const Stream& stream, std::span<const keel_ccl_call> calls,
                            std::vector<const void*>* in_out_sources, bool* out_copied);
  keel_status enqueue(const Stream& stream, std::span<const keel_ccl_call> calls,
                      const std::vector<const void*>& sources);
  ncclResult_t enqueue_one(const keel_ccl_call& call, const void* source, ncclRedOp_t reduction,
                           CUstream stream) const;

  Device& device_;
  const Nccl& nccl_;
  const int world_;
  const int64_t timeout_ns_;
  std::atomic<bool> aborting_{false};
  std::mutex mutex_;
  ncclComm_t native_ = nullptr;  // NULL: aborted
  Scratch scratch_;
};

}  // namespace keel::cuda

#endif  // KEEL_BACKENDS_CUDA_COMMUNICATOR_H_
