// SPDX-License-Identifier: Apache-2.0
// The native library of collectives that a rank offers to its peers.
#ifndef KEEL_COLLECTIVES_HIERARCHICAL_NATIVE_OFFER_H_
#define KEEL_COLLECTIVES_HIERARCHICAL_NATIVE_OFFER_H_

#include <keel/abi.h>

#include <array>
#include <cstdint>

#include "core/device.h"
#include "core/status.h"

namespace keel {

// Capabilities of a library: one bit per reduction.
struct NativeCapability {
  std::array<std::array<uint8_t, KEEL_DTYPE_COUNT>, KEEL_COLLECTIVE_COUNT> reductions = {};

  // |reduction| is ignored for a collective that does not reduce.
  bool has(keel_collective collective, keel_dtype dtype, keel_reduction reduction) const;
  // Keeps the capabilities that |other| has too.
  void keep_common(const NativeCapability& other);
};

// One rank's offer, copied bytewise through shared memory.
struct NativeOffer {
  // Published before the offer itself, in two bits of the rank's flags.
  enum class Why : uint32_t {
    kNoLibrary = 0,  // the backend has none
    kOffered = 1,    // the fields below are valid
    kForbidden = 2,  // by keel_comm_options or the environment
    kOneQueue = 3,   // with one queue, waiting work would block its own prerequisites
  };

  std::array<char, 64> library = {};  // name and version, zero-terminated
  keel_ccl_reach reach = KEEL_CCL_PROCESS;
  std::array<uint8_t, 16> uuid = {};  // of the device; zero if unknown
  NativeCapability capability;
};

NativeOffer::Why native_why(const Device& device, bool is_forbidden);
// Requires native_why() == kOffered.
Status make_native_offer(const Device& device, NativeOffer* out_offer);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HIERARCHICAL_NATIVE_OFFER_H_
