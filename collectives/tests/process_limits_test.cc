// SPDX-License-Identifier: Apache-2.0
// Ranks with too few file descriptors, or files of limited size: every rank returns a failure with
// the reason, and no process is killed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <keel/keel.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "collectives/bootstrap/testing/child_process.h"
#include "collectives/bootstrap/testing/scripted_rank.h"

namespace {

using keel::testing::ChildProcess;

constexpr int64_t kSecond = 1'000'000'000;
constexpr uint64_t kBytes = 1 << 20;

// ---- the workers ----------------------------------------------------------------

keel_status limit(int resource, rlim_t most) {
  rlimit limits = {};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limits) != 0) return KEEL_INTERNAL;
  limits.rlim_cur = std::min(most, limits.rlim_max);
  return setrlimit(static_cast<__rlimit_resource>(resource), &limits) == 0 ? KEEL_OK
                                                                           : KEEL_INTERNAL;
}

// Returns the descriptor limit at which no further file opens.
rlim_t open_files() {
  const int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
  close(next);
  return static_cast<rlim_t>(next);
}

// Whether Keel has warned that connections wait for descriptors.
std::atomic<bool> has_warned = false;

void note_warning(void*, keel_log_level, const char* text) {
  const std::string_view said = text;
  if (said.starts_with("connections from other hosts wait: ") &&
      said.find("RLIMIT_NOFILE") != said.npos) {
    has_warned = true;
  }
}

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

  // For ranks of several hosts, which join by |id|. Rank 0 makes it.
  void use_id(const keel_unique_id& id, uint32_t rank, uint32_t world) {
    id_ = id;
    rank_ = rank;
    world_ = world;
  }

  keel_status obey(const std::string& command) {
    if (command == "join" && world_ != 0) {
      return keel_comm_init_rank(device_, &id_, rank_, world_, &options_, &comm_);
    }
    if (command == "join") return keel_comm_init_env(device_, &options_, &comm_);
    if (command == "split") {
      keel_comm part = {};
      const keel_status status = keel_comm_duplicate(comm_, &options_, &part);
      if (status == KEEL_OK) keel_comm_destroy(part);
      return status;
    }
    if (command == "all_reduce") {
      const keel_status called =
          keel_all_reduce(comm_, data_, data_, kBytes, KEEL_UINT8, KEEL_MAX, stream_);
      if (called != KEEL_OK) return called;
      return keel_stream_synchronize(stream_, KEEL_TIMEOUT_DEFAULT);
    }
    if (command == "recover") return keel_stream_recover(stream_, KEEL_TIMEOUT_DEFAULT);
    if (command == "short files") return limit(RLIMIT_FSIZE, 1000);
    if (command == "long files") return limit(RLIMIT_FSIZE, RLIM_INFINITY);
    if (command == "few files") return limit(RLIMIT_NOFILE, open_files());
    if (command.starts_with("few files but ")) {
      return limit(RLIMIT_NOFILE, open_files() + static_cast<rlim_t>(command.back() - '0'));
    }
    if (command == "timeout") return keel_comm_timeout_set(comm_, kSecond);
    if (command == "warned") return has_warned ? KEEL_OK : KEEL_NOT_FOUND;
    if (command == "destroy") return keel_comm_destroy(comm_);
    if (command == "many files") return limit(RLIMIT_NOFILE, 1024);
    if (command == "alloc") {
      void* more = nullptr;
      const keel_status status = keel_alloc(device_, KEEL_MEMORY_DEVICE, 256 << 20, &more);
      if (status == KEEL_OK) keel_free(device_, more);
      return status;
    }
    return KEEL_INTERNAL;
  }

 private:
  keel_device device_ = {};
  keel_stream stream_ = {};
  keel_comm comm_ = {};
  keel_comm_options options_ = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
  void* data_ = nullptr;
  keel_unique_id id_ = {};
  uint32_t rank_ = 0;
  uint32_t world_ = 0;  // 0: the ranks join by the environment
};

// Arguments: rank, world, bootstrap address, "staged", "hosts" (each rank is a host; rank 0 says
// the id, and the others hear it) or empty.
int run_worker(const std::vector<std::string>& arguments) {
  keel::testing::enter_job(arguments[0], arguments[1], arguments[2]);
  if (arguments[3] == "hosts") {
    setenv("KEEL_HOST_ID", arguments[0].c_str(), 1);
    setenv("KEEL_INTERFACE", "127.0.0.1", 1);
  }
  auto init = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  init.default_timeout_ns = 50 * kSecond;
  init.backends = "cpu";
  if (keel_init(&init) != KEEL_OK) return 1;
  if (keel_set_log(KEEL_LOG_WARNING, note_warning, nullptr) != KEEL_OK) return 1;
  {
    Rank rank(arguments[3] == "staged");
    if (arguments[3] == "hosts") {
      keel_unique_id id = {};
      if (arguments[0] != "0") {
        keel::testing::hear().copy(id.text, sizeof(id.text) - 1);
      } else if (keel_unique_id_create(&id) == KEEL_OK) {
        keel::testing::say(id.text);
      }
      rank.use_id(id, static_cast<uint32_t>(std::stoul(arguments[0])),
                  static_cast<uint32_t>(std::stoul(arguments[1])));
    }
    keel::testing::answer_commands([&](const std::string& command) { return rank.obey(command); });
  }
  return keel_shutdown() == KEEL_OK ? 0 : 2;
}

// ---- those who tell them --------------------------------------------------------

// The undefined behaviour sanitizer opens a pipe to check for an object at an address.
#if defined(__SANITIZE_ADDRESS__)
#define SKIP_WHERE_CHECKS_OPEN_FILES() \
  GTEST_SKIP() << "the undefined behaviour sanitizer opens files where this process may not"
#else
#define SKIP_WHERE_CHECKS_OPEN_FILES() static_cast<void>(0)
#endif

class ProcessLimits : public testing::Test {
 protected:
  void start(const std::string& kind = "") {
    static int rendezvous_count = 0;
    start_at("limits-" + std::to_string(getpid()) + "-" + std::to_string(++rendezvous_count), kind,
             2);
  }
  // Three ranks on a host each.
  void start_hosts() {
    start_at("", "hosts", 3);
    const std::string id = ranks_[0].read_line();
    for (const size_t rank : {1, 2}) ranks_[rank].write_line(id);
  }
  void start_at(const std::string& rendezvous, const std::string& kind, uint32_t world) {
    for (uint32_t rank = 0; rank < world; ++rank) {
      ranks_.emplace_back(
          "rank",
          std::vector<std::string>{std::to_string(rank), std::to_string(world), rendezvous, kind});
    }
  }
  // Sends |command| to all ranks at once; returns all answers.
  std::vector<std::string> ask_all(const std::string& command) {
    for (ChildProcess& rank : ranks_) rank.write_line(command);
    std::vector<std::string> answers;
    for (ChildProcess& rank : ranks_) answers.push_back(rank.read_line());
    return answers;
  }
  void expect_all(const std::string& command) {
    EXPECT_EQ(ask_all(command), std::vector<std::string>(ranks_.size(), "KEEL_OK")) << command;
  }
  std::string ask(uint32_t rank, const std::string& command) {
    ranks_[rank].write_line(command);
    return ranks_[rank].read_line();
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

  std::vector<ChildProcess> ranks_;
};

TEST_F(ProcessLimits, MemoryThatFitsNoFileIsRefused) {
  start();
  EXPECT_EQ(ask(0, "short files"), "KEEL_OK");
  const std::string said = ask(0, "alloc");
  EXPECT_SAYS("KEEL_OUT_OF_MEMORY", said);
  EXPECT_SAYS("ulimit -f", said);
  EXPECT_EQ(ask(0, "long files"), "KEEL_OK");
  EXPECT_EQ(ask(0, "alloc"), "KEEL_OK");
}

TEST_F(ProcessLimits, ACommunicatorThatFitsNoFileIsRefusedToAll) {
  start();
  EXPECT_EQ(ask(0, "short files"), "KEEL_OK");
  const auto [first, second] = ask_both("join");
  for (const std::string& said : {first, second}) {
    EXPECT_SAYS("KEEL_OUT_OF_MEMORY", said);
    EXPECT_SAYS("ulimit -f", said);
  }
  EXPECT_EQ(ask(0, "long files"), "KEEL_OK");
  expect_both("join");
  expect_both("all_reduce");
}

TEST_F(ProcessLimits, WindowsThatFitNoFileFailTheOperationAndNoMore) {
  start("staged");
  expect_both("join");
  EXPECT_EQ(ask(1, "short files"), "KEEL_OK");
  const auto [first, second] = ask_both("all_reduce");
  EXPECT_SAYS("KEEL_RANK_FAILED", first);
  EXPECT_SAYS("rank 1 (", first);
  EXPECT_SAYS("ulimit -f", first);
  EXPECT_SAYS("ulimit -f", second);
  EXPECT_EQ(ask(1, "long files"), "KEEL_OK");
  expect_both("recover");
  expect_both("all_reduce");
}

TEST_F(ProcessLimits, ARankThatMayOpenNoFileDoesNotMeetAndMayComeAgain) {
  SKIP_WHERE_CHECKS_OPEN_FILES();
  start();
  EXPECT_EQ(ask(1, "few files"), "KEEL_OK");
  ranks_[0].write_line("join");
  const std::string said = ask(1, "join");
  EXPECT_SAYS("KEEL_UNAVAILABLE", said);
  EXPECT_SAYS("RLIMIT_NOFILE", said);
  EXPECT_EQ(ask(1, "many files"), "KEEL_OK");
  EXPECT_EQ(ask(1, "join"), "KEEL_OK");
  EXPECT_EQ(ranks_[0].read_line(), "KEEL_OK");
  expect_both("all_reduce");
}

// With any number of spare descriptors: the rank does not meet, and may retry; or the join fails
// for both ranks at once, long before their deadline of 40 s; or all is well.
TEST_F(ProcessLimits, ARankThatMayOpenFewFilesHoldsNobody) {
  SKIP_WHERE_CHECKS_OPEN_FILES();
  bool is_enough = false;
  for (int spare = 1; spare < 10 && !is_enough; ++spare) {
    SCOPED_TRACE(spare);
    ranks_.clear();
    start();
    EXPECT_EQ(ask(1, "few files but " + std::to_string(spare)), "KEEL_OK");
    const auto begun = std::chrono::steady_clock::now();
    ranks_[0].write_line("join");
    std::string said = ask(1, "join");
    is_enough = said == "KEEL_OK";
    if (!is_enough) {
      EXPECT_SAYS("RLIMIT_NOFILE", said);
    }
    if (keel::testing::says("KEEL_UNAVAILABLE: rank 1 of 2, ", said)) {
      EXPECT_EQ(ask(1, "many files"), "KEEL_OK");
      said = ask(1, "join");
    }
    const std::string other = ranks_[0].read_line();
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(30));
    if (said == "KEEL_OK") {
      EXPECT_EQ(other, "KEEL_OK");
    } else {
      EXPECT_SAYS("KEEL_RANK_FAILED: rank 1 (", other);
      EXPECT_SAYS("RLIMIT_NOFILE", other);
    }
  }
  EXPECT_TRUE(is_enough);
}

// The rank cannot fetch the segment of the first rank, alive and well.
TEST_F(ProcessLimits, ARankThatMayOpenNoFileIsTheOneThatFailsASplit) {
  SKIP_WHERE_CHECKS_OPEN_FILES();
  start();
  expect_both("join");
  EXPECT_EQ(ask(1, "few files"), "KEEL_OK");
  const auto [first, second] = ask_both("split");
  EXPECT_SAYS("KEEL_RANK_FAILED: rank 1 (", first);
  EXPECT_SAYS("could not enter the new communicator", first);
  EXPECT_SAYS("RLIMIT_NOFILE", first);
  EXPECT_SAYS("KEEL_UNAVAILABLE", second);
  EXPECT_SAYS("RLIMIT_NOFILE", second);
  EXPECT_EQ(ask(1, "many files"), "KEEL_OK");
  expect_both("split");
}

// The rank cannot map the memory of its peer.
TEST_F(ProcessLimits, ARankThatMayOpenNoFileIsNamedToTheOther) {
  SKIP_WHERE_CHECKS_OPEN_FILES();
  start();
  expect_both("join");
  EXPECT_EQ(ask(1, "few files"), "KEEL_OK");
  const auto [first, second] = ask_both("all_reduce");
  EXPECT_SAYS("rank 1 (", first);
  EXPECT_SAYS("RLIMIT_NOFILE", first);
  EXPECT_SAYS("RLIMIT_NOFILE", second);
}

// ---- hosts ----------------------------------------------------------------------

// Whether a connection waits in the queue of a port of process |pid|.
bool has_queued_connection(pid_t pid) {
  std::set<std::string> sockets;
  std::error_code error;
  const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
  for (const auto& each : std::filesystem::directory_iterator(folder, error)) {
    const std::string target = std::filesystem::read_symlink(each, error);
    if (target.starts_with("socket:[")) sockets.insert(target.substr(8, target.size() - 9));
  }
  std::ifstream table("/proc/net/tcp");
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::string number, local, remote, state, queues, timer, repeats, user, probes, inode;
    words >> number >> local >> remote >> state >> queues >> timer >> repeats >> user >> probes >>
        inode;
    const bool listens = state == "0A";
    if (listens && !queues.ends_with(":00000000") && sockets.count(inode) != 0) return true;
  }
  return false;
}

// How often Keel's service thread of process |pid| has begun to wait.
long waits_of_service_thread(pid_t pid) {
  std::error_code error;
  const std::string folder = "/proc/" + std::to_string(pid) + "/task";
  for (const auto& each : std::filesystem::directory_iterator(folder, error)) {
    std::ifstream status(each.path() / "status");
    bool is_found = false;
    for (std::string line; std::getline(status, line);) {
      is_found = is_found || line == "Name:\tkeel-service";
      constexpr std::string_view kWaits = "voluntary_ctxt_switches:";
      if (is_found && line.starts_with(kWaits)) return std::stol(line.substr(kWaits.size()));
    }
  }
  return -1;
}

TEST_F(ProcessLimits, RankThatMayOpenNoConnectionIsNamedToAllHosts) {
  SKIP_WHERE_CHECKS_OPEN_FILES();
  start_hosts();
  expect_all("join");
  EXPECT_EQ(ask(1, "few files"), "KEEL_OK");
  const std::vector<std::string> answers = ask_all("all_reduce");
  for (const std::string& said : answers) EXPECT_SAYS("RLIMIT_NOFILE", said);
  for (const size_t rank : {0, 2}) {
    EXPECT_SAYS("KEEL_RANK_FAILED", answers[rank]);
    EXPECT_SAYS("rank 1 (", answers[rank]);
  }
  expect_all("recover");
  expect_all("destroy");
}

TEST_F(ProcessLimits, RankThatMayAcceptNoConnectionForATimeDisturbsNobody) {
  SKIP_WHERE_CHECKS_OPEN_FILES();
  start_hosts();
  expect_all("join");
  EXPECT_EQ(ask(0, "few files"), "KEEL_OK");
  for (ChildProcess& rank : ranks_) rank.write_line("all_reduce");
  while (!has_queued_connection(ranks_[0].pid())) sched_yield();
  // A thread that begins to wait now has tried to accept the connection.
  const long waits = waits_of_service_thread(ranks_[0].pid());
  ASSERT_GE(waits, 0);
  while (waits_of_service_thread(ranks_[0].pid()) == waits) sched_yield();
  EXPECT_TRUE(has_queued_connection(ranks_[0].pid()));
  rlimit limits = {};
  ASSERT_EQ(prlimit(ranks_[0].pid(), RLIMIT_NOFILE, nullptr, &limits), 0);
  limits.rlim_cur = std::min<rlim_t>(1024, limits.rlim_max);
  ASSERT_EQ(prlimit(ranks_[0].pid(), RLIMIT_NOFILE, &limits, nullptr), 0);
  for (ChildProcess& rank : ranks_) EXPECT_EQ(rank.read_line(), "KEEL_OK");
}

TEST_F(ProcessLimits, RankThatMayAcceptNoConnectionHoldsNobody) {
  SKIP_WHERE_CHECKS_OPEN_FILES();
  start_hosts();
  expect_all("join");
  expect_all("timeout");
  EXPECT_EQ(ask(0, "few files"), "KEEL_OK");
  for (const std::string& said : ask_all("all_reduce")) EXPECT_SAYS("KEEL_TIMED_OUT", said);
  EXPECT_EQ(ask(0, "warned"), "KEEL_OK") << "the others cannot know why it does not answer";
  expect_all("recover");
  expect_all("destroy");
}

}  // namespace

const std::map<std::string, keel::testing::Worker>& keel::testing::workers() {
  static const std::map<std::string, Worker> workers = {{"rank", run_worker}};
  return workers;
}
