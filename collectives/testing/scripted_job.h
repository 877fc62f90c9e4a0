// SPDX-License-Identifier: Apache-2.0
// Scripted jobs: ranks in worker processes execute commands, one per line, and answer with the
// status and its text. For tests of failures between ranks.
#ifndef KEEL_COLLECTIVES_TESTING_SCRIPTED_JOB_H_
#define KEEL_COLLECTIVES_TESTING_SCRIPTED_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/bootstrap/testing/child_process.h"

namespace keel::testing {

// Backend of the ranks, and whether peers can access their memory.
struct Kind {
  std::string backend = "cpu";
  bool staged = false;
};

// Returns a rendezvous name that no other job of this test uses.
std::string new_rendezvous();

// Starts one rank, which prints "ready" once it has a device. |timeout_ms|: timeout of its
// communicators; 0: 50 s.
ChildProcess start(uint32_t rank, uint32_t world, const std::string& rendezvous, int timeout_ms = 0,
                   const Kind& kind = {});

// Sends |command| (see Rank::obey) to |child| and returns the answer.
std::string ask(ChildProcess& child, const std::string& command);

// Worker ranks that have joined a communicator, or are ready to (|joins| false).
class Job {
 public:
  explicit Job(uint32_t world, int timeout_ms = 0, const Kind& kind = {},
               const std::string& rendezvous = new_rendezvous(), bool joins = true);
  ChildProcess& operator[](uint32_t rank) { return children_[rank]; }
  void tell_all(const std::string& command);

 private:
  std::vector<ChildProcess> children_;
};

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_TESTING_SCRIPTED_JOB_H_
