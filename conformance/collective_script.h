// SPDX-License-Identifier: Apache-2.0
// Groups of calls of a ccl table whose every byte is compared.
#ifndef KEEL_CONFORMANCE_COLLECTIVE_SCRIPT_H_
#define KEEL_CONFORMANCE_COLLECTIVE_SCRIPT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "conformance/table_ranks.h"

namespace keel::conformance {

// How a collective is asked for.
struct CallShape {
  keel_collective collective = KEEL_ALL_REDUCE;
  keel_dtype dtype = KEEL_FLOAT32;
  keel_reduction reduction = KEEL_SUM;
  uint64_t count = 1;
  uint32_t root = 0;
  bool in_place = false;
  uint32_t skew = 0;  // elements by which the buffers miss an address that is a multiple of 256

  std::string text() const;
};

// The call of one rank, yet without buffers.
keel_ccl_call call_of(const CallShape& shape, uint32_t rank);

// The calls of each rank, with its memory before and after: buffers lie apart by 64 bytes or more
// that no call may write.
class Script {
 public:
  explicit Script(uint32_t world) : ranks_(world) {}

  // A collective of all ranks, whose data |salt| decides.
  void add(const CallShape& shape, uint64_t salt);
  // A message; each end of it where it is in the order of its rank's calls.
  void add_send(uint32_t from, uint32_t to, keel_dtype dtype, uint64_t count, uint64_t salt);
  void add_receive(uint32_t to, uint32_t from, keel_dtype dtype, uint64_t count, uint64_t salt);
  // Something that is refused, last in a group: nothing of it may come about.
  void refuse(uint32_t rank, const keel_ccl_call& call) { ranks_[rank].refused.push_back(call); }
  uint64_t calls(uint32_t rank) const { return ranks_[rank].steps.size(); }

  // Runs each rank's calls as one group, and compares all memory.
  void play(const TableRanks& ranks, const std::string& what, Where where = Where::current()) const;
  // The statuses of groups that may be refused. Where any is, all memory must be as before.
  std::vector<keel_status> try_play(const TableRanks& ranks, const std::string& what,
                                    Where where = Where::current()) const;

 private:
  static constexpr uint64_t kNowhere = UINT64_MAX;
  struct Step {
    keel_ccl_call call;
    uint64_t send_at = kNowhere;
    uint64_t receive_at = kNowhere;
  };
  struct Rank {
    std::vector<Step> steps;
    std::vector<keel_ccl_call> refused;
    Bytes before;
    Bytes after;
  };
  // Room for |size| bytes, |skew| bytes behind a multiple of 256.
  static uint64_t place(Rank& rank, uint64_t size, uint64_t skew);

  std::vector<Rank> ranks_;
};

// All_reduce or broadcast of |count| float32: what most libraries have. Ends the case as
// unsupported where this one has neither.
CallShape usual_shape(const Context& context, uint64_t count = 1009);
// Plays a few calls that tell how many ranks there are, and which rank is which.
void expect_works(const TableRanks& ranks, const std::string& what, uint64_t salt = 0,
                  Where where = Where::current());

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_COLLECTIVE_SCRIPT_H_
