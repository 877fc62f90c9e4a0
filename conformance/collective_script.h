// SPDX-License-Identifier: Apache-2.0
// Groups of ccl-table calls. A script compares every byte of the memory involved.
#ifndef KEEL_CONFORMANCE_COLLECTIVE_SCRIPT_H_
#define KEEL_CONFORMANCE_COLLECTIVE_SCRIPT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "conformance/table_ranks.h"

namespace keel::conformance {

// The parameters of one collective call.
struct CallShape {
  keel_collective collective = KEEL_ALL_REDUCE;
  keel_dtype dtype = KEEL_FLOAT32;
  keel_reduction reduction = KEEL_SUM;
  uint64_t count = 1;
  uint32_t root = 0;
  bool in_place = false;
  uint32_t skew = 0;  // elements between the buffers and the last multiple of 256 bytes

  std::string text() const;
};

// Builds the call of one rank, without buffers.
keel_ccl_call call_of(const CallShape& shape, uint32_t rank);

// The calls of each rank, with its memory before and after. Buffers are at least 64 bytes apart,
// and no call may write these gaps.
class Script {
 public:
  explicit Script(uint32_t world) : ranks_(world) {}

  // Adds a collective of all ranks; |salt| selects the data.
  void add(const CallShape& shape, uint64_t salt);
  // Add one end of a message, at the current position in that rank's call order.
  void add_send(uint32_t from, uint32_t to, keel_dtype dtype, uint64_t count, uint64_t salt);
  void add_receive(uint32_t to, uint32_t from, keel_dtype dtype, uint64_t count, uint64_t salt);
  // Adds a call that the library must refuse, last in its group. The call must have no effect.
  void refuse(uint32_t rank, const keel_ccl_call& call) { ranks_[rank].refused.push_back(call); }
  uint64_t calls(uint32_t rank) const { return ranks_[rank].steps.size(); }

  // Runs each rank's calls as one group and compares all memory.
  void play(const TableRanks& ranks, const std::string& what, Where where = Where::current()) const;
  // Returns the statuses of groups that the library may refuse. If it refuses any group, all memory
  // must be unchanged.
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
  // Reserves |size| bytes at an offset of |skew| bytes from a multiple of 256.
  static uint64_t place(Rank& rank, uint64_t size, uint64_t skew);

  std::vector<Rank> ranks_;
};

// Returns an all_reduce or broadcast of |count| float32, the calls that most libraries support.
// Ends the case as unsupported if the library supports neither.
CallShape usual_shape(const Context& context, uint64_t count = 1009);
// Plays a few calls whose results depend on the number of ranks and on each rank's index.
void expect_works(const TableRanks& ranks, const std::string& what, uint64_t salt = 0,
                  Where where = Where::current());

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_COLLECTIVE_SCRIPT_H_
