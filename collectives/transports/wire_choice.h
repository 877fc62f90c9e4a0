// SPDX-License-Identifier: Apache-2.0
// Which wire a rank's process uses between hosts.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_WIRE_CHOICE_H_
#define KEEL_COLLECTIVES_TRANSPORTS_WIRE_CHOICE_H_

#include <string>
#include <string_view>

#include "core/status.h"

namespace keel {

// Writes the wire that KEEL_WIRE chooses: "tcp", also unless set, or "ucx" with the version of the
// library, "ucx 1.13", which is opened. KEEL_INVALID_ARGUMENT for another value; KEEL_UNAVAILABLE,
// saying what is missing, without UCX.
Status chosen_wire(std::string* out_wire);
inline constexpr uint32_t kMaxWireName = 32;

// Whether |wire|, as chosen_wire() writes it, is UCX.
inline bool is_ucx(std::string_view wire) {
  return wire.starts_with("ucx");
}

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_WIRE_CHOICE_H_
