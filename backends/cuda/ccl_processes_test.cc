// SPDX-License-Identifier: Apache-2.0
// Ranks in several processes, on devices of the emulated chip, each process with its own driver:
// the ranks form one island through the emulated NCCL, or several islands separated by other chips.
#include <gtest/gtest.h>
#include <keel/keel.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "collectives/bootstrap/testing/child_process.h"
#include "collectives/bootstrap/testing/scripted_rank.h"
#include "collectives/testing/reference.h"
#include "collectives/testing/test_rank.h"

namespace {

using keel::testing::Case;
using keel::testing::ChildProcess;
using keel::testing::Operation;
using keel::testing::Reference;
using keel::testing::say;

constexpr int64_t kSecond = 1'000'000'000;
constexpr uint64_t kCount = 50'000;

// ---- the workers ----------------------------------------------------------------

class Rank {
 public:
  Rank(uint32_t rank, uint32_t world, keel_device device)
      : rank_(rank), world_(world), device_(device) {
    keel_stream_create(device_, 0, &stream_);
    keel_alloc(device_, KEEL_MEMORY_DEVICE, kCount * sizeof(float), &data_);
  }
  ~Rank() {
    keel_stream_destroy(stream_);
    keel_free(device_, data_);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  keel_status obey(const std::string& command) {
    if (command == "join") return keel_comm_init_env(device_, nullptr, &comm_);
    if (command == "part") return become_a_part();
    if (command == "everything") return run_everything();
    if (command == "all_reduce") {
      return keel_all_reduce(comm_, data_, data_, kCount, KEEL_FLOAT32, KEEL_MAX, stream_);
    }
    if (command == "synchronize") return keel_stream_synchronize(stream_, KEEL_TIMEOUT_DEFAULT);
    if (command == "destroy") return keel_comm_destroy(comm_);
    return KEEL_INTERNAL;
  }

 private:
  // All ranks but the first, in reverse order; the first rank is alone.
  keel_status become_a_part() {
    keel_comm part = {};
    const keel_status status =
        keel_comm_split(comm_, rank_ == 0 ? 0 : 1, -static_cast<int32_t>(rank_), nullptr, &part);
    if (status != KEEL_OK) return status;
    keel_comm_destroy(comm_);
    comm_ = part;
    const bool is_alone = rank_ == 0;
    rank_ = is_alone ? 0 : world_ - 1 - rank_;
    world_ = is_alone ? 1 : world_ - 1;
    return KEEL_OK;
  }
  // Returns the operations without NCCL, and the checks that fail.
  keel_status run_everything() {
    std::string flat;
    for (uint32_t number = 0; number < keel::testing::kOperations; ++number) {
      Case scenario;
      scenario.operation = static_cast<Operation>(number);
      scenario.world = world_;
      scenario.dtype = KEEL_FLOAT32;
      scenario.count = 6000 + number;
      scenario.seed = number;
      scenario.in_place = number % 2 == 0;
      const uint64_t before = native_operations();
      const std::string problem =
          keel::testing::run_case(Reference(scenario), rank_, device_, comm_, stream_);
      if (!problem.empty()) flat += " " + problem;
      if (native_operations() == before) flat += " " + std::to_string(number);
    }
    say("flat:" + flat);
    return KEEL_OK;
  }
  uint64_t native_operations() const {
    auto stats = KEEL_STRUCT_INIT(keel_comm_stats, KEEL_STRUCT_COMM_STATS);
    keel_comm_stats_get(comm_, &stats);
    return stats.native_operations;
  }

  uint32_t rank_;
  uint32_t world_;
  const keel_device device_;
  keel_stream stream_ = {};
  keel_comm comm_ = {};
  void* data_ = nullptr;
};

// Arguments: rank, world, rendezvous, the device's name.
int run_worker(const std::vector<std::string>& arguments) {
  keel::testing::enter_job(arguments[0], arguments[1], arguments[2]);
  const std::string folder = std::filesystem::path(KEEL_EMULATED_CUDA_FILE).parent_path();
  setenv("KEEL_CUDA_LIBRARY_FOLDER", folder.c_str(), 1);
  setenv("KEEL_EMULATED_CUDA", "devices=4 memory_mib=64", 1);
  // Only the unique id of the whole is available: communicators of a subset are splits made by the
  // library.
  setenv("KEEL_EMULATED_NCCL", arguments[0] == "0" ? "ids=1" : "ids=0", 1);
  auto init = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  init.default_timeout_ns = 50 * kSecond;
  init.backends = "cpu,cuda";
  keel_device device = {};
  const bool is_ready =
      keel_init(&init) == KEEL_OK && keel_device_find(arguments[3].c_str(), &device) == KEEL_OK;
  say(is_ready ? "ready" : std::string("no device: ") + keel_last_error());
  if (!is_ready) return 1;
  {
    Rank rank(static_cast<uint32_t>(std::stoul(arguments[0])),
              static_cast<uint32_t>(std::stoul(arguments[1])), device);
    keel::testing::answer_commands([&](const std::string& command) { return rank.obey(command); });
  }
  return keel_shutdown() == KEEL_OK ? 0 : 2;
}

// ---- those who tell them --------------------------------------------------------

// Processes with one rank each, on the given devices, after the rendezvous.
class Job {
 public:
  explicit Job(const std::vector<std::string>& devices) {
    static int jobs = 0;
    const std::string rendezvous =
        "cuda-ccl-" + std::to_string(getpid()) + "-" + std::to_string(++jobs);
    for (size_t rank = 0; rank < devices.size(); ++rank) {
      ranks_.emplace_back(
          "rank", std::vector<std::string>{std::to_string(rank), std::to_string(devices.size()),
                                           rendezvous, devices[rank]});
    }
    for (ChildProcess& each : ranks_) EXPECT_EQ(each.read_line(), "ready");
    expect_all("join", "KEEL_OK");
  }
  ChildProcess& operator[](size_t rank) { return ranks_[rank]; }
  void tell(const std::string& command) {
    for (ChildProcess& each : ranks_) each.write_line(command);
  }
  void expect_all(const std::string& command, const std::string& answer) {
    tell(command);
    for (ChildProcess& each : ranks_) EXPECT_EQ(each.read_line(), answer) << command;
  }
  void end() {
    expect_all("destroy", "KEEL_OK");
    tell("");
    for (ChildProcess& each : ranks_) EXPECT_EQ(each.wait(), 0);
  }

 private:
  std::vector<ChildProcess> ranks_;
};

std::string numbers(const std::vector<Operation>& operations) {
  std::string text;
  for (const Operation each : operations) text += " " + std::to_string(static_cast<int>(each));
  return text;
}

// Operations that never use the library.
std::string flat_operations() {
  return numbers({Operation::kReduceScatterV, Operation::kSendRecv, Operation::kPairs,
                  Operation::kGroupExchange, Operation::kBarrier});
}

TEST(CudaCclProcessesTest, OneIsland) {
  Job job({"cuda:0", "cuda:1", "cuda:2"});
  job.tell("everything");
  for (size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(job[rank].read_line(), "flat:" + flat_operations()) << "rank " << rank;
    EXPECT_EQ(job[rank].read_line(), "KEEL_OK");
  }
  job.end();
}

TEST(CudaCclProcessesTest, APartOfAnIsland) {
  Job job({"cuda:0", "cuda:1", "cuda:2"});
  job.expect_all("part", "KEEL_OK");
  for (const char* const command : {"everything", "all_reduce", "synchronize"}) {
    for (const size_t rank : {1, 2}) job[rank].write_line(command);
    for (const size_t rank : {1, 2}) {
      if (command == std::string("everything")) {
        EXPECT_EQ(job[rank].read_line(), "flat:" + flat_operations()) << "rank " << rank;
      }
      EXPECT_EQ(job[rank].read_line(), "KEEL_OK") << command;
    }
  }
  job.end();
}

// Two ranks of the island with a CPU rank in between, and one behind.
TEST(CudaCclProcessesTest, BesideOtherChips) {
  Job job({"cuda:0", "cpu:0", "cuda:1", "cpu:0"});
  job.tell("everything");
  for (size_t rank = 0; rank < 4; ++rank) {
    const std::string said = job[rank].read_line();
    EXPECT_EQ(said.find("rank"), std::string::npos) << said;  // all results are correct
    EXPECT_EQ(said.find(numbers({Operation::kAllReduce}) + " "), std::string::npos) << said;
    EXPECT_EQ(job[rank].read_line(), "KEEL_OK");
  }
  job.end();
}

// Kills a rank that joined the root, then the root.
TEST(CudaCclProcessesTest, AKilledRankIsNamed) {
  for (const size_t killed : {1, 0}) {
    Job job({"cuda:0", "cuda:1", "cuda:2"});
    const std::array<size_t, 2> left = {1 - killed, 2};
    for (const size_t rank : left) {
      job[rank].write_line("all_reduce");
      EXPECT_EQ(job[rank].read_line(), "KEEL_OK");
    }
    job[killed].kill();
    const std::string who = "rank " + std::to_string(killed) + " (cuda:" + std::to_string(killed);
    for (const size_t rank : left) {
      job[rank].write_line("synchronize");
      const std::string said = job[rank].read_line();
      EXPECT_SAYS("KEEL_RANK_FAILED", said);
      EXPECT_SAYS(who, said);
    }
  }
}

}  // namespace

const std::map<std::string, keel::testing::Worker>& keel::testing::workers() {
  static const std::map<std::string, Worker> all = {{"rank", run_worker}};
  return all;
}
