// What goes wrong between ranks in several processes. Each worker is one rank that does what
// it is told, line by line, and answers with the status and its text.
#include <gtest/gtest.h>
#include <keel/keel.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <future>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "collectives/bootstrap/testing/child_process.h"
#include "collectives/bootstrap/testing/told_rank.h"

namespace {

using keel::testing::ChildProcess;
using std::chrono::milliseconds;

constexpr int64_t kSecond = 1'000'000'000;
constexpr uint64_t kCount = 5000;  // several rounds of the smallest chunk

// ---- the workers ----------------------------------------------------------------

class Rank {
 public:
  explicit Rank(bool staged) : staged_(staged) {
    keel_device_get(0, &device_);
    keel_stream_create(device_, 0, &stream_);
    keel_alloc(device_, KEEL_MEMORY_DEVICE, 2 * kCount * sizeof(float), &data_);
  }
  ~Rank() {
    keel_stream_destroy(stream_);
    keel_free(device_, data_);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  keel_status obey(const std::string& command, int64_t timeout_ns) {
    if (command == "join") return join(timeout_ns);
    if (command == "join with patience") return join_with_patience(timeout_ns);
    if (command == "all_reduce") return all_reduce(kCount);
    if (command == "all_reduce less") return all_reduce(kCount - 1);
    if (command == "broadcast") {
      return keel_broadcast(comm_, data_, data_, kCount, KEEL_FLOAT32, 0, stream_);
    }
    if (command.starts_with("send ")) {
      return keel_send(comm_, data_, kCount, KEEL_FLOAT32, command.back() - '0', stream_);
    }
    if (command.starts_with("receive ")) {
      return keel_recv(comm_, data_, kCount, KEEL_FLOAT32, command.back() - '0', stream_);
    }
    if (command == "synchronize") return keel_stream_synchronize(stream_, KEEL_TIMEOUT_DEFAULT);
    if (command == "recover") return keel_stream_recover(stream_, KEEL_TIMEOUT_DEFAULT);
    if (command == "abort") return keel_comm_abort(comm_);
    if (command == "destroy") return keel_comm_destroy(comm_);
    if (command == "error") return keel_comm_async_error(comm_);
    if (command == "loop") return loop({comm_});
    if (command == "loop twice") return loop_twice();
    if (command == "loop splitting") return loop_splitting();
    return KEEL_INTERNAL;
  }

 private:
  keel_status join(int64_t timeout_ns) {
    options_.timeout_ns = timeout_ns;
    options_.chunk_bytes = 4096;
    options_.forbid_alias = staged_ ? 1 : 0;
    return keel_comm_init_env(device_, &options_, &comm_);
  }
  // All meet, however busy the machine is; the deadline is that of what comes after.
  keel_status join_with_patience(int64_t timeout_ns) {
    const keel_status status = join(/*timeout_ns=*/0);
    if (status != KEEL_OK || timeout_ns == 0) return status;
    options_.timeout_ns = timeout_ns;
    return keel_comm_timeout_set(comm_, timeout_ns);
  }
  keel_status all_reduce(uint64_t count) { return all_reduce(comm_, count); }
  keel_status all_reduce(keel_comm comm, uint64_t count) {
    return keel_all_reduce(comm, data_, data_, count, KEEL_FLOAT32, KEEL_MAX, stream_);
  }
  // Large and small operations, and messages around the ring, of one communicator after the
  // other, until one fails.
  keel_status loop(const std::vector<keel_comm>& comms) {
    uint32_t rank = 0;
    uint32_t world = 0;
    keel_comm_rank(comm_, &rank, &world);
    for (uint32_t round = 0;; ++round) {
      const keel_comm comm = comms[round % comms.size()];
      keel_status status = all_reduce(comm, round % 3 == 0 ? 10 : kCount);
      if (status == KEEL_OK && round % 4 == 0) {
        status = keel_send_recv(comm, data_, kCount, (rank + 1) % world,
                                static_cast<float*>(data_) + kCount, kCount,
                                (rank + world - 1) % world, KEEL_FLOAT32, stream_);
      }
      if (status == KEEL_OK && round % 5 != 4) continue;
      // A call that is refused tells of the failure, and so does the stream.
      const keel_status waited = keel_stream_synchronize(stream_, KEEL_TIMEOUT_DEFAULT);
      if (waited != KEEL_OK) return waited;
      if (status != KEEL_OK) return keel_comm_async_error(comm);
    }
  }
  // The second one fails as the first does: there is nobody left to go on with.
  keel_status loop_twice() {
    keel_comm second = {};
    keel_status status = keel_comm_duplicate(comm_, &options_, &second);
    if (status != KEEL_OK) return status;
    status = loop({comm_, second});
    for (const keel_comm comm : {comm_, second}) {
      // One of them may be told a little later than the other.
      if (keel_stream_recover(stream_, KEEL_TIMEOUT_DEFAULT) != KEEL_OK) return KEEL_INTERNAL;
      status = loop({comm});
      if (status != KEEL_RANK_FAILED) return status;
    }
    return status;
  }
  // A communicator for each operation.
  keel_status loop_splitting() {
    while (true) {
      keel_comm part = {};
      keel_status status = keel_comm_duplicate(comm_, &options_, &part);
      if (status != KEEL_OK) return status;
      status = all_reduce(part, kCount);
      const keel_status waited = keel_stream_synchronize(stream_, KEEL_TIMEOUT_DEFAULT);
      if (status == KEEL_OK) status = waited;
      // What it is a part of fails too, if a little later.
      if (status != KEEL_OK && status != KEEL_RANK_FAILED) return status;
      keel_stream_recover(stream_, KEEL_TIMEOUT_DEFAULT);
      keel_comm_destroy(part);
    }
  }

  const bool staged_;
  keel_comm_options options_ = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
  keel_device device_ = {};
  keel_stream stream_ = {};
  keel_comm comm_ = {};
  void* data_ = nullptr;
};

// Arguments: rank, world, meeting, timeout in milliseconds, backend, "staged" or nothing.
int run_worker(const std::vector<std::string>& arguments) {
  keel::testing::enter_job(arguments[0], arguments[1], arguments[2]);
  setenv("KEEL_SIM_DEVICES", "1", 1);
  auto init = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  init.default_timeout_ns = 50 * kSecond;
  init.backends = arguments[4].c_str();
  const keel_status begun = keel_init(&init);
  keel_device device = {};
  const bool has_device = begun == KEEL_OK && keel_device_get(0, &device) == KEEL_OK;
  keel::testing::say(has_device ? "ready" : keel_last_error());
  if (!has_device) return 1;
  auto rank = std::make_unique<Rank>(arguments[5] == "staged");
  keel::testing::answer_commands([&](const std::string& command) {
    return rank->obey(command, std::stoll(arguments[3]) * 1'000'000);
  });
  rank.reset();
  return keel_shutdown() == KEEL_OK ? 0 : 2;
}

// ---- those who tell them --------------------------------------------------------

// What a rank that runs may take to answer on a busy machine: whoever takes longer is stopped.
constexpr int kDeadlineMs = 2000;

std::string new_meeting() {
  static int meetings = 0;
  return "failures-" + std::to_string(getpid()) + "-" + std::to_string(++meetings);
}

// Where the ranks' memory is, and how the others reach it.
struct Kind {
  std::string backend = "cpu";
  bool staged = false;
};

ChildProcess start(uint32_t rank, uint32_t world, const std::string& meeting, int timeout_ms = 0,
                   const Kind& kind = {}) {
  return {"rank",
          {std::to_string(rank), std::to_string(world), meeting, std::to_string(timeout_ms),
           kind.backend, kind.staged ? "staged" : ""}};
}

std::string ask(ChildProcess& child, const std::string& command) {
  child.write_line(command);
  return child.read_line();
}

std::string who(uint32_t rank) {
  return "rank " + std::to_string(rank) + " (";
}

// Ranks that have met, or that are ready to.
class Job {
 public:
  explicit Job(uint32_t world, int timeout_ms = 0, const Kind& kind = {},
               const std::string& meeting = new_meeting(), bool joins = true) {
    for (uint32_t rank = 0; rank < world; ++rank) {
      children_.push_back(start(rank, world, meeting, timeout_ms, kind));
    }
    for (ChildProcess& child : children_) EXPECT_EQ(child.read_line(), "ready");
    if (!joins) return;
    tell_all("join with patience");
    for (ChildProcess& child : children_) EXPECT_EQ(child.read_line(), "KEEL_OK");
  }
  ChildProcess& operator[](uint32_t rank) { return children_[rank]; }
  void tell_all(const std::string& command) {
    for (ChildProcess& child : children_) child.write_line(command);
  }

 private:
  std::vector<ChildProcess> children_;
};

// What the ranks are at when one of them is killed, or stopped.
struct Scene {
  const char* name;
  Kind kind;
  const char* command;
  uint32_t kills;  // at another moment each
};

void PrintTo(const Scene& scene, std::ostream* out) {
  *out << scene.name;
}

class ProcessFailuresAt : public testing::TestWithParam<Scene> {
 protected:
  void SetUp() override {
    ChildProcess probe = start(0, 1, new_meeting(), 0, GetParam().kind);
    const std::string said = probe.read_line();
    if (said != "ready") {
      // The others are there on any machine.
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
      // Of a split the part may say so before whoever watches the processes has told the whole.
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
    // It learns of it once it goes on.
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
                    Scene{"cpu_staged", {"cpu", true}, "loop", kFew},
                    Scene{"cpu_two_communicators", {"cpu", false}, "loop twice", kFew},
                    Scene{"cpu_splitting", {"cpu", false}, "loop splitting", kFew},
                    Scene{"sim", {"sim", false}, "loop", kFew},
                    Scene{"vulkan", {"vulkan", false}, "loop", kFew}),
    [](const auto& info) { return std::string(info.param.name); });

// Whoever is killed before it has come is missing; whoever has come is named at once, or, when
// it is killed after all have met, at the next operation.
TEST(ProcessFailures, ARankThatIsKilledWhileTheyMeetHoldsNobody) {
  std::mt19937 random(11);
  for (uint32_t round = 0; round < kFew; ++round) {
    SCOPED_TRACE(round);
    Job job(3, /*timeout_ms=*/1000, {}, new_meeting(), /*joins=*/false);
    const uint32_t victim = round % 3;
    job.tell_all("join");
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 4'000));
    job[victim].kill();
    for (uint32_t rank = 0; rank < 3; ++rank) {
      if (rank == victim) continue;
      std::string said = job[rank].read_line();
      if (said == "KEEL_OK") said = ask(job[rank], "loop");
      if (said.starts_with("KEEL_RANK_FAILED")) {
        // A server that ends is not known by its rank.
        EXPECT_TRUE(victim == 0 || keel::testing::says(who(victim), said)) << said;
      } else {
        EXPECT_TRUE(said.starts_with("KEEL_TIMED_OUT") || said.starts_with("KEEL_UNAVAILABLE"))
            << said;
      }
    }
    if (HasFailure()) break;
  }
}

// Nothing of it has a name that outlives it: the next run meets at the same place.
TEST(ProcessFailures, ARunThatWasKilledIsInNobodysWay) {
  const std::string meeting = new_meeting();
  {
    // One that still met, and one that was at work.
    ChildProcess first = start(0, 2, meeting);
    EXPECT_EQ(first.read_line(), "ready");
    first.write_line("join");
    first.kill();
    first.wait();
    Job job(2, 0, {}, meeting);
    job.tell_all("loop");
  }
  Job job(2, 0, {}, meeting);
  for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_EQ(ask(job[rank], "all_reduce"), "KEEL_OK");
  for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_EQ(ask(job[rank], "synchronize"), "KEEL_OK");
}

TEST(ProcessFailures, AMismatchNamesTheOddRankAndLosesNothing) {
  Job job(3);
  for (const std::string odd : {"broadcast", "all_reduce less"}) {
    EXPECT_EQ(ask(job[0], "all_reduce"), "KEEL_OK");
    EXPECT_EQ(ask(job[1], odd), "KEEL_OK");
    EXPECT_EQ(ask(job[2], "all_reduce"), "KEEL_OK");
    for (uint32_t rank = 0; rank < 3; ++rank) {
      const std::string said = ask(job[rank], "synchronize");
      EXPECT_SAYS("KEEL_INVALID_ARGUMENT", said);
      EXPECT_SAYS("rank 1 called " + odd.substr(0, 9), said);
      EXPECT_EQ(ask(job[rank], "recover"), "KEEL_OK");
    }
    for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_EQ(ask(job[rank], "all_reduce"), "KEEL_OK");
    for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_EQ(ask(job[rank], "synchronize"), "KEEL_OK");
  }
}

// Found long before the deadline, 50 seconds; afterwards nobody knows what belongs together.
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
      EXPECT_SAYS(std::string("called ") + (odd == "send" ? "send" : "recv") + "(5000 float32",
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
    EXPECT_SAYS("called recv(5000 float32 from rank 0)", said);
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

// One that ends in good order, having left before, is no rank that died.
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

// Whichever of the two answers first, and what it says.
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
  const std::string meeting = new_meeting();
  ChildProcess first = start(0, 3, meeting);
  std::future<std::string> joined = join(first);
  ChildProcess twins[] = {start(1, 3, meeting), start(1, 3, meeting)};
  std::vector<std::future<std::string>> answers;
  for (ChildProcess& twin : twins) answers.push_back(join(twin));
  const auto [refused, said] = first_answer(answers);
  EXPECT_SAYS("KEEL_ALREADY_EXISTS", said);
  EXPECT_SAYS("rank 1 is there already", said);
  ChildProcess last = start(2, 3, meeting);
  EXPECT_EQ(join(last).get(), "KEEL_OK");
  EXPECT_EQ(joined.get(), "KEEL_OK");
  EXPECT_EQ(answers[1 - refused].get(), "KEEL_OK");
}

TEST(ProcessFailures, RanksWhoseWorldsDifferAreTold) {
  const std::string meeting = new_meeting();
  ChildProcess ranks[] = {start(0, 2, meeting), start(1, 3, meeting)};
  std::vector<std::future<std::string>> answers;
  for (ChildProcess& rank : ranks) answers.push_back(join(rank));
  const auto [refused, said] = first_answer(answers);
  EXPECT_SAYS("KEEL_INVALID_ARGUMENT", said);
  EXPECT_SAYS("rank " + std::to_string(refused) + " says that the world has", said);
  // The other one still waits for the rest of its world.
  ranks[1 - refused].kill();
  answers[1 - refused].wait();
}

TEST(ProcessFailures, ARankThatDoesNotComeIsNamedAtTheDeadline) {
  const std::string meeting = new_meeting();
  ChildProcess ranks[] = {start(0, 3, meeting, kDeadlineMs), start(1, 3, meeting, kDeadlineMs)};
  std::vector<std::future<std::string>> answers;
  for (ChildProcess& rank : ranks) answers.push_back(join(rank));
  for (std::future<std::string>& each : answers) {
    const std::string said = each.get();
    EXPECT_SAYS("KEEL_TIMED_OUT", said);
    EXPECT_SAYS("2 of 3 ha", said);
  }
}

}  // namespace

const std::map<std::string, keel::testing::Worker>& keel::testing::workers() {
  static const std::map<std::string, Worker> workers = {{"rank", run_worker}};
  return workers;
}
