// SPDX-License-Identifier: Apache-2.0
// Fuzzes the shared memory through which ranks find islands (ranks of one native library): other
// ranks may lie about their native library, their bootstrap ids, their results and their island.
// One rank is this process, on an emulated chip with a native library. The other ranks are a
// process that does nothing; the fuzzer writes their descriptors.
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string>

#include "collectives/hierarchical/hierarchical.h"
#include "collectives/runner.h"
#include "core/json_writer.h"
#include "fuzz/bytes.h"
#include "fuzz/open_device.h"
#include "fuzz/silent_peer.h"

namespace {

using keel::ControlSegment;
using keel::FileDescriptor;
using keel::NativeOffer;
using keel::Status;
using keel::fuzz::Bytes;
using keel::fuzz::require;

constexpr int64_t kTimeoutNs = 2'000'000;
constexpr uint64_t kBuffer = 64 << 10;
constexpr const char* kDevices[] = {"sim:0", "sim:1",   "sim:2", "sim:3",
                                    "sim:4", "sim#2:0", "cpu:0"};

// This rank's process, shared by all inputs.
struct Here {
  keel::fuzz::SilentPeer peer = keel::fuzz::start_silent_peer();
  keel::Ref<keel::Device> device;
  NativeOffer offer;  // an honest rank's offer of the same library
  char* memory = nullptr;

  Here() {
    setenv("KEEL_SIM_DEVICES", "1", 1);
    auto opened = keel::fuzz::open_device("sim", 2 * kBuffer, /*streams=*/8);
    device = std::move(opened.device);
    memory = opened.memory;
    require(keel::make_native_offer(*device, &offer), "offer");
  }
};

// One communicator, during its creation and its first operation.
class Team {
 public:
  Team(Here& here, Bytes& bytes)
      : here_(here),
        bytes_(bytes),
        world_(2 + bytes.below(4)),
        self_(bytes.below(world_)),
        are_apart_(bytes.one_in(2)) {
    keel::Rendezvous rendezvous;
    for (uint32_t rank = 0; rank < world_; ++rank) {
      keel::PeerInfo peer_info = here.peer.peer_info;
      if (rank == self_) peer_info = keel::fuzz::introduce_self(rank, kDevices[0]);
      peer_info.rank = rank;
      auto why = NativeOffer::Why::kOffered;
      if (rank != self_) {
        peer_info.device = kDevices[bytes.usually(1 + rank % 4, 4, std::size(kDevices))];
        // The emulated chip's library only reaches ranks of one process. Ranks of one process trust
        // addresses in descriptors, so these descriptors contain none.
        if (!bytes.one_in(4)) peer_info.process = keel::MemHandleServer::get().token();
        why = static_cast<NativeOffer::Why>(bytes.usually(1, 4, 4));
      }
      peer_info.flags = keel::Team::kNoAlias | static_cast<uint32_t>(why)
                                                   << keel::Team::kNativeShift;
      rendezvous.peer_infos.push_back(std::move(peer_info));
    }
    FileDescriptor file;
    require(ControlSegment::create(world_, bytes.one_in(2), &file), "create");
    require(ControlSegment::map(file, &theirs_), "map");
    rendezvous.segment = std::move(file);
    require(keel::Team::join(rendezvous, self_, &team_), "join");
    theirs_->set_chunk_bytes(4096);
  }

  void run() {
    if (!keel::Hierarchical::may_form(*team_)) return;
    const std::atomic<bool> never{false};
    keel::RankContext context(team_, self_, here_.device, /*forbid_alias=*/false);
    context.make_staging();
    for (uint32_t rank = 0; rank < world_; ++rank) {
      if (rank == self_) continue;
      theirs_->board().publish_done(rank, UINT64_MAX / 2, false);
      put_offer(theirs_->board().eager(rank, 0), rank);
    }
    const keel::HierarchicalPlan expected = plan_of_offers();
    for (uint32_t rank = 0; rank < world_; ++rank) {
      if (rank != self_) post_all(rank, expected);
    }
    keel::WaitContext wait_context(kTimeoutNs, never);
    std::unique_ptr<keel::Hierarchical> islands;
    const Status formed = keel::Hierarchical::form(context, here_.device, /*forbid_alias=*/false,
                                                   nullptr, wait_context, &islands);
    if (formed.ok() != (islands != nullptr)) __builtin_trap();
    if (!formed.ok() && *formed.text() == '\0') __builtin_trap();
    if (!islands) return;
    check(*islands->plan());
    keel::Request request = draw();
    if (islands->takes(request)) (void)islands->run(request, wait_context);
    std::vector<keel::Part> parts(1 + bytes_.below(2));
    for (uint32_t rank = 0; rank < world_; ++rank) {
      keel::Part& part = parts[bytes_.below(static_cast<uint32_t>(parts.size()))];
      part.ranks.push_back(rank);
      part.flags.push_back(bytes_.below(16));
    }
    std::unique_ptr<keel::NativeGroup> island;
    (void)islands->split(here_.device, parts, {}, kTimeoutNs, wait_context, &island);
  }

 private:
  // Writes the rank's contributions to all possible exchanges before this rank reads any.
  // Contributions larger than a descriptor share two slots, so later exchanges find the earlier
  // contents: an id that was not inherited is also the code of a successful rank.
  void post_all(uint32_t rank, const keel::HierarchicalPlan& expected) {
    put_id(theirs_->board().eager(rank, 1));
    for (uint64_t sequence = 0; sequence < keel::OperationBoard::kDescriptors; ++sequence) {
      keel::OperationDescriptor& descriptor = theirs_->board().descriptor(rank, sequence);
      descriptor.fingerprint = {};
      // Hierarchical, then their lanes, then the results of these.
      const bool splits = sequence >= 3 && sequence < 6;
      descriptor.fingerprint.collective =
          splits ? keel::kSplitCollective : keel::kIslandsCollective;
      if (bytes_.one_in(16)) descriptor.fingerprint.collective = bytes_.byte();
      descriptor.status = KEEL_OK;
      put_small(descriptor.small, sequence, rank, expected);
      theirs_->board().publish(rank, sequence);
    }
  }
  void put_offer(uint8_t* place, uint32_t rank) {
    NativeOffer offer = here_.offer;
    offer.uuid[0] ^= static_cast<uint8_t>(1 + rank);  // a different chip
    switch (are_apart_ ? 1 : bytes_.below(5)) {
      case 0:
      case 3:
        break;
      case 1:
        offer.library = {};
        break;
      case 2:
        offer.library.fill('x');  // not terminated
        break;
      default: {
        const std::string name = bytes_.text(64);
        std::copy(name.begin(), name.end(), offer.library.begin());
      }
    }
    if (bytes_.one_in(4)) offer.reach = static_cast<keel_ccl_reach>(bytes_.word());
    if (bytes_.one_in(4)) offer.uuid.fill(bytes_.byte());
    if (bytes_.one_in(4)) {
      for (auto& dtypes : offer.capability.reductions) dtypes.fill(bytes_.byte());
    }
    std::memcpy(place, &offer, sizeof(offer));
    if (bytes_.one_in(4)) write_over(place, sizeof(offer));
  }
  void put_id(uint8_t* place) {
    keel::NativeId id;
    id.size = bytes_.usually(128, 4, 65536);  // size of the emulated chip's id
    id.inherited = bytes_.usually(0, 8, 256);
    for (uint32_t i = 0; i < 32; ++i) id.bytes[i] = bytes_.byte();
    std::memcpy(place, &id, sizeof(id));
    write_over(place, sizeof(id));
  }
  // The plan as this rank will compute it.
  keel::HierarchicalPlan plan_of_offers() {
    std::vector<keel::NativeRank> ranks(world_);
    for (uint32_t rank = 0; rank < world_; ++rank) {
      const keel::PeerInfo& peer_info = team_->peer_info(rank);
      ranks[rank].why =
          static_cast<NativeOffer::Why>(peer_info.flags >> keel::Team::kNativeShift & 3);
      ranks[rank].process = peer_info.process;
      ranks[rank].device = peer_info.device;
      ranks[rank].offer = here_.offer;
      if (rank == self_) continue;
      std::memcpy(&ranks[rank].offer, theirs_->board().eager(rank, 0), sizeof(NativeOffer));
    }
    return keel::HierarchicalPlan(std::move(ranks));
  }
  // Writes a code, or an object to fetch. A rank's lane, and its index in the lane, mostly follow
  // from the offers.
  void put_small(uint8_t* place, uint64_t sequence, uint32_t rank,
                 const keel::HierarchicalPlan& expected) {
    constexpr uint64_t kChoice = 3;
    if (sequence == kChoice) {
      const uint32_t index = expected.index_of(rank);
      const std::array<int32_t, 2> choice = {
          index < expected.lanes() ? static_cast<int32_t>(index) : KEEL_NO_COLOR,
          static_cast<int32_t>(expected.island_of(rank))};
      std::memset(place, 0, sizeof(keel::OperationDescriptor::small));
      std::memcpy(place, choice.data(), sizeof(choice));
      if (bytes_.one_in(4)) write_over(place, sizeof(choice));
      return;
    }
    std::memset(place, 0, sizeof(keel::OperationDescriptor::small));
    if (sequence == kChoice + 1) {
      std::memcpy(place, &here_.peer.object, sizeof(here_.peer.object));
    }
    if (bytes_.one_in(4)) write_over(place, sizeof(keel::OperationDescriptor::small));
  }
  void write_over(uint8_t* place, uint64_t size) {
    for (uint32_t i = bytes_.below(3); i != 0; --i) {
      const std::string text = bytes_.text(16);
      const uint64_t at = bytes_.below(static_cast<uint32_t>(size));
      std::copy_n(text.begin(), std::min<uint64_t>(text.size(), size - at), place + at);
    }
  }

  // Every rank is in one island, at its index there, whatever the others wrote.
  void check(const keel::HierarchicalPlan& plan) {
    uint64_t ranks = 0;
    for (const std::vector<uint32_t>& island : plan.islands()) {
      ranks += island.size();
      if (island.size() < plan.lanes()) __builtin_trap();
    }
    if (ranks != world_ || plan.lanes() == 0) __builtin_trap();
    for (uint32_t rank = 0; rank < world_; ++rank) {
      if (plan.island(rank)[plan.index_of(rank)] != rank) __builtin_trap();
    }
    std::string text;
    keel::JsonWriter json(&text);
    plan.explain(json);
    if (text.empty()) __builtin_trap();
    const keel::Request request = draw();
    (void)plan.takes(request, bytes_.one_in(2));
    (void)plan.by_messages(request);
  }
  keel::Request draw() {
    constexpr keel_collective kDrawn[] = {KEEL_ALL_REDUCE,     KEEL_BROADCAST,  KEEL_ALL_GATHER,
                                          KEEL_REDUCE_SCATTER, KEEL_ALL_TO_ALL, KEEL_GATHER};
    keel::Request request;
    request.collective = kDrawn[bytes_.below(std::size(kDrawn))];
    request.dtype = KEEL_DTYPE_INVALID + 1 + bytes_.below(KEEL_DTYPE_COUNT - 1);
    request.reduction = bytes_.below(KEEL_REDUCTION_COUNT);
    request.root = bytes_.below(world_);
    request.count = bytes_.below(kBuffer / 8 / world_);
    request.send = here_.memory;
    request.receive = here_.memory + kBuffer;
    request.print = request.fingerprint();
    return request;
  }

  Here& here_;
  Bytes& bytes_;
  const uint32_t world_;
  const uint32_t self_;
  const bool are_apart_;  // the other ranks use another library
  std::shared_ptr<keel::Team> team_;
  std::unique_ptr<ControlSegment> theirs_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Here& here = *new Here;
  Bytes bytes({data, size});
  Team(here, bytes).run();
  return 0;
}
