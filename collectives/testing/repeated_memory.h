// SPDX-License-Identifier: Apache-2.0
// Buffers larger than the memory available to a test.
#ifndef KEEL_COLLECTIVES_TESTING_REPEATED_MEMORY_H_
#define KEEL_COLLECTIVES_TESTING_REPEATED_MEMORY_H_

#include <cstdint>
#include <vector>

namespace keel::testing {

// Content of a buffer: the value of each byte follows from its offset and repeats every kPeriod
// bytes. kPeriod divides no power of two, so an offset that lost its upper bits selects a different
// byte.
struct Content {
  static constexpr uint64_t kPeriod = uint64_t{48} << 20;

  uint64_t shift = 0;  // offset of the first byte in the global buffer
  uint8_t factor = 1;  // multiplies each byte, modulo 256

  uint8_t at(uint64_t offset) const;
};

// An address range of |size| bytes, followed by an inaccessible page. The same 48 MiB of memory are
// mapped repeatedly, except 1 MiB on both sides of each of |points|, which have memory of their
// own: only there a missing write is detected; a wrong write is detected everywhere. After
// fill(), reads return the right content at every offset. A writer must write one Content without
// intermediate results, since bytes kPeriod apart share memory.
class RepeatedMemory {
 public:
  RepeatedMemory(uint64_t size, const std::vector<uint64_t>& points);
  ~RepeatedMemory();
  RepeatedMemory(const RepeatedMemory&) = delete;
  RepeatedMemory& operator=(const RepeatedMemory&) = delete;

  char* data() const { return data_; }
  uint64_t size() const { return size_; }
  void fill(const Content& content);
  // Fills each byte with a value that differs from |content|.
  void fill_wrongly(const Content& content);
  // Returns the offset of a byte that differs from |content|, or size().
  uint64_t find_difference(const Content& content) const;

 private:
  // A part of the buffer with memory of its own, or the part that represents the rest.
  struct Part {
    uint64_t begin;
    uint64_t end;
  };

  void fill(const Content& content, uint8_t changed);

  const uint64_t size_;
  uint64_t mapped_ = 0;  // whole pages
  char* pages_ = nullptr;
  char* data_ = nullptr;  // ends at the last page's end
  char* repeated_ = nullptr;
  std::vector<Part> parts_;
};

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_TESTING_REPEATED_MEMORY_H_
