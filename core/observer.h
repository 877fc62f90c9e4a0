// SPDX-License-Identifier: Apache-2.0
// What streams do, told to those who watch: traces, profilers, the race detector. Off,
// each place that tells costs one relaxed load and a branch.
#ifndef KEEL_CORE_OBSERVER_H_
#define KEEL_CORE_OBSERVER_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "core/hindrances.h"
#include "core/status.h"

namespace keel {

class Device;
class Stream;

// A range that an operation reads or writes. Pinned memory is the host's.
struct Access {
  const Device* device = nullptr;  // NULL: host memory
  const void* pointer = nullptr;
  uint64_t bytes = 0;
  bool writes = false;
  bool dense = true;  // all of it; else its first and last bytes, and what lies between
};

// What one operation touches, without allocating. Room for all tensors of the largest
// operator and its workspace; a range written and read is one that is written.
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

// One thing enqueued on a stream. |serial| is unique in the process: of the operation,
// of the event record that is made or waited for, or of the gate; 0 for a record made
// while nobody watched.
struct Step {
  enum class Kind : uint8_t { kWork, kRecord, kWaitEvent, kWaitGate };
  Kind kind = Kind::kWork;
  uint64_t serial = 0;
  const char* name = "";             // kWork: static, "copy", "matmul"
  std::span<const Access> accesses;  // kWork: valid during the call
};

// Calls come from any thread. Those with a stream are made with its lock held: they
// come in the stream's order, must be quick, and may neither wait for nor enqueue on
// any stream. Nothing may throw.
class Observer {
 public:
  // Step by step, in the order of the stream:
  //   enqueued   by the thread that enqueues, right when it does
  //   starting   work only: the next thing in the native queue will be this operation
  //   passed     it was handed to the plugin, or the wait is over as far as what follows
  //              is concerned; a failure: dropped, and |starting| may not have been called
  // With something held before it (a gate, another device's event) a step passes later
  // than it is enqueued, on the thread that lets it. A step that could not be enqueued
  // passes with the failure.
  virtual void enqueued(Stream&, const Step&) {}
  virtual void starting(Stream&, const Step&) {}
  virtual void passed(Stream&, const Step&, const Status&) {}
  // |stream| goes: all its work is done, or given up.
  virtual void closed(Stream&) {}

  // The calling thread has seen that the record |serial| is done, or that gate open; that all
  // work of |stream| is done.
  virtual void host_saw_done(uint64_t serial) { (void)serial; }
  virtual void host_saw_idle(Stream&) {}
  // The calling thread opens the gate |serial|: before any stream passes it.
  virtual void gate_opened(uint64_t serial) { (void)serial; }
  // Nobody can wait for that record or gate any more.
  virtual void forgotten(uint64_t serial) { (void)serial; }

  // What the calling thread does itself: a call that blocks, a collective's part on the
  // host. begin and end nest.
  virtual void host_begin(const char* name, std::span<const Access>) { (void)name; }
  virtual void host_end() {}

  // New memory: [pointer, pointer + bytes) was given to the caller. |device| as in Access;
  // |stream|: what it is ordered after, NULL: anything.
  virtual void memory_handed_out(const Device*, const void*, uint64_t bytes, Stream*) {
    (void)bytes;
  }
  // Bytes that are allocated on |device| after an allocation or a free.
  virtual void memory_changed(Device&, uint64_t allocated_bytes) { (void)allocated_bytes; }
  // Bytes that a collective's bridge moved just now.
  virtual void bridged(uint64_t bytes) { (void)bytes; }

 protected:
  ~Observer() = default;
};

enum class ObserverSlot : uint8_t { kTrace, kValidation, kProfiler };
inline constexpr uint32_t kObserverSlots = 3;

// NULL takes the observer away. One that was set once must live for ever: a call that
// began before it was taken away may still reach it.
void set_observer(ObserverSlot slot, Observer* observer);

namespace observers {

inline std::array<std::atomic<Observer*>, kObserverSlots> g_slots{};

// Whether anybody watches.
inline bool active() {
  return hindrances::any(hindrances::kObservers);
}
inline bool active(ObserverSlot slot) {
  return hindrances::any(1u << static_cast<uint32_t>(slot));
}

// Calls |tell|(Observer&) for each who watches.
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

// What the calling thread does until the end of the scope. |describe|(AccessList&) is
// called only if somebody watches.
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
