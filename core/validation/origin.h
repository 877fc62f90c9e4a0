// SPDX-License-Identifier: Apache-2.0
// Where in the program something was made.
#ifndef KEEL_CORE_VALIDATION_ORIGIN_H_
#define KEEL_CORE_VALIDATION_ORIGIN_H_

#include <array>
#include <string>

namespace keel::validation {

// Return addresses, the innermost first; names are looked up only to print them.
struct Origin {
  std::array<void*, 16> frames{};
  int count = 0;

  bool operator==(const Origin& other) const = default;
};

Origin capture_origin();

// "make_batch(Loader&)+0x1f (trainer) < main+0x88 (trainer)": at most four frames, those
// inside Keel left out where others are known.
std::string describe(const Origin& origin);

}  // namespace keel::validation

#endif  // KEEL_CORE_VALIDATION_ORIGIN_H_
