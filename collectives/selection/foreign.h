// SPDX-License-Identifier: Apache-2.0
// How other processes read a foreign buffer: memory that Keel did not allocate.
#ifndef KEEL_COLLECTIVES_SELECTION_FOREIGN_H_
#define KEEL_COLLECTIVES_SELECTION_FOREIGN_H_

#include <keel/keel.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace keel {

enum class ForeignWay : uint8_t {
  kStaging,  // from bounce buffers that the owner fills
  kAttach,   // in place, if the kernel permits it to all ranks: see transports/attach.h
};
inline constexpr uint32_t kForeignWays = 2;

const char* foreign_way_name(ForeignWay way);
std::optional<ForeignWay> find_foreign_way(std::string_view name);

// Whether ranks read whole ranges of each other's buffers in |collective|; for all_reduce, only
// with one_shot. Other reductions read many small parts, and each part would need a system call and
// an extra copy.
bool can_attach(keel_collective collective);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_SELECTION_FOREIGN_H_
