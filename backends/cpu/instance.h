// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_CPU_INSTANCE_H_
#define KEEL_BACKENDS_CPU_INSTANCE_H_

#include <keel/abi.h>

#include <cstdint>
#include <memory>

#include "backends/cpu/runtime/device.h"

namespace keel::cpu {

// The host's cores and memory, split into |devices| equal devices. Settings, each with the
// environment variable that it overrides:
//   devices  KEEL_CPU_DEVICES  1 to 64, default 1
//   cores    KEEL_CPU_CORES    cores of each device, 1 to 1024; default its equal
//                              share of the process's cores, at least 1
//   register_huge_pages  KEEL_CPU_REGISTER_HUGE_PAGES
//                            1: registered memory of the caller becomes huge pages; default 0
//   conformance              1: the functions of keel_test_table work
// The devices together may use more cores than the host has. KEEL_CPU_GUARD=1 makes device memory
// inaccessible at its device addresses (see AddressSpace).
class Instance {
 public:
  // KEEL_INVALID_ARGUMENT for an unknown setting or a bad value; the error text names the setting.
  static keel_status create(const keel_instance_settings* settings,
                            std::unique_ptr<Instance>* out_instance);

  uint32_t devices() const { return devices_; }
  void describe(keel_device_info* out_info) const;
  std::unique_ptr<Device> open() const;

 private:
  Instance() = default;

  uint32_t devices_ = 1;
  uint32_t cores_ = 1;
  uint64_t memory_bytes_ = 0;  // of each device
  bool guarded_ = false;
  bool register_huge_pages_ = false;
  bool conformance_ = false;
};

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_INSTANCE_H_
