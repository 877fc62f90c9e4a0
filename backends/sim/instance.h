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

// Equal emulated devices. Immutable once made.
class Instance {
 public:
  explicit Instance(Settings settings) : settings_(std::move(settings)) {}

  uint32_t devices() const { return settings_.devices; }
  void describe(keel_device_info* out_info) const;
  // What the chip's own collectives compute in. With a single hardware queue there are none:
  // a rank that waits for the others in it would hold up all else.
  emulator::ccl::TypeSet ccl_types() const { return has_ccl() ? settings_.ccl : 0; }
  emulator::Status open(uint32_t ordinal, std::shared_ptr<emulator::Device>* out_device) const;

 private:
  bool has_ccl() const { return settings_.ccl != 0 && !settings_.device.single_queue; }

  const Settings settings_;
};

}  // namespace keel::sim

#endif  // KEEL_BACKENDS_SIM_INSTANCE_H_
