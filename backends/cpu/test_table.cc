// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/test_table.h"

#include <keel/plugin_kit.hpp>

#include "backends/cpu/runtime/device.h"
#include "backends/cpu/runtime/event.h"
#include "backends/cpu/runtime/stream.h"
#include "backends/cpu/runtime/thread_pool.h"

namespace keel::cpu {
namespace {

Stream& object(keel_plugin_stream* handle) {
  return *reinterpret_cast<Stream*>(handle);
}

keel_status check(const Device& device) {
  if (device.conformance()) return KEEL_OK;
  return kit::fail(KEEL_FAILED_PRECONDITION, "cpu: the instance has no conformance=1");
}

keel_status fail_work(keel_plugin_stream* stream, keel_status status) {
  if (const keel_status refused = check(object(stream).device()); refused != KEEL_OK) {
    return refused;
  }
  return kit::guard([&] {
    object(stream).enqueue([status](ThreadPool&) { return status; });
    return keel_status{KEEL_OK};
  });
}

// A hold is an event: work would occupy a core of the device.
keel_status hold(keel_plugin_stream* stream, keel_plugin_hold** out_hold) {
  Device& device = object(stream).device();
  if (const keel_status refused = check(device); refused != KEEL_OK) return refused;
  return kit::guard([&] {
    Event& opening = device.make_hold();
    object(stream).wait_for(opening);
    *out_hold = reinterpret_cast<keel_plugin_hold*>(&opening);
    return keel_status{KEEL_OK};
  });
}

void release(keel_plugin_hold* hold) {
  Wakeups wakeups;
  reinterpret_cast<Event*>(hold)->complete(KEEL_OK, &wakeups);
  wakeups.deliver(KEEL_OK);
}

}  // namespace

const keel_test_table kTestTable = {
    .header = kit::header<keel_test_table>(KEEL_STRUCT_TEST_TABLE),
    .fail_work = fail_work,
    .hold = hold,
    .release = release,
    .lose_device = nullptr,
};

}  // namespace keel::cpu
