// SPDX-License-Identifier: Apache-2.0
// Failures between ranks in several processes.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <future>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "collectives/bootstrap/testing/scripted_rank.h"
#include "collectives/testing/scripted_job.h"

namespace {

using keel::testing::ask;
using keel::testing::ChildProcess;
using keel::testing::Job;
using keel::testing::Kind;
using keel::testing::new_rendezvous;
using keel::testing::start;
using std::chrono::milliseconds;

// Time for a running rank to answer on a busy machine; a slower rank counts as stopped.
constexpr int kDeadlineMs = 2000;

std::string who(uint32_t rank) {
  return "rank " + std::to_string(rank) + " (";
}

// Activity of the ranks when one is killed or stopped.
struct Scene {
  const char* name;
  Kind kind;
  const char* command;
  uint32_t kills;  // at different moments
};

void PrintTo(const Scene& scene, std::ostream* out) {
  *out << scene.name;
}

class ProcessFailuresAt : public testing::TestWithParam<Scene> {
 protected:
  void SetUp() override {
    ChildProcess probe = start(0, 1, new_rendezvous(), 0, GetParam().kind);
    const std::string said = probe.read_line();
    if (said != "ready") {
      // All backends but Vulkan exist on every machine.
      ASSERT_EQ(GetParam().kind.backend, "vulkan") << said;
      GTEST_SKIP() << "vulkan: " << said;
    }
  }
};

TEST_P(ProcessFailuresAt, ARankThatIsKilledIsNamedToAllOthers) {
  const Scene& scene = GetParam();
  std::mt19937 random(7);
  auto longest = milliseconds(0);
  for (uint32_t round = 0; round < scene.kills; ++round) {
    SCOPED_TRACE(round);
    Job job(3, /*timeout_ms=*/0, scene.kind);
    const uint32_t victim = round % 3;
    job.tell_all(scene.command);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
    const auto killed = std::chrono::steady_clock::now();
    job[victim].kill();
    for (uint32_t rank = 0; rank < 3; ++rank) {
      if (rank == victim) continue;
      const std::string said = job[rank].read_line();
      EXPECT_SAYS("KEEL_RANK_FAILED", said);
      EXPECT_SAYS(who(victim), said);
      longest = std::max(longest, std::chrono::duration_cast<milliseconds>(
                                      std::chrono::steady_clock::now() - killed));
      // In a split, the part may report the death before the process watcher reports to the whole.
      std::string error = ask(job[rank], "error");
      while (error == "KEEL_OK" &&
             std::chrono::steady_clock::now() - killed < std::chrono::seconds(10)) {
        error = ask(job[rank], "error");
      }
      EXPECT_SAYS("KEEL_RANK_FAILED", error);
      EXPECT_EQ(ask(job[rank], "destroy"), "KEEL_OK");
    }
    if (HasFailure()) break;
  }
  std::printf("longest from a kill to the last survivor's answer: %lld ms\n",
              static_cast<long long>(longest.count()));
}

TEST_P(ProcessFailuresAt, ARankThatIsStoppedIsNamedAtTheDeadline) {
  const Scene& scene = GetParam();
  for (const uint32_t victim : {0u, 2u}) {
    Job job(3, kDeadlineMs, scene.kind);
    job.tell_all(scene.command);
    ASSERT_EQ(kill(job[victim].pid(), SIGSTOP), 0);
    for (uint32_t rank = 0; rank < 3; ++rank) {
      if (rank == victim) continue;
      const std::string said = job[rank].read_line();
      EXPECT_SAYS("KEEL_TIMED_OUT", said);
      EXPECT_SAYS(who(victim), said);
    }
    // The victim learns of the failure once it continues.
    ASSERT_EQ(kill(job[victim].pid(), SIGCONT), 0);
    EXPECT_SAYS("KEEL_TIMED_OUT", job[victim].read_line());
  }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint32_t kMany = 8;
constexpr uint32_t kFew = 3;
#else
constexpr uint32_t kMany = 20;
constexpr uint32_t kFew = 6;
#endif

INSTANTIATE_TEST_SUITE_P(
    Scenes, ProcessFailuresAt,
    testing::Values(Scene{"cpu", {"cpu", false}, "loop", kMany},
                    Scene{"cpu_staged", {"cpu", true}, "loop", kMany},
                    Scene{"cpu_two_communicators", {"cpu", false}, "loop twice", kFew},
                    Scene{"cpu_splitting", {"cpu", false}, "loop splitting", kFew},
                    Scene{"sim", {"sim", false}, "loop", kMany},
                    Scene{"vulkan", {"vulkan", false}, "loop", kFew}),
    [](const auto& info) { return std::string(info.param.name); });

// The victim had completed all its calls: operations among the peers continue.
TEST(ProcessFailures, ARankThatDiesAtRestFailsOnlyWhatWaitsForIt) {
  Job job(3);
  for (const char* command : {"all_reduce", "synchronize"}) {
    job.tell_all(command);
    for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_EQ(job[rank].read_line(), "KEEL_OK");
  }
  EXPECT_EQ(ask(job[1], "receive 0"), "KEEL_OK");
  job[2].kill();
  for (const uint32_t rank : {0, 1}) {
    std::string error;
    do {
      error = ask(job[rank], "error");
    } while (error == "KEEL_OK");
    EXPECT_SAYS("KEEL_RANK_FAILED", error);
    EXPECT_SAYS(who(2), error);
    EXPECT_EQ(ask(job[rank], "status 2"), error);
    EXPECT_EQ(ask(job[rank], "status " + std::to_string(1 - rank)), "KEEL_OK");
  }
  EXPECT_EQ(ask(job[0], "send 1"), "KEEL_OK");
  for (const uint32_t rank : {0, 1}) EXPECT_EQ(ask(job[rank], "synchronize"), "KEEL_OK");
  for (const uint32_t rank : {0, 1}) {
    const std::string called = ask(job[rank], "all_reduce");
    const std::string said = called == "KEEL_OK" ? ask(job[rank], "synchronize") : called;
    EXPECT_SAYS("KEEL_RANK_FAILED", said);
    EXPECT_SAYS(who(2), said);
  }
}

// The pid outlives the program.
TEST(ProcessFailures, ARankThatReplacesItsProgramIsNamedToAllOthers) {
  for (const uint32_t victim : {0u, 2u}) {
    Job job(3);
    for (uint32_t rank = 0; rank < 3; ++rank) {
      job[rank].write_line(rank == victim ? "exec" : "loop");
    }
    for (uint32_t rank = 0; rank < 3; ++rank) {
      if (rank == victim) continue;
      const std::string said = job[rank].read_line();
      EXPECT_SAYS("KEEL_RANK_FAILED", said);
      EXPECT_SAYS(who(victim), said);
      EXPECT_SAYS("replaced its program (exec)", said);
    }
  }
}

// A rank killed before the rendezvous is missing; a rank killed during it is named at once or,
// after all have met, at the next operation.
TEST(ProcessFailures, ARankThatIsKilledWhileTheyMeetHoldsNobody) {
  std::mt19937 random(11);
  for (uint32_t round = 0; round < kFew; ++round) {
    SCOPED_TRACE(round);
    Job job(3, /*timeout_ms=*/1000, {}, new_rendezvous(), /*joins=*/false);
    const uint32_t victim = round % 3;
    job.tell_all("join");
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 4'000));
    job[victim].kill();
    for (uint32_t rank = 0; rank < 3; ++rank) {
      if (rank == victim) continue;
      std::string said = job[rank].read_line();
      if (said == "KEEL_OK") said = ask(job[rank], "loop");
      if (said.starts_with("KEEL_RANK_FAILED")) {
        // If the bootstrap server ends, its rank is unknown.
        EXPECT_TRUE(victim == 0 || keel::testing::says(who(victim), said)) << said;
      } else {
        EXPECT_TRUE(said.starts_with("KEEL_TIMED_OUT") || said.starts_with("KEEL_UNAVAILABLE"))
            << said;
      }
    }
    if (HasFailure()) break;
  }
}

// A killed run leaves no name behind: the next run meets at the same address.
TEST(ProcessFailures, ARunThatWasKilledIsInNobodysWay) {
  const std::string rendezvous = new_rendezvous();
  {
    // A run killed in the rendezvous, and a run killed at work.
    ChildProcess first = start(0, 2, rendezvous);
    EXPECT_EQ(first.read_line(), "ready");
    first.write_line("join");
    first.kill();
    first.wait();
    Job job(2, 0, {}, rendezvous);
    job.tell_all("loop");
  }
  Job job(2, 0, {}, rendezvous);
  for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_EQ(ask(job[rank], "all_reduce"), "KEEL_OK");
  for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_EQ(ask(job[rank], "synchronize"), "KEEL_OK");
}

TEST(ProcessFailures, AMismatchNamesTheOddRankAndLosesNothing) {
  struct Mismatch {
    std::string usual;
    std::string odd;
    std::string said;
  };
  const Mismatch mismatches[] = {
      {"all_reduce", "broadcast", "broadcast(5000 float32, root 0)"},
      {"all_reduce", "all_reduce less", "all_reduce(4999 float32, max)"},
      {"all_reduce", "all_reduce by sum", "all_reduce(5000 float32, sum)"},
      {"all_reduce", "all_reduce of int32", "all_reduce(5000 int32, max)"},
      {"broadcast", "broadcast from 1", "broadcast(5000 float32, root 1)"},
  };
  Job job(3);
  for (uint32_t round = 0; round < std::size(mismatches); ++round) {
    const auto& [usual, odd, said_of_odd] = mismatches[round];
    SCOPED_TRACE(odd);
    const uint32_t odd_rank = round % 3;
    for (uint32_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(ask(job[rank], rank == odd_rank ? odd : usual), "KEEL_OK");
    }
    for (uint32_t rank = 0; rank < 3; ++rank) {
      const std::string said = ask(job[rank], "synchronize");
      EXPECT_SAYS("KEEL_INVALID_ARGUMENT", said);
      EXPECT_SAYS("rank " + std::to_string(odd_rank) + " called " + said_of_odd, said);
      EXPECT_EQ(ask(job[rank], "recover"), "KEEL_OK");
    }
    for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_EQ(ask(job[rank], "all_reduce"), "KEEL_OK");
    for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_EQ(ask(job[rank], "synchronize"), "KEEL_OK");
  }
}

// Found long before the deadline of 50 seconds; afterwards the ranks' operations no longer match.
TEST(ProcessFailures, AMessageAgainstACollectiveIsAMismatch) {
  for (const std::string odd : {"send", "receive"}) {
    Job job(3);
    EXPECT_EQ(ask(job[0], "all_reduce"), "KEEL_OK");
    EXPECT_EQ(ask(job[1], odd + " 2"), "KEEL_OK");
    EXPECT_EQ(ask(job[2], "all_reduce"), "KEEL_OK");
    job.tell_all("synchronize");
    for (uint32_t rank = 0; rank < 3; ++rank) {
      const std::string said = job[rank].read_line();
      EXPECT_SAYS("KEEL_INVALID_ARGUMENT", said);
      EXPECT_SAYS("mismatch: " + who(1), said);
      EXPECT_SAYS(std::string("called ") + (odd == "send" ? "send" : "recv") + "(20000 float32",
                  said);
      EXPECT_SAYS("all others all_reduce(5000 float32, max", said);
      EXPECT_SAYS("KEEL_INVALID_ARGUMENT", ask(job[rank], "error"));
    }
  }
}

TEST(ProcessFailures, MessagesThatWaitForEachOtherAreAMismatch) {
  Job job(3);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ask(job[rank], "receive " + std::to_string((rank + 1) % 3)), "KEEL_OK");
  }
  job.tell_all("synchronize");
  for (uint32_t rank = 0; rank < 3; ++rank) {
    const std::string said = job[rank].read_line();
    EXPECT_SAYS("KEEL_INVALID_ARGUMENT", said);
    EXPECT_SAYS(who(1), said);
    EXPECT_SAYS("called recv(20000 float32 from rank 0)", said);
  }
}

TEST(ProcessFailures, AnAbortReachesAllProcesses) {
  Job job(3);
  EXPECT_EQ(ask(job[0], "all_reduce"), "KEEL_OK");
  EXPECT_EQ(ask(job[1], "abort"), "KEEL_OK");
  EXPECT_SAYS("KEEL_ABORTED: ", ask(job[0], "synchronize"));
  for (uint32_t rank = 0; rank < 3; ++rank) {
    const std::string said = ask(job[rank], "error");
    EXPECT_SAYS("KEEL_ABORTED: ", said);
    EXPECT_SAYS("rank 1 aborted", said);
  }
  EXPECT_SAYS("rank 1 aborted", ask(job[2], "all_reduce"));
}

TEST(ProcessFailures, ARankThatLeavesEndsWhatTheOthersWaitFor) {
  Job job(3);
  EXPECT_EQ(ask(job[0], "all_reduce"), "KEEL_OK");
  job[2].write_line("all_reduce");
  EXPECT_EQ(job[2].read_line(), "KEEL_OK");
  EXPECT_EQ(ask(job[1], "destroy"), "KEEL_OK");
  for (const uint32_t rank : {0, 2}) {
    const std::string said = ask(job[rank], "synchronize");
    EXPECT_SAYS("KEEL_ABORTED", said);
    EXPECT_SAYS("rank 1", said);
  }
}

// A process that ends after its rank left is no dead rank.
TEST(ProcessFailures, WhoeverHasLeftMayEnd) {
  Job job(2);
  for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_EQ(ask(job[rank], "all_reduce"), "KEEL_OK");
  for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_EQ(ask(job[rank], "synchronize"), "KEEL_OK");
  EXPECT_EQ(ask(job[1], "destroy"), "KEEL_OK");
  job[1].write_line("");
  EXPECT_EQ(job[1].wait(), 0);
  EXPECT_EQ(ask(job[0], "synchronize"), "KEEL_OK");
  EXPECT_EQ(ask(job[0], "destroy"), "KEEL_OK");
  job[0].write_line("");
  EXPECT_EQ(job[0].wait(), 0);
}

// ---- those that do not meet -----------------------------------------------------

// Returns the index of the rank that answers first, and the answer.
std::pair<size_t, std::string> first_answer(std::vector<std::future<std::string>>& answers) {
  while (true) {
    for (size_t i = 0; i < answers.size(); ++i) {
      if (answers[i].wait_for(milliseconds(1)) == std::future_status::ready) {
        return {i, answers[i].get()};
      }
    }
  }
}

std::future<std::string> join(ChildProcess& child) {
  EXPECT_EQ(child.read_line(), "ready");
  return std::async(std::launch::async, [&child] { return ask(child, "join"); });
}

TEST(ProcessFailures, ARankThatIsThereTwiceIsRefusedAndTheOthersMeet) {
  const std::string rendezvous = new_rendezvous();
  ChildProcess first = start(0, 3, rendezvous);
  std::future<std::string> joined = join(first);
  ChildProcess twins[] = {start(1, 3, rendezvous), start(1, 3, rendezvous)};
  std::vector<std::future<std::string>> answers;
  for (ChildProcess& twin : twins) answers.push_back(join(twin));
  const auto [refused, said] = first_answer(answers);
  EXPECT_SAYS("KEEL_ALREADY_EXISTS", said);
  EXPECT_SAYS("rank 1 is there already", said);
  ChildProcess last = start(2, 3, rendezvous);
  EXPECT_EQ(join(last).get(), "KEEL_OK");
  EXPECT_EQ(joined.get(), "KEEL_OK");
  EXPECT_EQ(answers[1 - refused].get(), "KEEL_OK");
}

TEST(ProcessFailures, RanksWhoseWorldsDifferAreTold) {
  const std::string rendezvous = new_rendezvous();
  ChildProcess ranks[] = {start(0, 2, rendezvous), start(1, 3, rendezvous)};
  std::vector<std::future<std::string>> answers;
  for (ChildProcess& rank : ranks) answers.push_back(join(rank));
  const auto [refused, said] = first_answer(answers);
  EXPECT_SAYS("KEEL_INVALID_ARGUMENT", said);
  EXPECT_SAYS("rank " + std::to_string(refused) + " says that the world has", said);
  // The remaining rank still waits for the rest of the world.
  ranks[1 - refused].kill();
  answers[1 - refused].wait();
}

TEST(ProcessFailures, ARankThatDoesNotComeIsNamedAtTheDeadline) {
  const std::string rendezvous = new_rendezvous();
  ChildProcess ranks[] = {start(0, 3, rendezvous, kDeadlineMs),
                          start(1, 3, rendezvous, kDeadlineMs)};
  std::vector<std::future<std::string>> answers;
  for (ChildProcess& rank : ranks) answers.push_back(join(rank));
  for (std::future<std::string>& each : answers) {
    const std::string said = each.get();
    EXPECT_SAYS("KEEL_TIMED_OUT", said);
    EXPECT_SAYS("2 of 3 ha", said);
  }
}

}  // namespace
