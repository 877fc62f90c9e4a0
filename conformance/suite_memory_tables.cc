// SPDX-License-Identifier: Apache-2.0
// Level memory, on the plugin's own tables: alloc and free without core's pools and retries, which
// hide faults.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>

#include "conformance/table_calls.h"
#include "conformance/table_memory.h"

namespace keel::conformance {

namespace {

constexpr uint64_t kMiB = 1 << 20;

// Every size class, all live at once; large blocks are written at both ends.
void sizes(const Context& context, const MemoryKind& kind) {
  constexpr uint64_t kSizes[] = {1,
                                 2,
                                 3,
                                 8,
                                 15,
                                 17,
                                 63,
                                 64,
                                 65,
                                 100,
                                 127,
                                 129,
                                 255,
                                 256,
                                 257,
                                 511,
                                 513,
                                 1000,
                                 4095,
                                 4096,
                                 4097,
                                 8191,
                                 12'289,
                                 65'535,
                                 65'536,
                                 65'537,
                                 300'000,
                                 kMiB - 1,
                                 kMiB,
                                 kMiB + 1,
                                 2 * kMiB - 1,
                                 2 * kMiB,
                                 2 * kMiB + 1,
                                 5 * kMiB + 77,
                                 16 * kMiB + 5,
                                 33 * kMiB,
                                 64 * kMiB};
  constexpr uint64_t kEnd = 32'768;
  Draws draws(context);
  Ranges ranges;
  std::vector<TableBlock> blocks;
  std::vector<std::vector<std::byte>> heads;
  std::vector<std::vector<std::byte>> tails;
  const Contents contents(context, kind);
  for (const uint64_t size : kSizes) {
    for (int copy = 0; copy < (size < kMiB ? 3 : 1); ++copy) {
      blocks.emplace_back(context, kind.kind, size);
      check_aligned(context, blocks.back());
      ranges.add(blocks.back());
      const uint64_t part = std::min(size, kEnd);
      heads.push_back(draws.bytes(part));
      contents.write(blocks.back(), 0, heads.back());
      tails.push_back(size > 2 * kEnd ? draws.bytes(kEnd) : std::vector<std::byte>());
      if (size > 2 * kEnd) contents.write(blocks.back(), size - kEnd, tails.back());
    }
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    const std::string what = fmt::format("a block of {} bytes among others", blocks[i].size());
    contents.expect(blocks[i], 0, heads[i], "the start of " + what);
    if (!tails[i].empty()) {
      contents.expect(blocks[i], blocks[i].size() - kEnd, tails[i], "the end of " + what);
    }
    blocks[i].free();
  }
}

// Allocates and frees blocks of random sizes: each block must keep its content whatever happens to
// its neighbours.
void random_blocks(const Context& context, const MemoryKind& kind, uint64_t steps) {
  constexpr uint64_t kMostBlocks = 120;
  struct Live {
    TableBlock block;
    std::vector<std::byte> bytes;
  };
  Draws draws(context);
  Ranges ranges;
  std::vector<Live> live;
  const Contents contents(context, kind);
  const auto check_one = [&](const Live& each, uint64_t step) {
    contents.expect(each.block, 0, each.bytes,
                    fmt::format("a block of {} bytes after {} steps", each.bytes.size(), step));
  };
  for (uint64_t step = 0; step < steps; ++step) {
    // The number of blocks grows to the maximum and shrinks again.
    const bool takes = draws.below(16) < (step / 256 % 2 == 0 ? 11U : 5U);
    if (live.empty() || (takes && live.size() < kMostBlocks)) {
      const uint64_t limit = draws.below(24) == 0 ? 200'000 : draws.below(3) == 0 ? 9'000 : 700;
      const uint64_t size = 1 + draws.below(limit);
      live.push_back({TableBlock(context, kind.kind, size), draws.bytes(size)});
      check_aligned(context, live.back().block);
      ranges.add(live.back().block);
      contents.write(live.back().block, 0, live.back().bytes);
    } else {
      const size_t index = draws.below(live.size());
      check_one(live[index], step);
      ranges.remove(live[index].block);
      live[index].block.free();
      if (index + 1 != live.size()) std::swap(live[index], live.back());
      live.pop_back();
    }
  }
  for (const Live& each : live) check_one(each, steps);
}

// ---- what does not fit ----------------------------------------------------------------

void works(const Context& context, const MemoryKind& kind, const std::string& when) {
  constexpr uint64_t kBytes = 30'011;
  TableBlock block(context, kind.kind, kBytes);
  check_aligned(context, block);
  const std::vector<std::byte> sent = random_bytes(context, 0, kBytes);
  const Contents contents(context, kind);
  contents.write(block, 0, sent);
  contents.expect(block, 0, sent, "a block " + when);
  block.free();
}

void refused_sizes(const Context& context, const MemoryKind& kind) {
  const keel_device_info& info = context.environment.info;
  std::vector<uint64_t> sizes = {UINT64_MAX,
                                 UINT64_MAX - 1,
                                 UINT64_MAX - 14,
                                 UINT64_MAX - 63,
                                 UINT64_MAX - info.alignment,
                                 UINT64_MAX - 2 * uint64_t{info.alignment} + 1,
                                 UINT64_MAX - 4095,
                                 UINT64_MAX - 2 * kMiB,
                                 (uint64_t{1} << 63) + 1,
                                 uint64_t{1} << 63,
                                 (uint64_t{1} << 63) - 1,
                                 uint64_t{1} << 62,
                                 uint64_t{1} << 48,
                                 uint64_t{1} << 46};
  const bool is_device = kind.kind == KEEL_MEMORY_DEVICE;
  if (is_device && info.max_alloc_bytes != 0) sizes.push_back(info.max_alloc_bytes + 1);
  // A device that backs memory only on first use may grant more than its size.
  const size_t certain = sizes.size();
  if (is_device && info.memory_bytes != 0) {
    for (const uint64_t more : {uint64_t{1}, uint64_t{info.alignment}, kMiB}) {
      sizes.push_back(info.memory_bytes + more);
    }
    // More than the held block leaves, and less than the device has: a failed call must not charge
    // the device for it.
    if (info.memory_bytes > kMiB) sizes.push_back(info.memory_bytes - kMiB / 2);
  }
  // With memory already allocated, its size plus the largest sizes overflows to a small number.
  TableBlock held(context, kind.kind, kMiB);
  const uint64_t before = free_bytes(context);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const std::string what = fmt::format("memory.alloc of {} bytes", sizes[i]);
    void* pointer = pointer_to(kUnwritten);
    const keel_status status = observe_status(memory_of(context).alloc(
        device_of(context).get(), kind.kind, sizes[i], /*usage=*/0, &pointer));
    if (status == KEEL_OK) {
      (void)memory_of(context).free(device_of(context).get(), kind.kind, pointer);
      check(i >= certain, what + " succeeds");
      continue;
    }
    check(status == KEEL_OUT_OF_MEMORY,
          fmt::format("{}: {} instead of OUT_OF_MEMORY", what, keel_status_name(status)));
    check_unwritten(pointer, what);
    works(context, kind, "after a " + what);
  }
  for (int i = 0; i < 200; ++i) {
    void* pointer = nullptr;
    const keel_status status = memory_of(context).alloc(device_of(context).get(), kind.kind,
                                                        uint64_t{1} << 62, /*usage=*/0, &pointer);
    if (i % 50 == 0) need_be(KEEL_OUT_OF_MEMORY, status, "memory.alloc, again and again");
  }
  works(context, kind, "after 200 that failed");
  uint64_t after = free_bytes(context);
  for (int i = 0; i < 3 && after + 256 * kMiB < before; ++i) after = free_bytes(context);
  check(after + 256 * kMiB >= before,
        fmt::format("{} bytes were free, and {} after allocations that failed", before, after));
  held.free();
}

// A memory kind without its capability.
void unclaimed_kind(const Context& context) {
  bool any = false;
  for (const MemoryKind& kind : kMemoryKinds) {
    if (kind.capability == 0 || context.has(kind.capability)) continue;
    any = true;
    void* pointer = pointer_to(kUnwritten);
    const keel_status status = observe_status(
        memory_of(context).alloc(device_of(context).get(), kind.kind, 4096, /*usage=*/0, &pointer));
    if (status == KEEL_OK) {
      need(memory_of(context).free(device_of(context).get(), kind.kind, pointer), "memory.free");
      continue;
    }
    check(status == KEEL_UNSUPPORTED,
          fmt::format("memory.alloc of {} memory, which is not claimed: {} instead of UNSUPPORTED",
                      kind.name, keel_status_name(status)));
    check_unwritten(pointer, "memory.alloc");
  }
  if (!any) unsupported("every kind of memory is claimed");
  works(context, kMemoryKinds[0], "after a kind that is not claimed");
}

void usage_flags(const Context& context) {
  const TableStream stream(context);
  for (const uint32_t usage :
       {0, int{KEEL_USAGE_EXPORT}, int{KEEL_USAGE_PEER}, KEEL_USAGE_EXPORT | KEEL_USAGE_PEER}) {
    for (const uint64_t size : {uint64_t{1000}, 3 * kMiB + 5}) {
      const TableBuffer buffer(context, size, KEEL_MEMORY_DEVICE, usage);
      check(observe(address_of(buffer.at(0))) % context.environment.info.alignment == 0,
            fmt::format("memory for usage {} is not aligned", usage));
      const std::vector<std::byte> sent = random_bytes(context, usage, 1000);
      std::vector<std::byte> got(sent.size());
      stream.copy(KEEL_COPY_HOST_TO_DEVICE, buffer.at(size - 1000), sent.data(), sent.size());
      stream.copy(KEEL_COPY_DEVICE_TO_HOST, got.data(), buffer.at(size - 1000), got.size());
      check_equal(got, sent, fmt::format("memory for usage {}", usage));
    }
  }
}

// Host, device and managed memory: pinned and managed blocks share one address space, device and
// managed blocks another.
void kinds_apart(const Context& context) {
  Ranges hosts;    // pinned, managed
  Ranges devices;  // device, managed
  std::vector<TableBlock> blocks;
  for (int round = 0; round < 8; ++round) {
    for (const MemoryKind& kind : kMemoryKinds) {
      if (!context.has(kind.capability)) continue;
      blocks.emplace_back(context, kind.kind, 5'000 + 70'000 * static_cast<uint64_t>(round));
      if (kind.kind != KEEL_MEMORY_DEVICE) hosts.add(blocks.back());
      if (kind.kind != KEEL_MEMORY_PINNED) devices.add(blocks.back());
    }
  }
  for (TableBlock& each : blocks) each.free();
}

// ---- threads --------------------------------------------------------------------------

// Each thread uses its own blocks of one device; the case checks the data read afterwards.
void threads(const Context& context, const MemoryKind& kind) {
  constexpr uint32_t kThreads = 4;
  constexpr uint64_t kRounds = 60;
  constexpr size_t kHeld = 6;
  struct Work {
    std::vector<std::vector<std::byte>> sent;
    std::vector<std::byte> wanted;
    std::vector<std::byte> got;
    std::unique_ptr<TableStream> stream;
    keel_status status = KEEL_OK;
  };
  std::array<Work, kThreads> works;
  for (uint32_t index = 0; index < kThreads; ++index) {
    Draws draws(context, index);
    for (uint64_t round = 0; round < kRounds; ++round) {
      works[index].sent.push_back(draws.bytes(1 + draws.below(round % 8 == 0 ? 20'000 : 900)));
      const std::vector<std::byte>& sent = works[index].sent.back();
      works[index].wanted.insert(works[index].wanted.end(), sent.begin(), sent.end());
    }
    works[index].got.resize(works[index].wanted.size());
    works[index].stream = std::make_unique<TableStream>(context);
  }
  run_threads(kThreads, [&](uint32_t index) {
    Work& work = works[index];
    keel_plugin_device* const device = device_of(context).get();
    const auto copy = [&](keel_copy_kind direction, void* destination, const void* source,
                          uint64_t size) {
      if (kind.is_hosts) {
        std::memcpy(destination, source, size);
        return;
      }
      keel_status status =
          streams_of(context).copy(work.stream->get(), direction, destination, source, size);
      if (status == KEEL_OK) status = work.stream->settle_unobserved();
      if (status != KEEL_OK) work.status = status;
    };
    std::map<uint64_t, void*> held;  // by round
    uint64_t read = 0;
    const auto give_back = [&] {
      const auto [round, pointer] = *held.begin();
      const uint64_t size = work.sent[round].size();
      copy(KEEL_COPY_DEVICE_TO_HOST, work.got.data() + read, pointer, size);
      read += size;
      const keel_status status = memory_of(context).free(device, kind.kind, pointer);
      if (status != KEEL_OK) work.status = status;
      held.erase(held.begin());
    };
    for (uint64_t round = 0; round < kRounds && work.status == KEEL_OK; ++round) {
      void* pointer = nullptr;
      work.status = memory_of(context).alloc(device, kind.kind, work.sent[round].size(),
                                             /*usage=*/0, &pointer);
      if (work.status != KEEL_OK) break;
      held.emplace(round, pointer);
      copy(KEEL_COPY_HOST_TO_DEVICE, pointer, work.sent[round].data(), work.sent[round].size());
      if (held.size() > kHeld) give_back();
    }
    while (!held.empty()) give_back();
  });
  for (uint32_t index = 0; index < kThreads; ++index) {
    check(observe_status(works[index].status) == KEEL_OK,
          fmt::format("thread {}: {}", index, keel_status_name(works[index].status)));
    check_equal(works[index].got, works[index].wanted, fmt::format("blocks of thread {}", index));
  }
}

// Four threads call alloc and free as fast as possible: no two live blocks may overlap.
void threads_in_a_hurry(const Context& context) {
  constexpr uint32_t kThreads = 4;
  constexpr uint64_t kLeast = 600;  // rounds, for a device with slow allocation
  constexpr uint64_t kMost = 20'000;
  constexpr auto kLong = std::chrono::milliseconds(80);
  constexpr uint64_t kHeld = 8;
  struct Work {
    keel_status status = KEEL_OK;
    std::vector<std::pair<uint64_t, uint64_t>> held;  // address and size, at the end
  };
  std::array<Work, kThreads> works;
  keel_plugin_device* const device = device_of(context).get();
  std::atomic<uint32_t> ready = 0;
  run_threads(kThreads, [&](uint32_t index) {
    Work& work = works[index];
    ready.fetch_add(1);
    while (ready.load() < kThreads) {
    }
    const auto end = std::chrono::steady_clock::now() + kLong;
    for (uint64_t round = 0; round < kMost && work.status == KEEL_OK; ++round) {
      if (round >= kLeast && std::chrono::steady_clock::now() >= end) break;
      if (work.held.size() == kHeld) {
        const size_t gone = round * 5 % kHeld;
        work.status =
            memory_of(context).free(device, KEEL_MEMORY_DEVICE, pointer_to(work.held[gone].first));
        work.held.erase(work.held.begin() + static_cast<std::ptrdiff_t>(gone));
      }
      const uint64_t size = 1 + (round * 37 + index * 11) % 5000;
      void* pointer = nullptr;
      const keel_status status =
          memory_of(context).alloc(device, KEEL_MEMORY_DEVICE, size, /*usage=*/0, &pointer);
      if (status == KEEL_OK) work.held.emplace_back(address_of(pointer), size);
      if (work.status == KEEL_OK) work.status = status;
    }
  });
  std::map<uint64_t, uint64_t> ranges;
  for (Work& work : works) {
    check(observe_status(work.status) == KEEL_OK,
          fmt::format("alloc and free on four threads: {}", keel_status_name(work.status)));
    work.held.resize(observe(uint64_t{work.held.size()}));
    for (const auto& [address, size] : work.held) {
      const uint64_t begin = observe(address);
      const uint64_t length = observe(size);
      check(ranges.emplace(begin, length).second,
            fmt::format("two threads have memory at {:#x}", begin));
    }
  }
  uint64_t end = 0;
  for (const auto& [begin, length] : ranges) {
    check(begin >= end, fmt::format("memory at {:#x} is of two threads", begin));
    end = begin + length;
  }
  for (const Work& work : works) {
    for (const auto& [address, size] : work.held) {
      need(memory_of(context).free(device, KEEL_MEMORY_DEVICE, pointer_to(address)), "memory.free");
    }
  }
}

// A thread whose allocations fail beside threads whose allocations succeed: each must receive the
// status and text of its own calls.
void failure_of_another_thread(const Context& context) {
  constexpr uint32_t kThreads = 4;
  constexpr int kRounds = 200;
  struct Heard {
    uint32_t wrong = 0;  // unexpected statuses
    keel_status status = KEEL_OK;
    uint32_t silent = 0;  // failures without a text
    std::string text;
  };
  std::array<Heard, kThreads + 1> heard;
  const auto fail = [&](Heard* out_heard, int rounds) {
    for (int i = 0; i < rounds; ++i) {
      void* pointer = nullptr;
      const keel_status status =
          memory_of(context).alloc(device_of(context).get(), KEEL_MEMORY_DEVICE, uint64_t{1} << 62,
                                   /*usage=*/0, &pointer);
      if (status == KEEL_OUT_OF_MEMORY) continue;
      ++out_heard->wrong;
      out_heard->status = status;
    }
    out_heard->text = PluginDevice::last_text();
  };
  run_threads(1, [&](uint32_t) { fail(&heard[kThreads], 1); });
  run_threads(kThreads, [&](uint32_t index) {
    if (index % 2 == 0) {
      fail(&heard[index], kRounds);
      return;
    }
    for (int i = 0; i < kRounds; ++i) {
      void* pointer = nullptr;
      keel_status status = memory_of(context).alloc(device_of(context).get(), KEEL_MEMORY_DEVICE,
                                                    1000, /*usage=*/0, &pointer);
      if (status == KEEL_OK) {
        status = memory_of(context).free(device_of(context).get(), KEEL_MEMORY_DEVICE, pointer);
      }
      if (status == KEEL_OK) continue;
      ++heard[index].wrong;
      heard[index].status = status;
    }
    heard[index].text = PluginDevice::last_text();
  });
  const bool speaks = !observe_text(heard[kThreads].text).empty();
  for (uint32_t index = 0; index < kThreads; ++index) {
    const bool fails = index % 2 == 0;
    const keel_status status = observe_status(heard[index].status);
    check(observe(heard[index].wrong) == 0,
          fmt::format("thread {}, whose allocations {}: {}", index, fails ? "fail" : "succeed",
                      keel_status_name(status)));
    const std::string text = observe_text(heard[index].text);
    check(fails || text.empty(), "a failure's text was said to another thread: " + text);
    check(!fails || !speaks || !text.empty(), "a failure's text was not said to its thread");
  }
}

}  // namespace

void add_memory_table_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](const std::string& id, auto body, uint64_t capabilities = 0) {
    cases->push_back({"memory/tables/" + id, capabilities, false, std::move(body)});
  };
  for (const MemoryKind& kind : kMemoryKinds) {
    const auto add_kind = [&](const std::string& id, auto body) {
      add(
          fmt::format("{}/{}", id, kind.name), [body, &kind](const Context& c) { body(c, kind); },
          kind.capability);
    };
    add_kind("sizes", sizes);
    for (const int seed : {1, 2}) {
      add_kind(fmt::format("random_{}", seed),
               [](const Context& c, const MemoryKind& k) { random_blocks(c, k, 1400); });
    }
    add_kind("refused_sizes", refused_sizes);
    add_kind("threads", threads);
  }
  add("unclaimed_kind", unclaimed_kind);
  add("usage", usage_flags);
  add("kinds_apart", kinds_apart);
  add("threads_in_a_hurry", threads_in_a_hurry);
  add("failure_of_another_thread", failure_of_another_thread);
}

}  // namespace keel::conformance
