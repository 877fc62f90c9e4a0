// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_SIM_SETTINGS_H_
#define KEEL_BACKENDS_SIM_SETTINGS_H_

#include <keel/abi.h>

#include <cstdint>

#include "emulator/ccl/call.h"
#include "emulator/device.h"

namespace keel::sim {

// The configuration of an instance. Each key comes from the instance settings or, if absent there,
// from the environment: KEEL_SIM_DEVICES, KEEL_SIM_PROFILE, and for all keys
// KEEL_SIM_SETTINGS="key=value key=value".
//   devices         0 to 64; default 1 with a profile, else 0
//   profile         a JSON file; default as fast as the host
//   memory_mib      of each device, 1 to 262144; default the profile's, or 4096
//   single_queue    0, 1    all streams of a device share one hardware queue
//   pageable_async  0, 1    pageable host memory is read when the copy runs
//   delay_us        0 to 1000000    maximum random delay of each piece of work
//   seed            of the delays and corruptions; default 1
//   faults          see emulator/faults.h
//   ccl             types of the chip's own collectives library: "none" (no library), "all", or
//                   names with commas, as in float32,bfloat16; default all but int16, uint16,
//                   float64 and the 8-bit floats
//   compute         full, none    none: work takes its time and moves its bytes, operators and
//                   reductions compute nothing and poison their outputs; default full
//   conformance     0, 1    the functions of keel_test_table work
struct Settings {
  uint32_t devices = 0;
  emulator::ccl::TypeSet ccl = emulator::ccl::kUsualTypes;
  emulator::DeviceOptions device;
};

// Returns KEEL_INVALID_ARGUMENT, naming the key, for an unknown key or a bad value.
keel_status read_settings(const keel_instance_settings* given, Settings* out_settings);

}  // namespace keel::sim

#endif  // KEEL_BACKENDS_SIM_SETTINGS_H_
