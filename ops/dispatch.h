// SPDX-License-Identifier: Apache-2.0
// Turns a checked call into enqueued work.
#ifndef KEEL_OPS_DISPATCH_H_
#define KEEL_OPS_DISPATCH_H_

#include <keel/keel.h>

#include <atomic>
#include <cstdint>

#include "core/device.h"
#include "core/ref_counted.h"
#include "core/status.h"
#include "core/stream.h"
#include "ops/selection.h"

namespace keel::ops {

// Returns KEEL_OK if every tensor of |call| lies within one allocation of |device| that the
// device's kernels can reach; the failure names the tensor.
Status check_memory(Device& device, const keel_op_call& call);

// Checks |call| and chooses its kernel on |device|: one of the device's own, else a fallback.
Status choose_kernel(Device& device, const keel_op_call& call, Candidate* out_best);

// Whether submit_kernel() alone enqueues |best|, without waiting.
bool is_ready(const Candidate& best);

// Enqueues |call| on |stream| with the kernel |best|. Custom kernels receive |handle|, the handle
// of |stream|. If the device's backend has a kernel, allocates nothing unless the stream holds
// work.
Status run_op(const Ref<Stream>& stream, keel_stream handle, const keel_op_call& call,
              const Candidate& best);

// Enqueues |call| on |stream| through |fallback.device|: copies the inputs there, runs the kernel
// and copies the outputs back, all in stream order and without blocking.
Status run_fallback(const Ref<Stream>& stream, const Candidate& fallback, const keel_op_call& call);

// Enqueues the plugin's kernel of |candidate| on |stream|, which belongs to the same device.
Status submit_kernel(Stream& stream, const Candidate& candidate, const keel_op_call& call);

// Whether fallbacks are forbidden, and a count of fallbacks that ran. Thread-safe.
class FallbackPolicy {
 public:
  static FallbackPolicy& get();

  bool forbidden() const { return forbidden_.load(std::memory_order_relaxed); }
  void set_forbidden(bool forbidden) { forbidden_.store(forbidden, std::memory_order_relaxed); }
  uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  void add() { count_.fetch_add(1, std::memory_order_relaxed); }

 private:
  FallbackPolicy();  // reads KEEL_FALLBACK
  std::atomic<bool> forbidden_{false};
  std::atomic<uint64_t> count_{0};
};

}  // namespace keel::ops

#endif  // KEEL_OPS_DISPATCH_H_
