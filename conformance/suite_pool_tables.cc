// SPDX-License-Identifier: Apache-2.0
// Level memory, on the plugin's own tables: freed memory must be available again, and
// device.memory_info must report it.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "conformance/table_calls.h"
#include "conformance/table_memory.h"

namespace keel::conformance {

namespace {

constexpr uint64_t kMiB = 1 << 20;

struct Info {
  uint64_t free;
  uint64_t total;
};

Info info_of(const Context& context, Where where = Where::current()) {
  Info info = {};
  need(device_of(context).plugin().device->memory_info(device_of(context).get(), &info.free,
                                                       &info.total),
       "device.memory_info", where);
  info = {observe(info.free, where), observe(info.total, where)};
  check(info.total != 0, "device.memory_info: no memory in total", where);
  check(info.free <= info.total,
        fmt::format("device.memory_info: {} of {} bytes are free", info.free, info.total), where);
  return info;
}

// ---- what was freed -------------------------------------------------------------------

enum class Order : uint8_t { kForward, kBackward, kEvensThenOdds, kRandom };

// Allocates a small device's memory in pieces. Freed in any order, the pieces must merge again.
void holes(const Context& context, Order order) {
  const keel_device_info& info = context.environment.info;
  if (info.memory_bytes == 0) unsupported("the device does not say how much memory it has");
  if (info.memory_bytes > 1024 * kMiB) unsupported("the device has more than 1 GiB");
  constexpr uint64_t kPieces = 32;
  const uint64_t piece = info.memory_bytes / kPieces / info.alignment * info.alignment;
  Draws draws(context);
  std::vector<TableBlock> blocks;
  // Other allocations may occupy part of the last two pieces.
  for (uint64_t i = 0; i < kPieces - 2; ++i)
    blocks.emplace_back(context, KEEL_MEMORY_DEVICE, piece);
  std::vector<size_t> places(blocks.size());
  std::iota(places.begin(), places.end(), size_t{0});
  switch (order) {
    case Order::kForward:
      break;
    case Order::kBackward:
      std::reverse(places.begin(), places.end());
      break;
    case Order::kEvensThenOdds:
      std::stable_partition(places.begin(), places.end(),
                            [](size_t each) { return each % 2 == 0; });
      break;
    case Order::kRandom:
      for (size_t i = places.size(); i > 1; --i) std::swap(places[i - 1], places[draws.below(i)]);
      break;
  }
  for (const size_t each : places) blocks[each].free();
  uint64_t most = (kPieces - 2) * piece / 4 * 3;  // another allocation may lie between the pieces
  if (info.max_alloc_bytes != 0) most = std::min(most, info.max_alloc_bytes);
  for (int round = 0; round < 3; ++round) {
    TableBlock whole(context, KEEL_MEMORY_DEVICE, most);
    check_aligned(context, whole);
    whole.free();
  }
  // Free every second piece; the others must stay unchanged.
  blocks.clear();
  for (uint64_t i = 0; i < kPieces - 2; ++i)
    blocks.emplace_back(context, KEEL_MEMORY_DEVICE, piece);
  const std::vector<std::byte> bytes = draws.bytes(10'000);
  const Contents contents(context, kMemoryKinds[0]);
  for (size_t i = 1; i < blocks.size(); i += 2) contents.write(blocks[i], 0, bytes);
  for (size_t i = 0; i < blocks.size(); i += 2) blocks[i].free();
  std::vector<TableBlock> again;
  for (size_t i = 0; i < blocks.size(); i += 2)
    again.emplace_back(context, KEEL_MEMORY_DEVICE, piece);
  for (size_t i = 1; i < blocks.size(); i += 2) {
    contents.expect(blocks[i], 0, bytes, "a block between two that were freed and had again");
  }
}

// Allocates until no memory is left: existing blocks must stay unchanged, and a freed block must be
// available to the next allocation.
void full(const Context& context) {
  const keel_device_info& info = context.environment.info;
  if (info.memory_bytes == 0) unsupported("the device does not say how much memory it has");
  if (info.memory_bytes > 1024 * kMiB) unsupported("the device has more than 1 GiB");
  constexpr uint64_t kBytes = 5'003;
  const uint64_t piece = info.memory_bytes / 24 + 12'345;
  const uint64_t free_before = free_bytes(context);
  Draws draws(context);
  std::vector<TableBlock> blocks;
  std::vector<std::vector<std::byte>> bytes;
  const Contents contents(context, kMemoryKinds[0]);
  const auto take = [&] {
    void* pointer = pointer_to(kUnwritten);
    const keel_status status = observe_status(memory_of(context).alloc(
        device_of(context).get(), KEEL_MEMORY_DEVICE, piece, /*usage=*/0, &pointer));
    if (status == KEEL_OK) {
      need(memory_of(context).free(device_of(context).get(), KEEL_MEMORY_DEVICE, pointer),
           "memory.free");
      blocks.emplace_back(context, KEEL_MEMORY_DEVICE, piece);
      bytes.push_back(draws.bytes(kBytes));
      contents.write(blocks.back(), piece - kBytes, bytes.back());
      return true;
    }
    check(status == KEEL_OUT_OF_MEMORY,
          fmt::format("memory.alloc with {} bytes taken: {}", blocks.size() * piece,
                      keel_status_name(status)));
    check_unwritten(pointer, "memory.alloc");
    return false;
  };
  // A device that backs memory only on first use need not run out.
  while (blocks.size() < 32 && take()) {
    if (context.has(KEEL_CAPABILITY_MEMORY_INFO)) info_of(context);
  }
  if (blocks.size() == 32) unsupported("the device gives more memory than it says it has");
  check(blocks.size() * piece >= info.memory_bytes / 4 * 3 ||
            (free_before != 0 && blocks.size() * piece >= free_before / 4 * 3),
        fmt::format("no more than {} of {} bytes can be had, {} of which were free",
                    blocks.size() * piece, info.memory_bytes, free_before));
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 8; ++i) check(!take(), "memory.alloc has more after it had none");
    const size_t gone = draws.below(blocks.size());
    blocks[gone].free();
    blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(gone));
    bytes.erase(bytes.begin() + static_cast<std::ptrdiff_t>(gone));
    check(take(), "memory.alloc has none, and a block of as many bytes was just freed");
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    contents.expect(blocks[i], piece - kBytes, bytes[i], "a block of a device that is full");
    blocks[i].free();
  }
}

// Allocates more than the total memory, one piece at a time and without writing: each freed piece
// must be available again. Other programs allocate too, so a refused allocation is retried.
void given_back(const Context& context) {
  constexpr int kTries = 4;
  const keel_device_info& info = context.environment.info;
  if (info.memory_bytes == 0) unsupported("the device does not say how much memory it has");
  uint64_t piece = info.memory_bytes / 8;
  if (info.max_alloc_bytes != 0) piece = std::min(piece, info.max_alloc_bytes);
  const uint64_t rounds = std::min<uint64_t>(info.memory_bytes / piece * 2, 64);
  for (uint64_t round = 0; round < rounds; ++round) {
    void* pointer = nullptr;
    keel_status status = KEEL_OUT_OF_MEMORY;
    for (int i = 0; i < kTries && status == KEEL_OUT_OF_MEMORY; ++i) {
      status = observe_status(memory_of(context).alloc(device_of(context).get(), KEEL_MEMORY_DEVICE,
                                                       piece, /*usage=*/0, &pointer));
    }
    if (round == 0 && status == KEEL_OUT_OF_MEMORY) {
      unsupported("an eighth of the device's memory cannot be had");
    }
    need_be(
        KEEL_OK, status,
        fmt::format("memory.alloc of {} bytes after {} times as many were freed", piece, round));
    need(memory_of(context).free(device_of(context).get(), KEEL_MEMORY_DEVICE, pointer),
         "memory.free");
  }
}

// Rounds of alloc and free must not increase the process's memory use.
void reused(const Context& context, const MemoryKind& kind) {
  constexpr uint64_t kRounds = 32;
  constexpr uint64_t kBlocks = 20;
  Draws draws(context);
  uint64_t bytes = 0;
  const auto round = [&] {
    std::vector<TableBlock> blocks;
    uint64_t taken = 0;
    for (uint64_t i = 0; i < kBlocks; ++i) {
      const uint64_t size =
          draws.below(4) == 0 ? 1 + draws.below(90'000) : kMiB + draws.below(900'000);
      blocks.emplace_back(context, kind.kind, size);
      taken += size;
    }
    while (!blocks.empty()) {
      const size_t index = draws.below(blocks.size());
      blocks[index].free();
      if (index + 1 != blocks.size()) std::swap(blocks[index], blocks.back());
      blocks.pop_back();
    }
    return taken;
  };
  for (int i = 0; i < 4; ++i) round();  // lets pools grow
  const uint64_t before = observe_address_space();
  const uint64_t free_before = free_bytes(context);
  for (uint64_t i = 0; i < kRounds; ++i) bytes += round();
  const uint64_t after = observe_address_space();
  check(after < before + bytes / 2,
        fmt::format("{} bytes that were freed again took {} bytes of address space", bytes,
                    after - before));
  uint64_t free_after = free_bytes(context);
  for (int i = 0; i < 3 && free_after + bytes / 2 < free_before; ++i) {
    free_after = free_bytes(context);
  }
  check(free_after + bytes / 2 >= free_before,
        fmt::format("of {} bytes that were freed again {} are missing in device.memory_info", bytes,
                    free_before - free_after));
}

// ---- device.memory_info ----------------------------------------------------------------

// A written allocation must reduce the free memory by its size. Other programs allocate and free, a
// pool may already hold part of the memory, and a sanitizer quarantines 256 MiB of freed memory:
// one of several tries must show the change.
void memory_info(const Context& context) {
  constexpr int kTries = 12;
  constexpr int kMostHeld = 4;
  const Info first = info_of(context);
  const uint64_t told = context.environment.info.memory_bytes;
  check(told == 0 || (first.total / 2 <= told && told / 2 <= first.total),
        fmt::format("device.memory_info has {} bytes in total, device.info {}", first.total, told));
  const uint64_t size = std::min(72 * kMiB, first.total / 8);
  const std::vector<std::byte> bytes(4 * kMiB, std::byte{0x11});
  bool has_fallen = false;
  bool has_risen = false;
  for (int i = 0; i < kTries && !(has_fallen && has_risen); ++i) {
    std::vector<TableBuffer> held;
    const Info before = info_of(context);
    Info with = before;
    const int most = std::min(i + 1, kMostHeld);
    for (int each = 0; each < most && with.free + size / 2 > before.free; ++each) {
      held.emplace_back(context, size);
      const TableStream stream(context);
      for (uint64_t at = 0; at < size; at += bytes.size()) {
        stream.copy(KEEL_COPY_HOST_TO_DEVICE, held.back().at(at), bytes.data(),
                    std::min<uint64_t>(size - at, bytes.size()));
      }
      with = info_of(context);
      check(with.total == first.total, "device.memory_info has another total");
    }
    has_fallen = has_fallen || with.free + size / 2 <= before.free;
    held.clear();
    const Info after = info_of(context);
    check(after.total == first.total, "device.memory_info has another total");
    has_risen = has_risen || after.free >= with.free + size / 2;
  }
  check(has_fallen, fmt::format("device.memory_info: {} bytes more are held, and as many are free",
                                kMostHeld * size));
  check(has_risen, "device.memory_info: what was freed is not free");
}

// Equal rounds of alloc and free must not change the free memory: no constant loss per round, again
// and again. Other programs do not allocate that regularly.
void memory_info_drift(const Context& context) {
  constexpr int kRounds = 10;
  constexpr uint64_t kSizes[] = {1, 63, 100, 257, 1000, 4097, 10'001, 65'537, 300'003};
  const auto round = [&] {
    std::vector<TableBlock> blocks;
    for (const uint64_t size : kSizes) blocks.emplace_back(context, KEEL_MEMORY_DEVICE, size);
    for (TableBlock& each : blocks) each.free();
    return info_of(context).free;
  };
  round();
  uint64_t before = round();
  std::vector<uint64_t> lost;
  for (int i = 0; i < kRounds; ++i) {
    const uint64_t after = round();
    lost.push_back(before - after);
    before = after;
  }
  const bool is_even =
      std::all_of(lost.begin(), lost.end(), [&](uint64_t each) { return each == lost[0]; });
  check(!is_even || lost[0] == 0,
        fmt::format("device.memory_info has {} bytes less each time that as much was freed as was "
                    "taken",
                    static_cast<int64_t>(lost[0])));
}

}  // namespace

void add_pool_table_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](const std::string& id, auto body, uint64_t capabilities = 0) {
    cases->push_back({"memory/tables/" + id, capabilities, false, std::move(body)});
  };
  for (const MemoryKind& kind : kMemoryKinds) {
    add(
        fmt::format("reused/{}", kind.name), [&kind](const Context& c) { reused(c, kind); },
        kind.capability);
  }
  for (const auto& [name, order] :
       {std::pair{"forward", Order::kForward}, std::pair{"backward", Order::kBackward},
        std::pair{"evens_then_odds", Order::kEvensThenOdds}, std::pair{"random", Order::kRandom}}) {
    add(fmt::format("holes/{}", name), [order = order](const Context& c) { holes(c, order); });
  }
  add("full", full);
  add("given_back", given_back);
  add("info", memory_info, KEEL_CAPABILITY_MEMORY_INFO);
  add("info_drift", memory_info_drift, KEEL_CAPABILITY_MEMORY_INFO);
}

}  // namespace keel::conformance
