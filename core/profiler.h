// SPDX-License-Identifier: Apache-2.0
// A framework's profiler, called for every enqueueing call.
#ifndef KEEL_CORE_PROFILER_H_
#define KEEL_CORE_PROFILER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/deadline.h"
#include "core/observer.h"
#include "core/status.h"
#include "core/stream_refusal.h"

namespace keel {

// One per process, never destroyed. Thread-safe.
class Profiler final : public Observer {
 public:
  static Profiler& get();

  // Installs |profiler|; NULL removes the current one. Returns once no call of the former profiler
  // runs, or KEEL_TIMED_OUT at |deadline|, after which none is installed; KEEL_FAILED_PRECONDITION
  // from within a callback.
  Status set(const keel_profiler* profiler, const Deadline& deadline);

  void memory_changed(Device& device, uint64_t allocated_bytes) override;

 private:
  friend class EnqueueCall;
  // Returns the profiler, valid until leave(); NULL if there is none.
  const keel_profiler* enter();
  // Either leave() sees set() waiting, or set() sees that no call is inside.
  void leave() {
    if (inside_.fetch_sub(1, std::memory_order_seq_cst) == 1 &&
        waited_for_.load(std::memory_order_seq_cst)) [[unlikely]] {
      tell_left();
    }
  }
  void tell_left();

  std::mutex mutex_;  // serialises set()
  std::mutex left_mutex_;
  std::condition_variable left_;
  std::atomic<bool> waited_for_{false};
  std::atomic<uint32_t> inside_{0};
  std::atomic<const keel_profiler*> current_{nullptr};
  std::unique_ptr<const keel_profiler> owned_;
  std::vector<std::unique_ptr<const keel_profiler>> left_in_use_;  // in use when set() timed out
};

// One enqueueing call on the calling thread. Without a profiler, costs a load and a branch.
class EnqueueCall {
 public:
  // |name| is a static string.
  EnqueueCall(const char* name, const Device& device, keel_stream stream) : stream_(stream) {
    if (observers::active(ObserverSlot::kProfiler)) [[unlikely]] {
      begin(name, device, stream);
    }
  }
  ~EnqueueCall() {
    if (profiler_ != nullptr) finish(KEEL_OUT_OF_MEMORY);  // an exception left the scope
  }
  EnqueueCall(const EnqueueCall&) = delete;
  EnqueueCall& operator=(const EnqueueCall&) = delete;

  // Reports the end of the call and returns |status|, or KEEL_STREAM_FAILED: see stream_refusal().
  Status end(Status status) {
    if (status.failed()) [[unlikely]] {
      status = stream_refusal(stream_, status);
    }
    if (profiler_ != nullptr) [[unlikely]] {
      finish(status.code());
    }
    return status;
  }

 private:
  void begin(const char* name, const Device& device, keel_stream stream);
  void finish(keel_status status);

  const keel_stream stream_;
  const keel_profiler* profiler_ = nullptr;
  uint64_t token_ = 0;
};

}  // namespace keel

#endif  // KEEL_CORE_PROFILER_H_
