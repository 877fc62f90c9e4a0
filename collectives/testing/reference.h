// SPDX-License-Identifier: Apache-2.0
// What collectives do, element by element, in one place: for tests that compare.
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
  kSendRecv,       // to the next rank, from the one before
  kPairs,          // ranks 0 and 1, 2 and 3: one sends, the other receives and sends back
  kGroupExchange,  // all_to_all of sends and receives in a group, several messages a pair
  kBarrier,
};
inline constexpr uint32_t kOperations = static_cast<uint32_t>(Operation::kBarrier) + 1;
// Those up to here reduce.
inline constexpr uint32_t kReducingOperations = 4;

struct Case {
  Operation operation = Operation::kAllReduce;
  keel_dtype dtype = KEEL_FLOAT32;
  keel_reduction reduction = KEEL_SUM;  // KEEL_PREMUL_SUM: each rank has its own factor
  uint32_t world = 1;
  uint64_t count = 1;
  bool in_place = false;
  bool staged = false;  // on communicators that reach no device memory
  uint32_t seed = 0;    // decides the data, the root, the arrays and the alignment

  bool reduces() const { return static_cast<uint32_t>(operation) < kReducingOperations; }
  uint32_t root() const { return seed % world; }
  // What rank |rank| multiplies by; whole numbers for integers.
  double factor(uint32_t rank) const;
  std::string describe() const;
};

// Messages between two ranks in one direction, in kGroupExchange: more than the engine has
// room for on their way.
inline constexpr uint32_t kMessages = 3;

// One entry a rank, in elements.
struct Arrays {
  std::vector<uint64_t> counts;
  std::vector<uint64_t> offsets;
  bool packed = false;  // one after the other: offsets may be left out
  uint64_t extent() const;
};

// Both buffers of each rank lie in one piece of memory, with some bytes before, between and
// after them that nobody may write.
class Reference {
 public:
  static constexpr uint32_t kAllRanks = UINT32_MAX;
  // |only|: nothing is known of the memory of other ranks, and less is computed.
  explicit Reference(const Case& scenario, uint32_t only = kAllRanks);

  const Case& scenario() const { return case_; }
  // The memory of |rank| before and after; whoever writes less or more than it should shows.
  const std::string& before(uint32_t rank) const { return before_[rank]; }
  const std::string& after(uint32_t rank) const { return after_[rank]; }
  // Where the buffers begin in it, in bytes; kNone: not read, or not written, on this rank.
  static constexpr uint64_t kNone = UINT64_MAX;
  uint64_t send_at(uint32_t rank) const { return send_at_[rank]; }
  uint64_t receive_at(uint32_t rank) const { return receive_at_[rank]; }
  // Of the forms with arrays; all_to_all_v has two of its own per rank.
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
  // Element |from| of the send buffer of |source| to element |to| of |rank|'s.
  void move(uint32_t source, uint64_t from, uint32_t rank, uint64_t to, uint64_t count);
  // The reduction of all ranks' elements from |from| on.
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

// Whole numbers |value| that |dtype| has, as its bytes; and a float rounded once.
void encode(keel_dtype dtype, double value, char* out);

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_TESTING_REFERENCE_H_
