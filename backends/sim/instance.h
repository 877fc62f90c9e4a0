// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_SIM_INSTANCE_H_
#define KEEL_BACKENDS_SIM_INSTANCE_H_

#include <keel/abi.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "backends/sim/settings.h"
#include "emulator/device.h"

namespace keel::sim {

// A set of identical emulated devices. Immutable.
class Instance {
 public:
  explicit Instance(Settings settings) : settings_(std::move(settings)) {}

  uint32_t devices() const { return settings_.devices; }
  void describe(keel_device_info* out_info) const;
  // Returns the types of the chip's own collectives; none with a single hardware queue, where a
  // rank that waits for its peers would block all other work.
  emulator::ccl::TypeSet ccl_types() const { return has_ccl() ? settings_.ccl : 0; }
  emulator::Status open(uint32_t ordinal, std::shared_ptr<emulator::Device>* out_device) const;

 private:
  bool has_ccl() const { return settings_.ccl != 0 && !settings_.device.single_queue; }

  const Settings settings_;
};

}  // namespace keel::sim

#endif  // KEEL_BACKENDS_SIM_INSTANCE_H_
