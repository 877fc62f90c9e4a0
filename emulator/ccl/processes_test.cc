// SPDX-License-Identifier: Apache-2.0
// Ranks in several processes: rank 0 and the bootstrap root in this process, the other ranks in
// workers.

#include <cstring>

#include "base/ipc/socket.h"
#include "collectives/bootstrap/testing/child_process.h"
#include "emulator/ccl/bootstrap_root.h"
#include "emulator/ccl/communicator.h"
#include "emulator/ccl/link.h"
#include "emulator/testing/emulator_test.h"

namespace keel::emulator::ccl {
namespace {

using keel::testing::ChildProcess;
using keel::testing::hear;
using keel::testing::say;
using Words = std::vector<uint32_t>;

constexpr uint32_t kWorld = 3;
constexpr uint32_t kUntouched = 7;
constexpr uint64_t kLarge = 1 << 20;  // words: more than a socket buffers

std::string hex(const UniqueId& id) {
  std::string text;
  for (const std::byte each : id) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", std::to_integer<unsigned>(each));
    text += digits;
  }
  return text;
}

UniqueId id_of(const std::string& text) {
  UniqueId id = {};
  for (size_t i = 0; i < id.size(); ++i) {
    id[i] = static_cast<std::byte>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  }
  return id;
}

struct Step {
  Collective collective;
  uint64_t send;  // words
  uint64_t count;
  Words results[kWorld];
};
// Rank r sends r * 10, r * 10 + 1, ...; the root is rank 1.
const Step kSteps[] = {
    {Collective::kAllReduce, 2, 2, {{30, 33}, {30, 33}, {30, 33}}},
    {Collective::kReduce, 2, 2, {{7, 7}, {30, 33}, {7, 7}}},
    {Collective::kBroadcast, 2, 2, {{10, 11}, {10, 11}, {10, 11}}},
    {Collective::kAllGather, 1, 1, {{0, 10, 20}, {0, 10, 20}, {0, 10, 20}}},
    {Collective::kReduceScatter, 3, 1, {{30}, {33}, {36}}},
    {Collective::kAllToAll, 3, 1, {{0, 10, 20}, {1, 11, 21}, {2, 12, 22}}},
};

// A rank with its own device.
class Rank {
 public:
  Rank(const UniqueId& id, uint32_t rank, Time deadline = test_timeout()) : rank_(rank) {
    expect_ok(Device::create({}, &device_));
    expect_ok(Stream::create(device_, 0, &stream_));
    met_ = Communicator::create(id, device_, rank, kWorld, deadline, kUsualTypes, &communicator_);
  }
  const Status& met() const { return met_; }
  Communicator& communicator() { return *communicator_; }
  Stream& stream() { return *stream_; }

  Address filled(const Words& words) {
    Address address = 0;
    expect_ok(device_->allocate(words.size() * 4, &address));
    expect_ok(stream_->copy_from_host(address, words.data(), words.size() * 4));
    return address;
  }
  Words read(Address address, size_t words) {
    Words values(words);
    expect_ok(stream_->copy_to_host(values.data(), address, words * 4));
    expect_ok(stream_->synchronize(test_timeout()));
    return values;
  }
  static Call call(Collective collective, Address send, Address receive, uint64_t count,
                   uint32_t root) {
    Call made;
    made.collective = collective;
    made.type = Type::kUint32;
    made.root = root;
    made.send = send;
    made.receive = receive;
    made.count = count;
    return made;
  }
  Status run(const Call& call) { return communicator_->run(*stream_, {&call, 1}); }

  void run_steps() {
    for (const Step& step : kSteps) {
      Words words;
      for (uint32_t i = 0; i < step.send; ++i) words.push_back(rank_ * 10 + i);
      const Words& expected = step.results[rank_];
      const Address receive = filled(Words(expected.size(), kUntouched));
      expect_ok(run(call(step.collective, filled(words), receive, step.count, 1)));
      EXPECT_EQ(read(receive, expected.size()), expected)
          << static_cast<int>(step.collective) << ", rank " << rank_;
    }
  }
  // In-place all-reduces, back to back.
  void run_large() {
    const Address data = filled(Words(kLarge, rank_ + 1));
    for (int i = 0; i < 3; ++i) expect_ok(run(call(Collective::kAllReduce, data, data, kLarge, 0)));
    EXPECT_EQ(read(data, kLarge), Words(kLarge, 6 * 3 * 3));
  }
  // Sends from each rank to each rank, in one group.
  void run_messages() {
    const Address send = filled({rank_ * 10, rank_ * 10 + 1, rank_ * 10 + 2});
    const Address receive = filled({kUntouched, kUntouched, kUntouched});
    std::vector<Call> calls;
    for (uint32_t peer = 0; peer < kWorld; ++peer) {
      calls.push_back(call(Collective::kReceive, 0, receive + 4 * peer, 1, peer));
      calls.push_back(call(Collective::kSend, send + 4 * peer, 0, 1, peer));
    }
    expect_ok(communicator_->run(*stream_, calls));
    EXPECT_EQ(read(receive, 3), (Words{rank_, 10 + rank_, 20 + rank_}));
  }
  // Returns the asynchronous error of the rank after a failure.
  Status error() {
    const Time until = test_timeout();
    while (communicator_->async_error().ok() && Clock::now() < until) std::this_thread::yield();
    return communicator_->async_error();
  }

 private:
  const uint32_t rank_;
  std::shared_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Communicator> communicator_;
  Status met_;
};

// ---- workers -----------------------------------------------------------------------

// Reports how joining ended, executes the commands it reads, and exits with failed expectations.
int rank_worker(const std::vector<std::string>& arguments) {
  Rank rank(id_of(arguments.at(0)), static_cast<uint32_t>(std::stoi(arguments.at(1))));
  say(rank.met().ok() ? "met" : rank.met().text());
  if (!rank.met().ok()) return 0;
  const Address data = rank.filled({1, 2});
  for (std::string order = hear(); !order.empty(); order = hear()) {
    if (order == "steps") rank.run_steps();
    if (order == "large") rank.run_large();
    if (order == "messages") rank.run_messages();
    if (order == "one") {
      expect_ok(rank.run(Rank::call(Collective::kAllReduce, data, data, 1, 0)));
      say("called");
    }
    if (order == "error") say(rank.error().text());
    if (order == "abort") {
      rank.communicator().abort();
      say(rank.stream().synchronize(test_timeout()).text());
    }
  }
  return ::testing::Test::HasFailure() ? 1 : 0;
}

ChildProcess worker(const UniqueId& id, uint32_t rank) {
  return {"rank", {hex(id), std::to_string(rank)}};
}

class CclProcessesTest : public EmulatorTest {
 protected:
  void SetUp() override { expect_ok(open_bootstrap_root()); }
  // Joins this process and two workers.
  void meet() {
    id_ = Clique::make_id();
    for (uint32_t rank = 1; rank < kWorld; ++rank) workers_.push_back(worker(id_, rank));
    self_ = std::make_unique<Rank>(id_, 0);
    expect_ok(self_->met());
    for (ChildProcess& each : workers_) ASSERT_EQ(each.read_line(), "met");
  }
  void tell(const std::string& order) {
    for (ChildProcess& each : workers_) each.write_line(order);
  }
  void end() {
    tell("");
    for (ChildProcess& each : workers_) EXPECT_EQ(each.wait(), 0);
  }

  UniqueId id_ = {};
  std::vector<ChildProcess> workers_;
  std::unique_ptr<Rank> self_;
};

TEST_F(CclProcessesTest, MovesAndReduces) {
  ASSERT_NO_FATAL_FAILURE(meet());
  tell("steps");
  self_->run_steps();
  tell("messages");
  self_->run_messages();
  tell("large");
  self_->run_large();
  tell("steps");
  self_->run_steps();
  end();
}

TEST_F(CclProcessesTest, AKilledRankIsToldOf) {
  ASSERT_NO_FATAL_FAILURE(meet());
  const Address data = self_->filled({1});
  expect_ok(self_->run(Rank::call(Collective::kAllReduce, data, data, 1, 0)));
  workers_[1].write_line("one");
  ASSERT_EQ(workers_[1].read_line(), "called");
  workers_[0].kill();
  expect_fails(Code::kUnavailable, "rank 1 has aborted", self_->error());
  workers_[1].write_line("error");
  EXPECT_EQ(workers_[1].read_line(), "rank 1 has aborted");
  // The remaining ranks hang until they abort.
  EXPECT_EQ(self_->stream().query().code(), Code::kNotReady);
  self_->communicator().abort();
  expect_fails(Code::kCancelled, "aborted", self_->stream().synchronize(test_timeout()));
  workers_[1].write_line("abort");
  EXPECT_EQ(workers_[1].read_line(), "the communicator was aborted");
}

TEST_F(CclProcessesTest, CallsThatDoNotMatchFailEverywhere) {
  ASSERT_NO_FATAL_FAILURE(meet());
  tell("one");
  const Address data = self_->filled({1, 2});
  expect_ok(self_->run(Rank::call(Collective::kAllReduce, data, data, 2, 0)));
  expect_fails(Code::kInvalidArgument, "do not fit", self_->stream().synchronize(test_timeout()));
  for (ChildProcess& each : workers_) {
    EXPECT_EQ(each.read_line(), "called");
    each.write_line("error");
    EXPECT_NE(each.read_line().find("do not fit"), std::string::npos);
  }
}

TEST_F(CclProcessesTest, WhoeverGivesUpWaitingEndsIt) {
  const UniqueId id = Clique::make_id();
  ChildProcess other = worker(id, 1);
  Rank self(id, 0, Clock::now() + std::chrono::milliseconds(500));
  expect_fails(Code::kTimedOut, "did not come in time", self.met());
  const std::string said = other.read_line();
  EXPECT_TRUE(said == "a rank has given up waiting" || said == "the unique id was used already")
      << said;
  // A rank that is killed before all have joined.
  const UniqueId next = Clique::make_id();
  ChildProcess killed = worker(next, 1);
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    killed.kill();
  });
  ChildProcess third = worker(next, 2);
  killer.join();
  (void)killed.wait();
  // The killed rank may have joined or not, and its end may be known or not: no rank waits forever,
  // and both ranks see the same result.
  Rank again(next, 0, Clock::now() + std::chrono::seconds(1));
  EXPECT_EQ(third.read_line() == "met", again.met().ok());
}

TEST_F(CclProcessesTest, StrangersHarmNothing) {
  for (const size_t bytes : {0, 3, 16, 200, 1000}) {
    const FileDescriptor socket = Link::connect_to(own_root_address());
    ASSERT_TRUE(socket);
    const std::vector<char> rubbish(bytes, 'x');
    EXPECT_TRUE(sockets::send_all(socket.get(), rubbish.data(), bytes));
  }
  Link link(Link::connect_to(own_root_address()));
  link.send(Frame{.kind = MessageKind::kHello, .rank = 5, .world = 2, .id = Clique::make_id()});
  Message answer;
  ASSERT_TRUE(link.receive(&answer));
  expect_fails(Code::kInvalidArgument, "rank 5 of 2", answer.status());
  ASSERT_NO_FATAL_FAILURE(meet());
  tell("messages");
  self_->run_messages();
  end();
}

}  // namespace
}  // namespace keel::emulator::ccl

const std::map<std::string, keel::testing::Worker>& keel::testing::workers() {
  static const std::map<std::string, Worker> all = {{"rank", keel::emulator::ccl::rank_worker}};
  return all;
}
