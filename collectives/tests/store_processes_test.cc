// SPDX-License-Identifier: Apache-2.0
// Ranks in processes, also of different network namespaces, that meet through a folder of files.
#include <gtest/gtest.h>
#include <keel/comm_start.h>
#include <keel/shrink.h>
#include <keel/store.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "collectives/bootstrap/testing/child_process.h"
#include "collectives/bootstrap/testing/scripted_rank.h"
#include "collectives/testing/test_stores.h"

namespace keel::testing {
namespace {

constexpr uint64_t kCount = 1 << 20;  // 4 MiB: ranks read each other's memory

// One rank, in a worker.
class StoreRank {
 public:
  StoreRank(const std::string& folder, uint32_t rank, uint32_t world)
      : store_(folder), rank_(rank), world_(world) {}

  keel_status begin() {
    setenv("KEEL_CPU_DEVICES", "1", 1);
    auto init = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
    init.default_timeout_ns = 50'000'000'000;
    init.backends = "cpu";
    keel_status status = keel_init(&init);
    if (status == KEEL_OK) status = keel_device_get(0, &device_);
    if (status == KEEL_OK) status = keel_stream_create(device_, 0, &stream_);
    if (status == KEEL_OK) {
      status = keel_alloc(device_, KEEL_MEMORY_DEVICE, kCount * sizeof(uint32_t), &memory_);
    }
    return status;
  }
  keel_status obey(const std::string& command) {
    if (command == "join") {
      const keel_store view = store_.view("p");
      return keel_comm_init_store(device_, &view, rank_, world_, nullptr, &comm_);
    }
    if (command == "start") {
      const keel_store view = store_.view("p");
      const keel_status status =
          keel_comm_init_store_start(device_, &view, rank_, world_, nullptr, &comm_);
      return status == KEEL_OK ? keel_comm_wait_ready(comm_, KEEL_TIMEOUT_DEFAULT) : status;
    }
    if (command == "sum") return sum(comm_, world_ * (world_ + 1) / 2);
    if (command == "duplicate") {
      keel_comm again = {};
      keel_status status = keel_comm_duplicate(comm_, nullptr, &again);
      if (status == KEEL_OK) status = sum(again, world_ * (world_ + 1) / 2);
      return status == KEEL_OK ? keel_comm_destroy(again) : status;
    }
    if (command == "split") {  // even and odd ranks
      keel_comm part = {};
      keel_status status =
          keel_comm_split(comm_, static_cast<int32_t>(rank_ % 2), 0, nullptr, &part);
      uint32_t expected = 0;
      for (uint32_t rank = rank_ % 2; rank < world_; rank += 2) expected += rank + 1;
      if (status == KEEL_OK) status = sum(part, expected);
      return status == KEEL_OK ? keel_comm_destroy(part) : status;
    }
    if (command == "shrink") {
      keel_comm left = {};
      keel_status status = keel_comm_shrink(comm_, KEEL_TIMEOUT_DEFAULT, 0, nullptr, &left);
      if (status == KEEL_OK) status = keel_comm_destroy(comm_);
      if (status == KEEL_OK) status = keel_stream_recover(stream_, KEEL_TIMEOUT_DEFAULT);
      comm_ = left;
      return status == KEEL_OK ? sum(comm_, 3) : status;  // of ranks 0 and 1
    }
    if (command == "exec") execl("/bin/cat", "cat", nullptr);
    if (command == "destroy") return keel_comm_destroy(comm_);
    return KEEL_NOT_FOUND;
  }

 private:
  keel_status sum(keel_comm comm, uint32_t expected) {
    const uint32_t own = rank_ + 1;
    std::vector<uint32_t> sums(kCount);
    const uint64_t bytes = kCount * sizeof(own);
    keel_status status = keel_fill(stream_, memory_, &own, sizeof(own), bytes);
    if (status == KEEL_OK) {
      status = keel_all_reduce(comm, memory_, memory_, kCount, KEEL_UINT32, KEEL_SUM, stream_);
    }
    if (status == KEEL_OK) {
      status = keel_copy(stream_, KEEL_HOST, sums.data(), device_, memory_, bytes);
    }
    if (status == KEEL_OK) status = keel_stream_synchronize(stream_, KEEL_TIMEOUT_DEFAULT);
    if (status != KEEL_OK) return status;
    const bool are_right =
        std::all_of(sums.begin(), sums.end(), [&](uint32_t each) { return each == expected; });
    return are_right ? KEEL_OK : KEEL_DATA_LOSS;
  }

  FolderStore store_;
  const uint32_t rank_;
  const uint32_t world_;
  keel_device device_ = {};
  keel_stream stream_ = {};
  void* memory_ = nullptr;
  keel_comm comm_ = {};
};

// Arguments: folder, rank, world, and "net" for a network namespace of its own, or a host id.
int rank_worker(const std::vector<std::string>& arguments) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(100);
  const std::string& place = arguments[3];
  if (place == "net" && unshare(CLONE_NEWNET) != 0) return 1;
  if (place != "net" && !place.empty()) setenv("KEEL_HOST_ID", place.c_str(), 1);
  StoreRank rank(arguments[0], static_cast<uint32_t>(std::stoul(arguments[1])),
                 static_cast<uint32_t>(std::stoul(arguments[2])));
  const keel_status begun = rank.begin();
  answer_commands(
      [&](const std::string& command) { return begun == KEEL_OK ? rank.obey(command) : begun; });
  return 0;
}

int net_worker(const std::vector<std::string>&) {
  return unshare(CLONE_NEWNET) == 0 ? 0 : 1;
}

bool may_unshare_network() {
  ChildProcess child("net", {});
  return child.wait() == 0;
}

// Parameter: whether each rank is in a network namespace of its own.
class StoreProcessesTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam() && !may_unshare_network()) {
      GTEST_SKIP() << "this process may not make network namespaces (CAP_SYS_ADMIN)";
    }
    folder_ = std::filesystem::temp_directory_path() /
              ("store_processes_test-" + std::to_string(getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override {
    ranks_.clear();
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  void begin(uint32_t world, const std::vector<std::string>& places = {}) {
    for (uint32_t rank = 0; rank < world; ++rank) {
      const std::string place = !places.empty() ? places[rank] : GetParam() ? "net" : "";
      ranks_.push_back(std::make_unique<ChildProcess>(
          "rank",
          std::vector<std::string>{folder_, std::to_string(rank), std::to_string(world), place}));
    }
  }
  void expect_all_ok(const std::string& command) {
    for (const auto& rank : ranks_) rank->write_line(command);
    for (const auto& rank : ranks_) EXPECT_EQ(rank->read_line(), "KEEL_OK") << command;
  }
  // Until rank |rank| has come to the store.
  void await_rank(uint32_t rank) {
    const FolderStore store(folder_);
    const std::string path = store.path("keel-1/p/rank/" + std::to_string(rank));
    while (!std::filesystem::exists(path)) sched_yield();
  }

  std::filesystem::path folder_;
  std::vector<std::unique_ptr<ChildProcess>> ranks_;
};

TEST_P(StoreProcessesTest, RanksMeetSumAndSplit) {
  begin(3);
  for (const char* command : {"join", "sum", "duplicate", "split", "destroy"}) {
    expect_all_ok(command);
  }
}

TEST_P(StoreProcessesTest, RanksMeetWithoutBlocking) {
  begin(2);
  for (const char* command : {"start", "sum", "destroy"}) expect_all_ok(command);
}

TEST_P(StoreProcessesTest, RankThatEndsWhileItWaitsIsNamed) {
  begin(3);
  ranks_[1]->write_line("join");
  await_rank(1);
  ranks_[1]->kill();
  ranks_[0]->write_line("join");
  EXPECT_SAYS("KEEL_RANK_FAILED: rank 0 of 3: rank 1 (process", ranks_[0]->read_line());
  ranks_[2]->write_line("join");
  EXPECT_SAYS("KEEL_RANK_FAILED: rank 2 of 3: rank 0: rank 1 (process", ranks_[2]->read_line());
}

TEST_P(StoreProcessesTest, RankZeroThatEndsWhileItWaitsIsNamed) {
  begin(3);
  ranks_[0]->write_line("join");
  await_rank(0);
  ranks_[1]->write_line("join");
  await_rank(1);
  ranks_[0]->kill();
  EXPECT_SAYS("KEEL_RANK_FAILED: rank 1 of 3: rank 0 (process", ranks_[1]->read_line());
}

TEST_P(StoreProcessesTest, EndAndExecOfARankAreNoticedLater) {
  for (const char* way : {"kill", "exec"}) {
    SCOPED_TRACE(way);
    begin(2);
    expect_all_ok("join");
    expect_all_ok("sum");
    ranks_[0]->write_line("sum");
    if (way == std::string("kill")) {
      ranks_[1]->kill();
    } else {
      ranks_[1]->write_line("exec");
    }
    EXPECT_SAYS("KEEL_RANK_FAILED", ranks_[0]->read_line());
    ranks_.clear();
    TearDown();
    SetUp();
  }
}

TEST_P(StoreProcessesTest, RanksThatAreLeftGoOn) {
  begin(3);
  expect_all_ok("join");
  ranks_[2]->kill();
  ranks_.pop_back();
  expect_all_ok("shrink");
}

INSTANTIATE_TEST_SUITE_P(Networks, StoreProcessesTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "OfItsOwn" : "Shared"; });

class StoreHostsTest : public StoreProcessesTest {};

TEST_P(StoreHostsTest, RanksOfSeveralHostsMeetOverTcp) {
  begin(3, {"a", "b", "a"});
  for (const char* command : {"join", "sum", "duplicate", "destroy"}) expect_all_ok(command);
}
INSTANTIATE_TEST_SUITE_P(Hosts, StoreHostsTest, ::testing::Values(false));

}  // namespace

const std::map<std::string, Worker>& workers() {
  static const std::map<std::string, Worker> all = {{"rank", rank_worker}, {"net", net_worker}};
  return all;
}

}  // namespace keel::testing
