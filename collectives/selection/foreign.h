// SPDX-License-Identifier: Apache-2.0
// How other processes get at a buffer that Keel did not allocate.
#ifndef KEEL_COLLECTIVES_SELECTION_FOREIGN_H_
#define KEEL_COLLECTIVES_SELECTION_FOREIGN_H_

#include <keel/keel.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace keel {

enum class ForeignWay : uint8_t {
  kStaging,  // from windows that its owner copies it into
  kAttach,   // from where it is, if the kernel lets all: see transports/attach.h
};
inline constexpr uint32_t kForeignWays = 2;

const char* foreign_way_name(ForeignWay way);
std::optional<ForeignWay> find_foreign_way(std::string_view name);

// Whether ranks read whole ranges of each other's buffers in |collective|: in all_reduce where it
// goes by one_shot. Else what is reduced is read by parts, of which each would be a call of the
// kernel and a copy more.
bool can_attach(keel_collective collective);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_SELECTION_FOREIGN_H_
