// SPDX-License-Identifier: Apache-2.0
// Reports of stream activity to observers: traces, profilers, the race detector. Without an
// observer, each report costs one relaxed load and a branch.
#ifndef KEEL_CORE_OBSERVER_H_
#define KEEL_CORE_OBSERVER_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "core/slow_path_flags.h"
#include "core/status.h"

namespace keel {

class Device;
class Stream;

// A range read or written by an operation. Pinned memory counts as host memory.
struct Access {
  const Device* device = nullptr;  // NULL: host memory
  const void* pointer = nullptr;
  uint64_t bytes = 0;
  bool writes = false;
  bool dense = true;  // all bytes; else the first, the last, and unknown ones between
};

// The ranges touched by one operation; never allocates. Has room for all tensors of the largest
// operator and its workspace. A range both read and written is listed as written.
class AccessList {
 public:
  void reads(const Device* device, const void* pointer, uint64_t bytes) {
    add({device, pointer, bytes, false});
  }
  void writes(const Device* device, const void* pointer, uint64_t bytes) {
    add({device, pointer, bytes, true});
  }
  void add(const Access& access) {
    if (access.bytes == 0) return;
    if (count_ < accesses_.size()) accesses_[count_++] = access;
  }
  std::span<const Access> all() const { return {accesses_.data(), count_}; }

 private:
  std::array<Access, 16> accesses_;
  uint32_t count_ = 0;
};

// One item enqueued on a stream. |serial| is unique in the process and names the operation, the
// event record that is made or waited for, or the gate; 0 for a record made without an observer.
struct Step {
  enum class Kind : uint8_t { kWork, kRecord, kWaitEvent, kWaitGate };
  Kind kind = Kind::kWork;
  uint64_t serial = 0;
  const char* name = "";             // kWork: static string: "copy", "matmul"
  std::span<const Access> accesses;  // kWork: valid during the call
};

// Calls come from any thread. Calls with a stream are made with its lock held: they follow the
// stream's order, must be quick, and may neither wait for nor enqueue on any stream. An
// implementation must not throw.
class Observer {
 public:
  // Calls for each step, in the order of the stream:
  //   enqueued   by the enqueueing thread, right after the step is enqueued
  //   starting   work only: the next item in the native queue will be this operation
  //   passed     the step was handed to the plugin, or the wait no longer delays later steps;
  //              with a failure: dropped, and |starting| may not have been called
  // Behind a gate or another device's event, a step passes later than enqueued, on the thread that
  // lets the stream continue. A step that could not be enqueued passes with the failure.
  virtual void enqueued(Stream&, const Step&) {}
  virtual void starting(Stream&, const Step&) {}
  virtual void passed(Stream&, const Step&, const Status&) {}
  // The stream ends, with all work done or given up.
  virtual void closed(Stream&) {}

  // The calling thread has seen the record |serial| done or the gate |serial| open; for
  // host_saw_idle(), all work of the stream done.
  virtual void host_saw_done(uint64_t serial) { (void)serial; }
  virtual void host_saw_idle(Stream&) {}
  // The calling thread opens the gate |serial|; called before any stream passes the gate.
  virtual void gate_opened(uint64_t serial) { (void)serial; }
  // No thread can wait for the record or gate |serial| any more.
  virtual void forgotten(uint64_t serial) { (void)serial; }

  // Activity of the calling thread itself: a blocking call, or a collective's part on the host.
  // Begin and end nest.
  virtual void host_begin(const char* name, std::span<const Access>) { (void)name; }
  virtual void host_end() {}

  // Reports new memory: [pointer, pointer + bytes) was given to the caller. The device is as in
  // Access; the stream is what the memory is ordered after, NULL if it is free for any use.
  virtual void memory_handed_out(const Device*, const void*, uint64_t bytes, Stream*) {
    (void)bytes;
  }
  // Bytes allocated on the device after an allocation or a free.
  virtual void memory_changed(Device&, uint64_t allocated_bytes) { (void)allocated_bytes; }
  // Bytes just moved by a collective's bridge.
  virtual void bridged(uint64_t bytes) { (void)bytes; }

 protected:
  ~Observer() = default;
};

enum class ObserverSlot : uint8_t { kTrace, kValidation, kProfiler };
inline constexpr uint32_t kObserverSlots = 3;

// NULL removes the observer. An observer, once set, must live for ever: a call in progress during
// the removal may still reach it.
void set_observer(ObserverSlot slot, Observer* observer);

namespace observers {

inline std::array<std::atomic<Observer*>, kObserverSlots> g_slots{};

// Returns whether any observer is set.
inline bool active() {
  return slow_path_flags::any(slow_path_flags::kObservers);
}
inline bool active(ObserverSlot slot) {
  return slow_path_flags::any(1u << static_cast<uint32_t>(slot));
}

// Calls |tell|(Observer&) for each observer.
template <typename Tell>
[[gnu::noinline, gnu::cold]] void tell_all(const Tell& tell) {
  for (const auto& slot : g_slots) {
    if (Observer* observer = slot.load(std::memory_order_acquire)) tell(*observer);
  }
}
template <typename Tell>
void tell(const Tell& each) {
  if (active()) [[unlikely]] {
    tell_all(each);
  }
}

uint64_t next_serial();

}  // namespace observers

// Reports activity of the calling thread until the end of the scope. |describe|(AccessList&) is
// called only if an observer is set.
class HostSpan {
 public:
  explicit HostSpan(const char* name) : HostSpan(name, [](AccessList&) {}) {}
  template <typename Describe>
  HostSpan(const char* name, const Describe& describe) : told_(observers::active()) {
    if (!told_) return;
    AccessList accesses;
    describe(accesses);
    observers::tell_all([&](Observer& observer) { observer.host_begin(name, accesses.all()); });
  }
  ~HostSpan() {
    if (told_) observers::tell_all([](Observer& observer) { observer.host_end(); });
  }
  HostSpan(const HostSpan&) = delete;
  HostSpan& operator=(const HostSpan&) = delete;

 private:
  const bool told_;
};

}  // namespace keel

#endif  // KEEL_CORE_OBSERVER_H_
