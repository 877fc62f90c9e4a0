#include "core/gate.h"

#include "core/observer.h"
#include "core/stream.h"

namespace keel {

Gate::Gate(const char* name) : name_(name), serial_(observers::next_serial()) {}

Gate::~Gate() {
  observers::tell([&](Observer& observer) { observer.forgotten(serial_); });
}

bool Gate::open(const Status& status, WakeList& wake) {
  std::lock_guard lock(mutex_);
  if (open_) return false;
  observers::tell([&](Observer& observer) { observer.gate_opened(serial_); });
  open_ = true;
  status_ = status;
  wake.splice(wake.end(), waiters_);
  return true;
}

bool Gate::passed(Ref<Stream> stream, Status* out_status) {
  std::lock_guard lock(mutex_);
  if (open_) {
    *out_status = status_;
  } else if (stream) {
    waiters_.push_back(std::move(stream));
  }
  return open_;
}

}  // namespace keel
