// SPDX-License-Identifier: Apache-2.0
// Draws numbers from bytes of a fuzzer or a generator.
#ifndef KEEL_FUZZ_BYTES_H_
#define KEEL_FUZZ_BYTES_H_

#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace keel::fuzz {

// Consumes bytes from the front; returns zeroes once they are used up. Not thread-safe.
class Bytes {
 public:
  explicit Bytes(std::span<const uint8_t> bytes) : rest_(bytes) {}

  bool empty() const { return rest_.empty(); }
  uint8_t byte() {
    if (rest_.empty()) return 0;
    const uint8_t first = rest_.front();
    rest_ = rest_.subspan(1);
    return first;
  }
  uint64_t word() {
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | byte();
    return value;
  }
  // Returns 0 .. bound - 1; |bound| is at most 65,536.
  uint32_t below(uint32_t bound) {
    const uint32_t drawn = bound <= 256 ? byte() : static_cast<uint32_t>(byte()) << 8 | byte();
    return drawn % bound;
  }
  bool one_in(uint32_t count) { return below(count) == count - 1; }
  // Returns |value|; one time in |count|, any number below |bound| instead.
  uint32_t usually(uint32_t value, uint32_t count, uint32_t bound) {
    return one_in(count) ? below(bound) : value;
  }
  // Returns up to |limit| arbitrary bytes.
  std::string text(uint32_t limit) {
    std::string drawn(below(limit + 1), '\0');
    for (char& each : drawn) each = static_cast<char>(byte());
    return drawn;
  }

 private:
  std::span<const uint8_t> rest_;
};

}  // namespace keel::fuzz

#endif  // KEEL_FUZZ_BYTES_H_
