// SPDX-License-Identifier: Apache-2.0
// Level memory: the memory kinds that the device reports, exhaustion, and use by several threads.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "conformance/harness.h"
#include "conformance/sharer_process.h"
#include "conformance/table_objects.h"

namespace keel::conformance {

namespace {

constexpr uint64_t kMiB = 1 << 20;

keel_memory_info find(const Context& context, const void* pointer) {
  keel_memory_info info = KEEL_STRUCT_INIT(keel_memory_info, KEEL_STRUCT_MEMORY_INFO);
  must(keel_memory_find(context.device(), pointer, &info), "keel_memory_find");
  return info;
}

void kind_works(const Context& context, keel_memory_kind kind) {
  constexpr uint64_t kBytes = 100'003;
  const Stream stream(context);
  const Buffer memory(context.device(), kind, kBytes);
  const keel_memory_info info = find(context, memory.at(kBytes - 1));
  check(observe(info.base == memory.data()),
        "keel_memory_find of the last byte gives another base");
  const uint64_t size = observe(info.size);
  const keel_memory_kind found = observe(info.kind);
  check(size == kBytes, fmt::format("keel_memory_find gives {} bytes", size));
  check(found == kind, fmt::format("keel_memory_find gives kind {}", found));

  const Buffer device(context.device(), KEEL_MEMORY_DEVICE, kBytes);
  const std::vector<std::byte> sent = random_bytes(context, 0, kBytes);
  std::vector<std::byte> received(kBytes, std::byte{0});
  if (kind == KEEL_MEMORY_DEVICE) {
    stream.upload(memory.data(), sent);
  } else {
    std::copy(sent.begin(), sent.end(), memory.data());  // the host may write this kind
  }
  must(keel_copy(stream.get(), context.device(), device.data(), context.device(), memory.data(),
                 kBytes),
       "keel_copy from the memory");
  stream.fill(device.data(), 0, 4);
  stream.upload(device.data(), std::span(sent).first(4));
  stream.download(received, device.data());
  stream.synchronize();
  check_equal(received, sent, "through memory of this kind");
}

void host_alias(const Context& context) {
  constexpr uint64_t kBytes = 300'007;
  const Stream stream(context);
  const Buffer device(context.device(), KEEL_MEMORY_DEVICE, kBytes);
  const keel_memory_info info = find(context, device.data());
  check(observe(info.host_alias != nullptr), "HOST_ALIAS is claimed, but the memory has none");
  const std::vector<std::byte> first = random_bytes(context, 0, kBytes);
  const std::vector<std::byte> second = random_bytes(context, 1, kBytes);
  std::vector<std::byte> received(kBytes);

  stream.upload(device.data(), first);
  stream.synchronize();
  compare(read_host(info.host_alias, kBytes), first, "the host reads what a copy wrote");
  write_host(info.host_alias, second);
  stream.download(received, device.data());
  stream.synchronize();
  check_equal(received, second, "a copy reads what the host wrote");
}

// Unaligned host memory, pinned twice in succession.
void host_register(const Context& context, uint64_t size) {
  constexpr uint64_t kOffset = 100;
  const Stream stream(context);
  const Buffer device(context.device(), KEEL_MEMORY_DEVICE, size);
  const std::vector<std::byte> sent = random_bytes(context, 0, size);
  for (int round = 0; round < 2; ++round) {
    std::vector<std::byte> host(size + 2 * kOffset, kRedZone);
    std::copy(sent.begin(), sent.end(), host.begin() + kOffset);
    const std::span<std::byte> registered(host.data() + kOffset, size);
    must(keel_host_register(context.device(), registered.data(), size), "keel_host_register");
    stream.upload(device.data(), registered);
    stream.synchronize();
    std::fill(registered.begin(), registered.end(), std::byte{0});
    stream.download(registered, device.data());
    stream.synchronize();
    must(keel_host_unregister(context.device(), registered.data()), "keel_host_unregister");
    check_equal(registered, sent, "through registered memory");
    const std::vector<std::byte> red(kOffset, kRedZone);
    check_equal(std::span(host).first(kOffset), red, "before the registered memory");
    check_equal(std::span(host).last(kOffset), red, "behind the registered memory");
  }
}

void memory_info(const Context& context) {
  uint64_t free_bytes = 0;
  uint64_t total_bytes = 0;
  must(keel_device_memory_info(context.device(), &free_bytes, &total_bytes),
       "keel_device_memory_info");
  free_bytes = observe(free_bytes);
  total_bytes = observe(total_bytes);
  check(total_bytes != 0, "no memory in total");
  check(free_bytes <= total_bytes, fmt::format("{} of {} are free", free_bytes, total_bytes));
}

void still_works(const Context& context) {
  constexpr uint64_t kBytes = 65'537;
  const Stream stream(context);
  const Buffer device(context.device(), KEEL_MEMORY_DEVICE, kBytes);
  const std::vector<std::byte> sent = random_bytes(context, 9, kBytes);
  std::vector<std::byte> received(kBytes);
  stream.upload(device.data(), sent);
  stream.download(received, device.data());
  stream.synchronize();
  check_equal(received, sent, "after running out of memory");
}

// One process exports memory and another imports it: each must read the other's writes. Both are
// child processes, because this process's core has already loaded the plugin.
void shared_by_processes(const Context& context) {
  constexpr uint64_t kBytes = 50'021;
  constexpr uint64_t kOffset = 4321;
  constexpr uint64_t kShared = kBytes - kOffset;
  SharerProcess owner(context);
  SharerProcess guest(context);
  std::string kinds;
  for (const auto& [kind, name] :
       {std::pair{KEEL_EXPORT_OPAQUE, "opaque"}, std::pair{KEEL_EXPORT_MEMFD, "memfd"},
        std::pair{KEEL_EXPORT_DMABUF, "dma-buf"}}) {
    keel_memory_export exported = {};
    if (!owner.export_memory(kind, kBytes, kOffset, &exported)) continue;
    kinds += (kinds.empty() ? "" : ", ") + std::string(name);
    check(exported.kind == kind, fmt::format("{}: kind is {}", name, exported.kind));
    check(kind == KEEL_EXPORT_OPAQUE || exported.fd >= 0, fmt::format("{}: no fd", name));
    check(exported.bytes_size <= sizeof(exported.bytes),
          fmt::format("{}: bytes_size is {}", name, exported.bytes_size));
    check(exported.offset <= exported.object_size &&
              exported.object_size - exported.offset >= kShared,
          fmt::format("{}: {} bytes at {} of {}", name, kShared, exported.offset,
                      exported.object_size));
    if (kind != KEEL_EXPORT_DMABUF) {  // dma-bufs are for other drivers
      const std::vector<std::byte> first = random_bytes(context, 0, kShared);
      const std::vector<std::byte> second = random_bytes(context, 1, kShared);
      owner.write(first);
      guest.import_memory(exported);
      check_equal(guest.read(kShared), first, fmt::format("{}: what the owner wrote", name));
      guest.write(second);
      check_equal(owner.read(kShared), second, fmt::format("{}: what the importer wrote", name));
      // A second import of the same memory outlives the first.
      guest.import_memory(exported);
      guest.close_import();
      check_equal(guest.read(kShared), second,
                  fmt::format("{}: an import, after another one of the memory was closed", name));
      guest.close_import();
      check_equal(owner.read(kShared), second, fmt::format("{}: after close_import", name));
    }
    if (exported.fd >= 0 && !judging()) close(exported.fd);
    owner.free();
  }
  check(!kinds.empty(), "EXPORT is claimed, but memory of no kind is exported");
  note("exported as " + kinds);
}

// More than any machine has: 4 EiB, 64 TiB, and almost 16 EiB, which rounding up must not overflow.
void impossible_size(const Context& context, keel_memory_kind kind) {
  for (const uint64_t size : {uint64_t{1} << 62, uint64_t{1} << 46, UINT64_MAX - 4096}) {
    void* pointer = nullptr;
    const keel_status status = keel_alloc(context.device(), kind, size, &pointer);
    if (status == KEEL_OK) keel_free(context.device(), pointer);
    must_be(KEEL_OUT_OF_MEMORY, status, fmt::format("keel_alloc of {} bytes", size));
  }
  still_works(context);
}

// A device that has run out of memory must not report as free what it has given.
void check_little_is_free(const Context& context, uint64_t taken) {
  uint64_t free_bytes = 0;
  uint64_t total_bytes = 0;
  if (!context.has(KEEL_CAPABILITY_MEMORY_INFO)) return;
  must(keel_device_memory_info(context.device(), &free_bytes, &total_bytes),
       "keel_device_memory_info");
  free_bytes = observe(free_bytes);
  total_bytes = observe(total_bytes);
  // Memory that the device failed to give for want of anything else may be free.
  if (taken < total_bytes / 2) return;
  check(free_bytes <= total_bytes - taken / 2,
        fmt::format("{} of {} bytes are free, after {} were taken and no more was given",
                    free_bytes, total_bytes, taken));
}

// Allocates an eighth of the memory at a time until none is left. A device that backs memory only
// on first use need not run out: the case passes at twice the device's memory.
void exhausted(const Context& context) {
  const keel_device_info& info = context.environment.info;
  uint64_t piece = std::max<uint64_t>(info.memory_bytes / 8, kMiB);
  if (info.max_alloc_bytes != 0) piece = std::min(piece, info.max_alloc_bytes);
  const uint64_t limit = std::max<uint64_t>(2 * info.memory_bytes, 256 * kMiB);
  struct Taken {
    keel_device device;
    std::vector<void*> pieces;
    ~Taken() {
      for (void* pointer : pieces) keel_free(device, pointer);
    }
  };
  {
    Taken taken{context.device(), {}};
    for (uint64_t total = 0; total < limit; total += piece) {
      void* pointer = nullptr;
      const keel_status status =
          observe_status(keel_alloc(context.device(), KEEL_MEMORY_DEVICE, piece, &pointer));
      if (status != KEEL_OK) {
        must_be(KEEL_OUT_OF_MEMORY, status, fmt::format("keel_alloc with {} bytes taken", total));
        check_little_is_free(context, total);
        break;
      }
      taken.pieces.push_back(pointer);
    }
    check(!taken.pieces.empty(),
          fmt::format("not one piece of {} bytes of {}", piece, info.memory_bytes));
  }
  must(keel_memory_trim(context.device()), "keel_memory_trim");
  still_works(context);
}

// Blocks of device memory; the destructor frees them.
class Blocks {
 public:
  explicit Blocks(const Context& context) : device_(context.device()) {}
  ~Blocks() { free(); }
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  void take(uint64_t size, const std::string& when) {
    void* pointer = nullptr;
    must(keel_alloc(device_, KEEL_MEMORY_DEVICE, size, &pointer),
         fmt::format("keel_alloc of {} bytes {}", size, when));
    pointers_.push_back(pointer);
  }
  void free() {
    for (void* pointer : pointers_) keel_free(device_, pointer);
    pointers_.clear();
    keel_memory_trim(device_);
  }

 private:
  keel_device device_;
  std::vector<void*> pointers_;
};

// Freed memory must be available again: three times the device's memory passes through, an eighth
// at a time, and then three quarters of it twice in succession.
void given_back(const Context& context) {
  const keel_device_info& info = context.environment.info;
  if (info.memory_bytes == 0) unsupported("the device does not say how much memory it has");
  uint64_t piece = info.memory_bytes / 8;
  if (info.max_alloc_bytes != 0) piece = std::min(piece, info.max_alloc_bytes);
  Blocks blocks(context);
  const uint64_t rounds = 3 * info.memory_bytes / piece;
  for (uint64_t round = 0; round < rounds; ++round) {
    blocks.take(piece, fmt::format("after {} that were freed", round));
    blocks.free();
  }
  for (const char* when : {"the first time", "again, all of them freed"}) {
    for (uint64_t taken = 0; taken + piece <= info.memory_bytes / 4 * 3; taken += piece) {
      blocks.take(piece, fmt::format("with {} bytes taken, {}", taken, when));
    }
    blocks.free();
  }
}

// Blocks must stay unchanged when neighbouring blocks are returned to the device.
void neighbours(const Context& context) {
  constexpr uint64_t kBytes = 12 * kMiB;  // too large for a pool to split from a larger block
  constexpr uint32_t kBlocks = 16;
  const Stream stream(context);
  std::vector<Buffer> kept;
  {
    std::vector<Buffer> gone;
    for (uint32_t i = 0; i < kBlocks; ++i) {
      std::vector<Buffer>& buffers = i % 2 == 0 ? gone : kept;
      buffers.emplace_back(context.device(), KEEL_MEMORY_DEVICE, kBytes);
      stream.fill(buffers.back().data(), 0x0ee00000 + i, kBytes);
    }
    stream.synchronize();
  }
  must(keel_memory_trim(context.device()), "keel_memory_trim");
  std::vector<std::byte> received(kBytes);
  for (uint32_t i = 0; i < kept.size(); ++i) {
    stream.download(received, kept[i].data());
    stream.synchronize();
    check_filled(received, 0x0ee00000 + 2 * i + 1,
                 fmt::format("block {} of {}, its neighbours freed", 2 * i + 1, kBlocks));
  }
}

// Memory is freed while a copy from it is in flight, and is allocated again at once for other data.
void free_in_flight(const Context& context) {
  constexpr uint64_t kBytes = 4 * kMiB;
  const Stream stream(context);
  const Stream other(context);
  const Buffer result(context.device(), KEEL_MEMORY_DEVICE, kBytes);
  std::vector<std::byte> received(kBytes);
  for (uint32_t round = 0; round < 8; ++round) {
    const uint32_t word = 0x0f0f0000 + round;
    {
      const Buffer gone(context.device(), KEEL_MEMORY_DEVICE, kBytes);
      keep_busy(stream, gone, word, /*rounds=*/4);
      stream.copy(result.data(), gone.data(), kBytes);
    }
    const Buffer next(context.device(), KEEL_MEMORY_DEVICE, kBytes);
    other.fill(next.data(), 0xbadbadba, kBytes);
    stream.download(received, result.data());
    stream.synchronize();
    check_filled(received, word, "a copy from memory that was freed behind it");
    other.synchronize();
  }
}

void many_small(const Context& context) {
  constexpr uint32_t kCount = 600;
  const Stream stream(context);
  std::vector<Buffer> buffers;
  std::vector<std::vector<std::byte>> sent;
  for (uint32_t i = 0; i < kCount; ++i) {
    const uint64_t size = 1 + i * 37 % 5000;
    buffers.emplace_back(context.device(), KEEL_MEMORY_DEVICE, size);
    sent.push_back(random_bytes(context, i % 256, size));
    stream.upload(buffers[i].data(), sent[i]);
  }
  for (uint32_t i = 0; i < kCount; ++i) {
    std::vector<std::byte> received(sent[i].size());
    stream.download(received, buffers[i].data());
    stream.synchronize();
    check_equal(received, sent[i], fmt::format("allocation {} of {}", i, kCount));
  }
}

// Each thread uses its own stream and memory.
void threads(const Context& context) {
  constexpr uint32_t kThreads = 4;
  constexpr uint32_t kRounds = 40;
  std::vector<std::vector<std::byte>> received(size_t{kThreads} * kRounds);
  const auto sent = [&](uint32_t index, uint32_t round) {
    return random_bytes(context, index, 10'007 + 4'001 * uint64_t{index} + 97 * round);
  };
  for (uint32_t i = 0; i < received.size(); ++i) {
    received[i].resize(sent(i / kRounds, i % kRounds).size());
  }
  run_threads(kThreads, [&](uint32_t index) {
    const Stream stream(context);
    for (uint32_t round = 0; round < kRounds; ++round) {
      const std::vector<std::byte> bytes = sent(index, round);
      const Buffer device(context.device(), KEEL_MEMORY_DEVICE, bytes.size());
      const Event event;
      stream.upload(device.data(), bytes);
      stream.download(received[index * kRounds + round], device.data());
      event.record(stream);
      must(keel_event_wait(event.get(), context.environment.wait_ns), "keel_event_wait");
    }
  });
  for (uint32_t i = 0; i < received.size(); ++i) {
    check_equal(received[i], sent(i / kRounds, i % kRounds),
                fmt::format("thread {}, round {}", i / kRounds, i % kRounds));
  }
}

}  // namespace

void add_memory_cases(const Environment& environment, std::vector<Case>* cases) {
  const auto add = [&](std::string id, auto body, uint64_t capabilities = 0, bool full = false) {
    cases->push_back({"memory/" + std::move(id), capabilities, full, std::move(body)});
  };
  const struct {
    const char* name;
    keel_memory_kind kind;
    uint64_t capability;
  } kinds[] = {{"device", KEEL_MEMORY_DEVICE, 0},
               {"pinned", KEEL_MEMORY_PINNED, KEEL_CAPABILITY_PINNED},
               {"managed", KEEL_MEMORY_MANAGED, KEEL_CAPABILITY_MANAGED}};
  for (const auto& [name, kind, capability] : kinds) {
    add(
        fmt::format("kind/{}", name), [kind = kind](const Context& c) { kind_works(c, kind); },
        capability);
    add(
        fmt::format("impossible_size/{}", name),
        [kind = kind](const Context& c) { impossible_size(c, kind); }, capability);
  }
  add("host_alias", host_alias, KEEL_CAPABILITY_HOST_ALIAS);
  for (const uint64_t size : {1ULL, 4096ULL, 90'001ULL, 5ULL << 20}) {
    add(
        fmt::format("host_register/{}", size), [size](const Context& c) { host_register(c, size); },
        KEEL_CAPABILITY_HOST_REGISTER);
  }
  add("export", shared_by_processes, KEEL_CAPABILITY_EXPORT);
  add("info", memory_info, KEEL_CAPABILITY_MEMORY_INFO);
  // On a large device, setting up address space and page tables takes seconds.
  const uint64_t memory_bytes = environment.info.memory_bytes;
  add("exhausted", exhausted, 0, /*full=*/memory_bytes == 0 || memory_bytes > 1024 * kMiB);
  add("given_back", given_back, 0, /*full=*/memory_bytes > 1024 * kMiB);
  add("neighbours", neighbours);
  add("free_in_flight", free_in_flight);
  add("many_small", many_small);
  add("threads", threads);
}

}  // namespace keel::conformance
