// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_LEVEL_ZERO_EVENT_POOL_H_
#define KEEL_BACKENDS_LEVEL_ZERO_EVENT_POOL_H_

#include <keel/abi.h>

#include <mutex>
#include <vector>

#include "vendor/level_zero.h"

namespace keel::gpu {

class Device;

// The native events of a device, from pools of kPoolEvents each. Events given back are handed out
// again; all are destroyed with the object. Thread-safe.
class EventPool {
 public:
  explicit EventPool(Device& device) : device_(device) {}
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  // Returns an event that is not signalled.
  keel_status take(ze::Event* out_event);
  // No work signals |event| or waits for it any more.
  void give_back(ze::Event event);
  // Gives |event| back once |passed|, which work behind every wait for it signals, are signalled.
  void give_back_after(ze::Event event, std::vector<ze::Event> passed);

 private:
  // Moves retired events whose waits are over to the free ones. Requires |mutex_|.
  void collect();

  static constexpr uint32_t kPoolEvents = 64;

  Device& device_;
  std::mutex mutex_;
  std::vector<ze::EventPool> pools_;
  std::vector<ze::Event> made_;
  std::vector<ze::Event> free_;
  uint32_t next_ = kPoolEvents;  // place in the last pool
  struct Retired {
    ze::Event event;
    std::vector<ze::Event> passed;
  };
  std::vector<Retired> retired_;
};

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_LEVEL_ZERO_EVENT_POOL_H_
