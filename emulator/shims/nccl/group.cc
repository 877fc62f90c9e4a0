// SPDX-License-Identifier: Apache-2.0
#include "emulator/shims/nccl/group.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "emulator/shims/nccl/library.h"

namespace keel::emulator::nccl {
namespace {

// One rank's calls, in call order.
struct Part {
  Rank* rank;
  std::vector<Job> jobs;
};

struct Group {
  int depth = 0;
  ncclResult_t refusal = ncclSuccess;
  std::vector<Part> parts;
};
thread_local Group t_group;

}  // namespace

void start_group() {
  ++t_group.depth;
}

bool is_in_group() {
  return t_group.depth != 0;
}

ncclResult_t end_group() {
  if (t_group.depth == 0) return fail(ncclInvalidUsage, "there is no group to end");
  if (--t_group.depth != 0) return ncclSuccess;
  const Group group = std::exchange(t_group, Group());
  ncclResult_t result = group.refusal;
  // A busy or failed rank refuses the whole group before any call begins.
  for (const Part& part : group.parts) {
    if (result == ncclSuccess) result = part.rank->ready();
  }
  if (result != ncclSuccess) return result;
  for (const Part& part : group.parts) {
    const ncclResult_t submitted = part.rank->submit(part.jobs);
    if (submitted != ncclSuccess && submitted != ncclInProgress) return submitted;
    if (submitted == ncclInProgress) result = submitted;
  }
  return result;
}

ncclResult_t make_call(Rank& rank, const Job& job) {
  if (!is_in_group()) return rank.submit({job});
  std::vector<Part>& parts = t_group.parts;
  auto part = std::find_if(parts.begin(), parts.end(),
                           [&](const Part& each) { return each.rank == &rank; });
  if (part == parts.end()) part = parts.insert(parts.end(), {&rank, {}});
  part->jobs.push_back(job);
  return ncclSuccess;
}

ncclResult_t refuse_call(ncclResult_t refusal) {
  if (is_in_group() && t_group.refusal == ncclSuccess) t_group.refusal = refusal;
  return refusal;
}

}  // namespace keel::emulator::nccl
