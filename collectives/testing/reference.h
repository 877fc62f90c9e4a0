// SPDX-License-Identifier: Apache-2.0
// Reference implementation of collectives, element by element, for tests that compare.
#ifndef KEEL_COLLECTIVES_TESTING_REFERENCE_H_
#define KEEL_COLLECTIVES_TESTING_REFERENCE_H_

#include <keel/keel.h>

#include <cstdint>
#include <string>
#include <vector>

namespace keel::testing {

enum class Operation {
  kAllReduce,
  kReduce,
  kReduceScatter,
  kReduceScatterV,
  kBroadcast,
  kAllGather,
  kAllGatherV,
  kAllToAll,
  kAllToAllV,
  kGather,
  kGatherV,
  kScatter,
  kScatterV,
  kSendRecv,       // to the next rank, from the previous one
  kPairs,          // ranks 0 and 1, 2 and 3 ...: ping-pong
  kGroupExchange,  // all_to_all by grouped send/recv, several messages per pair
  kBarrier,
};
inline constexpr uint32_t kOperations = static_cast<uint32_t>(Operation::kBarrier) + 1;
// Number of reducing operations, which come first in the enum.
inline constexpr uint32_t kReducingOperations = 4;

struct Case {
  Operation operation = Operation::kAllReduce;
  keel_dtype dtype = KEEL_FLOAT32;
  keel_reduction reduction = KEEL_SUM;  // KEEL_PREMUL_SUM: each rank has its own factor
  uint32_t world = 1;
  uint64_t count = 1;
  bool in_place = false;
  bool staged = false;  // on communicators that cannot access device memory
  uint32_t seed = 0;    // selects data, root, arrays and alignment

  bool reduces() const { return static_cast<uint32_t>(operation) < kReducingOperations; }
  uint32_t root() const { return seed % world; }
  // Factor of rank |rank| for KEEL_PREMUL_SUM; a whole number for integers.
  double factor(uint32_t rank) const;
  std::string describe() const;
};

// Messages per ordered pair of ranks in kGroupExchange: more than the engine keeps in flight.
inline constexpr uint32_t kMessages = 3;

// Counts and offsets, one entry per rank, in elements.
struct Arrays {
  std::vector<uint64_t> counts;
  std::vector<uint64_t> offsets;
  bool packed = false;  // contiguous: offsets may be omitted
  uint64_t extent() const;
};

// Expected memory of each rank before and after a case. Both buffers of a rank lie in one
// allocation, with guard bytes before, between and after them.
class Reference {
 public:
  static constexpr uint32_t kAllRanks = UINT32_MAX;
  // |only|: compute only this rank's memory, which is cheaper.
  explicit Reference(const Case& scenario, uint32_t only = kAllRanks);

  const Case& scenario() const { return case_; }
  // Memory of |rank| before and after the operation, guard bytes included.
  const std::string& before(uint32_t rank) const { return before_[rank]; }
  const std::string& after(uint32_t rank) const { return after_[rank]; }
  // Byte offsets of the buffers in that memory; kNone: the rank does not read, or write, the
  // buffer.
  static constexpr uint64_t kNone = UINT64_MAX;
  uint64_t send_at(uint32_t rank) const { return send_at_[rank]; }
  uint64_t receive_at(uint32_t rank) const { return receive_at_[rank]; }
  // Arrays of the vector collectives; all_to_all_v has separate arrays per rank.
  const Arrays& send_arrays(uint32_t rank) const { return send_arrays_[rank]; }
  const Arrays& receive_arrays(uint32_t rank) const { return receive_arrays_[rank]; }

 private:
  void make_arrays();
  void make_buffers();
  void fill(uint32_t rank);
  void run();
  void run(uint32_t rank);
  bool knows(uint32_t rank) const { return only_ == kAllRanks || only_ == rank; }
  uint64_t send_elements(uint32_t rank) const;
  uint64_t receive_elements(uint32_t rank) const;
  // Copies element |from| of |source|'s send buffer to element |to| of |rank|'s receive buffer.
  void move(uint32_t source, uint64_t from, uint32_t rank, uint64_t to, uint64_t count);
  // Reduces |count| elements of all ranks, starting at |from|.
  std::string reduce(uint64_t from, uint64_t count) const;
  void put(uint32_t rank, uint64_t to, const std::string& bytes);

  const Case case_;
  const uint32_t only_;
  const uint64_t element_;
  std::vector<Arrays> send_arrays_;
  std::vector<Arrays> receive_arrays_;
  std::vector<uint64_t> send_at_;
  std::vector<uint64_t> receive_at_;
  std::vector<std::string> before_;
  std::vector<std::string> after_;
};

// Writes |value|, a whole number that |dtype| can represent, or a floating-point number rounded
// once, to |out|.
void encode(keel_dtype dtype, double value, char* out);

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_TESTING_REFERENCE_H_
