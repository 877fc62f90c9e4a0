// SPDX-License-Identifier: Apache-2.0
// Fuzzes the control segment shared by ranks: a peer process may lie, or write anywhere. Rank 0 is
// this process and runs operations. Rank 1 is a process that only hands out its memory; the fuzzer
// writes this rank's data and may overwrite everything else.
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>

#include "collectives/runner.h"
#include "collectives/split.h"
#include "fuzz/bytes.h"
#include "fuzz/open_device.h"
#include "fuzz/silent_peer.h"

namespace {

using keel::FileDescriptor;
using keel::Status;
using keel::fuzz::Bytes;
using keel::fuzz::require;

constexpr uint32_t kWorld = 2;
constexpr uint64_t kChunk = 4096;
constexpr uint64_t kBuffer = 64 << 10;
constexpr int64_t kTimeoutNs = 2'000'000;

// Rank 0's process, shared by all inputs.
struct Here {
  keel::fuzz::SilentPeer peer = keel::fuzz::start_silent_peer();
  keel::Ref<keel::Device> device;
  char* memory = nullptr;  // send, then receive

  Here() {
    setenv("KEEL_CPU_DEVICES", "1", 1);
    auto opened = keel::fuzz::open_device("cpu", 2 * kBuffer, /*streams=*/16);
    device = std::move(opened.device);
    memory = opened.memory;
  }
};

// One communicator, from its first operation to the first failure.
class Team {
 public:
  Team(Here& here, Bytes& bytes) : here_(here), bytes_(bytes) {
    keel::Rendezvous rendezvous;
    rendezvous.peer_infos = {keel::fuzz::introduce_self(0, "cpu:0"), here.peer.peer_info};
    FileDescriptor file;
    require(keel::ControlSegment::create(kWorld, bytes.one_in(2), &file), "create");
    require(keel::ControlSegment::map(file, &theirs_), "map");
    struct stat info = {};
    if (fstat(file.get(), &info) != 0) std::abort();
    bytes_mapped_ = static_cast<uint64_t>(info.st_size);
    void* const raw =
        mmap(nullptr, bytes_mapped_, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (raw == MAP_FAILED) std::abort();
    raw_ = static_cast<uint8_t*>(raw);
    rendezvous.segment = std::move(file);
    require(keel::Team::join(rendezvous, /*rank=*/0, &team_), "join");
    theirs_->set_chunk_bytes(kChunk);
  }
  ~Team() { munmap(raw_, bytes_mapped_); }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  void run() {
    const std::atomic<bool> never{false};
    keel::RankContext context(team_, 0, here_.device, /*forbid_alias=*/bytes_.one_in(2));
    context.make_staging();
    const keel::SelectionKey selection_key = {kWorld, context.any_staged(),
                                              context.segment().oversubscribed()};
    require(keel::Selection::make({}, selection_key, &built_in_), "make");
    keel::Runner runner(context);
    static keel::FlightRecorder::Entry entry;
    // Rank 1 has already arrived and finished, unless the fuzzer overwrites this.
    if (!theirs_->oversubscribed()) theirs_->board().arrive(1, UINT64_MAX / 2);
    theirs_->board().publish_done(1, UINT64_MAX / 2, true);
    constexpr uint32_t kMostOperations = 6;
    for (uint32_t i = 0; i < kMostOperations && !bytes_.empty(); ++i) {
      keel::WaitContext wait_context(kTimeoutNs, never);
      Status status;
      if (bytes_.one_in(8)) {
        keel::Fingerprint split;
        split.collective = keel::kSplitCollective;
        for (uint64_t turn = 0; turn < 3; ++turn) post(split, {}, context.sequence + turn);
        write_over(context.sequence);
        std::shared_ptr<keel::Team> part;
        uint32_t rank = 0;
        status =
            keel::split_team(context, bytes_.below(3) - 1, 0, false, wait_context, &part, &rank);
        if (part && rank >= part->world()) __builtin_trap();
      } else {
        keel::Request request;
        if (!draw(&request)) continue;
        request.print = request.fingerprint();
        if (request.collective == KEEL_SEND_RECV) {
          write_slots(request);
        } else {
          post(request.print, request, context.sequence);
        }
        write_over(context.sequence);
        status = runner.run(request, {}, &entry, wait_context);
      }
      if (!status.ok() && *status.text() == '\0') __builtin_trap();
      if (theirs_->failures().failed()) return;
    }
  }

 private:
  char* send() const { return here_.memory; }
  char* receive() const { return here_.memory + kBuffer; }

  // Draws a request that passes rank 0's own checks.
  bool draw(keel::Request* request) {
    constexpr keel_collective kDrawn[] = {KEEL_ALL_REDUCE, KEEL_REDUCE,       KEEL_BROADCAST,
                                          KEEL_ALL_GATHER, KEEL_SEND_RECV,    KEEL_REDUCE_SCATTER,
                                          KEEL_ALL_TO_ALL, KEEL_ALL_TO_ALL_V, KEEL_ALL_GATHER_V,
                                          KEEL_BARRIER,    KEEL_GATHER,       KEEL_SCATTER};
    request->collective = kDrawn[bytes_.below(std::size(kDrawn))];
    request->dtype = KEEL_DTYPE_INVALID + 1 + bytes_.below(KEEL_DTYPE_COUNT - 1);
    if (request->collective == KEEL_SEND_RECV) return draw_transfers(request);
    request->reduction = bytes_.below(KEEL_REDUCTION_COUNT);
    request->root = bytes_.below(kWorld);
    request->send = send();
    request->receive = receive();
    if (keel::has_arrays(request->collective)) {
      const keel::Piece pieces[] = {{0, bytes_.below(3000)}, {3000, bytes_.below(3000)}};
      request->send_pieces.assign(std::begin(pieces), std::end(pieces));
      request->receive_pieces = request->send_pieces;
    } else {
      request->count = bytes_.below(6000);
    }
    request->algorithm = draw_algorithm(*request);
    return request->send_bytes(0, kWorld) <= kBuffer &&
           request->receive_bytes(0, kWorld) <= kBuffer;
  }
  bool draw_transfers(keel::Request* request) {
    for (uint32_t i = bytes_.below(3); i < 3; ++i) {
      keel::Transfer transfer;
      transfer.sends = bytes_.one_in(2);
      transfer.dtype = request->dtype;
      transfer.peer = 1;
      transfer.count = bytes_.below(2000);
      if (transfer.bytes() * 3 > kBuffer) return false;
      transfer.source = send() + i * (kBuffer / 3 & ~63ull);
      transfer.destination = receive() + i * (kBuffer / 3 & ~63ull);
      request->transfers.push_back(transfer);
    }
    return true;
  }

  keel::MemHandle place() {
    keel::MemHandle place;
    place.device = here_.peer.object.device;
    place.inode = here_.peer.object.inode;
    place.offset = bytes_.one_in(4) ? bytes_.word() : 0;
    return place;
  }

  // Writes the descriptor that a rank 1 with the same call would publish.
  void post(const keel::Fingerprint& fingerprint, const keel::Request& request, uint64_t sequence) {
    keel::OperationDescriptor& own = theirs_->board().descriptor(1, sequence);
    own.fingerprint = fingerprint;
    own.factor = bytes_.one_in(4) ? static_cast<double>(bytes_.word()) * 0.5 : 1;
    own.status = KEEL_OK;
    own.flags = bytes_.below(4);
    own.send = place();
    own.receive = place();
    own.work = place();
    own.largest = request.largest_piece();
    own.memory_epoch = bytes_.one_in(8) ? 1 : 0;
    uint64_t* layout = theirs_->board().layout(1);
    for (const keel::Piece& piece : request.send_pieces) {
      *layout++ = piece.offset;
      *layout++ = piece.count;
    }
    if (bytes_.one_in(8)) {
      // An address that also exists in the forked process, or an invalid one.
      static const char there[1 << 16] = {};
      own.flags |= keel::OperationDescriptor::kSendAttached;
      own.send.address = reinterpret_cast<uint64_t>(there) + (bytes_.one_in(4) ? bytes_.word() : 0);
    }
    theirs_->board().publish(1, sequence);
    if (theirs_->oversubscribed()) {
      for (uint32_t i = bytes_.below(4); i < 4; ++i) theirs_->board().arrive(1, ++step_);
    }
  }
  void write_slots(const keel::Request& request) {
    for (const keel::Transfer& transfer : request.transfers) {
      if (transfer.sends) {
        theirs_->messages().slot(0, 1, sent_).answered.store(sent_ + 1);
        ++sent_;
        continue;
      }
      keel::PointToPointSlot& slot = theirs_->messages().slot(1, 0, received_);
      slot.available.store(bytes_.below(5));
      slot.count = transfer.count;
      slot.dtype = transfer.dtype;
      slot.flags = bytes_.below(2);
      slot.status = KEEL_OK;
      slot.memory_epoch = 0;
      slot.send = place();
      slot.sequence.store(received_ + 1);
      ++received_;
    }
  }

  // Overwrites bytes anywhere, mostly those that rank 0 reads.
  void write_over(uint64_t sequence) {
    for (uint32_t i = bytes_.below(4); i != 0; --i) {
      uint8_t* at = nullptr;
      switch (bytes_.below(6)) {
        case 0:
          at = reinterpret_cast<uint8_t*>(&theirs_->board().descriptor(1, sequence)) +
               bytes_.below(sizeof(keel::OperationDescriptor));
          break;
        case 1:
          at = reinterpret_cast<uint8_t*>(&theirs_->messages().slot(1, 0, 0)) +
               bytes_.below(2 * sizeof(keel::PointToPointSlot));
          break;
        case 2:
          at = reinterpret_cast<uint8_t*>(&theirs_->messages().slot(0, 1, 0)) +
               bytes_.below(2 * sizeof(keel::PointToPointSlot));
          break;
        case 3:
          at = reinterpret_cast<uint8_t*>(theirs_->board().layout(1)) + bytes_.below(32);
          break;
        case 4:
          at = raw_ + bytes_.below(8192);  // the header and the ranks' progress
          break;
        default:
          at = raw_ + (uint64_t{bytes_.below(65536)} << 8 | bytes_.byte()) % (bytes_mapped_ - 16);
      }
      const std::string text = bytes_.text(16);
      std::copy(text.begin(), text.end(), at);
    }
  }

  // Draws the algorithm of ranks 0 and 1 for |request|: any applicable one, or the built-in choice.
  keel::Algorithm draw_algorithm(const keel::Request& request) {
    const auto drawn = static_cast<keel::Algorithm>(bytes_.below(keel::kAlgorithms));
    const bool narrow =
        keel::reduces(request.collective) && keel::loses_by_parts(request.dtype, request.reduction);
    const bool can_do = keel::applies(drawn, request.collective, kWorld) &&
                        drawn != keel::Algorithm::kEager &&
                        !(narrow && keel::has_partial_results(drawn));
    return can_do ? drawn : built_in_.choose(request, kWorld);
  }

  Here& here_;
  Bytes& bytes_;
  keel::Selection built_in_;
  std::shared_ptr<keel::Team> team_;
  std::unique_ptr<keel::ControlSegment> theirs_;
  uint8_t* raw_ = nullptr;
  uint64_t bytes_mapped_ = 0;
  uint64_t step_ = 0;
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Here& here = *new Here;
  Bytes bytes({data, size});
  Team(here, bytes).run();
  return 0;
}
