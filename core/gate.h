// SPDX-License-Identifier: Apache-2.0
// Gate: a host-signalled fence for streams.
#ifndef KEEL_CORE_GATE_H_
#define KEEL_CORE_GATE_H_

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "core/deadline.h"
#include "core/event.h"
#include "core/ref_counted.h"
#include "core/status.h"

namespace keel {

class Gate;

// The gate owner: will open a gate, and accepts help from a thread that waits behind the gate.
// Until the gate opens, the owner may access memory that the work before the gate has prepared. A
// thread that returns this memory to the user, on a stream that has dropped the gate, therefore
// still waits for the owner.
class GateOwner : public RefCounted {
 public:
  // Performs, on the calling thread, the work due before |gate| opens. Returns at once if another
  // thread is already doing the work, or if the work might take longer than until |deadline|.
  virtual void help(const Gate& gate, const Deadline& deadline) = 0;
  // Returns the deadlines of all work due before any of the owner's gates opens, in sum.
  virtual int64_t longest_ns() const = 0;
};

// Work behind a closed gate stays in Keel; the thread that opens the gate submits it. A device-side
// wait could stall every stream that shares its hardware queue, including the stream whose work the
// opening depends on. Thread-safe.
class Gate final : public RefCounted {
 public:
  // |name|, a static string: the reason that observers see for held streams.
  // |keeper|: the gate owner, or empty. The gate holds the reference until it opens; the owner must
  // open it.
  explicit Gate(const char* name = "gate", Ref<GateOwner> keeper = {});
  ~Gate() override;

  const char* name() const { return name_; }
  uint64_t serial() const { return serial_; }

  // Releases the streams behind the gate, or fails them with |status|. False if the gate was
  // already open. The caller must then call advance_all(wake).
  bool open(const Status& status, WakeList& wake);

  bool is_open() const { return open_.load(std::memory_order_acquire); }
  // Whether the gate has, or had before it opened, an owner.
  bool is_kept() const { return is_kept_; }
  // Blocks until the gate opens or |deadline|. Returns whether the gate is open.
  bool wait(const Deadline& deadline);
  void help(const Deadline& deadline);
  // As GateOwner::longest_ns(); 0 for an open gate or one without an owner.
  int64_t longest_ns();

  // Returns whether the gate is open. If so, |*out_status| is the status that open() was given;
  // otherwise |stream|, if not empty, is woken when the gate opens.
  bool passed(Ref<Stream> stream, Status* out_status);

 private:
  const char* const name_;
  const uint64_t serial_;
  const bool is_kept_;
  std::mutex mutex_;
  std::condition_variable opened_;
  std::atomic<bool> open_{false};
  Ref<GateOwner> keeper_;
  Status status_;
  WakeList waiters_;
};

}  // namespace keel

#endif  // KEEL_CORE_GATE_H_
