// SPDX-License-Identifier: Apache-2.0
// Links between hosts that lose packets, are slow, or carry nothing in one direction, and ranks
// that read late. Losses and delays accuse nobody; a silent direction is named on every rank.
#include <gtest/gtest.h>
#include <keel/keel.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "collectives/bootstrap/testing/child_process.h"
#include "collectives/bootstrap/testing/full_window.h"
#include "collectives/bootstrap/testing/variable.h"
#include "collectives/testing/byte_relay.h"
#include "collectives/testing/packet_switch.h"
#include "collectives/testing/wire_test.h"

namespace keel::testing {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

// ---- the workers ----------------------------------------------------------------

struct Rank {
  uint32_t rank = 0;
  uint32_t world = 0;
  keel_device device = {};
  keel_comm comm = {};
  keel_stream stream = {};
};

std::string told(keel_status status) {
  return std::string(keel_status_name(status)) + " " + keel_last_error();
}

// Sums |count| numbers over the ranks. |awaits_full|: prints "full" once peers have not read for
// long; by UCX, whose long messages wait for the peer's receive, at once. Returns "right", or what
// is wrong.
std::string sum(const Rank& self, uint64_t count, bool awaits_full) {
  std::vector<int32_t> values(count);
  for (uint64_t i = 0; i < count; ++i) {
    values[i] = static_cast<int32_t>((i % 1009 + 1) << (4 * self.rank));
  }
  void* data = nullptr;
  const uint64_t bytes = count * sizeof(int32_t);
  keel_status status = keel_alloc(self.device, KEEL_MEMORY_DEVICE, bytes, &data);
  if (status == KEEL_OK) {
    status = keel_copy(self.stream, self.device, data, KEEL_HOST, values.data(), bytes);
  }
  if (status == KEEL_OK) {
    status = keel_all_reduce(self.comm, data, data, count, KEEL_INT32, KEEL_SUM, self.stream);
  }
  const char* const wire = getenv("KEEL_WIRE");
  const bool has_window = wire == nullptr || std::string(wire) == "tcp";
  while (awaits_full && has_window && full_window_probes() < 3 &&
         keel_stream_query(self.stream) == KEEL_NOT_READY) {
    usleep(1000);
  }
  if (awaits_full) say("full");
  if (status == KEEL_OK) {
    status = keel_copy(self.stream, KEEL_HOST, values.data(), self.device, data, bytes);
  }
  if (status == KEEL_OK) status = keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT);
  if (status != KEEL_OK) return told(status);
  int32_t factor = 0;
  for (uint32_t rank = 0; rank < self.world; ++rank) factor += 1 << (4 * rank);
  for (uint64_t i = 0; i < count; ++i) {
    if (values[i] != static_cast<int32_t>(i % 1009 + 1) * factor) return "a wrong sum";
  }
  keel_free(self.device, data);
  return "right";
}

std::string obey(const Rank& self, const std::string& line) {
  std::istringstream words(line);
  std::string command;
  uint64_t number = 0;
  uint64_t times = 1;
  words >> command >> number >> times;
  if (command == "timeout") {
    return told(keel_comm_timeout_set(self.comm, static_cast<int64_t>(number) * 1'000'000));
  }
  std::string result = "right";
  for (uint64_t i = 0; i < times && result == "right"; ++i) {
    result = sum(self, number, command == "early");
  }
  return result;
}

// Arguments: rank, world, host, namespace or "-", port of a relay or "-". Standard input: the id,
// unless rank 0 makes it, and commands.
int run_rank(const std::vector<std::string>& arguments) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(100);
  Rank self;
  self.rank = static_cast<uint32_t>(std::stoul(arguments[0]));
  self.world = static_cast<uint32_t>(std::stoul(arguments[1]));
  setenv("KEEL_HOST_ID", arguments[2].c_str(), 1);
  setenv("KEEL_INTERFACE", "127.0.0.1", 1);
  if (arguments[3] != "-") {
    if (!PacketSwitch::enter(arguments[3])) return 4;
    setenv("KEEL_INTERFACE", "wire", 1);
  }
  if (arguments[4] != "-") ByteRelay::use(arguments[4]);
  auto init = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  init.default_timeout_ns = 50 * kSecond;
  init.backends = "cpu";
  if (keel_init(&init) != KEEL_OK) return 2;
  keel_unique_id id = {};
  if (self.rank == 0) {
    const keel_status made = keel_unique_id_create(&id);
    say(made == KEEL_OK ? id.text : told(made));
  } else {
    hear().copy(id.text, sizeof(id.text) - 1);
  }
  keel_status status = keel_device_get(0, &self.device);
  if (status == KEEL_OK) status = keel_stream_create(self.device, 0, &self.stream);
  if (status == KEEL_OK) {
    status = keel_comm_init_rank(self.device, &id, self.rank, self.world, nullptr, &self.comm);
  }
  say(status == KEEL_OK ? "ready" : told(status));
  for (std::string line = hear(); !line.empty(); line = hear()) say(obey(self, line));
  return 0;
}

// ---- the jobs -------------------------------------------------------------------

// |hosts|: the host of each rank, one letter each, 'a' the first.
class Job {
 public:
  explicit Job(const std::string& hosts, const PacketSwitch* network = nullptr,
               const ByteRelay* relay = nullptr) {
    for (size_t rank = 0; rank < hosts.size(); ++rank) {
      const auto host = static_cast<uint32_t>(hosts[rank] - 'a');
      // All connections between two hosts are made by the ranks of the second.
      ranks_.emplace_back(
          "rank", std::vector<std::string>{std::to_string(rank), std::to_string(hosts.size()),
                                           hosts.substr(rank, 1),
                                           network == nullptr ? "-" : network->namespace_of(host),
                                           relay == nullptr || host == 0 ? "-" : relay->port()});
    }
    const std::string id = ranks_[0].read_line();
    for (size_t rank = 1; rank < hosts.size(); ++rank) ranks_[rank].write_line(id);
    for (ChildProcess& rank : ranks_) EXPECT_EQ(rank.read_line(), "ready");
  }
  ChildProcess& operator[](size_t rank) { return ranks_[rank]; }
  void tell(const std::string& command) {
    for (ChildProcess& rank : ranks_) rank.write_line(command);
  }
  void expect_right(const std::string& command) {
    tell(command);
    for (ChildProcess& rank : ranks_) EXPECT_EQ(rank.read_line(), "right");
  }
  std::vector<std::string> answers() {
    std::vector<std::string> all;
    for (ChildProcess& rank : ranks_) all.push_back(rank.read_line());
    return all;
  }

 private:
  std::deque<ChildProcess> ranks_;
};

void expect_matches(const std::vector<std::string>& answers, const std::string& pattern) {
  for (size_t rank = 0; rank < answers.size(); ++rank) {
    EXPECT_TRUE(std::regex_search(answers[rank], std::regex(pattern)))
        << "rank " << rank << ": " << answers[rank];
  }
}

// ---- peers that read late -------------------------------------------------------

// The window of the connection is full for more than twice KEEL_TCP_SILENCE_MS.
TEST(LateRankTest, RankThatReadsLateIsNotAccused) {
  const Variable silence("KEEL_TCP_SILENCE_MS", "500");
  Job job("ab");
  job.expect_right("sum 16");
  job[1].write_line("early 8000000");
  EXPECT_EQ(job[1].read_line(), "full");
  job[0].write_line("sum 8000000");
  for (size_t rank = 0; rank < 2; ++rank) EXPECT_EQ(job[rank].read_line(), "right");
}

// ---- bytes: without privileges --------------------------------------------------

class RelayedLinkTest : public ::testing::Test {
 protected:
  // No byte crosses the link in one direction: ranks name what they waited for.
  static void expect_named_at_the_deadline(bool is_to_connecting) {
    ByteRelay relay;
    Job job("aabb", nullptr, &relay);
    job.expect_right("sum 20000");
    job.tell("timeout 1000");
    job.answers();
    relay.stop(is_to_connecting);
    job.tell("sum 20000");
    expect_matches(job.answers(),
                   "TIMED_OUT.*all_reduce, operation 1, .*rank [0-3] \\(cpu:0, process [0-9]+ on "
                   "host '[ab]'\\).* did not answer in time");
  }
};

TEST_F(RelayedLinkTest, DelayedBytesAccuseNobody) {
  const Variable silence("KEEL_TCP_SILENCE_MS", "500");
  ByteRelay relay;
  relay.delay(20);
  Job job("aabb", nullptr, &relay);
  job.expect_right("sum 16 5");
  job.expect_right("sum 20000 3");
}

TEST_F(RelayedLinkTest, SlowLinkAccusesNobody) {
  const Variable silence("KEEL_TCP_SILENCE_MS", "500");
  ByteRelay relay;
  Job job("aabb", nullptr, &relay);
  relay.slow(1000);
  job.expect_right("sum 200000 2");  // 400 KB in each direction of two lanes, twice
}

TEST_F(RelayedLinkTest, SilentDirectionIsNamedAtTheDeadline) {
  expect_named_at_the_deadline(/*is_to_connecting=*/true);
  expect_named_at_the_deadline(/*is_to_connecting=*/false);
}

// ---- packets: as root -----------------------------------------------------------

class PacketsTest : public WireTest {
 protected:
  void SetUp() override {
    WireTest::SetUp();
    if (IsSkipped()) return;
    setenv("UCX_NET_DEVICES", "wire", 1);
    const std::string why = PacketSwitch::why_not();
    if (!why.empty()) GTEST_SKIP() << "no network of packets here: " << why;
    std::string pattern = std::filesystem::temp_directory_path() / "keel-links-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    const std::string secret = folder_ / "secret";
    std::ofstream(secret) << "a secret of sixteen bytes";
    chmod(secret.c_str(), 0600);
    setenv("KEEL_SECRET_FILE", secret.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("KEEL_SECRET_FILE");
    unsetenv("UCX_NET_DEVICES");
    WireTest::TearDown();
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }
  // How the texts of a failure in all_reduce, operation 1, begin.
  static std::string operation() {
    return "RANK_FAILED.*all_reduce, operation 1, over " + std::string(GetParam()) +
           " with rank.*: ";
  }
  std::filesystem::path folder_;
};
INSTANTIATE_TEST_SUITE_P(Wires, PacketsTest, kWires, name_of_wire);

TEST_P(PacketsTest, LostPacketsAccuseNobody) {
  for (const uint32_t per_mille : {10, 50, 100}) {
    PacketSwitch network(2);
    for (const uint32_t host : {0, 1}) network.lose(host, 1 - host, per_mille);
    Job job("ab", &network);
    do {
      job.expect_right("sum 16 5");
      job.expect_right("sum 20000 2");
    } while (network.lost() == 0 && !HasFailure());
  }
}

TEST_P(PacketsTest, SlowLinkAccusesNobody) {
  const Variable silence("KEEL_TCP_SILENCE_MS", "500");
  PacketSwitch network(2);
  Job job("ab", &network);
  network.slow(0, 1, 1000);
  job.expect_right("sum 400000");
}

// The interfaces that KEEL_INTERFACE named get other names while an operation waits on them.
TEST_P(PacketsTest, RenamedInterfaceDisturbsNobody) {
  PacketSwitch network(2);
  Job job("ab", &network);
  job.expect_right("sum 16");
  job[1].write_line("early 4000000");
  EXPECT_EQ(job[1].read_line(), "full");
  for (const uint32_t host : {0, 1}) EXPECT_EQ(network.rename_interface(host, "w2"), "");
  job[0].write_line("sum 4000000");
  for (size_t rank = 0; rank < 2; ++rank) EXPECT_EQ(job[rank].read_line(), "right");
  job.expect_right("sum 20000 2");
}

// Nothing that host c sends arrives, and it hears the others.
TEST_P(PacketsTest, HostThatIsNotHeardIsNamedToAll) {
  const Variable silence("KEEL_TCP_SILENCE_MS", "500");
  PacketSwitch network(3);
  Job job("abc", &network);
  job.expect_right("sum 20000");
  for (const uint32_t to : {0, 1}) network.lose(2, to, 1000);
  job.tell("sum 20000");
  std::vector<std::string> answers = job.answers();
  expect_matches({answers.back()}, "RANK_FAILED.*rank 0 .*has failed: its link to rank 2: ");
  answers.pop_back();
  expect_matches(answers, operation() +
                              "rank 2 \\(cpu:0, process [0-9]+ on host 'c'\\) has failed: its "
                              "link to the server: ");
}

// Hosts b and c reach the server, and c does not reach b.
TEST_P(PacketsTest, SilentLinkOfTwoHostsIsNamedToAll) {
  const Variable silence("KEEL_TCP_SILENCE_MS", "500");
  PacketSwitch network(3);
  Job job("abc", &network);
  job.expect_right("sum 20000");
  network.lose(2, 1, 1000);
  job.tell("sum 20000");
  expect_matches(job.answers(),
                 operation() +
                     "the wire from rank [12] .* on host '[bc]'\\) to rank [12] .* on "
                     "host '[bc]'\\): ");
}

}  // namespace

const std::map<std::string, Worker>& workers() {
  static const std::map<std::string, Worker> all = {{"rank", run_rank}, {"has_ucx", has_ucx}};
  return all;
}

}  // namespace keel::testing
