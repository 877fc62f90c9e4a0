// SPDX-License-Identifier: Apache-2.0
// Level memory, on the plugin's own tables: memory that both the host and the device can access.
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <deque>
#include <keel/plugin_kit.hpp>
#include <memory>
#include <utility>

#include "conformance/op_calls.h"
#include "conformance/table_calls.h"

namespace keel::conformance {

namespace {

constexpr uint64_t kMiB = 1 << 20;

void replace(std::vector<std::byte>* bytes, uint64_t offset, std::span<const std::byte> by) {
  std::copy(by.begin(), by.end(), bytes->begin() + static_cast<std::ptrdiff_t>(offset));
}

// ---- pinned and managed ---------------------------------------------------------------

// The device copies to and from any part of pinned memory, and the host sees all of it.
void pinned_parts(const Context& context) {
  constexpr uint64_t kBytes = 3 * kMiB + 77;
  Draws draws(context);
  std::vector<std::byte> first = draws.bytes(kBytes);
  std::vector<std::byte> second = draws.bytes(kBytes);
  const TableBuffer pinned(context, kBytes, KEEL_MEMORY_PINNED);
  const TableBuffer beside(context, kBytes, KEEL_MEMORY_PINNED);
  const TableBuffer memory(context, kBytes);
  const TableStream stream(context);
  write_host(pinned.at(0), first);
  write_host(beside.at(0), second);
  compare(read_host(pinned.at(0), kBytes), first, "pinned memory, read by the host");
  stream.copy(KEEL_COPY_HOST_TO_DEVICE, memory.at(0), pinned.at(0), kBytes);
  for (int i = 0; i < 24; ++i) {
    const uint64_t size = 1 + draws.below(i % 4 == 0 ? 400'000 : 3'000);
    const uint64_t from = draws.below(kBytes - size);
    const uint64_t to = draws.below(kBytes - size);
    stream.copy(KEEL_COPY_DEVICE_TO_HOST, beside.at(to), memory.at(from), size);
    replace(&second, to, std::span(first).subspan(from, size));
  }
  compare(read_host(beside.at(0), kBytes), second, "pinned memory that the device wrote parts of");
  compare(read_host(pinned.at(0), kBytes), first, "pinned memory that the device read");
}

// Managed memory has one address for host and device.
void managed_parts(const Context& context) {
  constexpr uint64_t kBytes = 2 * kMiB + 123;
  Draws draws(context);
  std::vector<std::byte> wanted = draws.bytes(kBytes);
  const TableBuffer managed(context, kBytes, KEEL_MEMORY_MANAGED);
  const TableBuffer memory(context, kBytes);
  const TableStream stream(context);
  write_host(managed.at(0), wanted);
  stream.copy(KEEL_COPY_DEVICE_TO_DEVICE, memory.at(0), managed.at(0), kBytes);
  stream.expect(memory.at(0), wanted, "the device reads managed memory that the host wrote");
  for (int i = 0; i < 10; ++i) {
    const uint64_t size = 1 + draws.below(60'000);
    const uint64_t at = draws.below(kBytes - size);
    const uint64_t from = draws.below(kBytes - size);
    const std::vector<std::byte> bytes = draws.bytes(size);
    stream.copy(KEEL_COPY_HOST_TO_DEVICE, memory.at(from), bytes.data(), size);
    stream.copy(KEEL_COPY_DEVICE_TO_DEVICE, managed.at(at), memory.at(from), size);
    replace(&wanted, at, bytes);
    const uint64_t hosts = draws.below(kBytes - 100);
    const std::vector<std::byte> written = draws.bytes(100);
    write_host(managed.at(hosts), written);
    replace(&wanted, hosts, written);
  }
  compare(read_host(managed.at(0), kBytes), wanted, "managed memory, written by both");
  stream.copy(KEEL_COPY_DEVICE_TO_DEVICE, memory.at(0), managed.at(0), kBytes);
  stream.expect(memory.at(0), wanted, "managed memory, written by both");
}

// ---- aliases --------------------------------------------------------------------------

void* alias_of(const Context& context, void* pointer, uint64_t size,
               Where where = Where::current()) {
  check(observe(KEEL_HAS(keel_memory_table, &memory_of(context), host_alias), where),
        "HOST_ALIAS is claimed, and there is no memory.host_alias", where);
  void* alias = nullptr;
  need(memory_of(context).host_alias(device_of(context).get(), pointer, size, &alias),
       fmt::format("memory.host_alias of {} bytes", size), where);
  check(observe(alias != nullptr, where), "memory.host_alias gives NULL", where);
  return alias;
}

// Aliases of a whole block, of a part and of the last byte: each write must be visible through all
// aliases.
void alias_parts(const Context& context) {
  constexpr uint64_t kBytes = 300'007;
  Draws draws(context);
  std::vector<std::byte> wanted = draws.bytes(kBytes);
  const TableBuffer memory(context, kBytes);
  const TableStream stream(context);
  stream.copy(KEEL_COPY_HOST_TO_DEVICE, memory.at(0), wanted.data(), kBytes);
  void* const whole = alias_of(context, memory.at(0), kBytes);
  compare(read_host(whole, kBytes), wanted, "the alias of a block");
  for (const auto& [offset, size] : {std::pair<uint64_t, uint64_t>{0, 1},
                                     {1, 1},
                                     {3, 4096},
                                     {64, 100'000},
                                     {4095, 2},
                                     {4096, 4096},
                                     {131'072, 77},
                                     {200'001, 100'006},
                                     {kBytes - 1, 1}}) {
    void* const alias = alias_of(context, memory.at(offset), size);
    const std::string what = fmt::format("the alias of {} bytes at {}", size, offset);
    compare(read_host(alias, size), std::span(wanted).subspan(offset, size), what);
    const std::vector<std::byte> bytes = draws.bytes(size);
    if (size % 2 == 0) {
      write_host(alias, bytes);
    } else {
      stream.copy(KEEL_COPY_HOST_TO_DEVICE, memory.at(offset), bytes.data(), size);
    }
    replace(&wanted, offset, bytes);
    compare(read_host(alias, size), bytes, what + ", written to");
    compare(read_host(whole, kBytes), wanted, "the alias of a block, after " + what);
    stream.expect(memory.at(0), wanted, "a block, after " + what);
  }
}

// Aliases of several blocks, simultaneously and in sequence.
void alias_blocks(const Context& context) {
  constexpr uint64_t kBytes = 10'007;
  struct Aliased {
    TableBuffer memory;
    void* alias;
    std::vector<std::byte> bytes;
  };
  Draws draws(context);
  std::vector<Aliased> blocks;
  const TableStream stream(context);
  const auto add = [&] {
    TableBuffer memory(context, kBytes + 90'000 * (blocks.size() % 3));
    void* const alias = alias_of(context, memory.at(0), memory.size());
    const uint64_t size = memory.size();
    blocks.push_back({std::move(memory), alias, draws.bytes(size)});
    write_host(alias, blocks.back().bytes);
  };
  for (int i = 0; i < 8; ++i) add();
  for (int round = 0; round < 6; ++round) {
    for (const Aliased& each : blocks) {
      compare(read_host(each.alias, each.bytes.size()), each.bytes, "an alias among others");
      stream.expect(each.memory.at(0), each.bytes, "a block whose alias was written to");
    }
    blocks.pop_back();
    if (round % 2 == 0) add();
  }
}

// ---- registered memory ----------------------------------------------------------------

// Host memory between unregistered pages.
class HostPages {
 public:
  explicit HostPages(uint64_t size) : size_(size) {
    map_ = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map_ == MAP_FAILED) fail_case("no memory of the host is left");
  }
  ~HostPages() { munmap(map_, size_); }
  HostPages(const HostPages&) = delete;
  HostPages& operator=(const HostPages&) = delete;
  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(map_), size_}; }

 private:
  const uint64_t size_;
  void* map_ = nullptr;
};

class Registration {
 public:
  Registration(const Context& context, std::span<std::byte> bytes, Where where = Where::current())
      : context_(context), pointer_(bytes.data()) {
    check(observe(KEEL_HAS(keel_memory_table, &memory_of(context), host_register) &&
                      KEEL_HAS(keel_memory_table, &memory_of(context), host_unregister),
                  where),
          "HOST_REGISTER is claimed without the slots that it needs", where);
    need(memory_of(context).host_register(device_of(context).get(), pointer_, bytes.size(),
                                          &device_),
         fmt::format("memory.host_register of {} bytes", bytes.size()), where);
    is_registered_ = true;
    has_device_ = observe(device_ != nullptr, where);
  }
  ~Registration() {
    if (is_registered_)
      (void)memory_of(context_).host_unregister(device_of(context_).get(), pointer_);
  }
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

  bool has_device_pointer() const { return has_device_; }
  std::byte* on_device(uint64_t offset) const { return static_cast<std::byte*>(device_) + offset; }
  void end(Where where = Where::current()) {
    is_registered_ = false;
    need(memory_of(context_).host_unregister(device_of(context_).get(), pointer_),
         "memory.host_unregister", where);
  }

 private:
  const Context& context_;
  void* pointer_;
  void* device_ = nullptr;
  bool has_device_ = false;
  bool is_registered_ = false;
};

// Registration must preserve the content, and parts of registered memory copy like any memory.
void registered_parts(const Context& context, uint64_t offset, uint64_t size) {
  Draws draws(context);
  const HostPages pages(offset + size + 8192);
  std::vector<std::byte> wanted = draws.bytes(pages.bytes().size());
  std::copy(wanted.begin(), wanted.end(), pages.bytes().begin());
  const TableBuffer memory(context, size);
  const std::span<std::byte> host = pages.bytes().subspan(offset, size);
  for (int round = 0; round < 2; ++round) {
    // The second round registers a smaller range.
    const uint64_t used = round == 0 ? size : (size + 1) / 2;
    Registration registration(context, host.first(used));
    const TableStream stream(context);
    check_equal(pages.bytes(), wanted, "memory that was just registered");
    stream.copy(KEEL_COPY_HOST_TO_DEVICE, memory.at(0), host.data(), used);
    stream.expect(memory.at(0), std::span(wanted).subspan(offset, used), "from registered memory");
    for (int i = 0; i < 6 && used > 1; ++i) {
      const uint64_t piece = 1 + draws.below(std::min<uint64_t>(used - 1, 9000));
      const uint64_t from = draws.below(used - piece + 1);
      const uint64_t to = draws.below(used - piece + 1);
      const std::vector<std::byte> bytes = draws.bytes(piece);
      stream.copy(KEEL_COPY_HOST_TO_DEVICE, memory.at(from), bytes.data(), piece);
      stream.copy(KEEL_COPY_DEVICE_TO_HOST, host.data() + to, memory.at(from), piece);
      replace(&wanted, offset + to, bytes);
    }
    check_equal(pages.bytes(), wanted, "registered memory that copies wrote to");
    if (registration.has_device_pointer() &&
        observe_status(streams_of(context).copy(stream.get(), KEEL_COPY_DEVICE_TO_DEVICE,
                                                memory.at(0), registration.on_device(0), used)) ==
            KEEL_OK) {
      need(stream.settle(), "a copy by the device's address of registered memory");
      stream.expect(memory.at(0), std::span(wanted).subspan(offset, used),
                    "by the device's address of it");
    }
    registration.end();
    check_equal(pages.bytes(), wanted, "memory that is not registered any more");
    stream.copy(KEEL_COPY_HOST_TO_DEVICE, memory.at(0), host.data(), used);
    stream.expect(memory.at(0), std::span(wanted).subspan(offset, used),
                  "from memory that was registered");
  }
}

// Several ranges registered at the same time; unregistering one must not affect the others.
void registered_ranges(const Context& context) {
  constexpr uint64_t kStep = 64 * 1024;
  constexpr size_t kRanges = 5;
  Draws draws(context);
  const HostPages pages(kStep * kRanges);
  const std::vector<std::byte> wanted = draws.bytes(kStep * kRanges);
  std::copy(wanted.begin(), wanted.end(), pages.bytes().begin());
  const TableBuffer memory(context, kStep);
  const TableStream stream(context);
  std::vector<std::unique_ptr<Registration>> ranges;
  for (size_t i = 0; i < kRanges; ++i) {
    ranges.push_back(
        std::make_unique<Registration>(context, pages.bytes().subspan(i * kStep, kStep / 2)));
  }
  for (const size_t gone : {size_t{2}, size_t{0}, size_t{4}}) {
    ranges[gone]->end();
    for (size_t i = 0; i < kRanges; ++i) {
      stream.copy(KEEL_COPY_HOST_TO_DEVICE, memory.at(0), pages.bytes().data() + i * kStep,
                  kStep / 2);
      stream.expect(memory.at(0), std::span(wanted).subspan(i * kStep, kStep / 2),
                    "one of several ranges");
    }
  }
  for (const size_t gone : {size_t{3}, size_t{1}}) ranges[gone]->end();
  Registration all(context, pages.bytes());
  all.end();
  check_equal(pages.bytes(), wanted, "memory that was registered in parts and as a whole");
}

// A range registered on two devices of one instance stays registered on the second when the first
// unregisters it, and each device unregisters it once.
void registered_on_two_devices(const Context& context) {
  constexpr uint64_t kBytes = 200'003;
  const keel_memory_table* const table = &memory_of(context);
  check(observe(KEEL_HAS(keel_memory_table, table, host_register) &&
                KEEL_HAS(keel_memory_table, table, host_unregister)),
        "HOST_REGISTER is claimed without the slots that it needs");
  const TableInstance instance(context);
  const uint32_t count = instance.count();
  std::deque<TableDevice> devices;
  for (uint32_t ordinal = 0; ordinal < count && devices.size() < 2; ++ordinal) {
    auto info = KEEL_STRUCT_INIT(keel_device_info, KEEL_STRUCT_DEVICE_INFO);
    need(device_of(context).plugin().device->info(instance.get(), ordinal, &info), "device.info");
    if ((observe(info.capabilities) & KEEL_CAPABILITY_HOST_REGISTER) == 0) continue;
    devices.emplace_back(context, instance.get(), ordinal, kBytes);
  }
  if (devices.size() < 2) unsupported("needs two devices of the backend");
  Draws draws(context);
  const HostPages pages(kBytes);
  for (uint32_t round = 0; round < 3; ++round) {
    const std::vector<std::byte> wanted = draws.bytes(kBytes);
    std::copy(wanted.begin(), wanted.end(), pages.bytes().begin());
    for (const TableDevice& device : devices) {
      void* address = nullptr;
      need(table->host_register(device.get(), pages.bytes().data(), kBytes, &address),
           "memory.host_register on each of two devices");
    }
    // The devices unregister in both orders.
    const TableDevice& first = devices[round % 2];
    const TableDevice& second = devices[1 - round % 2];
    need(table->host_unregister(first.get(), pages.bytes().data()),
         "memory.host_unregister on one of two devices");
    second.write(pages.bytes());
    second.expect(wanted, "from memory that another device has unregistered");
    need(table->host_unregister(second.get(), pages.bytes().data()),
         "memory.host_unregister on the other of two devices");
    first.write(pages.bytes());
    first.expect(wanted, "from memory that two devices have unregistered");
  }
}

// An operator must accept registered memory at its device address.
void registered_operand(const Context& context) {
  constexpr uint64_t kCount = 5'003;
  constexpr uint64_t kBytes = kCount * sizeof(float);
  constexpr uint64_t kOffset = 4096 + 36;
  const HostPages pages(kOffset + kBytes + 4096);
  std::vector<float> values(kCount);
  for (uint64_t i = 0; i < kCount; ++i) values[i] = static_cast<float>(i % 1000) + 0.5F;
  const auto bytes = std::as_bytes(std::span(values));
  std::copy(bytes.begin(), bytes.end(), pages.bytes().begin() + kOffset);
  const std::vector<std::byte> zeroes(kBytes, std::byte{0});
  const TableBuffer memory(context, kBytes);
  const TableBuffer output(context, kBytes);
  Registration registration(context, pages.bytes().subspan(kOffset, kBytes));
  if (!registration.has_device_pointer()) unsupported("the device has no address of host memory");
  const keel_op_table* const table = device_of(context).plugin().op;
  check(observe(KEEL_HAS(keel_op_table, table, query) && KEEL_HAS(keel_op_table, table, run)),
        "OPS is claimed without the slots that it needs");
  const auto tensor = [](void* data) {
    return kit::make_tensor(data, KEEL_FLOAT32, {static_cast<int64_t>(kCount)});
  };
  const OpCall call(KEEL_OP_ADD, {tensor(registration.on_device(0)), tensor(memory.at(0))},
                    tensor(output.at(0)));
  keel_op_support support = {};
  support.header = kit::header<keel_op_support>(KEEL_STRUCT_OP_SUPPORT);
  need(table->query(device_of(context).get(), call.get(), &support), "op.query");
  if (observe(support.level) == KEEL_OP_NONE) unsupported("the device does not add float32");
  const TableBuffer workspace(context, observe(support.workspace_bytes) + 1);
  const TableStream stream(context);
  stream.copy(KEEL_COPY_HOST_TO_DEVICE, memory.at(0), zeroes.data(), kBytes);
  need(table->run(stream.get(), call.get(), workspace.at(0)), "op.run");
  need(stream.settle(), "an operator on registered memory");
  stream.expect(output.at(0), bytes, "an operator that read registered memory");
  registration.end();
}

}  // namespace

void add_host_table_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](const std::string& id, auto body, uint64_t capabilities) {
    cases->push_back({"memory/tables/" + id, capabilities, false, std::move(body)});
  };
  add("pinned/parts", pinned_parts, KEEL_CAPABILITY_PINNED);
  add("managed/parts", managed_parts, KEEL_CAPABILITY_MANAGED);
  add("host_alias/parts", alias_parts, KEEL_CAPABILITY_HOST_ALIAS);
  add("host_alias/blocks", alias_blocks, KEEL_CAPABILITY_HOST_ALIAS);
  for (const auto& [offset, size] :
       {std::pair<uint64_t, uint64_t>{0, 4096}, {100, 1}, {4096 + 33, 90'001}, {17, 5 * kMiB}}) {
    add(
        fmt::format("host_register/{}_at_{}", size, offset),
        [offset = offset, size = size](const Context& c) { registered_parts(c, offset, size); },
        KEEL_CAPABILITY_HOST_REGISTER);
  }
  add("host_register/ranges", registered_ranges, KEEL_CAPABILITY_HOST_REGISTER);
  add("host_register/two_devices", registered_on_two_devices, KEEL_CAPABILITY_HOST_REGISTER);
  add("host_register/operand", registered_operand,
      KEEL_CAPABILITY_HOST_REGISTER | KEEL_CAPABILITY_OPS);
}

}  // namespace keel::conformance
