// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/control_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "collectives/bootstrap/shared_file.h"
#include "collectives/transports/waiter.h"
#include "collectives/transports/wake_words.h"

namespace keel {

namespace {

constexpr uint64_t kMagic = 0x34676573'6c65656b;  // "keelseg4"

constexpr uint32_t kMostRanks = 4096;

constexpr uint64_t align_page(uint64_t bytes) {
  return (bytes + 4095) & ~uint64_t{4095};
}

}  // namespace

struct ControlSegment::Header {
  uint64_t magic;
  uint64_t bytes;
  uint32_t world;
  uint32_t oversubscribed;
  std::atomic<uint64_t> chunk_bytes;
  AbortRecord::Shared failure;
  WakeWords::Shared words;
  OperationBoard::Shared board;
  alignas(64) Selection selection;
  ShrinkSlots::Shared shrink;
};

// Offsets of the parts behind the header, computed from the world size alone. Unused pages take no
// memory: 1,024 ranks have 256 MiB of point-to-point slots, of which only the pages of
// communicating pairs exist.
struct ControlSegment::Layout {
  explicit Layout(uint64_t ranks) : world(static_cast<uint32_t>(ranks)) {
    // Small records share pages, the rest begins with a page.
    board_ranks = align_page(sizeof(Header));
    absences = board_ranks + sizeof(OperationBoard::RankRecord) * ranks;
    words = absences + sizeof(AbortRecord::RankRecord) * ranks;
    progress = words + sizeof(WakeWords::Word) * ranks;
    descriptors = align_page(progress + sizeof(PointToPointProgress) * ranks);
    eager = descriptors +
            align_page(sizeof(OperationDescriptor) * OperationBoard::kDescriptors * ranks);
    buffers = eager + OperationBoard::kEagerBytes * OperationBoard::kEagerPlaces * ranks;
    slots = buffers + PointToPointSlots::kBufferBytes * PointToPointSlots::kBuffers * ranks;
    counters =
        slots + align_page(sizeof(PointToPointSlot) * PointToPointSlots::kSlots * ranks * ranks);
    layouts = counters + align_page(sizeof(ProgressCounters) * ranks * ranks);
    shrinks = layouts + align_page(2 * sizeof(uint64_t) * ranks * ranks);
    end = shrinks + align_page(sizeof(ShrinkSlot) * ranks);
  }

  uint32_t world;
  uint64_t board_ranks;
  uint64_t absences;
  uint64_t words;
  uint64_t progress;
  uint64_t descriptors;
  uint64_t eager;
  uint64_t buffers;
  uint64_t slots;
  uint64_t counters;
  uint64_t layouts;
  uint64_t shrinks;
  uint64_t end;
};

// The object |offset| bytes from |memory|.
template <typename Type>
static Type* at(void* memory, uint64_t offset) {
  return reinterpret_cast<Type*>(static_cast<char*>(memory) + offset);
}

ControlSegment::ControlSegment(void* memory, const Layout& layout)
    : header_(static_cast<Header*>(memory)),
      bytes_(layout.end),
      wait_policy_(header_->oversubscribed != 0),
      failures_(header_->failure, at<AbortRecord::RankRecord>(memory, layout.absences),
                layout.world,
                WakeWords(header_->words, at<WakeWords::Word>(memory, layout.words), layout.world)),
      board_({&header_->board, at<OperationBoard::RankRecord>(memory, layout.board_ranks),
              at<OperationDescriptor>(memory, layout.descriptors),
              at<uint8_t>(memory, layout.eager), at<uint64_t>(memory, layout.layouts)},
             layout.world, Waiter(failures_.words(), failures_, wait_policy_)),
      messages_({at<PointToPointSlot>(memory, layout.slots), at<uint8_t>(memory, layout.buffers),
                 at<PointToPointProgress>(memory, layout.progress),
                 at<ProgressCounters>(memory, layout.counters)},
                layout.world, Waiter(failures_.words(), failures_, wait_policy_)),
      shrink_(header_->shrink, at<ShrinkSlot>(memory, layout.shrinks), layout.world) {}

ControlSegment::~ControlSegment() {
  munmap(header_, bytes_);
}

Status ControlSegment::create(uint32_t world, bool oversubscribed, FileDescriptor* out_file) {
  const Layout layout(world);
  FileDescriptor file;
  KEEL_RETURN_IF_ERROR(
      create_shared_file("keel-communicator", layout.end, &file).with_prefix("a communicator: "));
  void* memory = mmap(nullptr, sizeof(Header), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) {
    return failure(KEEL_OUT_OF_MEMORY, "no address space for a communicator: {}",
                   std::strerror(errno));
  }
  auto* header = static_cast<Header*>(memory);
  header->world = world;
  header->oversubscribed = oversubscribed ? 1 : 0;
  header->bytes = layout.end;
  header->magic = kMagic;
  munmap(memory, sizeof(Header));
  *out_file = std::move(file);
  return {};
}

Status ControlSegment::map(const FileDescriptor& file,
                           std::unique_ptr<ControlSegment>* out_segment) {
  struct stat status = {};
  const int seals = fcntl(file.get(), F_GET_SEALS);
  if (fstat(file.get(), &status) != 0 || seals < 0 || (seals & F_SEAL_SHRINK) == 0 ||
      static_cast<uint64_t>(status.st_size) < sizeof(Header)) {
    return failure(KEEL_INVALID_ARGUMENT, "what came as a communicator's memory is none");
  }
  const auto bytes = static_cast<uint64_t>(status.st_size);
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file.get(), 0);
  if (memory == MAP_FAILED) {
    return failure(KEEL_OUT_OF_MEMORY, "no address space for a communicator: {}",
                   std::strerror(errno));
  }
  const auto* const header = static_cast<const Header*>(memory);
  const uint32_t world = header->world;
  const Layout layout(world);
  if (header->magic != kMagic || world == 0 || world > kMostRanks || layout.end != bytes) {
    munmap(memory, bytes);
    return failure(KEEL_INVALID_ARGUMENT, "what came as a communicator's memory is none");
  }
  out_segment->reset(new ControlSegment(memory, layout));
  return {};
}

void ControlSegment::abort_unmapped(const FileDescriptor& file, const Status& status) {
  uint64_t magic = 0;
  const auto got = pread(file.get(), &magic, sizeof(magic), offsetof(Header, magic));
  if (got != static_cast<ssize_t>(sizeof(magic)) || magic != kMagic) return;
  AbortRecord::abort_unmapped(file, offsetof(Header, failure), status);
}

uint64_t ControlSegment::chunk_bytes() const {
  return header_->chunk_bytes.load(std::memory_order_relaxed);
}

void ControlSegment::set_chunk_bytes(uint64_t bytes) {
  header_->chunk_bytes.store(bytes, std::memory_order_relaxed);
}

Selection ControlSegment::selection() const {
  return header_->selection;
}

void ControlSegment::set_selection(const Selection& selection) {
  header_->selection = selection;
}

}  // namespace keel
