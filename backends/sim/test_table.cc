// SPDX-License-Identifier: Apache-2.0
#include "backends/sim/test_table.h"

#include <keel/plugin_kit.hpp>
#include <memory>

#include "backends/sim/handles.h"

namespace keel::sim {

namespace {

using emulator::Code;
using emulator::Status;

keel_status check(const emulator::Device& device) {
  if (device.options().conformance) return KEEL_OK;
  return kit::fail(KEEL_FAILED_PRECONDITION, "sim: the instance has no conformance=1");
}

// Returns the emulator's code for |status|; kFailed if there is none.
Code code_for(keel_status status) {
  for (int code = 0; code <= static_cast<int>(Code::kDeviceLost); ++code) {
    if (code_of(Status(static_cast<Code>(code))) == status) return static_cast<Code>(code);
  }
  return Code::kFailed;
}

keel_status fail_work(keel_plugin_stream* stream, keel_status status) {
  if (const keel_status refused = check(object(stream).device()); refused != KEEL_OK) {
    return refused;
  }
  return kit::guard([&] {
    const Status failure(code_for(status), "made to fail by a conformance run");
    return answer(object(stream).launch({}, {}, [failure](emulator::Access&) { return failure; }));
  });
}

// Implements a hold as a gate.
keel_status hold(keel_plugin_stream* stream, keel_plugin_hold** out_hold) {
  if (const keel_status refused = check(object(stream).device()); refused != KEEL_OK) {
    return refused;
  }
  return kit::guard([&] {
    auto gate = std::make_unique<Gate>();
    const Status status = object(stream).wait(gate->opening);
    if (status.ok()) *out_hold = reinterpret_cast<keel_plugin_hold*>(gate.release());
    return answer(status);
  });
}

void release(keel_plugin_hold* hold) {
  const std::unique_ptr<Gate> gate(reinterpret_cast<Gate*>(hold));
  gate->opening->complete_and_notify({}, emulator::Clock::now());
}

keel_status lose_device(keel_plugin_device* device) {
  if (const keel_status refused = check(object(device)); refused != KEEL_OK) return refused;
  return kit::guard([&] {
    object(device).lose("by a conformance run");
    return keel_status{KEEL_OK};
  });
}

}  // namespace

const keel_test_table kTestTable = {
    .header = kit::header<keel_test_table>(KEEL_STRUCT_TEST_TABLE),
    .fail_work = fail_work,
    .hold = hold,
    .release = release,
    .lose_device = lose_device,
};

}  // namespace keel::sim
