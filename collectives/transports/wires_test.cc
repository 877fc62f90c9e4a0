// SPDX-License-Identifier: Apache-2.0
// The promises of wire.h, by each wire.
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "base/ipc/poll.h"
#include "base/ipc/socket.h"
#include "collectives/bootstrap/handshake.h"
#include "collectives/bootstrap/testing/full_window.h"
#include "collectives/bootstrap/testing/variable.h"
#include "collectives/transports/tcp/tcp_wires.h"
#include "collectives/transports/ucx/ucx_wires.h"
#include "collectives/transports/wire_choice.h"

namespace {

// Calls of operator new on threads that count.
thread_local bool t_counts = false;
std::atomic<uint64_t> g_allocations{0};

}  // namespace

void* operator new(size_t size) {
  if (t_counts) ++g_allocations;
  if (void* const memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace keel {
namespace {

constexpr int64_t kTestTimeoutNs = 60'000'000'000;
const HostSecret kSecret{std::string("a secret of sixteen bytes")};

// The hubs of a job's ranks, all in this process.
class Job {
 public:
  explicit Job(const std::string& wire, uint32_t world, const HostSecret& secret = kSecret,
               uint64_t epoch = 1, const std::string& address = "127.0.0.1:0")
      : is_ucx_(is_ucx(wire)) {
    SocketAddress any;
    EXPECT_TRUE(SocketAddress::parse(address, &any));
    table_.job.bytes.fill(3);
    table_.epoch = epoch;
    for (uint32_t rank = 0; rank < world; ++rank) {
      hubs_.emplace_back();
      EXPECT_TRUE(WireHub::open(any, secret, rank, &hubs_.back()).ok());
      HostRank each;
      each.peer.rank = rank;
      each.peer.device = "cpu:0";
      each.host = each.host_name = fmt::format("host{}", rank);
      each.address = hubs_.back()->address().text();
      table_.ranks.push_back(each);
    }
    for (const auto& hub : hubs_) hub->set_table(std::make_shared<const HostTable>(table_));
  }
  std::unique_ptr<WireSet> open(uint32_t rank, uint64_t context = 0) {
    std::unique_ptr<WireSet> wires;
    const Status status = is_ucx_ ? UcxWires::open(hubs_[rank], context, &wires)
                                  : TcpWires::open(hubs_[rank], context, &wires);
    EXPECT_TRUE(status.ok()) << status.text();
    return wires;
  }
  WireHub& hub(uint32_t rank) { return *hubs_[rank]; }
  HostTable& table() { return table_; }
  // The wires opened from now on take the ranks for ones of one machine.
  void put_on_one_machine() {
    for (HostRank& each : table_.ranks) each.peer.chip.boot.fill(9);
    for (const auto& hub : hubs_) hub->set_table(std::make_shared<const HostTable>(table_));
  }

 private:
  const bool is_ucx_;
  HostTable table_;
  std::vector<std::shared_ptr<WireHub>> hubs_;
};

// The parameter: a value of KEEL_WIRE.
class WiresTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!is_ucx(GetParam())) return;
    setenv("UCX_TLS", "tcp", 0);
    const UcxLibrary* library = nullptr;
    const Status opened = UcxLibrary::get(&library);
    if (!opened.ok()) GTEST_SKIP() << opened.text();
  }
};
INSTANTIATE_TEST_SUITE_P(Wires, WiresTest, ::testing::Values("tcp", "ucx"),
                         [](const auto& each) { return std::string(each.param); });

// Moves both ends until all |requests| are done, in one thread.
bool finish(std::vector<WireSet*> sets, const std::vector<const WireRequest*>& requests) {
  const Deadline deadline = Deadline::after(kTestTimeoutNs);
  while (true) {
    bool is_done = true;
    for (const WireRequest* each : requests) is_done = is_done && each->is_done();
    if (is_done) return true;
    if (deadline.passed()) return false;
    bool has_moved = false;
    for (WireSet* each : sets) has_moved = each->progress() || has_moved;
    if (!has_moved) sets[0]->park(1'000'000);
  }
}

std::vector<uint8_t> pattern(size_t size, uint32_t seed) {
  std::vector<uint8_t> bytes(size);
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<uint8_t>((i * 2654435761u + seed * 97u) >> 7);
  }
  return bytes;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kLargest = size_t{4} << 20;
#else
constexpr size_t kLargest = size_t{64} << 20;
#endif

void exchange_every_size(Job& job) {
  const auto low = job.open(0);
  const auto high = job.open(1);
  for (const size_t size :
       {size_t{0}, size_t{1}, size_t{47}, TcpLane::kStagingBytes - 48, TcpLane::kStagingBytes,
        TcpLane::kStagingBytes + 1, size_t{UcxPeer::kEagerBytes}, size_t{UcxPeer::kEagerBytes} + 1,
        size_t{1} << 20, kLargest}) {
    std::vector<uint8_t> down = pattern(size, 1);
    std::vector<uint8_t> up = pattern(size, 2);
    std::vector<uint8_t> got_down(size);
    std::vector<uint8_t> got_up(size);
    WireRequest requests[4];
    requests[0].set_memory(down.data(), size);
    requests[1].set_memory(up.data(), size);
    requests[2].set_memory(got_down.data(), size);
    requests[3].set_memory(got_up.data(), size);
    WireMark mark = {};
    mark[5] = static_cast<uint8_t>(size);
    requests[0].set_mark(mark);
    high->post_receive(0, 0, requests[2]);
    low->post_receive(1, 0, requests[3]);
    low->post_send(1, 0, requests[0]);
    high->post_send(0, 0, requests[1]);
    ASSERT_TRUE(
        finish({low.get(), high.get()}, {&requests[0], &requests[1], &requests[2], &requests[3]}))
        << size;
    for (const WireRequest& each : requests)
      ASSERT_TRUE(each.status().ok()) << each.status().text();
    EXPECT_EQ(got_down, down);
    EXPECT_EQ(got_up, up);
    EXPECT_EQ(requests[2].mark(), mark);
    EXPECT_EQ(requests[2].message_bytes(), size);
  }
  EXPECT_EQ(low->traffic().bytes_sent, high->traffic().bytes_received);
}

void exchange_pieces_and_short_messages(Job& job) {
  const auto low = job.open(0);
  const auto high = job.open(1);
  std::vector<uint8_t> source = pattern(100000, 5);
  std::vector<uint8_t> target(source.size());
  std::vector<iovec> out;
  std::vector<iovec> in;
  for (size_t i = 0; i < 100; ++i) out.push_back({source.data() + i * 1000, 1000});
  out.insert(out.begin() + 50, iovec{nullptr, 0});
  for (size_t i = 0; i < 200; ++i) in.push_back({target.data() + i * 500, 500});
  WireRequest send;
  WireRequest receive;
  send.set_pieces(out);
  receive.set_pieces(in);
  low->post_send(1, 2, send);
  high->post_receive(0, 2, receive);
  std::vector<uint32_t> numbers(500);
  std::vector<uint32_t> got(numbers.size());
  std::vector<WireRequest> sends(numbers.size());
  std::vector<WireRequest> receives(numbers.size());
  std::vector<const WireRequest*> all = {&send, &receive};
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<uint32_t>(i * i);
    sends[i].set_memory(&numbers[i], sizeof(uint32_t));
    receives[i].set_memory(&got[i], sizeof(uint32_t));
    low->post_send(1, 2, sends[i]);
    high->post_receive(0, 2, receives[i]);
    all.push_back(&sends[i]);
    all.push_back(&receives[i]);
  }
  ASSERT_TRUE(finish({low.get(), high.get()}, all));
  EXPECT_EQ(target, source);
  EXPECT_EQ(got, numbers);
}

// Its window is full for three times KEEL_TCP_SILENCE_MS, while its kernel acknowledges.
TEST(TcpWiresTest, PeerThatReadsLateIsNotAccused) {
  const keel::testing::Variable silence("KEEL_TCP_SILENCE_MS", "500");
  Job job("tcp", 2);
  const auto low = job.open(0);
  const auto high = job.open(1);
  std::vector<uint8_t> sent = pattern(32 << 20, 7);
  std::vector<uint8_t> received(sent.size());
  WireRequest send;
  send.set_memory(sent.data(), sent.size());
  high->post_send(0, 0, send);
  const Deadline deadline = Deadline::after(kTestTimeoutNs);
  while (keel::testing::full_window_probes() < 3 && !send.is_done() && !deadline.passed()) {
    if (!high->progress()) high->park(10'000'000);
  }
  ASSERT_FALSE(send.is_done()) << send.status().text();
  WireRequest receive;
  receive.set_memory(received.data(), received.size());
  low->post_receive(1, 0, receive);
  ASSERT_TRUE(finish({low.get(), high.get()}, {&send, &receive}));
  EXPECT_TRUE(send.status().ok()) << send.status().text();
  EXPECT_TRUE(receive.status().ok()) << receive.status().text();
  EXPECT_EQ(received, sent);
}

TEST(TcpWiresTest, RanksExchangeOverIpv6) {
  SocketAddress any;
  FileDescriptor port;
  SocketAddress bound;
  ASSERT_TRUE(SocketAddress::parse("[::1]:0", &any));
  if (!listen_tcp(any, &port, &bound).ok()) GTEST_SKIP() << "this host has no IPv6";
  Job job("tcp", 2, kSecret, /*epoch=*/1, "[::1]:0");
  exchange_every_size(job);
}

// On a thread of its own, which gets a network without routes.
TEST(TcpWiresTest, RankWithoutARouteSaysSoAtOnce) {
  Job job("tcp", 2);
  const std::atomic<bool> never{false};
  bool is_apart = false;
  Status status;
  std::thread([&] {
    is_apart = unshare(CLONE_NEWNET) == 0;
    FileDescriptor socket;
    if (is_apart)
      status = job.hub(1).connect(0, 0, 0, Deadline::after(kTestTimeoutNs), never, &socket);
  }).join();
  if (!is_apart) GTEST_SKIP() << "this process cannot make a network namespace (root)";
  EXPECT_EQ(status.code(), KEEL_RANK_FAILED);
  EXPECT_NE(std::string(status.text()).find("this host has no route to 127.0.0.1:"),
            std::string::npos)
      << status.text();
}

// The kernel's route would choose 127.0.0.1 of the two addresses in the peer's subnet.
TEST(TcpWiresTest, ConnectionLeavesFromTheAddressOfTheRank) {
  Job job("tcp", 2);
  const auto low = job.open(0);
  SocketAddress second;
  ASSERT_TRUE(SocketAddress::parse("127.0.0.2:0", &second));
  std::shared_ptr<WireHub> hub;
  ASSERT_TRUE(WireHub::open(second, kSecret, 1, &hub).ok());
  hub->set_table(std::make_shared<const HostTable>(job.table()));
  const std::atomic<bool> never{false};
  FileDescriptor socket;
  const Status status = hub->connect(0, 0, 0, Deadline::after(kTestTimeoutNs), never, &socket);
  ASSERT_TRUE(status.ok()) << status.text();
  SocketAddress own;
  ASSERT_EQ(sockets::own_address(socket.get(), &own), 0);
  EXPECT_EQ(own.host(), "127.0.0.2");
}

// The kernel accepts connections for a stopped process: this port's owner never looks. One deadline
// is before the limit of a handshake, one behind it.
TEST(TcpWiresTest, PeerThatDoesNotAnswerIsAwaitedUntilTheDeadline) {
  Job job("tcp", 2);
  SocketAddress any;
  SocketAddress bound;
  FileDescriptor port;
  ASSERT_TRUE(SocketAddress::parse("127.0.0.1:0", &any));
  ASSERT_TRUE(listen_tcp(any, &port, &bound).ok());
  job.table().ranks[0].address = bound.text();
  job.hub(1).set_table(std::make_shared<const HostTable>(job.table()));
  const auto connect = [&](const Deadline& deadline, const std::atomic<bool>& cancelled) {
    FileDescriptor socket;
    return job.hub(1).connect(0, 0, 0, deadline, cancelled, &socket).code();
  };
  const Deadline handshake = Deadline::after(kHandshakeNs);
  std::atomic<bool> is_cancelled{false};
  EXPECT_EQ(connect(Deadline::after(10'000'000), is_cancelled), KEEL_TIMED_OUT);
  EXPECT_FALSE(handshake.passed());
  FileDescriptor peer;
  ASSERT_EQ(sockets::accept(port.get(), 0, &peer), 0);
  peer = {};
  keel_status code = KEEL_OK;
  std::thread thread([&] { code = connect(Deadline::after(kTestTimeoutNs), is_cancelled); });
  EXPECT_GT(poll_until(port.get(), POLLIN, Deadline::Clock::now() + std::chrono::seconds(60)), 0);
  EXPECT_EQ(sockets::accept(port.get(), 0, &peer), 0);
  const auto limit = Deadline::Clock::now() + std::chrono::nanoseconds(kHandshakeNs * 11 / 10);
  EXPECT_EQ(poll_until(peer.get(), POLLRDHUP, limit), 0) << "the rank has closed the connection";
  is_cancelled = true;
  thread.join();
  EXPECT_EQ(code, KEEL_ABORTED);
}

TEST_P(WiresTest, MessagesOfEverySizeArriveInBothDirections) {
  Job job(GetParam(), 2);
  exchange_every_size(job);
}

TEST_P(WiresTest, ScatteredMemoryIsGatheredAndManyShortMessagesKeepTheirOrder) {
  Job job(GetParam(), 2);
  exchange_pieces_and_short_messages(job);
}

// Messages go in short turns: TcpLane::kSmallTurnBytes.
TEST_P(WiresTest, RanksOfOneMachineExchange) {
  Job job(GetParam(), 2);
  job.put_on_one_machine();
  exchange_every_size(job);
  exchange_pieces_and_short_messages(job);
}

// Each rank posts on all lanes to all peers, on a thread of its own that parks.
TEST_P(WiresTest, RanksOnThreadsExchangeOnAllLanes) {
  constexpr uint32_t kWorld = 3;
  constexpr uint32_t kRounds = 20;
  Job job(GetParam(), kWorld);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    threads.emplace_back([&job, rank] {
      const auto wires = job.open(rank, 77);
      const Deadline deadline = Deadline::after(kTestTimeoutNs);
      for (uint32_t round = 0; round < kRounds; ++round) {
        struct Exchange {
          std::vector<uint8_t> out, in;
          WireRequest send, receive;
        };
        std::vector<std::unique_ptr<Exchange>> all;
        for (uint32_t peer = 0; peer < kWorld; ++peer) {
          for (uint32_t lane = 0; lane < WireSet::kLanes && peer != rank; ++lane) {
            auto each = std::make_unique<Exchange>();
            each->out = pattern((round * 7919u) % 70000u, rank * 100 + peer * 10 + lane + round);
            each->in.resize(each->out.size());
            each->send.set_memory(each->out.data(), each->out.size());
            each->receive.set_memory(each->in.data(), each->in.size());
            wires->post_receive(peer, lane, each->receive);
            wires->post_send(peer, lane, each->send);
            all.push_back(std::move(each));
          }
        }
        for (bool is_done = false; !is_done;) {
          ASSERT_FALSE(deadline.passed());
          if (!wires->progress()) wires->park(20'000'000);
          is_done = true;
          for (const auto& each : all) {
            is_done = is_done && each->send.is_done() && each->receive.is_done();
          }
        }
        size_t next = 0;
        for (uint32_t peer = 0; peer < kWorld; ++peer) {
          for (uint32_t lane = 0; lane < WireSet::kLanes && peer != rank; ++lane) {
            const Exchange& each = *all[next++];
            ASSERT_TRUE(each.receive.status().ok()) << each.receive.status().text();
            ASSERT_EQ(each.in, pattern(each.in.size(), peer * 100 + rank * 10 + lane + round));
          }
        }
      }
    });
  }
  for (std::thread& each : threads) each.join();
}

TEST_P(WiresTest, SteadyStateAllocatesNothing) {
  Job job(GetParam(), 2);
  const auto low = job.open(0);
  const auto high = job.open(1);
  std::vector<uint8_t> source = pattern(200000, 1);
  std::vector<uint8_t> target(source.size());
  const auto move_once = [&] {
    WireRequest send;
    WireRequest receive;
    send.set_memory(source.data(), source.size());
    receive.set_memory(target.data(), target.size());
    high->post_send(0, 0, send);
    low->post_receive(1, 0, receive);
    const Deadline deadline = Deadline::after(kTestTimeoutNs);
    while (!(send.is_done() && receive.is_done()) && !deadline.passed()) {
      const bool has_moved = high->progress();
      if (!low->progress() && !has_moved) low->park(1'000'000);
    }
    return send.is_done() && receive.is_done();
  };
  ASSERT_TRUE(move_once());
  g_allocations = 0;
  t_counts = true;
  bool is_done = true;
  for (int i = 0; i < 50; ++i) is_done = move_once() && is_done;
  t_counts = false;
  EXPECT_TRUE(is_done);
  EXPECT_EQ(g_allocations, 0u);
}

TEST_P(WiresTest, MessageOfAnotherSizeIsReportedAndTheWireGoesOn) {
  Job job(GetParam(), 2);
  const auto low = job.open(0);
  const auto high = job.open(1);
  for (const auto& [sent, expected] :
       std::vector<std::pair<size_t, size_t>>{{100000, 10}, {10, 100000}, {0, 1}, {1, 0}}) {
    std::vector<uint8_t> source = pattern(sent, 1);
    std::vector<uint8_t> target(expected);
    WireRequest send;
    WireRequest receive;
    send.set_memory(source.data(), sent);
    receive.set_memory(target.data(), expected);
    low->post_send(1, 0, send);
    high->post_receive(0, 0, receive);
    ASSERT_TRUE(finish({low.get(), high.get()}, {&send, &receive}));
    EXPECT_TRUE(send.status().ok());
    EXPECT_EQ(receive.status().code(), KEEL_INVALID_ARGUMENT);
    EXPECT_TRUE(receive.has_message());
    EXPECT_EQ(receive.message_bytes(), sent);
  }
  EXPECT_TRUE(high->failure().ok());
}

TEST_P(WiresTest, ClosedPeerFailsTheSetByName) {
  Job job(GetParam(), 2);
  const auto low = job.open(0);
  auto high = job.open(1);
  std::vector<uint8_t> memory(1000);
  WireRequest send;
  WireRequest receive;
  send.set_memory(memory.data(), 0);
  receive.set_memory(memory.data(), 0);
  high->post_send(0, 0, send);
  low->post_receive(1, 0, receive);
  ASSERT_TRUE(finish({low.get(), high.get()}, {&send, &receive}));
  WireRequest pending;
  pending.set_memory(memory.data(), memory.size());
  low->post_receive(1, 0, pending);
  high.reset();
  ASSERT_TRUE(finish({low.get()}, {&pending}));
  EXPECT_EQ(pending.status().code(), KEEL_RANK_FAILED);
  EXPECT_NE(std::string(pending.status().text()).find("rank 1"), std::string::npos);
  uint32_t peer = 0;
  EXPECT_EQ(low->failure(&peer).code(), KEEL_RANK_FAILED);
  EXPECT_EQ(peer, 1u);
  // Sticky: later requests end at once.
  WireRequest later;
  low->post_send(1, 0, later);
  EXPECT_TRUE(later.is_done());
  EXPECT_EQ(later.status().code(), KEEL_RANK_FAILED);
}

// The last message of a rank that leaves arrives, although the rank moves nothing any more.
TEST_P(WiresTest, LastMessageOfARankThatLeavesArrives) {
  Job job(GetParam(), 2);
  for (const size_t size : {size_t{0}, size_t{3000}, size_t{300000}}) {
    const auto low = job.open(0, size);
    auto high = job.open(1, size);
    std::vector<uint8_t> source = pattern(size, 1);
    std::vector<uint8_t> target(size);
    WireRequest first;
    WireRequest last;
    WireRequest receives[2];
    first.set_memory(source.data(), size);
    last.set_memory(source.data(), size);
    for (WireRequest& each : receives) each.set_memory(target.data(), size);
    high->post_send(0, 0, first);
    high->post_send(0, 0, last);
    // The second receive is posted after the sender has gone, if the wire takes the message early.
    low->post_receive(1, 0, receives[0]);
    const bool is_early = size <= UcxPeer::kEagerBytes;
    if (!is_early) low->post_receive(1, 0, receives[1]);
    ASSERT_TRUE(finish({high.get(), low.get()}, {&first, &last, &receives[0]}));
    high.reset();
    if (is_early) low->post_receive(1, 0, receives[1]);
    ASSERT_TRUE(finish({low.get()}, {&receives[1]}));
    EXPECT_TRUE(receives[1].status().ok()) << receives[1].status().text();
    EXPECT_EQ(target, source);
    // No further one comes.
    low->post_receive(1, 0, receives[0]);
    ASSERT_TRUE(finish({low.get()}, {&receives[0]}));
    EXPECT_EQ(receives[0].status().code(), KEEL_RANK_FAILED);
  }
}

// Messages that the peer does not take stay at the sender, beyond what the wire buffers.
TEST_P(WiresTest, SenderWaitsForReceives) {
  Job job(GetParam(), 2);
  const auto low = job.open(0);
  const auto high = job.open(1);
  constexpr size_t kSize = 8000;
  constexpr size_t kCount = 3000;  // 24 MB, more than loopback sockets hold
  std::vector<uint8_t> memory = pattern(kSize, 9);
  std::vector<std::unique_ptr<WireRequest>> sends;
  std::vector<const WireRequest*> all;
  for (size_t i = 0; i < kCount; ++i) {
    sends.push_back(std::make_unique<WireRequest>());
    sends.back()->set_memory(memory.data(), kSize);
    high->post_send(0, 0, *sends.back());
    all.push_back(sends.back().get());
  }
  WireRequest probe;  // connects the receiver, which takes nothing else
  probe.set_memory(nullptr, 0);
  low->post_receive(1, 1, probe);
  for (int i = 0; i < 20000; ++i) {
    high->progress();
    low->progress();
  }
  EXPECT_FALSE(sends.back()->is_done());
  std::vector<uint8_t> target(kSize);
  WireRequest receive;
  receive.set_memory(target.data(), kSize);
  for (size_t i = 0; i < kCount; ++i) {
    low->post_receive(1, 0, receive);
    ASSERT_TRUE(finish({low.get(), high.get()}, {&receive}));
    ASSERT_TRUE(receive.status().ok()) << receive.status().text();
  }
  ASSERT_TRUE(finish({high.get(), low.get()}, all));
  EXPECT_EQ(target, memory);
  low->cancel(failure(KEEL_ABORTED, "done"));
  ASSERT_TRUE(finish({low.get()}, {&probe}));
}

// The memory of a message on its way is free once its request is done, also after cancel().
TEST_P(WiresTest, CancelFreesTheMemoryOfMessagesOnTheirWay) {
  Job job(GetParam(), 2);
  const auto low = job.open(0);
  const auto high = job.open(1);
  auto source = std::make_unique<std::vector<uint8_t>>(pattern(kLargest, 1));
  auto target = std::make_unique<std::vector<uint8_t>>(kLargest);
  WireRequest send;
  WireRequest receive;
  send.set_memory(source->data(), kLargest);
  receive.set_memory(target->data(), kLargest);
  low->post_receive(1, 0, receive);
  high->post_send(0, 0, send);
  for (int i = 0; i < 200; ++i) {
    high->progress();
    low->progress();
  }
  low->cancel(failure(KEEL_ABORTED, "enough"));
  ASSERT_TRUE(finish({low.get()}, {&receive}));
  EXPECT_TRUE(receive.status().ok() || receive.status().code() == KEEL_ABORTED);
  target.reset();
  high->cancel(failure(KEEL_ABORTED, "enough"));
  ASSERT_TRUE(finish({high.get()}, {&send}));
  source.reset();
}

TEST_P(WiresTest, CancelEndsAParkedRankAndItsRequests) {
  Job job(GetParam(), 2);
  const auto low = job.open(0);
  std::vector<uint8_t> memory(1000);
  WireRequest pending;
  pending.set_memory(memory.data(), memory.size());
  low->post_receive(1, 3, pending);  // the peer never connects
  std::thread other([&] { job.hub(0).fail(failure(KEEL_ABORTED, "rank 1 aborted")); });
  ASSERT_TRUE(finish({low.get()}, {&pending}));
  other.join();
  EXPECT_EQ(pending.status().code(), KEEL_ABORTED);
  EXPECT_STREQ(pending.status().text(), "rank 1 aborted");
}

// The failure of a job is KEEL_INVALID_ARGUMENT when the calls of its ranks do not match.
TEST_P(WiresTest, CancelledReceiveHasNoMessage) {
  Job job(GetParam(), 2);
  const auto low = job.open(0);
  const auto high = job.open(1);
  std::vector<uint8_t> memory(1000);
  WireRequest send;
  WireRequest receive;
  send.set_memory(memory.data(), 0);
  receive.set_memory(memory.data(), 0);
  high->post_send(0, 0, send);
  low->post_receive(1, 0, receive);
  ASSERT_TRUE(finish({low.get(), high.get()}, {&send, &receive}));
  EXPECT_TRUE(receive.has_message());
  low->post_receive(1, 0, receive);
  low->cancel(failure(KEEL_INVALID_ARGUMENT, "mismatch"));
  ASSERT_TRUE(finish({low.get()}, {&receive}));
  EXPECT_EQ(receive.status().code(), KEEL_INVALID_ARGUMENT);
  EXPECT_FALSE(receive.has_message());
}

TEST_P(WiresTest, PeersThatDoNotBelongAreShutOut) {
  Job job(GetParam(), 2);
  const auto low = job.open(0);
  const auto expect_refused = [&](Job& other, keel_status code) {
    other.table().ranks[0].address = job.hub(0).address().text();
    other.hub(1).set_table(std::make_shared<const HostTable>(other.table()));
    const auto high = other.open(1);
    WireRequest request;
    high->post_send(0, 0, request);
    ASSERT_TRUE(finish({high.get()}, {&request}));
    EXPECT_EQ(request.status().code(), code) << request.status().text();
  };
  Job wrong_secret(GetParam(), 2, HostSecret{std::string("another secret of a job")});
  expect_refused(wrong_secret, KEEL_PERMISSION_DENIED);
  Job old_epoch(GetParam(), 2, kSecret, /*epoch=*/0);
  expect_refused(old_epoch, KEEL_FAILED_PRECONDITION);
  Job other_job(GetParam(), 2);
  other_job.table().job.bytes.fill(4);
  expect_refused(other_job, KEEL_NOT_FOUND);
  EXPECT_TRUE(low->failure().ok());
}

}  // namespace
}  // namespace keel
