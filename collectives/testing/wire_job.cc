// SPDX-License-Identifier: Apache-2.0
#include "collectives/testing/wire_job.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <keel/keel.hpp>

#include "collectives/testing/test_rank.h"

namespace keel::testing {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

// From now on this process has the first of its cores alone.
bool use_one_core() {
  cpu_set_t all;
  if (sched_getaffinity(0, sizeof(all), &all) != 0) return false;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &all)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    return sched_setaffinity(0, sizeof(one), &one) == 0;
  }
  return false;
}

// Arguments: rank, world, host, backends, "staged" or "alias", program, seconds to the deadline of
// an operation, the hosts of all ranks, names and values of variables.
int run_worker(const std::vector<std::string>& arguments) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(200);
  setenv("KEEL_HOST_ID", arguments[2].c_str(), 1);
  setenv("KEEL_INTERFACE", "127.0.0.1", 1);
  setenv("KEEL_SIM_DEVICES", "1", 1);
  for (size_t i = 8; i < arguments.size(); i += 2) {
    setenv(arguments[i].c_str(), arguments[i + 1].c_str(), 1);
  }
  WireRank self;
  self.rank = static_cast<uint32_t>(std::stoul(arguments[0]));
  self.world = static_cast<uint32_t>(std::stoul(arguments[1]));
  self.hosts = arguments[7];
  self.staged = arguments[4] == "staged";
  auto init = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  // keel_comm_destroy waits by the default.
  init.default_timeout_ns = (arguments[5] == "leave_in_vain" ? 1 : 100) * kSecond;
  self.timeout_ns = std::stol(arguments[6]) * kSecond;
  self.job = std::hash<std::string>()(arguments[3] + arguments[4] + arguments[5] + self.hosts);
  if (getenv(kOneCore) != nullptr && !use_one_core()) return 4;
  init.backends = arguments[3].c_str();
  if (keel_init(&init) != KEEL_OK) return 2;
  keel_unique_id id = {};
  if (self.rank == 0) {
    if (keel_unique_id_create(&id) != KEEL_OK) {
      say(keel_last_error());
      return 3;
    }
    say(id.text);
  } else {
    const std::string text = hear();
    text.copy(id.text, sizeof(id.text) - 1);
  }
  self.device = device_of(all_devices(), self.rank, self.world);
  keel_comm_options options = make_options(self.staged);
  options.timeout_ns = 100 * kSecond;
  std::string problem;
  if (keel_stream_create(self.device, 0, &self.stream) != KEEL_OK ||
      keel_comm_init_rank(self.device, &id, self.rank, self.world, &options, &self.comm) !=
          KEEL_OK) {
    problem = keel_last_error();
    say(problem);
  } else {
    problem = wire_programs().at(arguments[5])(self);
    if (!problem.empty()) keel_comm_abort(self.comm);
    keel_comm_destroy(self.comm);
  }
  if (!problem.empty()) std::fprintf(stderr, "rank %u: %s\n", self.rank, problem.c_str());
  keel_shutdown();
  return problem.empty() ? 0 : 1;
}

}  // namespace

keel_comm_options make_options(bool staged) {
  auto options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
  options.forbid_alias = staged ? 1 : 0;
  options.chunk_bytes = 4096;
  return options;
}

std::string explain(keel_comm comm) {
  return keel::api_detail::read_text(
      [&](char* out, uint64_t* size) { return keel_comm_explain(comm, out, size); });
}

std::vector<RankVariable> all_on_one_core(size_t ranks) {
  std::vector<RankVariable> variables;
  for (size_t rank = 0; rank < ranks; ++rank) variables.push_back({rank, kOneCore, "1"});
  return variables;
}

WireJob::WireJob(const std::string& hosts, const std::string& program, const std::string& backends,
                 bool staged, int seconds, const std::vector<RankVariable>& variables) {
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    std::vector<std::string> arguments = {std::to_string(rank),        std::to_string(hosts.size()),
                                          hosts.substr(rank, 1),       backends,
                                          staged ? "staged" : "alias", program,
                                          std::to_string(seconds),     hosts};
    for (const RankVariable& each : variables) {
      if (each.rank != rank) continue;
      arguments.push_back(each.name);
      arguments.push_back(each.value);
    }
    ranks_.emplace_back("rank", arguments);
  }
  const std::string id = ranks_[0].read_line();
  for (size_t rank = 1; rank < hosts.size(); ++rank) ranks_[rank].write_line(id);
}

void WireJob::expect_success() {
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    EXPECT_EQ(ranks_[rank].wait(), 0) << "rank " << rank;
  }
}

const std::map<std::string, Worker>& workers() {
  static const std::map<std::string, Worker> workers = {{"rank", run_worker}, {"has_ucx", has_ucx}};
  return workers;
}

}  // namespace keel::testing
