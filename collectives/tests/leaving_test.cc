// SPDX-License-Identifier: Apache-2.0
// Ranks in several processes, leaving in different ways as soon as the last operation has
// succeeded: the operation succeeds on all ranks.
#include <gtest/gtest.h>
#include <keel/keel.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "collectives/bootstrap/testing/child_process.h"
#include "collectives/bootstrap/testing/scripted_rank.h"

namespace {

using keel::testing::ChildProcess;
using keel::testing::say;

constexpr uint32_t kWorld = 3;
constexpr uint64_t kCount =
    1 << 18;  // 1 MiB: ranks read data from each other, some longer than others
constexpr const char* kOperations[] = {"all_reduce",     "broadcast", "barrier",   "all_to_all",
                                       "reduce_scatter", "send_recv", "all_gather"};

struct Rank {
  uint32_t rank = 0;
  keel_device device = {};
  keel_comm comm = {};
  keel_stream stream = {};
  void* send = nullptr;
  void* receive = nullptr;
};

keel_status call(const Rank& own, const std::string& operation) {
  constexpr keel_dtype kType = KEEL_FLOAT32;
  constexpr uint64_t kPiece = kCount / kWorld;
  if (operation == "all_reduce") {
    return keel_all_reduce(own.comm, own.send, own.receive, kCount, kType, KEEL_SUM, own.stream);
  }
  if (operation == "broadcast") {
    return keel_broadcast(own.comm, own.send, own.receive, kCount, kType, 0, own.stream);
  }
  if (operation == "all_to_all") {
    return keel_all_to_all(own.comm, own.send, own.receive, kPiece, kType, own.stream);
  }
  if (operation == "reduce_scatter") {
    return keel_reduce_scatter(own.comm, own.send, own.receive, kPiece, kType, KEEL_SUM,
                               own.stream);
  }
  if (operation == "all_gather") {
    return keel_all_gather(own.comm, own.send, own.receive, kPiece, kType, own.stream);
  }
  if (operation == "send_recv") {
    return keel_send_recv(own.comm, own.send, kCount, (own.rank + 1) % kWorld, own.receive, kCount,
                          (own.rank + kWorld - 1) % kWorld, kType, own.stream);
  }
  return keel_barrier(own.comm, own.stream);
}

std::string failed(const std::string& what, keel_status status) {
  return what + ": " + keel_status_name(status) + ": " + keel_last_error();
}

// Returns the error, or an empty text.
std::string work(uint32_t rank, const std::string& backend, const std::string& operation,
                 Rank* out_rank) {
  auto init = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  init.default_timeout_ns = 50'000'000'000;
  init.backends = backend.c_str();
  keel_status status = keel_init(&init);
  if (status != KEEL_OK) return failed("init", status);
  Rank& own = *out_rank;
  own.rank = rank;
  if (keel_device_get(0, &own.device) != KEEL_OK) return "no device";
  status = keel_comm_init_env(own.device, nullptr, &own.comm);
  if (status != KEEL_OK) return failed("comm_init", status);
  keel_stream_create(own.device, 0, &own.stream);
  keel_alloc(own.device, KEEL_MEMORY_DEVICE, kCount * sizeof(float), &own.send);
  keel_alloc(own.device, KEEL_MEMORY_DEVICE, kCount * sizeof(float), &own.receive);
  for (int round = 0; round < 3; ++round) {
    status = call(own, operation);
    if (status == KEEL_OK) status = keel_stream_synchronize(own.stream, KEEL_TIMEOUT_DEFAULT);
    if (status != KEEL_OK) return failed(operation, status);
  }
  return {};
}

// Arguments: rank, bootstrap address, backend, way of leaving, operation; "all" runs all
// operations, for processes that continue.
int run_worker(const std::vector<std::string>& arguments) {
  const std::string& how = arguments[3];
  std::vector<std::string> operations(std::begin(kOperations), std::end(kOperations));
  if (arguments[4] != "all") operations = {arguments[4]};
  for (const std::string& operation : operations) {
    keel::testing::enter_job(arguments[0], std::to_string(kWorld), arguments[1] + operation);
    setenv("KEEL_SIM_DEVICES", "1", 1);
    Rank own;
    std::string wrong =
        work(static_cast<uint32_t>(std::stoul(arguments[0])), arguments[2], operation, &own);
    // A rank that leaves at once reports before: a pipe takes time too.
    if (how == "return" || how == "exit") {
      if (wrong.empty() && how == "exit") std::exit(0);
      if (!wrong.empty()) say(wrong);
      return wrong.empty() ? 0 : 1;
    }
    keel_status status = KEEL_OK;
    if (how == "destroy") status = keel_comm_destroy(own.comm);
    if (how == "finalize") status = keel_comm_finalize(own.comm, KEEL_TIMEOUT_DEFAULT);
    if (wrong.empty() && status != KEEL_OK) wrong = failed(how, status);
    keel_shutdown();
    if (!wrong.empty()) say(wrong);
    if (!wrong.empty()) return 1;
  }
  return 0;
}

struct Way {
  const char* backend;
  const char* how;
};

void PrintTo(const Way& way, std::ostream* out) {
  *out << way.backend << "_" << way.how;
}

// A few in a hundred ends of processes were noticed too early: runs as many jobs as take a second,
// and fewer where each job takes longer to start.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kJobsOfEnds = 2;
#else
constexpr int kJobsOfEnds = 8;
#endif

class Leaving : public testing::TestWithParam<Way> {};

TEST_P(Leaving, AfterSuccessFailsNobody) {
  const bool ends =
      std::string(GetParam().how) == "return" || std::string(GetParam().how) == "exit";
  const int jobs = ends ? kJobsOfEnds : 1;
  for (int job = 0; job < jobs; ++job) {
    const std::string rendezvous = "leaving-" + std::to_string(getpid()) + "-" +
                                   GetParam().backend + GetParam().how + std::to_string(job);
    std::vector<ChildProcess> ranks;
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      ranks.emplace_back(
          "leaver", std::vector<std::string>{std::to_string(rank), rendezvous, GetParam().backend,
                                             GetParam().how, ends ? kOperations[job % 7] : "all"});
    }
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      EXPECT_EQ(ranks[rank].read_line(), "") << "rank " << rank << ", job " << job;
      EXPECT_EQ(ranks[rank].wait(), 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Leaving,
                         testing::Values(Way{"cpu", "destroy"}, Way{"cpu", "finalize"},
                                         Way{"cpu", "shutdown"}, Way{"cpu", "return"},
                                         Way{"cpu", "exit"}, Way{"sim", "finalize"},
                                         Way{"sim", "shutdown"}, Way{"sim", "exit"}),
                         testing::PrintToStringParamName());

}  // namespace

const std::map<std::string, keel::testing::Worker>& keel::testing::workers() {
  static const std::map<std::string, Worker> workers = {{"leaver", run_worker}};
  return workers;
}
