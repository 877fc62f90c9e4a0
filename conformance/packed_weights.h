// SPDX-License-Identifier: Apache-2.0
// Packed weights on a device: what its own pack_weights makes of a case's, and what its own
// packed_matmul reads in them. Their order is nobody else's to know.
#ifndef KEEL_CONFORMANCE_PACKED_WEIGHTS_H_
#define KEEL_CONFORMANCE_PACKED_WEIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "conformance/harness.h"

namespace keel::conformance {

// |content| is the allocation of |packed|, with weights [k,n] in the order of its shape; the result
// is it with them in the device's order. Ends the case where the device has no kernel for that.
std::vector<std::byte> pack(const Stream& stream, const keel_tensor& packed,
                            std::span<const std::byte> content, int64_t k, int64_t n);

// The weights [k,n] in |packed|, which lies in device memory: what the identity multiplied by them
// is. They have to be finite.
std::vector<double> unpack(const Stream& stream, const keel_tensor& packed, int64_t k, int64_t n);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_PACKED_WEIGHTS_H_
