// SPDX-License-Identifier: Apache-2.0
// Packed weights on a device: packs with the device's pack_weights and reads back with its
// packed_matmul. The packed layout is private to the device.
#ifndef KEEL_CONFORMANCE_PACKED_WEIGHTS_H_
#define KEEL_CONFORMANCE_PACKED_WEIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "conformance/harness.h"

namespace keel::conformance {

// |content| is the allocation of |packed|, with weights [k,n] in the order of its shape. Returns
// the allocation with the weights in the device's order. Ends the case if the device has no kernel
// for pack_weights.
std::vector<std::byte> pack(const Stream& stream, const keel_tensor& packed,
                            std::span<const std::byte> content, int64_t k, int64_t n);

// Returns the weights [k,n] in |packed|, which lies in device memory, by multiplying the identity
// by them. The weights must be finite.
std::vector<double> unpack(const Stream& stream, const keel_tensor& packed, int64_t k, int64_t n);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_PACKED_WEIGHTS_H_
