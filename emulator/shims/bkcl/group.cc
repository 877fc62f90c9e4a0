// SPDX-License-Identifier: Apache-2.0
#include "emulator/shims/bkcl/group.h"

#include <algorithm>
#include <utility>

namespace keel::emulator::bkcl {
namespace {

struct Group {
  int depth = 0;
  BKCLResult_t refusal = BKCL_SUCCESS;
  std::vector<Job> jobs;
};
thread_local Group t_group;

// Makes the stream wait for something that never happens.
BKCLResult_t get_stuck(const Job& job) {
  return result_of("a stuck call", job.stream->wait(std::make_shared<Completion>()));
}

BKCLResult_t submit(const char* function, const Job& job) {
  if (Library::get().is_stuck()) return get_stuck(job);
  return result_of(function, job.rank->member->run(*job.stream, job.calls));
}

}  // namespace

void start_group() {
  ++t_group.depth;
}

bool is_in_group() {
  return t_group.depth != 0;
}

BKCLResult_t end_group() {
  if (t_group.depth == 0) end_process("bkcl_group_end", "there is no group to end");
  if (--t_group.depth != 0) return BKCL_SUCCESS;
  const Group group = std::exchange(t_group, Group());
  if (group.refusal != BKCL_SUCCESS) return group.refusal;
  for (const Job& job : group.jobs) {
    const BKCLResult_t result = submit("bkcl_group_end", job);
    if (result != BKCL_SUCCESS) return result;
  }
  return BKCL_SUCCESS;
}

BKCLResult_t make_calls(const char* function, Job job) {
  if (!is_in_group()) return submit(function, job);
  // Messages of one rank on one stream progress together.
  std::vector<Job>& jobs = t_group.jobs;
  const auto same = std::find_if(jobs.begin(), jobs.end(), [&](const Job& each) {
    return each.rank == job.rank && each.stream == job.stream;
  });
  if (same == jobs.end()) {
    jobs.push_back(std::move(job));
  } else {
    same->calls.insert(same->calls.end(), job.calls.begin(), job.calls.end());
  }
  return BKCL_SUCCESS;
}

BKCLResult_t refuse_call(BKCLResult_t refusal) {
  if (is_in_group() && t_group.refusal == BKCL_SUCCESS) t_group.refusal = refusal;
  return refusal;
}

}  // namespace keel::emulator::bkcl
