// SPDX-License-Identifier: Apache-2.0
// Ranks without memory to share between processes: every rank returns a failure with the wanted
// memory named, no rank hangs, and all are usable when memory is available again.
#include <gtest/gtest.h>
#include <keel/keel.h>
#include <unistd.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "collectives/bootstrap/testing/child_process.h"
#include "collectives/bootstrap/testing/refused_memory.h"
#include "collectives/bootstrap/testing/scripted_rank.h"

namespace {

using keel::testing::ChildProcess;
using keel::testing::MemoryStep;

constexpr int64_t kSecond = 1'000'000'000;
constexpr uint64_t kBytes = 1 << 20;

// ---- the workers ----------------------------------------------------------------

class Rank {
 public:
  explicit Rank(bool staged) {
    options_.forbid_alias = staged ? 1 : 0;
    options_.timeout_ns = 40 * kSecond;
    keel_device_get(0, &device_);
    keel_stream_create(device_, 0, &stream_);
    keel_alloc(device_, KEEL_MEMORY_DEVICE, kBytes, &data_);
  }
  ~Rank() {
    keel_stream_destroy(stream_);
    keel_free(device_, data_);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  keel_status obey(const std::string& command) {
    static const std::map<std::string, MemoryStep> steps = {
        {"no making ", MemoryStep::kMaking},
        {"no sizing ", MemoryStep::kSizing},
        {"no mapping ", MemoryStep::kMapping},
    };
    for (const auto& [beginning, step] : steps) {
      if (!command.starts_with(beginning)) continue;
      keel::testing::refuse_memory(step, command.substr(beginning.size()));
      return KEEL_OK;
    }
    if (command == "memory") {
      keel::testing::refuse_memory(MemoryStep::kMaking, "");
      return KEEL_OK;
    }
    if (command == "join") return keel_comm_init_env(device_, &options_, &comm_);
    if (command == "leave") return keel_comm_destroy(comm_);
    if (command == "all_reduce") return all_reduce(comm_);
    if (command == "recover") return keel_stream_recover(stream_, KEEL_TIMEOUT_DEFAULT);
    if (command == "duplicate") return use_duplicate();
    if (command == "all") return use_two_ranks();
    if (command == "alloc") return use_memory();
    return KEEL_INTERNAL;
  }

 private:
  keel_status all_reduce(keel_comm comm) {
    const keel_status called =
        keel_all_reduce(comm, data_, data_, kBytes, KEEL_UINT8, KEEL_MAX, stream_);
    return called == KEEL_OK ? keel_stream_synchronize(stream_, KEEL_TIMEOUT_DEFAULT) : called;
  }
  keel_status use_duplicate() {
    keel_comm duplicate = {};
    const keel_status made = keel_comm_duplicate(comm_, nullptr, &duplicate);
    if (made != KEEL_OK) return made;
    const keel_status used = all_reduce(duplicate);
    return used == KEEL_OK ? keel_comm_destroy(duplicate) : used;
  }
  // Uses ranks of this process only.
  keel_status use_two_ranks() {
    const keel_device devices[] = {device_, device_};
    keel_comm comms[2] = {};
    const keel_status made = keel_comm_init_all(devices, 2, nullptr, comms);
    if (made != KEEL_OK) return made;
    for (const keel_comm comm : comms) keel_comm_destroy(comm);
    return KEEL_OK;
  }
  // More than the room in the process's present memory.
  keel_status use_memory() {
    void* more = nullptr;
    const keel_status made = keel_alloc(device_, KEEL_MEMORY_DEVICE, 256 << 20, &more);
    return made == KEEL_OK ? keel_free(device_, more) : made;
  }

  keel_device device_ = {};
  keel_stream stream_ = {};
  keel_comm comm_ = {};
  keel_comm_options options_ = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
  void* data_ = nullptr;
};

// Arguments: rank, world, bootstrap address, "staged" or empty.
int run_worker(const std::vector<std::string>& arguments) {
  keel::testing::enter_job(arguments[0], arguments[1], arguments[2]);
  auto init = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  init.default_timeout_ns = 50 * kSecond;
  init.backends = "cpu";
  if (keel_init(&init) != KEEL_OK) return 1;
  {
    Rank rank(arguments[3] == "staged");
    keel::testing::answer_commands([&](const std::string& command) { return rank.obey(command); });
  }
  return keel_shutdown() == KEEL_OK ? 0 : 2;
}

// ---- those who tell them --------------------------------------------------------

class NoSharedMemory : public testing::Test {
 protected:
  void start(const std::vector<std::string>& kinds = {"", ""}) {
    static int rendezvous_count = 0;
    const std::string rendezvous =
        "no-memory-" + std::to_string(getpid()) + "-" + std::to_string(++rendezvous_count);
    for (size_t rank = 0; rank < kinds.size(); ++rank) {
      ranks_.emplace_back(
          "rank", std::vector<std::string>{std::to_string(rank), std::to_string(kinds.size()),
                                           rendezvous, kinds[rank]});
    }
  }
  std::string ask(uint32_t rank, const std::string& command) {
    ranks_[rank].write_line(command);
    return ranks_[rank].read_line();
  }
  void expect_ok(uint32_t rank, const std::string& command) {
    EXPECT_EQ(ask(rank, command), "KEEL_OK") << command;
  }
  // Sends |command| to both ranks at once; returns both answers.
  std::pair<std::string, std::string> ask_both(const std::string& command) {
    for (ChildProcess& rank : ranks_) rank.write_line(command);
    std::string first = ranks_[0].read_line();
    return {first, ranks_[1].read_line()};
  }
  void expect_both(const std::string& command) {
    const auto [first, second] = ask_both(command);
    EXPECT_EQ(first, "KEEL_OK") << command;
    EXPECT_EQ(second, "KEEL_OK") << command;
  }
  // After a failure with the end of the communicator.
  void expect_another_communicator() {
    expect_both("recover");
    expect_both("leave");
    expect_both("join");
    expect_both("all_reduce");
  }

  std::vector<ChildProcess> ranks_;
};

TEST_F(NoSharedMemory, AnAllocationIsRefused) {
  for (const char* step : {"no making keel-cpu", "no sizing keel-cpu", "no mapping keel-cpu"}) {
    ranks_.clear();  // a rank with earlier memory keeps it
    start({""});
    expect_ok(0, step);
    const std::string said = ask(0, "alloc");
    EXPECT_SAYS("KEEL_OUT_OF_MEMORY", said);
    EXPECT_SAYS("the system has no 268435456 bytes of shared memory", said);
    expect_ok(0, "memory");
    expect_ok(0, "alloc");
  }
}

TEST_F(NoSharedMemory, RanksOfOneProcessAreRefusedTheirCommunicator) {
  start({""});
  for (const char* step : {"no making keel-communicator", "no sizing keel-communicator",
                           "no mapping keel-communicator"}) {
    expect_ok(0, step);
    const std::string said = ask(0, "all");
    EXPECT_SAYS("KEEL_OUT_OF_MEMORY", said);
    EXPECT_SAYS("a communicator", said);
    expect_ok(0, "memory");
    expect_ok(0, "all");
  }
}

// Rank 0's process creates the memory shared by all.
TEST_F(NoSharedMemory, ACommunicatorIsRefusedToAll) {
  start();
  const std::pair<const char*, const char*> refused[] = {
      {"no making keel-communicator", "a communicator: "},
      {"no sizing keel-communicator", "a communicator: "},
      {"no mapping keel-communicator", "a communicator: "},
      {"no making keel-roster", "the roster: "},
  };
  for (const auto& [step, wanted] : refused) {
    expect_ok(0, step);
    const auto [first, second] = ask_both("join");
    for (const std::string& said : {first, second}) {
      EXPECT_SAYS("KEEL_OUT_OF_MEMORY", said) << step;
      EXPECT_SAYS(wanted, said) << step;
    }
    expect_ok(0, "memory");
    expect_both("join");
    expect_both("all_reduce");
    expect_both("leave");
  }
}

// By then all ranks know that all are present, and wait no longer for arrivals.
TEST_F(NoSharedMemory, ARankThatCannotMapTheCommunicatorIsNamed) {
  start();
  expect_ok(1, "no mapping keel-communicator");
  const auto [first, second] = ask_both("join");
  EXPECT_SAYS("KEEL_OUT_OF_MEMORY", second);
  EXPECT_SAYS("a communicator", second);
  EXPECT_SAYS("KEEL_RANK_FAILED: rank 1 (", first);
  EXPECT_SAYS("a communicator", first);
  expect_ok(1, "memory");
  expect_both("join");
  expect_both("all_reduce");
}

TEST_F(NoSharedMemory, ADuplicateIsRefusedToAllAndTheFirstOneGoesOn) {
  start();
  expect_both("join");
  for (const char* step : {"no making keel-communicator", "no sizing keel-communicator"}) {
    expect_ok(0, step);
    const auto [first, second] = ask_both("duplicate");
    EXPECT_SAYS("KEEL_OUT_OF_MEMORY", first);
    EXPECT_SAYS("a communicator: ", first);
    EXPECT_SAYS("KEEL_RANK_FAILED", second);
    EXPECT_SAYS("rank 0 (", second);
    expect_both("all_reduce");
    expect_ok(0, "memory");
    expect_both("duplicate");
  }
}

TEST_F(NoSharedMemory, ADuplicateThatOneRankCannotMapIsRefusedToAll) {
  start();
  expect_both("join");
  expect_ok(1, "no mapping keel-communicator");
  const auto [first, second] = ask_both("duplicate");
  EXPECT_SAYS("KEEL_RANK_FAILED", first);
  EXPECT_SAYS("rank 1 (", first);
  EXPECT_SAYS("KEEL_OUT_OF_MEMORY", second);
  EXPECT_SAYS("a communicator", second);
  expect_both("all_reduce");
  expect_ok(1, "memory");
  expect_both("duplicate");
}

TEST_F(NoSharedMemory, WindowsThatCannotBeMadeFailTheOperationAndNoMore) {
  for (const char* step :
       {"no making keel-stage", "no sizing keel-stage", "no mapping keel-stage"}) {
    ranks_.clear();
    start({"staged", "staged"});
    expect_both("join");
    expect_ok(1, step);
    const auto [first, second] = ask_both("all_reduce");
    EXPECT_SAYS("KEEL_RANK_FAILED", first) << step;
    EXPECT_SAYS("rank 1 (", first) << step;
    EXPECT_SAYS("stage", first) << step;
    EXPECT_SAYS("stage", second) << step;
    expect_ok(1, "memory");
    expect_both("recover");
    expect_both("all_reduce");
  }
}

TEST_F(NoSharedMemory, WindowsThatNeitherRankCanMakeFailBoth) {
  start({"staged", "staged"});
  expect_both("join");
  expect_both("no sizing keel-stage");
  const auto [first, second] = ask_both("all_reduce");
  EXPECT_SAYS("a stage: ", first);
  EXPECT_SAYS("a stage: ", second);
  expect_both("memory");
  expect_both("recover");
  expect_both("all_reduce");
}

// By then all ranks have called, and peers may be half-way.
TEST_F(NoSharedMemory, ARankThatCannotMapTheOthersWindowsEndsTheCommunicator) {
  start({"staged", ""});
  expect_both("join");
  expect_ok(1, "no mapping keel-stage");
  const auto [first, second] = ask_both("all_reduce");
  EXPECT_SAYS("rank 1 (", first);
  EXPECT_SAYS("of a rank's memory", first);
  EXPECT_SAYS("of a rank's memory", second);
  expect_ok(1, "memory");
  expect_another_communicator();
}

TEST_F(NoSharedMemory, ARankThatCannotMapTheOthersMemoryEndsTheCommunicator) {
  start();
  expect_both("join");
  expect_ok(1, "no mapping keel-cpu");
  const auto [first, second] = ask_both("all_reduce");
  EXPECT_SAYS("rank 1 (", first);
  EXPECT_SAYS("of a rank's memory", first);
  EXPECT_SAYS("of a rank's memory", second);
  expect_ok(1, "memory");
  expect_another_communicator();
}

}  // namespace

const std::map<std::string, keel::testing::Worker>& keel::testing::workers() {
  static const std::map<std::string, Worker> workers = {{"rank", run_worker}};
  return workers;
}
