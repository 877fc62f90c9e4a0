// SPDX-License-Identifier: Apache-2.0
// Level core, on the plugin's own tables: stream.copy at every offset must copy exactly the
// requested bytes.
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "conformance/table_calls.h"

namespace keel::conformance {

namespace {

constexpr uint64_t kMiB = 1 << 20;

struct Direction {
  const char* name;
  keel_copy_kind kind;
  bool pinned;  // memory of the host's end
};
constexpr std::array<Direction, 5> kDirections = {
    {{"to_device", KEEL_COPY_HOST_TO_DEVICE, false},
     {"from_device", KEEL_COPY_DEVICE_TO_HOST, false},
     {"pinned_to_device", KEEL_COPY_HOST_TO_DEVICE, true},
     {"pinned_from_device", KEEL_COPY_DEVICE_TO_HOST, true},
     {"within", KEEL_COPY_DEVICE_TO_DEVICE, false}}};

// Pageable host memory followed by an inaccessible page.
class Pageable {
 public:
  explicit Pageable(uint64_t size) : size_(size) {
    const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    const uint64_t pages = (size + page - 1) / page * page;
    mapped_ = pages + 2 * page;
    map_ = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map_ == MAP_FAILED) fail_case("no memory of the host is left");
    auto* const begin = static_cast<std::byte*>(map_) + page;
    if (mprotect(begin, pages, PROT_READ | PROT_WRITE) != 0) fail_case("mprotect fails");
    data_ = begin + (pages - size);
  }
  ~Pageable() { munmap(map_, mapped_); }
  Pageable(const Pageable&) = delete;
  Pageable& operator=(const Pageable&) = delete;

  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  const uint64_t size_;
  void* map_ = nullptr;
  uint64_t mapped_ = 0;
  std::byte* data_ = nullptr;
};

// One end of a copy: host memory or device memory.
class End {
 public:
  End(const Context& context, bool of_host, bool pinned, uint64_t size) : size_(size) {
    if (of_host && !pinned) {
      pageable_.emplace(size);
    } else {
      buffer_.emplace(context, size, of_host ? KEEL_MEMORY_PINNED : KEEL_MEMORY_DEVICE);
    }
    is_pinned_ = of_host && pinned;
  }
  std::byte* at(uint64_t offset) const {
    return pageable_ ? pageable_->bytes().data() + offset : buffer_->at(offset);
  }
  void write(const TableStream& stream, std::span<const std::byte> bytes,
             Where where = Where::current()) const {
    if (pageable_) {
      std::copy(bytes.begin(), bytes.end(), pageable_->bytes().begin());
    } else if (is_pinned_) {
      write_host(buffer_->at(0), bytes);
    } else {
      stream.copy(KEEL_COPY_HOST_TO_DEVICE, buffer_->at(0), bytes.data(), bytes.size(), where);
    }
  }
  void expect(const TableStream& stream, std::span<const std::byte> wanted, const std::string& what,
              Where where = Where::current()) const {
    if (is_pinned_) {
      compare(read_host(buffer_->at(0), size_, where), wanted, what, where);
      return;
    }
    std::vector<std::byte> got(size_);
    if (pageable_) {
      std::copy(pageable_->bytes().begin(), pageable_->bytes().end(), got.begin());
    } else {
      stream.copy(KEEL_COPY_DEVICE_TO_HOST, got.data(), buffer_->at(0), size_, where);
    }
    check_equal(got, wanted, what, where);
  }

 private:
  const uint64_t size_;
  bool is_pinned_ = false;
  std::optional<Pageable> pageable_;
  std::optional<TableBuffer> buffer_;
};

struct Ends {
  Ends(const Context& context, const Direction& direction, uint64_t size)
      : source(context, direction.kind == KEEL_COPY_HOST_TO_DEVICE, direction.pinned, size),
        destination(context, direction.kind == KEEL_COPY_DEVICE_TO_HOST, direction.pinned, size) {}
  End source;
  End destination;
};

struct Piece {
  uint64_t destination;
  uint64_t source;
  uint64_t size;
};

// Enqueues all |pieces| on one stream; the bytes between the pieces must stay unchanged.
void copy_pieces(const Context& context, const Direction& direction, uint64_t room,
                 const std::vector<Piece>& pieces, const std::string& what,
                 Where where = Where::current()) {
  Draws draws(context);
  const std::vector<std::byte> sent = draws.bytes(room);
  std::vector<std::byte> wanted(room, kRedZone);
  const Ends ends(context, direction, room);
  const TableStream stream(context);
  ends.source.write(stream, sent);
  ends.destination.write(stream, wanted);
  for (const Piece& each : pieces) {
    need(streams_of(context).copy(stream.get(), direction.kind,
                                  ends.destination.at(each.destination),
                                  ends.source.at(each.source), each.size),
         "stream.copy", where);
    std::copy_n(sent.begin() + static_cast<std::ptrdiff_t>(each.source), each.size,
                wanted.begin() + static_cast<std::ptrdiff_t>(each.destination));
  }
  need(stream.settle(where), what, where);
  ends.destination.expect(stream, wanted, what, where);
  if (room < kMiB) ends.source.expect(stream, sent, what + ": the source", where);
}

// Sizes of 1 to 70 bytes, from and to every offset of 0 to 17.
void small_copies(const Context& context, const Direction& direction) {
  constexpr uint64_t kSlot = 128;
  std::vector<Piece> pieces;
  for (uint64_t size = 1; size <= 70; ++size) {
    for (uint64_t i = 0; i < 5; ++i) {
      const uint64_t slot = pieces.size() * kSlot;
      pieces.push_back({slot + (size * 5 + i * 7) % 18, slot + (size * 11 + i * 3) % 18, size});
    }
  }
  copy_pieces(context, direction, pieces.size() * kSlot, pieces, "small copies");
}

// Sizes around pages, staging buffers and pieces that are split over cores; one copy ends at the
// end of its memory.
void edge_copies(const Context& context, const Direction& direction) {
  constexpr uint64_t kSizes[] = {4095,   4096,    4097,     8191, 65'535,   65'536,
                                 65'537, 131'073, kMiB - 1, kMiB, kMiB + 1, 2 * kMiB + 3};
  constexpr Piece kOffsets[] = {{0, 0, 0},  {1, 0, 0},     {0, 3, 0}, {7, 13, 0},   {2, 2, 0},
                                {64, 1, 0}, {4093, 17, 0}, {4, 8, 0}, {16, 4095, 0}};
  std::vector<Piece> pieces;
  uint64_t place = 0;
  for (size_t i = 0; i < std::size(kSizes); ++i) {
    const Piece& offsets = kOffsets[i % std::size(kOffsets)];
    pieces.push_back({place + offsets.destination, place + offsets.source, kSizes[i]});
    place += (kSizes[i] + 3 * 4096) / 4096 * 4096;
  }
  const uint64_t last = 8209;
  pieces.push_back({place + 1, place + 1, last - 1});
  copy_pieces(context, direction, place + last, pieces, "copies around pages");
}

// Source and destination in one allocation, side by side.
void beside(const Context& context) {
  constexpr uint64_t kRoom = 300'000;
  Draws draws(context);
  std::vector<std::byte> wanted = draws.bytes(kRoom);
  const TableBuffer memory(context, kRoom);
  std::vector<std::byte> got(kRoom);
  const TableStream stream(context);
  stream.copy(KEEL_COPY_HOST_TO_DEVICE, memory.at(0), wanted.data(), kRoom);
  for (int i = 0; i < 60; ++i) {
    const uint64_t size = 1 + draws.below(i % 3 == 0 ? 100'000 : 900);
    const uint64_t first = draws.below(kRoom - 2 * size);
    const bool up = draws.below(2) == 0;
    const uint64_t source = up ? first : first + size;
    const uint64_t destination = up ? first + size : first;
    need(streams_of(context).copy(stream.get(), KEEL_COPY_DEVICE_TO_DEVICE, memory.at(destination),
                                  memory.at(source), size),
         "stream.copy");
    std::copy_n(wanted.begin() + static_cast<std::ptrdiff_t>(source), size,
                wanted.begin() + static_cast<std::ptrdiff_t>(destination));
  }
  need(stream.settle(), "copies within one allocation");
  stream.copy(KEEL_COPY_DEVICE_TO_HOST, got.data(), memory.at(0), kRoom);
  check_equal(got, wanted, "copies within one allocation");
}

// More copies than a queue or ring is likely to hold, alternating between two streams, in all
// directions.
void many(const Context& context) {
  constexpr uint64_t kPiece = 53;
  constexpr uint64_t kPieces = 1000;
  constexpr uint64_t kRoom = kPiece * kPieces;
  const std::vector<std::byte> sent = Draws(context).bytes(kRoom);
  std::vector<std::byte> got(kRoom);
  const TableBuffer first(context, kRoom);
  const TableBuffer second(context, kRoom);
  const TableStream streams[] = {TableStream(context), TableStream(context)};
  for (uint64_t i = 0; i < kPieces; ++i) {
    const uint64_t at = i * 7 % kPieces * kPiece;  // 7 and 1000 are coprime: visits all pieces
    keel_plugin_stream* const stream = streams[i % 2].get();
    need(streams_of(context).copy(stream, KEEL_COPY_HOST_TO_DEVICE, first.at(at), sent.data() + at,
                                  kPiece),
         "stream.copy");
    need(streams_of(context).copy(stream, KEEL_COPY_DEVICE_TO_DEVICE, second.at(at), first.at(at),
                                  kPiece),
         "stream.copy");
    need(streams_of(context).copy(stream, KEEL_COPY_DEVICE_TO_HOST, got.data() + at, second.at(at),
                                  kPiece),
         "stream.copy");
  }
  for (const TableStream& each : streams) need(each.settle(), "1,000 copies each way");
  check_equal(got, sent, "1,000 copies each way on two streams");
}

// The host may reuse the source when the copy is done.
void source_reused(const Context& context, const Direction& direction) {
  constexpr uint64_t kPiece = 70'001;
  constexpr uint64_t kPieces = 12;
  const std::vector<std::byte> sent = Draws(context).bytes(kPiece * kPieces);
  const End host(context, /*of_host=*/true, direction.pinned, kPiece);
  const TableBuffer memory(context, sent.size());
  std::vector<std::byte> got(sent.size());
  const std::vector<std::byte> other(kPiece, std::byte{0xee});
  const TableStream stream(context);
  for (uint64_t i = 0; i < kPieces; ++i) {
    host.write(stream, std::span(sent).subspan(i * kPiece, kPiece));
    stream.copy(KEEL_COPY_HOST_TO_DEVICE, memory.at(i * kPiece), host.at(0), kPiece);
    host.write(stream, other);
  }
  stream.copy(KEEL_COPY_DEVICE_TO_HOST, got.data(), memory.at(0), got.size());
  check_equal(got, sent, "memory whose source was written to again");
}

// More than a staging buffer holds, all behind unfinished work: copies must not overwrite each
// other's staging.
void in_flight(const Context& context, const Direction& direction) {
  constexpr uint64_t kCopies = 48;
  Draws draws(context);
  std::vector<Piece> pieces;
  uint64_t room = 0;
  for (uint64_t i = 0; i < kCopies; ++i) {
    const uint64_t size = 1 + draws.below(i % 3 == 0 ? 900'000 : 60'000);
    pieces.push_back({room, room, size});
    room += size;
  }
  const std::vector<std::byte> sent = draws.bytes(room);
  const TableBuffer busy(context, 16 * kMiB);
  const TableBuffer beside(context, busy.size());
  const Ends ends(context, direction, room);
  const TableStream stream(context);
  ends.source.write(stream, sent);
  for (int i = 0; i < 4; ++i) {
    need(streams_of(context).copy(stream.get(), KEEL_COPY_DEVICE_TO_DEVICE, busy.at(0),
                                  beside.at(0), busy.size()),
         "stream.copy");
  }
  for (const Piece& each : pieces) {
    need(streams_of(context).copy(stream.get(), direction.kind,
                                  ends.destination.at(each.destination),
                                  ends.source.at(each.source), each.size),
         "stream.copy behind other work");
  }
  need(stream.settle(), "copies behind other work");
  ends.destination.expect(stream, sent, "copies that were in flight together");
}

// Each step needs the result of the previous one.
void chain(const Context& context) {
  constexpr uint64_t kBytes = 20'011;
  constexpr uint64_t kRounds = 40;
  const std::vector<std::byte> sent = Draws(context).bytes(kBytes * kRounds);
  std::vector<std::byte> got(sent.size());
  const TableBuffer first(context, kBytes);
  const TableBuffer second(context, kBytes);
  const TableStream stream(context);
  for (uint64_t i = 0; i < kRounds; ++i) {
    const uint64_t at = i * kBytes;
    const auto copy = [&](keel_copy_kind kind, void* destination, const void* source) {
      need(streams_of(context).copy(stream.get(), kind, destination, source, kBytes),
           "stream.copy");
    };
    copy(KEEL_COPY_HOST_TO_DEVICE, first.at(0), sent.data() + at);
    copy(KEEL_COPY_DEVICE_TO_DEVICE, second.at(0), first.at(0));
    copy(KEEL_COPY_DEVICE_TO_HOST, got.data() + at, second.at(0));
  }
  need(stream.settle(), "a chain of copies");
  check_equal(got, sent, "a chain of copies through two buffers");
}

// The same through pinned memory: each copy must read there what the previous copy wrote, also
// behind unfinished work. Pageable memory may be read during the call.
void chain_through_pinned(const Context& context, uint64_t size) {
  constexpr uint64_t kRounds = 12;
  const std::vector<std::byte> sent = Draws(context).bytes(size * kRounds);
  std::vector<std::byte> got(sent.size());
  const TableBuffer busy(context, 4 * kMiB);
  const TableBuffer beside(context, busy.size());
  const TableBuffer from(context, sent.size());
  const TableBuffer to(context, sent.size());
  const TableBuffer host(context, size, KEEL_MEMORY_PINNED);
  const TableStream stream(context);
  stream.copy(KEEL_COPY_HOST_TO_DEVICE, from.at(0), sent.data(), sent.size());
  for (uint64_t i = 0; i < kRounds; ++i) {
    const auto copy = [&](keel_copy_kind kind, void* destination, const void* source,
                          uint64_t bytes) {
      need(streams_of(context).copy(stream.get(), kind, destination, source, bytes), "stream.copy");
    };
    copy(KEEL_COPY_DEVICE_TO_DEVICE, busy.at(0), beside.at(0), busy.size());
    copy(KEEL_COPY_DEVICE_TO_HOST, host.at(0), from.at(i * size), size);
    copy(KEEL_COPY_HOST_TO_DEVICE, to.at(i * size), host.at(0), size);
  }
  need(stream.settle(), "copies through pinned memory");
  stream.copy(KEEL_COPY_DEVICE_TO_HOST, got.data(), to.at(0), got.size());
  check_equal(got, sent, "copies through pinned memory");
}

// More than 64 MiB, beyond the likely limits of a staging ring or a piece counter. The worker
// compares all bytes, and the judge the bytes around each MiB.
void large(const Context& context) {
  constexpr uint64_t kBytes = 64 * kMiB + 4099;
  constexpr uint64_t kWindow = 4096;
  const std::vector<std::byte> sent = Draws(context).bytes(kBytes);
  std::vector<std::byte> got(judging() ? 0 : kBytes);
  const TableBuffer first(context, kBytes);
  const TableBuffer second(context, kBytes);
  const TableStream stream(context);
  stream.copy(KEEL_COPY_HOST_TO_DEVICE, first.at(0), sent.data(), kBytes);
  stream.copy(KEEL_COPY_DEVICE_TO_DEVICE, second.at(0), first.at(0), kBytes);
  stream.copy(KEEL_COPY_DEVICE_TO_HOST, got.data(), second.at(0), kBytes);
  std::vector<std::byte> windows;
  std::vector<std::byte> wanted;
  for (uint64_t at = 0; at + kWindow <= kBytes; at += kMiB - (at == 0 ? kWindow / 2 : 0)) {
    const std::span<const std::byte> part = std::span(sent).subspan(at, kWindow);
    wanted.insert(wanted.end(), part.begin(), part.end());
    if (judging()) continue;
    windows.insert(windows.end(), got.begin() + static_cast<std::ptrdiff_t>(at),
                   got.begin() + static_cast<std::ptrdiff_t>(at + kWindow));
  }
  windows.resize(wanted.size());
  check_equal(windows, wanted, "64 MiB and a little more, around each MiB");
  check(observe(judging() || got == sent), "64 MiB and a little more have changed");
}

// Each thread uses its own stream, and its own part of the same allocations.
void threads(const Context& context) {
  constexpr uint32_t kThreads = 4;
  constexpr uint64_t kPart = 60'000;
  constexpr uint64_t kRounds = 60;
  const std::vector<std::byte> sent = Draws(context).bytes(kPart * kThreads);
  std::vector<std::byte> got(sent.size());
  std::array<keel_status, kThreads> statuses = {};
  const TableBuffer first(context, sent.size());
  const TableBuffer second(context, sent.size());
  std::vector<std::unique_ptr<TableStream>> streams;
  for (uint32_t i = 0; i < kThreads; ++i) streams.push_back(std::make_unique<TableStream>(context));
  run_threads(kThreads, [&](uint32_t index) {
    const uint64_t piece = kPart / kRounds;
    for (uint64_t round = 0; round < kRounds && statuses[index] == KEEL_OK; ++round) {
      const uint64_t at = index * kPart + round * piece;
      const auto copy = [&](keel_copy_kind kind, void* destination, const void* source) {
        const keel_status status =
            streams_of(context).copy(streams[index]->get(), kind, destination, source, piece);
        if (status != KEEL_OK) statuses[index] = status;
      };
      copy(KEEL_COPY_HOST_TO_DEVICE, first.at(at), sent.data() + at);
      copy(KEEL_COPY_DEVICE_TO_DEVICE, second.at(at), first.at(at));
      copy(KEEL_COPY_DEVICE_TO_HOST, got.data() + at, second.at(at));
    }
    const keel_status status = streams[index]->settle_unobserved();
    if (status != KEEL_OK) statuses[index] = status;
  });
  for (const keel_status status : statuses) need(status, "copies on a thread of their own");
  check_equal(got, sent, "copies on four threads");
}

}  // namespace

void add_copy_table_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](const std::string& id, auto body, uint64_t capabilities = 0) {
    cases->push_back({"core/tables/" + id, capabilities, false, std::move(body)});
  };
  for (const Direction& each : kDirections) {
    const uint64_t capability = each.pinned ? KEEL_CAPABILITY_PINNED : 0;
    add(
        fmt::format("copy/small/{}", each.name),
        [&each](const Context& c) { small_copies(c, each); }, capability);
    add(
        fmt::format("copy/edges/{}", each.name),
        [&each](const Context& c) { edge_copies(c, each); }, capability);
    add(
        fmt::format("copy/in_flight/{}", each.name),
        [&each](const Context& c) { in_flight(c, each); }, capability);
    if (each.kind != KEEL_COPY_HOST_TO_DEVICE) continue;
    add(
        fmt::format("copy/source_reused/{}", each.name),
        [&each](const Context& c) { source_reused(c, each); }, capability);
  }
  for (const uint64_t size : {uint64_t{61}, uint64_t{3'001}, uint64_t{100'003}}) {
    add(
        fmt::format("copy/through_pinned/{}", size),
        [size](const Context& c) { chain_through_pinned(c, size); }, KEEL_CAPABILITY_PINNED);
  }
  add("copy/beside", beside);
  add("copy/many", many);
  add("copy/chain", chain);
  add("copy/large", large);
  add("copy/threads", threads);
}

}  // namespace keel::conformance
