// SPDX-License-Identifier: Apache-2.0
// The objects behind the plugin's handles, and the mapping of emulator statuses to the ABI's.
#ifndef KEEL_BACKENDS_SIM_HANDLES_H_
#define KEEL_BACKENDS_SIM_HANDLES_H_

#include <keel/abi.h>

#include <cstdint>
#include <memory>

#include "backends/sim/instance.h"
#include "emulator/ccl/communicator.h"
#include "emulator/completion.h"
#include "emulator/device.h"
#include "emulator/event.h"
#include "emulator/notifier.h"
#include "emulator/status.h"
#include "emulator/stream.h"

namespace keel::sim {

// A device handle points to an OpenDevice; stream and communicator handles point to the emulator's
// objects, event and gate handles to the structs below.
struct OpenDevice {
  std::shared_ptr<emulator::Device> device;
  emulator::ccl::TypeSet ccl_types = 0;
};
struct TimedEvent {
  emulator::Event event;
  bool timing;
};
struct Gate {
  std::shared_ptr<emulator::Completion> opening = std::make_shared<emulator::Completion>();
};

inline Instance& object(keel_plugin_instance* handle) {
  return *reinterpret_cast<Instance*>(handle);
}
inline OpenDevice& opened(keel_plugin_device* handle) {
  return *reinterpret_cast<OpenDevice*>(handle);
}
inline emulator::Device& object(keel_plugin_device* handle) {
  return *opened(handle).device;
}
inline emulator::Stream& object(keel_plugin_stream* handle) {
  return *reinterpret_cast<emulator::Stream*>(handle);
}
inline TimedEvent& object(keel_plugin_event* handle) {
  return *reinterpret_cast<TimedEvent*>(handle);
}
inline Gate& object(keel_plugin_gate* handle) {
  return *reinterpret_cast<Gate*>(handle);
}
inline emulator::ccl::Communicator& object(keel_plugin_comm* handle) {
  return *reinterpret_cast<emulator::ccl::Communicator*>(handle);
}

inline emulator::Address address(const void* pointer) {
  return emulator::address_of(pointer);
}

keel_status code_of(const emulator::Status& status);
// Reports the status's text and returns its code.
keel_status answer(const emulator::Status& status);
emulator::Time deadline_after(int64_t timeout_ns);

}  // namespace keel::sim

#endif  // KEEL_BACKENDS_SIM_HANDLES_H_
