// SPDX-License-Identifier: Apache-2.0
// Level core: allocations, copies and fills must be correct to the last byte and leave other memory
// unchanged.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "conformance/harness.h"
#include "conformance/levels.h"

namespace keel::conformance {

namespace {

constexpr uint64_t kMiB = 1 << 20;

void device_info(const Context& context) {
  const keel_device_info& info = context.environment.info;
  const auto ends = [](std::span<const char> text) {
    return std::find(text.begin(), text.end(), '\0') != text.end();
  };
  check(ends(info.name) && ends(info.architecture) && ends(info.pci_address) && ends(info.driver),
        "a text is not 0-terminated");
  check(info.name[0] != '\0', "the device has no name");
  check(info.type >= KEEL_DEVICE_CPU && info.type <= KEEL_DEVICE_OTHER,
        fmt::format("type {} is no device type", info.type));
  check(std::has_single_bit(info.alignment) && info.alignment >= 64,
        fmt::format("alignment {} is no power of two >= 64", info.alignment));
  check(info.copy_alignment == 0 || std::has_single_bit(info.copy_alignment),
        fmt::format("copy_alignment {} is no power of two", info.copy_alignment));
  check((info.capabilities & ~known_capabilities()) == 0,
        "capabilities has bits that mean nothing");
}

void allocation(const Context& context, uint64_t size) {
  const uint32_t alignment = context.environment.info.alignment;
  std::vector<Buffer> buffers;
  std::vector<uintptr_t> addresses;
  for (int i = 0; i < 8; ++i) {
    buffers.emplace_back(context.device(), KEEL_MEMORY_DEVICE, size);
    const uintptr_t address = observe(reinterpret_cast<uintptr_t>(buffers.back().data()));
    check(address % alignment == 0,
          fmt::format("{:#x} is not aligned to the {} of device_info", address, alignment));
    for (const uintptr_t other : addresses) {
      check(address + size <= other || other + size <= address, "two allocations overlap");
    }
    addresses.push_back(address);
  }
}

void round_trip(const Context& context, uint64_t size) {
  const Stream stream(context);
  const Buffer device(context.device(), KEEL_MEMORY_DEVICE, size);
  const std::vector<std::byte> sent = random_bytes(context, 0, size);
  std::vector<std::byte> received(size, std::byte{0});
  stream.upload(device.data(), sent);
  stream.download(received, device.data());
  stream.synchronize();
  check_equal(received, sent, "host to device to host");
}

void pinned_round_trip(const Context& context, uint64_t size) {
  const Stream stream(context);
  const Buffer device(context.device(), KEEL_MEMORY_DEVICE, size);
  const Buffer from(context.device(), KEEL_MEMORY_PINNED, size);
  const Buffer to(context.device(), KEEL_MEMORY_PINNED, size);
  const std::vector<std::byte> sent = random_bytes(context, 0, size);
  std::copy(sent.begin(), sent.end(), from.data());
  std::fill_n(to.data(), size, std::byte{0});
  stream.upload(device.data(), from.host());
  stream.download(to.host(), device.data());
  stream.synchronize();
  check_equal(to.host(), sent, "pinned to device to pinned");
}

void copy_within(const Context& context, uint64_t size) {
  const Stream stream(context);
  const Buffer first(context.device(), KEEL_MEMORY_DEVICE, size);
  const Buffer second(context.device(), KEEL_MEMORY_DEVICE, size);
  const std::vector<std::byte> sent = random_bytes(context, 0, size);
  std::vector<std::byte> received(size, std::byte{0});
  stream.upload(first.data(), sent);
  stream.copy(second.data(), first.data(), size);
  stream.download(received, second.data());
  stream.synchronize();
  check_equal(received, sent, "device to device");
}

struct Offsets {
  uint64_t destination;
  uint64_t source;
  uint64_t size;
};

// One copy in each direction between odd offsets; the surrounding memory must stay unchanged.
void offset_copy(const Context& context, const Offsets& offsets) {
  const uint64_t room = std::max(offsets.destination, offsets.source) + offsets.size + 64;
  const Stream stream(context);
  const Buffer first(context.device(), KEEL_MEMORY_DEVICE, room);
  const Buffer second(context.device(), KEEL_MEMORY_DEVICE, room);
  const std::vector<std::byte> red(room, kRedZone);
  const std::vector<std::byte> source = random_bytes(context, 0, room);
  const std::vector<std::byte> tail = random_bytes(context, 1, offsets.size);
  std::vector<std::byte> received(room, std::byte{0});
  const auto expect = [&](const std::vector<std::byte>& data, uint64_t data_offset) {
    std::vector<std::byte> wanted = red;
    std::copy_n(data.begin() + static_cast<std::ptrdiff_t>(data_offset), offsets.size,
                wanted.begin() + static_cast<std::ptrdiff_t>(offsets.destination));
    return wanted;
  };

  stream.upload(first.data(), source);
  stream.upload(second.data(), red);
  stream.copy(second.at(offsets.destination), first.at(offsets.source), offsets.size);
  stream.download(received, second.data());
  stream.synchronize();
  check_equal(received, expect(source, offsets.source), "device to device at an offset");

  stream.upload(second.data(), red);
  stream.upload(second.at(offsets.destination), tail);
  stream.download(received, second.data());
  stream.synchronize();
  check_equal(received, expect(tail, 0), "host to device at an offset");

  received = red;
  stream.download({received.data() + offsets.destination, offsets.size}, first.at(offsets.source));
  stream.synchronize();
  check_equal(received, expect(source, offsets.source), "device to host at an offset");
}

void fill(const Context& context, uint32_t pattern_size, uint64_t size) {
  constexpr uint64_t kBefore = 64;
  const std::vector<std::byte> pattern = random_bytes(context, 0, pattern_size);
  const Stream stream(context);
  const Buffer device(context.device(), KEEL_MEMORY_DEVICE, kBefore + size + 64);
  const std::vector<std::byte> red(device.size(), kRedZone);  // read until the upload is done
  std::vector<std::byte> wanted = red;
  std::vector<std::byte> received(device.size(), std::byte{0});
  stream.upload(device.data(), red);
  must(keel_fill(stream.get(), device.at(kBefore), pattern.data(), pattern_size, size),
       "keel_fill");
  for (uint64_t i = 0; i < size; ++i) wanted[kBefore + i] = pattern[i % pattern_size];
  stream.download(received, device.data());
  stream.synchronize();
  check_equal(received, wanted, "fill");
}

// Each step reads what the previous step wrote.
void stream_order(const Context& context) {
  constexpr uint64_t kBytes = 256 * 1024;
  const Stream stream(context);
  const Buffer first(context.device(), KEEL_MEMORY_DEVICE, kBytes);
  const Buffer second(context.device(), KEEL_MEMORY_DEVICE, kBytes);
  std::vector<std::byte> received(kBytes);
  for (uint32_t step = 0; step < 40; ++step) {
    stream.fill(first.data(), 0x01000100 + step, kBytes);
    stream.copy(second.data(), first.data(), kBytes);
    stream.fill(first.data(), 0xdead0000 + step, kBytes);
    if (step % 8 != 7) continue;
    stream.download(received, second.data());
    stream.synchronize();
    check_filled(received, 0x01000100 + step, fmt::format("step {}", step));
  }
}

// More small copies than a queue or staging ring is likely to hold.
void many_copies(const Context& context) {
  constexpr uint64_t kPiece = 37;
  constexpr uint64_t kPieces = 1500;
  const Stream stream(context);
  const Buffer device(context.device(), KEEL_MEMORY_DEVICE, kPiece * kPieces);
  const std::vector<std::byte> sent = random_bytes(context, 0, kPiece * kPieces);
  std::vector<std::byte> received(sent.size(), std::byte{0});
  for (uint64_t i = 0; i < kPieces; ++i) {
    const uint64_t piece = i * 7 % kPieces;  // 7 and 1500 are coprime: visits all pieces
    stream.upload(device.at(piece * kPiece), {sent.data() + piece * kPiece, kPiece});
  }
  for (uint64_t i = 0; i < kPieces; ++i) {
    const uint64_t piece = i * 11 % kPieces;
    stream.download({received.data() + piece * kPiece, kPiece}, device.at(piece * kPiece));
  }
  stream.synchronize();
  check_equal(received, sent, "1,500 small copies each way");
}

void idle_stream(const Context& context) {
  const Stream stream(context);
  stream.synchronize();
  must(keel_stream_query(stream.get()), "keel_stream_query of an idle stream");
  const Buffer device(context.device(), KEEL_MEMORY_DEVICE, 4096);
  stream.fill(device.data(), 1, 4096);
  stream.synchronize();
  must(keel_stream_query(stream.get()), "keel_stream_query after synchronize");
}

void streams_come_and_go(const Context& context) {
  const Buffer device(context.device(), KEEL_MEMORY_DEVICE, 64 * 64);
  for (uint32_t i = 0; i < 64; ++i) {
    const Stream stream(context);
    stream.fill(device.at(uint64_t{i} * 64), i, 64);
  }
  const Stream stream(context);
  std::vector<std::byte> received(device.size());
  stream.download(received, device.data());
  stream.synchronize();
  for (uint32_t i = 0; i < 64; ++i) {
    check_filled({received.data() + uint64_t{i} * 64, 64}, i, fmt::format("stream {}", i));
  }
}

void event_basics(const Context& context) {
  const Stream stream(context);
  const Event event;
  must(keel_event_query(event.get()), "query of an event that was never recorded");
  const Buffer device(context.device(), KEEL_MEMORY_DEVICE, kMiB);
  std::vector<std::byte> received(kMiB);
  for (uint32_t round = 0; round < 20; ++round) {
    stream.fill(device.data(), round, kMiB);
    stream.download(received, device.data());
    event.record(stream);
    must(keel_event_wait(event.get(), context.environment.wait_ns), "keel_event_wait");
    must(keel_event_query(event.get()), "query of an event that was waited for");
    check_filled(received, round, "after the event");
  }
}

}  // namespace

void add_core_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](std::string id, auto body, uint64_t capabilities = 0, bool full = false) {
    cases->push_back({"core/" + std::move(id), capabilities, full, std::move(body)});
  };
  add("device/info", device_info);
  for (const uint64_t size : {1ULL, 63ULL, 64ULL, 65ULL, 4096ULL, 65537ULL, 3ULL << 20}) {
    add(fmt::format("alloc/{}", size), [size](const Context& c) { allocation(c, size); });
  }
  constexpr uint64_t kSizes[] = {1,    2,     3,     4,     5,    7,        8,           15,   16,
                                 63,   64,    65,    255,   257,  1000,     4095,        4096, 4097,
                                 9973, 65535, 65536, 65537, kMiB, kMiB + 1, 8 * kMiB + 3};
  for (const uint64_t size : kSizes) {
    add(fmt::format("copy/roundtrip/{}", size), [size](const Context& c) { round_trip(c, size); });
    add(fmt::format("copy/within/{}", size), [size](const Context& c) { copy_within(c, size); });
    add(
        fmt::format("copy/pinned/{}", size),
        [size](const Context& c) { pinned_round_trip(c, size); }, KEEL_CAPABILITY_PINNED);
  }
  for (const uint64_t size : {64 * kMiB + 5, 256 * kMiB - 1}) {
    add(
        fmt::format("copy/roundtrip/{}", size), [size](const Context& c) { round_trip(c, size); },
        0, /*full=*/true);
    add(
        fmt::format("copy/within/{}", size), [size](const Context& c) { copy_within(c, size); }, 0,
        /*full=*/true);
  }
  constexpr Offsets kOffsets[] = {{1, 0, 1},       {0, 1, 3},        {1, 1, 7},    {3, 2, 64},
                                  {2, 3, 255},     {4, 8, 1023},     {5, 4, 4096}, {64, 1, 4097},
                                  {7, 64, 65537},  {4093, 17, 9999}, {16, 16, 16}, {1, 2, 4},
                                  {4096, 4096, 1}, {13, 4, kMiB + 1}};
  for (const Offsets& each : kOffsets) {
    add(fmt::format("copy/offsets/to{}_from{}_{}", each.destination, each.source, each.size),
        [each](const Context& c) { offset_copy(c, each); });
  }
  for (const uint32_t pattern : {1U, 2U, 4U, 8U}) {
    for (const uint64_t count : {1ULL, 3ULL, 17ULL, 1000ULL, 65537ULL, 1ULL << 18}) {
      const uint64_t size = pattern * count;
      add(fmt::format("fill/pattern{}/{}", pattern, size),
          [pattern, size](const Context& c) { fill(c, pattern, size); });
    }
  }
  add("copy/many", many_copies);
  add("stream/order", stream_order);
  add("stream/idle", idle_stream);
  add("stream/come_and_go", streams_come_and_go);
  add("event/basics", event_basics);
}

}  // namespace keel::conformance
