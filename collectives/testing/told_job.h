// SPDX-License-Identifier: Apache-2.0
// Ranks in processes that do what they are told, line by line, and answer with the status and its
// text: for tests of what goes wrong between them.
#ifndef KEEL_COLLECTIVES_TESTING_TOLD_JOB_H_
#define KEEL_COLLECTIVES_TESTING_TOLD_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/bootstrap/testing/child_process.h"

namespace keel::testing {

// Where the ranks' memory is, and how the others reach it.
struct Kind {
  std::string backend = "cpu";
  bool staged = false;
};

// A place where no other job of this test meets.
std::string new_meeting();

// One rank; it says "ready" once it has a device. |timeout_ms|: of its communicators; 0: 50 s.
ChildProcess start(uint32_t rank, uint32_t world, const std::string& meeting, int timeout_ms = 0,
                   const Kind& kind = {});

// What |child| answers to |command|: those of Rank::obey.
std::string ask(ChildProcess& child, const std::string& command);

// Ranks that have met, or that are ready to.
class Job {
 public:
  explicit Job(uint32_t world, int timeout_ms = 0, const Kind& kind = {},
               const std::string& meeting = new_meeting(), bool joins = true);
  ChildProcess& operator[](uint32_t rank) { return children_[rank]; }
  void tell_all(const std::string& command);

 private:
  std::vector<ChildProcess> children_;
};

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_TESTING_TOLD_JOB_H_
