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
  emulator::Status open(uint32_t ordinal, std::shared_ptr<emulator::Device>* out_device) const;

 private:
  const Settings settings_;
};

}  // namespace keel::sim

#endif  // KEEL_BACKENDS_SIM_INSTANCE_H_
