#include "core/gate.h"

#include <algorithm>
#include <iterator>

#include "core/stream.h"

namespace keel {

Gate::Gate() = default;
Gate::~Gate() = default;

bool Gate::open(const Status& status, WakeList& wake) {
  std::lock_guard lock(mutex_);
  if (open_) return false;
  open_ = true;
  status_ = status;
  std::move(waiters_.begin(), waiters_.end(), std::back_inserter(wake));
  waiters_.clear();
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
