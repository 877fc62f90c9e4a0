// SPDX-License-Identifier: Apache-2.0
// The checked functions of each table: only the slots that |real| has.
#ifndef KEEL_CORE_VALIDATION_TABLES_H_
#define KEEL_CORE_VALIDATION_TABLES_H_

#include <keel/keel.h>

#include <chrono>
#include <cstdint>

#include "core/validation/checked_objects.h"

namespace keel::validation {

keel_device_table checked_device_table(const keel_device_table* real);
keel_memory_table checked_memory_table(const keel_memory_table* real);
// Sets the slots of streams, copies and fills; add_event_slots() sets those of events and gates.
keel_stream_table checked_stream_table(const keel_stream_table* real);
void add_event_slots(const keel_stream_table* real, keel_stream_table* out_table);
keel_kernel_table checked_kernel_table(const keel_kernel_table* real);
keel_op_table checked_op_table(const keel_op_table* real);
keel_ccl_table checked_ccl_table(const keel_ccl_table* real);

keel_status create_checked_instance(const CheckedPlugin& plugin,
                                    const keel_instance_settings* settings,
                                    keel_plugin_instance** out_instance);
void destroy_checked_instance(keel_plugin_instance* instance);

// Sets |slot| of |table| to |function| if the plugin has the slot.
#define KEEL_CHECKED_SLOT(Table, slot, function) \
  if (KEEL_HAS(Table, real, slot)) table.slot = function;

class Call;

// The state of a stream before the plugin is asked about it: facts that another thread learns
// meanwhile must not make the answer look wrong.
struct Before {
  explicit Before(CheckedStream& stream);  // takes the device's lock

  uint64_t position;
  keel_status failure;
  bool was_idle;
};
// Enters the plugin's answer about all earlier work on |stream|. Takes the device's lock.
void settle(Call& call, CheckedStream& stream, const Before& before, keel_status code);

// One wait with a deadline.
class Wait {
 public:
  explicit Wait(int64_t timeout_ns)
      : timeout_(timeout_ns), started_(std::chrono::steady_clock::now()) {}
  // Reports KEEL_TIMED_OUT before the deadline as a violation; tolerates a millisecond for coarse
  // clocks.
  void check(Call& call, keel_status code) const;

 private:
  const std::chrono::nanoseconds timeout_;
  const std::chrono::steady_clock::time_point started_;
};

}  // namespace keel::validation

#endif  // KEEL_CORE_VALIDATION_TABLES_H_
