// SPDX-License-Identifier: Apache-2.0
// Buffers larger than a test may have memory for.
#ifndef KEEL_COLLECTIVES_TESTING_REPEATED_MEMORY_H_
#define KEEL_COLLECTIVES_TESTING_REPEATED_MEMORY_H_

#include <cstdint>
#include <vector>

namespace keel::testing {

// What a byte of a buffer is, from where it lies: the same again each kPeriod bytes, which divides
// no power of two, so that an offset that has lost its upper bits finds another byte.
struct Content {
  static constexpr uint64_t kPeriod = uint64_t{48} << 20;

  uint64_t shift = 0;  // the first byte is that of |shift| in the buffer of all
  uint8_t factor = 1;  // what is multiplied, modulo 256

  uint8_t at(uint64_t offset) const;
};

// |size| bytes of addresses, behind which nothing is mapped. The same 48 MiB of memory lie there
// over and over, but for 1 MiB on both sides of each of |points|, which has memory of its own:
// there alone a byte that was never written is seen, and everywhere one that was written wrongly.
// Of what is read it shows all. What is written has to be of one Content, without intermediate
// results, since bytes with kPeriod between them are one.
class RepeatedMemory {
 public:
  RepeatedMemory(uint64_t size, const std::vector<uint64_t>& points);
  ~RepeatedMemory();
  RepeatedMemory(const RepeatedMemory&) = delete;
  RepeatedMemory& operator=(const RepeatedMemory&) = delete;

  char* data() const { return data_; }
  uint64_t size() const { return size_; }
  void fill(const Content& content);
  // So that each byte is another than |content| has.
  void fill_wrongly(const Content& content);
  // The offset of a byte that is not as |content| has it, or size().
  uint64_t find_difference(const Content& content) const;

 private:
  // Part of the buffer with memory of its own, and one that stands for the rest.
  struct Part {
    uint64_t begin;
    uint64_t end;
  };

  void fill(const Content& content, uint8_t changed);

  const uint64_t size_;
  uint64_t mapped_ = 0;  // whole pages
  char* pages_ = nullptr;
  char* data_ = nullptr;  // ends where the pages do
  char* repeated_ = nullptr;
  std::vector<Part> parts_;
};

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_TESTING_REPEATED_MEMORY_H_
