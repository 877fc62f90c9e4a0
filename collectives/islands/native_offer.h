// SPDX-License-Identifier: Apache-2.0
// What a rank tells the others of the native library of collectives of its device.
#ifndef KEEL_COLLECTIVES_ISLANDS_NATIVE_OFFER_H_
#define KEEL_COLLECTIVES_ISLANDS_NATIVE_OFFER_H_

#include <keel/abi.h>

#include <array>
#include <cstdint>

#include "core/device.h"
#include "core/status.h"

namespace keel {

// What a library does natively: a bit a reduction.
struct NativeCapability {
  std::array<std::array<uint8_t, KEEL_DTYPE_COUNT>, KEEL_COLLECTIVE_COUNT> reductions = {};

  // |reduction| of a collective that reduces nothing is not looked at.
  bool has(keel_collective collective, keel_dtype dtype, keel_reduction reduction) const;
  // Leaves what both have.
  void keep_common(const NativeCapability& other);
};

// One rank's. Crosses through shared memory as it lies here.
struct NativeOffer {
  // Told before all else, in two bits of the rank's flags.
  enum class Why : uint32_t {
    kNoLibrary = 0,  // the backend has none
    kOffered = 1,    // all below means something
    kForbidden = 2,  // by keel_comm_options or the environment
    kOneQueue = 3,   // what waits in the device's one queue would hold up what it waits for
  };

  std::array<char, 64> library = {};  // name and version, with a zero at the end
  keel_ccl_reach reach = KEEL_CCL_PROCESS;
  std::array<uint8_t, 16> uuid = {};  // of the device; zero when unknown
  NativeCapability capability;
};

NativeOffer::Why native_why(const Device& device, bool is_forbidden);
// Of a device that says kOffered.
Status make_native_offer(const Device& device, NativeOffer* out_offer);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_ISLANDS_NATIVE_OFFER_H_
