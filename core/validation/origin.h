// SPDX-License-Identifier: Apache-2.0
// The place in the program where an object was created.
#ifndef KEEL_CORE_VALIDATION_ORIGIN_H_
#define KEEL_CORE_VALIDATION_ORIGIN_H_

#include <array>
#include <string>

namespace keel::validation {

// Return addresses, innermost first; names are looked up only for printing.
struct Origin {
  std::array<void*, 16> frames{};
  int count = 0;

  bool operator==(const Origin& other) const = default;
};

Origin capture_origin();

// Returns "make_batch(Loader&)+0x1f (trainer) < main+0x88 (trainer)": at most four frames, without
// those inside Keel if others are known.
std::string describe(const Origin& origin);

}  // namespace keel::validation

#endif  // KEEL_CORE_VALIDATION_ORIGIN_H_
