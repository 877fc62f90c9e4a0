// SPDX-License-Identifier: Apache-2.0
// Level async, on the plugin's own tables: copies and fills of every size and alignment that are
// enqueued behind held work, and long random sequences of work on one and several streams. Plugins
// take different paths by size, by alignment, and by the kind of host memory.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <keel/plugin_kit.hpp>
#include <optional>

#include "conformance/harness.h"
#include "conformance/op_calls.h"
#include "conformance/table_bench.h"
#include "conformance/table_calls.h"
#include "conformance/table_kernel.h"

namespace keel::conformance {

namespace {

constexpr uint32_t kOther = 0x0ddba11;
constexpr uint32_t kStale = 0xbadbadba;
constexpr uint64_t kArea = 2 << 20;

using Bytes = std::vector<std::byte>;

// ---- every size behind held work ------------------------------------------------------------

struct Piece {
  uint64_t at;
  uint64_t size;
};

// Pieces of every size class, apart from each other, at addresses and of sizes that are multiples
// of |unit|.
std::vector<Piece> pieces(uint64_t unit) {
  constexpr uint64_t kSizes[] = {
      1,    2,     3,     4,     5,     7,     8,       12,      15,     16,   17,   31,
      32,   33,    63,    64,    65,    100,   127,     128,     129,    255,  256,  257,
      511,  512,   513,   1000,  1023,  1024,  1025,    2048,    4095,   4096, 4097, 8192,
      9973, 16384, 32768, 65535, 65536, 65537, 131'072, 262'147, 1 << 20};
  std::vector<Piece> all;
  uint64_t at = 0;
  for (const uint64_t size : kSizes) {
    at += (all.size() * 5 % 17 + 1 + unit - 1) / unit * unit;
    all.push_back({at, (size + unit - 1) / unit * unit});
    at += all.back().size;
  }
  check(at <= kArea, "the pieces do not fit");
  return all;
}

enum class Way : uint8_t { kUpload, kDownload, kWithin, kFromManaged, kToManaged };
enum class Host : uint8_t { kPinned, kPageable, kRegistered };

// Host memory of one of the kinds, registered for as long as the object lives.
class HostArea {
 public:
  HostArea(TableBench& bench, Host kind) : bench_(bench) {
    if (kind == Host::kPinned) {
      at_ = bench.memory(kArea, KEEL_MEMORY_PINNED);
      return;
    }
    // At an address that no page begins at.
    at_ = bench.host_memory(kArea + 4096) + 36;
    if (kind == Host::kPageable) return;
    void* device = nullptr;
    need(memory_of(bench.context()).host_register(bench.device(), at_, kArea, &device),
         "memory.host_register");
    is_registered_ = true;
  }
  // Waits for the streams, since a case may have failed with copies in flight, for which a plugin
  // may refuse to unregister the memory.
  ~HostArea() {
    if (!is_registered_ || !bench_.settle_unobserved()) return;
    (void)memory_of(bench_.context()).host_unregister(bench_.device(), at_);
  }
  HostArea(const HostArea&) = delete;
  HostArea& operator=(const HostArea&) = delete;
  std::byte* at(uint64_t offset) const { return at_ + offset; }

 private:
  TableBench& bench_;
  std::byte* at_ = nullptr;
  bool is_registered_ = false;
};

void put(Bytes* bytes, const Piece& piece, std::span<const std::byte> content) {
  std::copy_n(content.begin() + static_cast<std::ptrdiff_t>(piece.at), piece.size,
              bytes->begin() + static_cast<std::ptrdiff_t>(piece.at));
}

// Each piece is copied behind held work, behind writes of the memory that it reads and writes, and
// before further writes of them. No call may wait, and no piece may move before its turn.
void copies_of_sizes(const Context& context, Way way, Host kind) {
  TableBench bench(context, 1);
  const bool down = way == Way::kDownload;
  const bool to_managed = way == Way::kToManaged;
  const Bytes content = Draws(context).bytes(kArea);
  std::byte* const device = bench.memory(kArea);
  std::byte* const source = bench.memory(kArea);
  std::byte* const pinned = bench.memory(kArea, KEEL_MEMORY_PINNED);
  std::byte* const result = bench.memory(kArea, KEEL_MEMORY_PINNED);
  std::byte* const managed =
      way == Way::kFromManaged || to_managed ? bench.memory(kArea, KEEL_MEMORY_MANAGED) : nullptr;
  std::optional<HostArea> host;
  if (way == Way::kUpload || down) host.emplace(bench, kind);
  write_host(pinned, content);
  if (way == Way::kUpload) write_host(host->at(0), content);
  if (way == Way::kFromManaged) write_host(managed, content);
  if (to_managed) write_host(managed, words(kStale, kArea));
  std::byte* const observed = down ? host->at(0) : result;
  const keel_copy_kind kind_of_copy = way == Way::kUpload ? KEEL_COPY_HOST_TO_DEVICE
                                      : down              ? KEEL_COPY_DEVICE_TO_HOST
                                                          : KEEL_COPY_DEVICE_TO_DEVICE;
  std::byte* const to = down ? host->at(0) : to_managed ? managed : device;
  const std::byte* const from = way == Way::kUpload        ? host->at(0)
                                : way == Way::kFromManaged ? managed
                                                           : source;
  Bytes early;
  bench.behind_work(0, [&] {
    write_host(observed, words(kStale, kArea));
    bench.fill(0, device, kOther, kArea);
    bench.fill(0, source, kStale, kArea);
    bench.copy(0, KEEL_COPY_HOST_TO_DEVICE, source, pinned, kArea);
    for (const auto& [at, size] : pieces(1)) {
      bench.copy(0, kind_of_copy, to + at, from + at, size);
    }
    if (!down && !to_managed) bench.copy(0, KEEL_COPY_DEVICE_TO_HOST, result, device, kArea);
    bench.fill(0, source, kStale, kArea);
    bench.fill(0, device, kStale, kArea);
    early = read_host(observed, kArea);
  });
  compare(early, words(kStale, kArea), "memory of the host behind work that is not done");
  bench.settle();
  Bytes wanted = words(down || to_managed ? kStale : kOther, kArea);
  for (const Piece& piece : pieces(1)) put(&wanted, piece, content);
  compare(read_host(to_managed ? managed : observed, kArea), wanted,
          "copies of all sizes behind held work");
}

// Likewise for fills with patterns of |pattern_size| bytes.
void fills_of_sizes(const Context& context, uint32_t pattern_size) {
  TableBench bench(context, 1);
  Draws draws(context);
  std::byte* const device = bench.memory(kArea);
  std::byte* const result = bench.memory(kArea, KEEL_MEMORY_PINNED);
  const std::vector<Piece> all = pieces(pattern_size);
  std::vector<Bytes> patterns;
  for (size_t i = 0; i < all.size(); ++i) patterns.push_back(draws.bytes(pattern_size));
  Bytes early;
  bench.behind_work(0, [&] {
    write_host(result, words(kStale, kArea));
    bench.fill(0, device, kOther, kArea);
    for (size_t i = 0; i < all.size(); ++i) {
      Bytes pattern = patterns[i];
      need(bench.table().fill(bench.stream(0), device + all[i].at, pattern.data(), pattern_size,
                              all[i].size),
           fmt::format("stream.fill of {} bytes", all[i].size));
      std::fill(pattern.begin(), pattern.end(), kRedZone);  // the call only borrows it
    }
    bench.copy(0, KEEL_COPY_DEVICE_TO_HOST, result, device, kArea);
    bench.fill(0, device, kStale, kArea);
    early = read_host(result, kArea);
  });
  compare(early, words(kStale, kArea), "memory of the host behind work that is not done");
  bench.settle();
  Bytes wanted = words(kOther, kArea);
  for (size_t i = 0; i < all.size(); ++i) {
    for (uint64_t at = 0; at < all[i].size; ++at)
      wanted[all[i].at + at] = patterns[i][at % pattern_size];
  }
  compare(read_host(result, kArea), wanted, "fills of all sizes behind held work");
}

// ---- thousands in flight ----------------------------------------------------------------------

// More launches, and more operators, than any queue of arguments has room for: a plugin must not
// use an entry again before its work is done.
void thousands_of_launches(const Context& context) {
  constexpr uint32_t kLaunches = 2000;
  constexpr uint64_t kEach = TableKernel::kBlock * 4;
  TableBench bench(context, 1);
  const TableKernel kernel(
      bench.context(), [](const KernelSet&) { return true; },
      "the suite has no kernel in a format that the device takes");
  std::byte* const device = bench.memory(kLaunches * kEach);
  bench.fill(0, device, 0, kLaunches * kEach);
  bench.settle();
  bench.occupy(0);
  for (uint32_t i = 0; i < kLaunches; ++i) {
    kernel.launch(bench.stream(0), device + i * kEach, TableKernel::kBlock, 3 * i);
  }
  bench.settle();
  Bytes wanted(kLaunches * kEach);
  for (uint32_t i = 0; i < kLaunches; ++i) {
    for (uint32_t word = 0; word < TableKernel::kBlock; ++word) {
      const uint32_t value = word + 3 * i;
      std::memcpy(wanted.data() + i * kEach + word * sizeof(value), &value, sizeof(value));
    }
  }
  bench.stream_object(0).expect(device, wanted, fmt::format("{} launches in flight", kLaunches));
  kernel.unload();
}

void thousands_of_operators(const Context& context) {
  constexpr uint32_t kCalls = 3000;
  constexpr int64_t kElements = 16;
  TableBench bench(context, 1);
  const keel_op_table& table = *device_of(bench.context()).plugin().op;
  std::byte* const device = bench.memory(kCalls * kElements * 4);
  bench.fill(0, device, kStale, kCalls * kElements * 4);
  bench.settle();
  bench.occupy(0);
  Tally tally;
  for (uint32_t i = 0; i < kCalls; ++i) {
    OpCall fill(KEEL_OP_FILL, {},
                kit::make_tensor(device + i * kElements * 4, KEEL_FLOAT32, {kElements}),
                {{.f = static_cast<double>(i) + 0.5}});
    tally.add(table.run(bench.stream(0), fill.get(), /*workspace=*/nullptr));
    fill.spoil();
  }
  need(tally.first(), fmt::format("{} calls of op.run", kCalls));
  bench.settle();
  Bytes wanted(kCalls * kElements * 4);
  for (uint32_t i = 0; i < kCalls * kElements; ++i) {
    const auto of_call = static_cast<uint32_t>(i / kElements);
    const float value = static_cast<float>(of_call) + 0.5F;
    std::memcpy(wanted.data() + i * sizeof(value), &value, sizeof(value));
  }
  bench.stream_object(0).expect(device, wanted, fmt::format("{} operators in flight", kCalls));
}

// ---- copies between devices -----------------------------------------------------------------

// copy_peer on a stream of either device returns while the stream is held, and takes its turn.
void peer_behind_work(const Context& context) {
  constexpr uint64_t kBytes = 1 << 20;
  constexpr uint64_t kSmall = 60;
  TableBench bench(context, 1);
  keel_plugin_instance* const instance = device_of(bench.context()).instance();
  const uint32_t own = observe(device_of(bench.context()).ordinal());
  uint32_t count = 0;
  need(device_of(context).plugin().device->count(instance, &count), "device.count");
  if (observe(count) < 2) unsupported("the backend has one device");
  const TableDevice peer(bench.context(), instance, own == 0 ? 1 : 0, kBytes);
  const Bytes content = Draws(context).bytes(kBytes);
  std::byte* const device = bench.memory(kBytes);
  std::byte* const pinned = bench.memory(kBytes, KEEL_MEMORY_PINNED);
  std::byte* const result = bench.memory(kBytes, KEEL_MEMORY_PINNED);
  write_host(pinned, content);
  for (const bool to_peer : {true, false}) {
    peer.write(words(to_peer ? kOther : kStale, kBytes));
    if (!to_peer) peer.write(content);
    bench.fill(0, device, kStale, kBytes);
    bench.settle();
    bench.behind_work(0, [&] {
      const auto copy_peer = [&](uint64_t at, uint64_t size) {
        need(to_peer ? bench.table().copy_peer(bench.stream(0), peer.get(), peer.at(at),
                                               bench.device(), device + at, size)
                     : bench.table().copy_peer(bench.stream(0), bench.device(), device + at,
                                               peer.get(), peer.at(at), size),
             "stream.copy_peer");
      };
      bench.fill(0, device, kOther, kBytes);
      if (to_peer) bench.copy(0, KEEL_COPY_HOST_TO_DEVICE, device, pinned, kBytes);
      copy_peer(0, kSmall);
      copy_peer(kSmall, kBytes - kSmall);
      bench.copy(0, KEEL_COPY_DEVICE_TO_HOST, result, device, kBytes);
      bench.fill(0, device, kStale, kBytes);
    });
    bench.settle();
    compare(read_host(result, kBytes), content, "the device's memory, copied between devices");
    peer.expect(content, "the memory of the device beside it");
  }
}

// ---- long random sequences ------------------------------------------------------------------

// Work of all kinds and sizes on regions that overlap at random, against a model that runs it in
// order. With several streams, each piece waits for the one before by an event.
void random_work(const Context& context, uint32_t streams) {
  constexpr uint64_t kBytes = 300'000;
  constexpr uint32_t kPieces = 240;
  constexpr uint64_t kResults = 4 << 20;
  TableBench bench(context, streams);
  Draws draws(context);
  std::byte* const device[2] = {bench.memory(kBytes), bench.memory(kBytes)};
  Bytes model[2] = {draws.bytes(kBytes), draws.bytes(kBytes)};
  const Bytes content = draws.bytes(kBytes);
  std::byte* const pinned = bench.memory(kBytes, KEEL_MEMORY_PINNED);
  std::byte* const pageable = bench.host_memory(kBytes);
  std::byte* const result = bench.memory(kResults, KEEL_MEMORY_PINNED);
  write_host(pinned, content);
  write_host(pageable, content);
  for (const uint32_t i : {0U, 1U}) {
    write_host(result + i * kBytes, model[i]);
    bench.copy(0, KEEL_COPY_HOST_TO_DEVICE, device[i], result + i * kBytes, kBytes);
  }
  bench.settle();
  Bytes wanted(kResults, std::byte{0x5a});
  write_host(result, wanted);
  uint64_t used = 0;
  uint32_t last = 0;
  if (bench.can_hold()) bench.occupy(0);
  for (uint32_t i = 0; i < kPieces; ++i) {
    const auto next = static_cast<uint32_t>(draws.below(streams));
    if (next != last) {
      keel_plugin_event* const event = bench.event();
      bench.record(event, last);
      bench.wait_event(next, event);
      last = next;
    }
    // Half of the pieces are small, and the stream is idle now and then.
    const uint64_t most = uint64_t{1} << (3 + draws.below(16));
    const uint64_t size = 1 + draws.below(std::min<uint64_t>(most, kBytes / 2));
    const uint64_t to = draws.below(kBytes - size);
    const uint64_t from = draws.below(kBytes - size);
    const auto which = static_cast<uint32_t>(draws.below(2));
    const auto target = model[which].begin() + static_cast<std::ptrdiff_t>(to);
    const uint64_t task = draws.below(6);
    switch (task) {
      case 0: {
        constexpr uint32_t kPatterns[] = {1, 2, 4, 8};
        const uint32_t unit = kPatterns[draws.below(4)];
        const uint64_t begin = to / unit * unit;
        const uint64_t length = std::max<uint64_t>(size / unit * unit, unit);
        const Bytes pattern = draws.bytes(unit);
        need(bench.table().fill(bench.stream(next), device[which] + begin, pattern.data(), unit,
                                length),
             "stream.fill");
        for (uint64_t at = 0; at < length; ++at) model[which][begin + at] = pattern[at % unit];
        break;
      }
      case 1:
      case 2:
        bench.copy(next, KEEL_COPY_HOST_TO_DEVICE, device[which] + to,
                   (task == 1 ? pinned : pageable) + from, size);
        std::copy_n(content.begin() + static_cast<std::ptrdiff_t>(from), size, target);
        break;
      case 3:
        if (used + size > kResults) break;
        bench.copy(next, KEEL_COPY_DEVICE_TO_HOST, result + used, device[which] + to, size);
        std::copy_n(target, size, wanted.begin() + static_cast<std::ptrdiff_t>(used));
        used += size;
        break;
      default:
        bench.copy(next, KEEL_COPY_DEVICE_TO_DEVICE, device[which] + to, device[1 - which] + from,
                   size);
        std::copy_n(model[1 - which].begin() + static_cast<std::ptrdiff_t>(from), size, target);
        break;
    }
    if (draws.below(24) == 0) bench.settle();
  }
  bench.settle();
  compare(read_host(result, kResults), wanted, "downloads among other work");
  for (const uint32_t i : {0U, 1U}) {
    bench.stream_object(0).expect(device[i], model[i], "memory after work of all kinds and sizes");
  }
}

}  // namespace

void add_enqueue_table_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](const std::string& id, auto body, uint64_t capabilities = 0) {
    cases->push_back(
        {"async/tables/" + id,
         capabilities | KEEL_CAPABILITY_ASYNC | KEEL_CAPABILITY_PINNED | KEEL_CAPABILITY_FILL,
         /*full=*/false, std::move(body)});
  };
  const auto add_sizes = [&](const char* id, Way way, Host host, uint64_t capabilities = 0) {
    add(
        std::string("enqueue/sizes/") + id,
        [way, host](const Context& c) { copies_of_sizes(c, way, host); }, capabilities);
  };
  add_sizes("upload", Way::kUpload, Host::kPinned);
  add_sizes("download", Way::kDownload, Host::kPinned);
  add_sizes("within", Way::kWithin, Host::kPinned);
  add_sizes("pageable_upload", Way::kUpload, Host::kPageable, KEEL_CAPABILITY_PAGEABLE_ASYNC);
  add_sizes("pageable_download", Way::kDownload, Host::kPageable, KEEL_CAPABILITY_PAGEABLE_ASYNC);
  add_sizes("registered_upload", Way::kUpload, Host::kRegistered, KEEL_CAPABILITY_HOST_REGISTER);
  add_sizes("registered_download", Way::kDownload, Host::kRegistered,
            KEEL_CAPABILITY_HOST_REGISTER);
  add_sizes("from_managed", Way::kFromManaged, Host::kPinned, KEEL_CAPABILITY_MANAGED);
  add_sizes("to_managed", Way::kToManaged, Host::kPinned, KEEL_CAPABILITY_MANAGED);
  for (const uint32_t pattern_size : {1U, 2U, 4U, 8U}) {
    add(fmt::format("enqueue/sizes/fill{}", pattern_size),
        [pattern_size](const Context& c) { fills_of_sizes(c, pattern_size); });
  }
  add("enqueue/thousands/launches", thousands_of_launches, KEEL_CAPABILITY_KERNELS);
  add("enqueue/thousands/operators", thousands_of_operators, KEEL_CAPABILITY_OPS);
  add("enqueue/peer", peer_behind_work, KEEL_CAPABILITY_PEER_COPY);
  add("order/random/one_stream", [](const Context& c) { random_work(c, 1); });
  add("order/random/three_streams", [](const Context& c) { random_work(c, 3); });
}

}  // namespace keel::conformance
