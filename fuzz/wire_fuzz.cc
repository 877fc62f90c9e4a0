// SPDX-License-Identifier: Apache-2.0
// Fuzzes what ranks of other hosts send inside collectives, messages and splits: marks, sizes of
// messages and of blocks, choices, data. This process is one rank, alone on its host; the wires to
// the others deliver what the fuzzer draws, mostly what an honest rank with the same call sends.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/hosts/host_runner.h"
#include "collectives/hosts/host_split.h"
#include "fuzz/bytes.h"
#include "fuzz/open_device.h"
#include "fuzz/silent_peer.h"

namespace {

using keel::Status;
using keel::WireRequest;
using keel::fuzz::Bytes;
using keel::fuzz::OpenDevice;
using keel::fuzz::require;

constexpr uint64_t kBuffer = 64 << 10;
constexpr uint32_t kMostRanks = 5;
constexpr int64_t kTimeoutNs = 2'000'000;

// Takes sends at once and keeps their data, to answer receives from the same peer with it. A
// message that stays away becomes the peer's failure as soon as the rank parks, so that no input
// waits for a deadline.
class LyingWires final : public keel::WireSet {
 public:
  explicit LyingWires(Bytes& bytes) : bytes_(bytes) {}

  bool is_idle() const { return receives_.empty() && withheld_.empty(); }

  void set_deadline(const keel::Deadline& /*deadline*/) override {}
  void post_send(uint32_t peer, uint32_t /*lane*/, WireRequest& request) override {
    request.start();
    std::string& data = sent_[peer];
    data.clear();
    for (const iovec& piece : request.pieces()) {
      if (piece.iov_len != 0) data.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
    }
    request.finish(failure_);
  }
  void post_receive(uint32_t peer, uint32_t /*lane*/, WireRequest& request) override {
    request.start();
    if (!failure_.ok()) {
      request.finish(failure_);
    } else {
      receives_.push_back({peer, &request});
    }
  }
  bool progress() override {
    if (receives_.empty()) return false;
    const Posted next = receives_.front();
    receives_.pop_front();
    if (bytes_.one_in(16)) {
      withheld_.push_back(next);
    } else {
      answer(next);
    }
    return true;
  }
  void park(int64_t /*timeout_ns*/) override {
    if (withheld_.empty() || !failure_.ok()) return;
    peer_ = withheld_[0].peer;
    end(Status(KEEL_RANK_FAILED, "the peer has ended"));
  }
  int descriptor() const override { return -1; }
  void wake() override {}
  void cancel(const Status& reason) override {
    if (failure_.ok()) end(reason);
  }
  std::vector<uint32_t> unconnected() const override { return {}; }
  Status failure(uint32_t* out_peer) const override {
    if (out_peer != nullptr) *out_peer = peer_;
    return failure_;
  }
  const char* name() const override { return "lies"; }
  Traffic traffic() const override { return {}; }

 private:
  struct Posted {
    uint32_t peer;
    WireRequest* request;
  };

  void answer(const Posted& posted) {
    WireRequest& request = *posted.request;
    keel::WireMark mark = request.mark();
    if (bytes_.one_in(16)) mark[bytes_.below(mark.size())] ^= bytes_.byte();
    const uint64_t bytes = request.posted_bytes();
    if (bytes_.one_in(16)) {
      const uint64_t other = bytes_.one_in(2) ? bytes_.word() : bytes_.below(64);
      request.note_message(mark, other);
      if (other != bytes) {
        request.finish(Status(KEEL_INVALID_ARGUMENT, "a message of another size came"));
        return;
      }
    }
    request.note_message(mark, bytes);
    const std::string data = bytes_.one_in(4) ? bytes_.text(24) : sent_[posted.peer];
    uint64_t at = 0;
    for (const iovec& piece : request.pieces()) {
      auto* const to = static_cast<char*>(piece.iov_base);
      for (uint64_t i = 0; i < piece.iov_len; ++i, ++at) {
        to[i] = data.empty() ? '\0' : data[at % data.size()];
      }
    }
    request.finish({});
  }
  void end(const Status& why) {
    failure_ = why;
    for (auto* const list : {&receives_, &withheld_}) {
      for (const Posted& each : *list) each.request->finish(why);
      list->clear();
    }
  }

  Bytes& bytes_;
  std::deque<Posted> receives_;
  std::deque<Posted> withheld_;
  std::map<uint32_t, std::string> sent_;  // by peer, what it was sent last
  Status failure_;
  uint32_t peer_ = UINT32_MAX;
};

// A session without a server.
class Session final : public keel::HostSession {
 public:
  Session(Bytes& bytes, keel::HostTable table, uint32_t rank)
      : bytes_(bytes), table_(std::move(table)), rank_(rank) {}

  const keel::HostTable& table() const override { return table_; }
  uint32_t rank() const override { return rank_; }
  const keel::ChosenInterface& interface() const override { return interface_; }
  Status open_wires(uint64_t /*context*/, std::unique_ptr<keel::WireSet>* out_wires) override {
    *out_wires = std::make_unique<LyingWires>(bytes_);
    return {};
  }
  void abort(const Status& why) override {
    if (failure_.ok()) failure_ = why;
  }
  Status report(uint32_t peer, const Status& why) override {
    if (peer >= table_.ranks.size()) __builtin_trap();
    abort(why);
    return failure_;
  }
  Status failure() const override { return failure_; }
  std::vector<uint32_t> failed_ranks() const override { return {}; }
  void set_on_failure(std::function<void(const Status&)> /*on_failure*/) override {}
  void leave() override {}

 private:
  Bytes& bytes_;
  const keel::HostTable table_;
  const uint32_t rank_;
  const keel::ChosenInterface interface_;
  Status failure_;
};

// One job, from its first operation to its first failure.
class Job {
 public:
  Job(const OpenDevice& here, Bytes& bytes) : here_(here), bytes_(bytes) {}

  void run() {
    const uint32_t world = 2 + bytes_.below(kMostRanks - 1);
    const uint32_t self = bytes_.below(world);
    keel::HostTable table;
    std::vector<keel::PeerInfo> peer_infos;
    for (uint32_t rank = 0; rank < world; ++rank) {
      keel::HostRank& each = table.ranks.emplace_back();
      each.peer = keel::fuzz::introduce_self(rank, "cpu:0");
      each.host = rank == self ? "own" : std::string(1, static_cast<char>('a' + bytes_.below(3)));
      each.host_name = each.host;
      each.address = "10.0.0.1:4711";
      peer_infos.push_back(each.peer);
    }
    auto job =
        std::make_shared<keel::HostJob>(std::make_unique<Session>(bytes_, std::move(table), self));
    keel::HostAgreement agreement;
    agreement.chunk_bytes = 4096;
    if (bytes_.one_in(2)) {
      agreement.algorithm = static_cast<keel::Algorithm>(bytes_.below(keel::kAlgorithms));
    }
    std::vector<uint32_t> members(world);
    std::iota(members.begin(), members.end(), 0u);
    std::unique_ptr<keel::HostGroup> group;
    require(keel::HostGroup::make(std::move(job), std::move(members), self, /*context=*/0,
                                  peer_infos, agreement, keel::Deadline::after(kTimeoutNs), &group),
            "make");
    run_group(std::move(group));
  }

 private:
  void run_group(std::unique_ptr<keel::HostGroup> group) {
    const std::shared_ptr<keel::Team> team = group->team();
    const uint32_t rank = group->rank();
    const uint32_t world = group->world();
    team->segment().set_chunk_bytes(group->agreement().chunk_bytes);
    keel::RankContext context(team, group->local_rank(), here_.device, bytes_.one_in(2));
    context.make_staging();
    keel::Selection selection;
    require(keel::Selection::make(
                {}, {context.world(), context.any_staged(), context.segment().oversubscribed()},
                &selection),
            "selection");
    keel::Runner inner(context);
    keel::HostRunner runner(context, inner, selection, std::move(group));
    const std::atomic<bool> never{false};
    static keel::FlightRecorder::Entry entry;
    constexpr uint32_t kMostOperations = 6;
    for (uint32_t i = 0; i < kMostOperations && !bytes_.empty(); ++i) {
      keel::WaitContext wait_context(kTimeoutNs, never);
      Status status;
      std::unique_ptr<keel::HostGroup> part;
      if (bytes_.one_in(6)) {
        status = keel::split_hosts(runner, static_cast<int32_t>(bytes_.below(3)) - 1,
                                   static_cast<int32_t>(bytes_.below(3)), bytes_.byte(),
                                   runner.group().agreement(), wait_context, &part);
      } else {
        keel::Request request;
        if (!draw(rank, world, &request)) continue;
        request.algorithm = runner.choose(request);
        request.print = request.fingerprint();
        status = runner.run(request, {}, &entry, wait_context);
      }
      // Neither a result nor a failure comes while a wire may touch the memory.
      const auto& wires = static_cast<const LyingWires&>(runner.group().wires());
      if (!wires.is_idle()) __builtin_trap();
      if (!status.ok() && *status.text() == '\0') __builtin_trap();
      if (!status.ok()) return;
      if (!part) continue;
      if (part->rank() >= part->world() || part->world() > world) __builtin_trap();
      // A communicator checks it when it enters.
      const bool is_sound = keel::check_chunk_bytes(part->agreement().chunk_bytes).ok();
      if (is_sound && part->hosts().size() > 1 && depth_++ < 2) run_group(std::move(part));
    }
  }

  // Draws a request that passes this rank's own checks.
  bool draw(uint32_t rank, uint32_t world, keel::Request* request) {
    constexpr keel_collective kDrawn[] = {
        KEEL_ALL_REDUCE,   KEEL_REDUCE,       KEEL_BROADCAST,        KEEL_ALL_GATHER,
        KEEL_SEND_RECV,    KEEL_ALL_TO_ALL,   KEEL_REDUCE_SCATTER,   KEEL_ALL_TO_ALL_V,
        KEEL_ALL_GATHER_V, KEEL_ALL_TO_ALL_V, KEEL_REDUCE_SCATTER_V, KEEL_BARRIER,
        KEEL_GATHER,       KEEL_SCATTER};
    request->collective = kDrawn[bytes_.below(std::size(kDrawn))];
    request->dtype = KEEL_DTYPE_INVALID + 1 + bytes_.below(KEEL_DTYPE_COUNT - 1);
    if (request->collective == KEEL_SEND_RECV) return draw_transfers(rank, world, request);
    request->reduction = bytes_.below(KEEL_REDUCTION_COUNT);
    request->root = bytes_.below(world);
    request->send = here_.memory;
    request->receive = here_.memory + kBuffer;
    if (keel::has_arrays(request->collective)) {
      const bool are_equal = bytes_.one_in(2);
      const uint64_t count = bytes_.below(600);
      uint64_t offset = 0;
      for (uint32_t peer = 0; peer < world; ++peer) {
        request->send_pieces.push_back({offset, are_equal ? count : bytes_.below(600)});
        offset = request->send_pieces.back().end();
      }
      request->receive_pieces = request->send_pieces;
    } else {
      request->count = bytes_.below(6000);
    }
    return request->send_bytes(rank, world) <= kBuffer &&
           request->receive_bytes(rank, world) <= kBuffer;
  }
  bool draw_transfers(uint32_t rank, uint32_t world, keel::Request* request) {
    constexpr uint32_t kTransfers = 3;
    for (uint32_t i = bytes_.below(kTransfers); i < kTransfers; ++i) {
      keel::Transfer transfer;
      transfer.sends = bytes_.one_in(2);
      transfer.dtype = request->dtype;
      transfer.peer = (rank + 1 + bytes_.below(world - 1)) % world;
      transfer.count = bytes_.below(2000);
      if (transfer.bytes() * kTransfers > kBuffer) return false;
      transfer.source = here_.memory + i * (kBuffer / kTransfers & ~63ull);
      transfer.destination = here_.memory + kBuffer + i * (kBuffer / kTransfers & ~63ull);
      request->transfers.push_back(transfer);
    }
    return true;
  }

  const OpenDevice& here_;
  Bytes& bytes_;
  uint32_t depth_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const OpenDevice& here = []() -> const OpenDevice& {
    setenv("KEEL_CPU_DEVICES", "1", 1);
    return *new OpenDevice(keel::fuzz::open_device("cpu", 2 * kBuffer, /*streams=*/16));
  }();
  Bytes bytes({data, size});
  Job(here, bytes).run();
  return 0;
}
