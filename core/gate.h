// A door that the host opens for streams.
#ifndef KEEL_CORE_GATE_H_
#define KEEL_CORE_GATE_H_

#include <mutex>

#include "core/event.h"
#include "core/ref_counted.h"
#include "core/status.h"

namespace keel {

// Work behind a closed gate stays in Keel and is submitted by the thread that opens
// it: a device-side wait could stall every stream that shares its hardware queue,
// among them the one whose work the opening depends on. Thread-safe.
class Gate final : public RefCounted {
 public:
  // |name|, a static string: what holds the streams, for observers.
  explicit Gate(const char* name = "gate");
  ~Gate() override;

  const char* name() const { return name_; }
  uint64_t serial() const { return serial_; }

  // Streams behind the gate go on, or fail with |status|. False when it was open.
  // Must be followed by advance_all(wake).
  bool open(const Status& status, WakeList& wake);

  // Whether it is open; then |out_status| is what it was opened with, else |stream|
  // is woken when it opens (unless it is empty).
  bool passed(Ref<Stream> stream, Status* out_status);

 private:
  const char* const name_;
  const uint64_t serial_;
  std::mutex mutex_;
  bool open_ = false;
  Status status_;
  WakeList waiters_;
};

}  // namespace keel

#endif  // KEEL_CORE_GATE_H_
