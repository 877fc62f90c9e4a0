// SPDX-License-Identifier: Apache-2.0
// The streams that parts of one stream's work run on.
#ifndef KEEL_CORE_LEGS_H_
#define KEEL_CORE_LEGS_H_

#include <cstdint>
#include <mutex>
#include <vector>

#include "core/deadline.h"
#include "core/ref_counted.h"
#include "core/status.h"

namespace keel {

class Device;
class Stream;

// Streams of the runtime's own, one a device, leased from their devices for as long as the
// stream whose legs they are is open. Thread-safe; no lock is held while a leg is waited for.
class Legs {
 public:
  // The leg on |device|. KEEL_CANCELLED after refuse().
  Status take(Device& device, Ref<Stream>* out_leg);
  // Things enqueued on them so far, summed.
  uint64_t enqueued() const;
  // Waits for what they hold, once their owner has failed and is drained; their failures are its
  // already. |*out_enqueued|: what enqueued() was when this began, if it is not null.
  Status drain(const Deadline& deadline, uint64_t* out_enqueued = nullptr);

  // The end, once they are drained or given up: no new leg from here on, and their devices
  // get them back, or they are let go of.
  void refuse();
  void give_back();
  void abandon();

 private:
  Ref<Stream> find_locked(const Device& device) const;
  bool keep_locked(const Ref<Stream>& leg);

  mutable std::mutex mutex_;  // a leaf
  std::vector<Ref<Stream>> legs_;
  bool refuses_ = false;
};

}  // namespace keel

#endif  // KEEL_CORE_LEGS_H_
