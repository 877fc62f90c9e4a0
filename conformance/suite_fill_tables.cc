// SPDX-License-Identifier: Apache-2.0
// Level core, on the plugin's own tables: stream.fill with every pattern at every offset, and
// accesses past 4 GiB.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <vector>

#include "conformance/table_calls.h"

namespace keel::conformance {

namespace {

constexpr uint64_t kMiB = 1 << 20;

// ---- fills ----------------------------------------------------------------------------

// Enqueues a fill and overwrites the pattern when the call returns.
void enqueue_fill(const Context& context, const TableStream& stream, void* destination,
                  std::span<const std::byte> pattern, uint64_t size,
                  Where where = Where::current()) {
  std::vector<std::byte> passing(pattern.begin(), pattern.end());
  const keel_status status = streams_of(context).fill(stream.get(), destination, passing.data(),
                                                      static_cast<uint32_t>(passing.size()), size);
  std::fill(passing.begin(), passing.end(), std::byte{0xee});
  need(status, fmt::format("stream.fill of {} bytes with {}", size, pattern.size()), where);
}

// Patterns that a shorter pattern can replace, and patterns that none can.
std::vector<std::vector<std::byte>> patterns_of(uint32_t size) {
  std::vector<std::vector<std::byte>> patterns;
  const auto add = [&](auto byte_at) {
    std::vector<std::byte>& pattern = patterns.emplace_back(size);
    for (uint32_t i = 0; i < size; ++i) pattern[i] = static_cast<std::byte>(byte_at(i));
  };
  add([](uint32_t i) { return 0x31 + i * 0x17; });
  add([](uint32_t i) { return 0xf1 - i * 0x0b; });
  add([](uint32_t) { return 0; });
  add([](uint32_t) { return 0xff; });
  add([](uint32_t) { return 0x5c; });
  add([&](uint32_t i) { return i + 1 == size ? 0x80 : 0; });
  add([](uint32_t i) { return i == 0 ? 0x01 : 0; });
  add([](uint32_t i) { return i % 2 == 0 ? 0x12 : 0x34; });
  add([](uint32_t i) { return 0x41 + i % 4; });
  add([&](uint32_t i) { return i < size / 2 ? 0x77 : 0x78; });
  return patterns;
}

// Without FILL the slot accepts only single bytes, and may be absent.
void check_fill_is_there(const Context& context, uint32_t pattern_size) {
  const bool has = observe(KEEL_HAS(keel_stream_table, &streams_of(context), fill));
  if (context.has(KEEL_CAPABILITY_FILL)) {
    check(has, "FILL is claimed, and there is no stream.fill");
  } else if (!has || pattern_size != 1) {
    unsupported("not claimed: FILL");
  }
}

void small_fills(const Context& context, uint32_t pattern_size) {
  constexpr uint64_t kSlot = 512;
  check_fill_is_there(context, pattern_size);
  const auto patterns = patterns_of(pattern_size);
  std::vector<std::byte> wanted(kSlot * 120, kRedZone);
  std::vector<std::byte> got(wanted.size());
  const TableBuffer memory(context, wanted.size());
  const TableStream stream(context);
  stream.copy(KEEL_COPY_HOST_TO_DEVICE, memory.at(0), wanted.data(), wanted.size());
  for (uint64_t i = 0; i < 120; ++i) {
    const uint64_t size = pattern_size * (1 + i % 40);
    const uint64_t at = i * kSlot + pattern_size * (i * 5 % 18);
    const std::vector<std::byte>& pattern = patterns[i % patterns.size()];
    enqueue_fill(context, stream, memory.at(at), pattern, size);
    for (uint64_t j = 0; j < size; ++j) wanted[at + j] = pattern[j % pattern_size];
  }
  need(stream.settle(), "small fills");
  stream.copy(KEEL_COPY_DEVICE_TO_HOST, got.data(), memory.at(0), got.size());
  check_equal(got, wanted, "small fills");
}

void edge_fills(const Context& context, uint32_t pattern_size) {
  constexpr uint64_t kSizes[] = {4088,   4096,    4104,     8184, 65'528,   65'536,
                                 65'544, 262'144, kMiB - 8, kMiB, kMiB + 8, 2 * kMiB + 24};
  check_fill_is_there(context, pattern_size);
  const auto patterns = patterns_of(pattern_size);
  uint64_t room = 4096;
  for (const uint64_t size : kSizes) room += size + 4096;
  std::vector<std::byte> wanted(room, kRedZone);
  std::vector<std::byte> got(room);
  const TableBuffer memory(context, room);
  const TableStream stream(context);
  stream.copy(KEEL_COPY_HOST_TO_DEVICE, memory.at(0), wanted.data(), room);
  uint64_t place = 0;
  for (size_t i = 0; i < std::size(kSizes); ++i) {
    // For patterns shorter than 8 bytes, one element above or below a round size.
    const uint64_t size = kSizes[i] - (i % 3 == 1 ? pattern_size : 0);
    const uint64_t at = place + pattern_size * (i * 3 % 18);
    const std::vector<std::byte>& pattern = patterns[i % 2];
    enqueue_fill(context, stream, memory.at(at), pattern, size);
    for (uint64_t j = 0; j < size; ++j) wanted[at + j] = pattern[j % pattern_size];
    place += (size + 4096) / 8 * 8;
  }
  need(stream.settle(), "fills around pages");
  stream.copy(KEEL_COPY_DEVICE_TO_HOST, got.data(), memory.at(0), room);
  check_equal(got, wanted, "fills around pages");
}

// ---- past 4 GiB -----------------------------------------------------------------------

// Writes around 2^31 and 2^32 must appear at these offsets and nowhere else.
void past_32_bits(const Context& context) {
  constexpr uint64_t kBytes = (uint64_t{1} << 32) + 3 * kMiB;
  constexpr uint64_t kPiece = 4099;
  const keel_device_info& info = context.environment.info;
  if (info.max_alloc_bytes != 0 && info.max_alloc_bytes < kBytes) {
    unsupported("the device's largest allocation is shorter than 4 GiB");
  }
  if (info.memory_bytes != 0 && info.memory_bytes < 4 * kBytes) {
    unsupported("the device has less than 16 GiB");
  }
  check_fill_is_there(context, 1);
  const TableBuffer memory(context, kBytes);
  const TableBuffer other(context, kBytes);
  const uint64_t places[] = {0,
                             (uint64_t{1} << 31) - 2000,
                             (uint64_t{1} << 31) + kMiB,
                             (uint64_t{1} << 32) - 2000,
                             (uint64_t{1} << 32) + kMiB + 3,
                             kBytes - kPiece};
  std::vector<std::vector<std::byte>> sent;
  Draws draws(context);
  for (size_t i = 0; i < std::size(places); ++i) sent.push_back(draws.bytes(kPiece));
  std::vector<std::byte> got(kPiece);
  const std::byte byte{0x3d};
  const TableStream stream(context);
  const auto expect = [&](const TableBuffer& in, uint64_t at, std::span<const std::byte> wanted,
                          const char* what) {
    stream.copy(KEEL_COPY_DEVICE_TO_HOST, got.data(), in.at(at), kPiece);
    check_equal(got, wanted, fmt::format("{}, at byte {}", what, at));
  };
  enqueue_fill(context, stream, memory.at(0), std::span(&byte, 1), kBytes);
  need(stream.settle(), "a fill of more than 4 GiB");
  const std::vector<std::byte> filled(kPiece, byte);
  for (const uint64_t at : places) expect(memory, at, filled, "a fill of more than 4 GiB");
  for (size_t i = 0; i < std::size(places); ++i) {
    stream.copy(KEEL_COPY_HOST_TO_DEVICE, memory.at(places[i]), sent[i].data(), kPiece);
  }
  for (size_t i = 0; i < std::size(places); ++i) {
    expect(memory, places[i], sent[i], "memory of more than 4 GiB");
  }
  expect(memory, 2 * kPiece, filled, "memory of more than 4 GiB");
  stream.copy(KEEL_COPY_DEVICE_TO_DEVICE, other.at(0), memory.at(0), kBytes);
  for (size_t i = 0; i < std::size(places); ++i) {
    expect(other, places[i], sent[i], "a copy of more than 4 GiB");
  }
}

}  // namespace

void add_fill_table_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](const std::string& id, auto body, bool full = false) {
    cases->push_back({"core/tables/" + id, 0, full, std::move(body)});
  };
  for (const uint32_t size : {1U, 2U, 4U, 8U}) {
    add(fmt::format("fill/small/pattern{}", size),
        [size](const Context& c) { small_fills(c, size); });
    add(fmt::format("fill/edges/pattern{}", size),
        [size](const Context& c) { edge_fills(c, size); });
  }
  add("past_32_bits", past_32_bits, /*full=*/true);
}

}  // namespace keel::conformance
