// SPDX-License-Identifier: Apache-2.0
#include "core/observer.h"

namespace keel {

void set_observer(ObserverSlot slot, Observer* observer) {
  const auto index = static_cast<uint32_t>(slot);
  observers::g_slots[index].store(observer, std::memory_order_release);
  if (observer != nullptr) {
    slow_path_flags::g_process.fetch_or(1u << index, std::memory_order_release);
  } else {
    slow_path_flags::g_process.fetch_and(~(1u << index), std::memory_order_release);
  }
}

uint64_t observers::next_serial() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace keel
