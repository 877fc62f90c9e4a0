// SPDX-License-Identifier: Apache-2.0
// A door that the host opens for streams.
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

// Whoever is going to open a gate, as far as a thread that waits behind it may lend a hand.
// Until then it may be at memory that the work before the gate has got ready: so who gives that
// memory back, on a stream that has dropped the gate, waits for it all the same.
class GateKeeper : public RefCounted {
 public:
  // Does, on the calling thread, what has to be done before |gate| opens; or returns at once,
  // because somebody else is at it, or because it might take longer than until |deadline|.
  virtual void help(const Gate& gate, const Deadline& deadline) = 0;
};

// Work behind a closed gate stays in Keel and is submitted by the thread that opens
// it: a device-side wait could stall every stream that shares its hardware queue,
// among them the one whose work the opening depends on. Thread-safe.
class Gate final : public RefCounted {
 public:
  // |name|, a static string: what holds the streams, for observers.
  // |keeper|: may be empty. It is kept until the gate opens, which it will.
  explicit Gate(const char* name = "gate", Ref<GateKeeper> keeper = {});
  ~Gate() override;

  const char* name() const { return name_; }
  uint64_t serial() const { return serial_; }

  // Streams behind the gate go on, or fail with |status|. False when it was open.
  // Must be followed by advance_all(wake).
  bool open(const Status& status, WakeList& wake);

  bool is_open() const { return open_.load(std::memory_order_acquire); }
  // Whether it has a keeper, or had one before it was opened.
  bool is_kept() const { return is_kept_; }
  // Whether it is open at |deadline|; blocks until then.
  bool wait(const Deadline& deadline);
  void help(const Deadline& deadline);

  // Whether it is open; then |out_status| is what it was opened with, else |stream|
  // is woken when it opens (unless it is empty).
  bool passed(Ref<Stream> stream, Status* out_status);

 private:
  const char* const name_;
  const uint64_t serial_;
  const bool is_kept_;
  std::mutex mutex_;
  std::condition_variable opened_;
  std::atomic<bool> open_{false};
  Ref<GateKeeper> keeper_;
  Status status_;
  WakeList waiters_;
};

}  // namespace keel

#endif  // KEEL_CORE_GATE_H_
