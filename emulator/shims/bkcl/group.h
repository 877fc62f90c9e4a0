// SPDX-License-Identifier: Apache-2.0
// Group calls: the calling thread collects calls and issues them together.
#ifndef KEEL_EMULATOR_SHIMS_BKCL_GROUP_H_
#define KEEL_EMULATOR_SHIMS_BKCL_GROUP_H_

#include <bkcl.h>

#include <memory>
#include <vector>

#include "emulator/shims/bkcl/library.h"

namespace keel::emulator::bkcl {

// Calls of one rank that are enqueued together on one stream.
struct Job {
  std::shared_ptr<Rank> rank;
  std::shared_ptr<Stream> stream;
  std::vector<ccl::Call> calls;
};

void start_group();
// Closes a group. Closing the outermost group issues the calls, unless a call was refused: then no
// call is issued and the refusal is returned. A call without a start ends the process.
BKCLResult_t end_group();
// Issues the calls now, or with the calling thread's open group.
BKCLResult_t make_calls(const char* function, Job job);
// Records a refused call, which refuses its whole group. Returns |refusal|.
BKCLResult_t refuse_call(BKCLResult_t refusal);
bool is_in_group();

}  // namespace keel::emulator::bkcl

#endif  // KEEL_EMULATOR_SHIMS_BKCL_GROUP_H_
