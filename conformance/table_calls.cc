// SPDX-License-Identifier: Apache-2.0
#include "conformance/table_calls.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>

namespace keel::conformance {

namespace {

uint64_t seed_of(const Context& context, uint32_t stream) {
  constexpr uint32_t kDraws = 0x40000000;  // distinct from every tensor number
  uint64_t seed = 0;
  const std::vector<std::byte> bytes = random_bytes(context, kDraws + stream, sizeof(seed));
  std::memcpy(&seed, bytes.data(), sizeof(seed));
  return seed;
}

}  // namespace

void check_unwritten(const void* pointer, const std::string& what, Where where) {
  const uint64_t address = observe(address_of(pointer), where);
  check(address == kUnwritten || address == 0,
        fmt::format("{} failed and wrote {:#x} to its out-parameter", what, address), where);
}

Draws::Draws(const Context& context, uint32_t stream) : engine_(seed_of(context, stream)) {}

std::vector<std::byte> Draws::bytes(uint64_t size) {
  std::vector<std::byte> bytes(size);
  for (uint64_t offset = 0; offset < size; offset += sizeof(uint64_t)) {
    const uint64_t bits = engine_();
    std::memcpy(bytes.data() + offset, &bits, std::min<uint64_t>(sizeof(bits), size - offset));
  }
  return bytes;
}

// ---- memory ---------------------------------------------------------------------------

TableBlock::TableBlock(const Context& context, keel_memory_kind kind, uint64_t size, Where where)
    : context_(&context), kind_(kind), size_(size) {
  need(memory_of(context).alloc(device_of(context).get(), kind, size, /*usage=*/0, &pointer_),
       fmt::format("memory.alloc of {} bytes of kind {}", size, kind), where);
  address_ = observe(address_of(pointer_), where);
}

TableBlock::~TableBlock() {
  if (pointer_ == nullptr) return;
  (void)memory_of(*context_).free(device_of(*context_).get(), kind_, pointer_);
}

TableBlock::TableBlock(TableBlock&& other) noexcept
    : context_(other.context_),
      kind_(other.kind_),
      size_(other.size_),
      pointer_(std::exchange(other.pointer_, nullptr)),
      address_(other.address_) {}

TableBlock& TableBlock::operator=(TableBlock&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(kind_, other.kind_);
  std::swap(size_, other.size_);
  std::swap(pointer_, other.pointer_);
  std::swap(address_, other.address_);
  return *this;
}

void TableBlock::free(Where where) {
  need(memory_of(*context_).free(device_of(*context_).get(), kind_,
                                 std::exchange(pointer_, nullptr)),
       fmt::format("memory.free of {} bytes of kind {}", size_, kind_), where);
}

// ---- instances ------------------------------------------------------------------------

keel_status TableInstance::create(const Context& context, const std::vector<Setting>& settings,
                                  const void* next, keel_plugin_instance** out_instance) {
  std::vector<Setting> strings = settings;
  std::vector<const char*> keys;
  std::vector<const char*> values;
  for (const Setting& each : strings) {
    keys.push_back(each.first.c_str());
    values.push_back(each.second.c_str());
  }
  auto given = KEEL_STRUCT_INIT(keel_instance_settings, KEEL_STRUCT_INSTANCE_SETTINGS);
  given.header.next = next;
  given.count = static_cast<uint32_t>(strings.size());
  given.keys = strings.empty() ? nullptr : keys.data();
  given.values = strings.empty() ? nullptr : values.data();
  const keel_status status = device_of(context).plugin().create_instance(&given, out_instance);
  for (Setting& each : strings) {
    std::fill(each.first.begin(), each.first.end(), '?');
    std::fill(each.second.begin(), each.second.end(), '?');
  }
  return status;
}

TableInstance::TableInstance(const Context& context, const std::vector<Setting>& settings,
                             Where where)
    : context_(context) {
  need(create(context, settings, /*next=*/nullptr, &instance_), "create_instance", where);
}

TableInstance::TableInstance(TableInstance&& other) noexcept
    : context_(other.context_), instance_(std::exchange(other.instance_, nullptr)) {}

uint32_t TableInstance::count(Where where) const {
  uint32_t count = 0;
  need(device_of(context_).plugin().device->count(instance_, &count), "device.count", where);
  return observe(count, where);
}

void TableInstance::end() {
  if (instance_ != nullptr) device_of(context_).plugin().destroy_instance(instance_);
  instance_ = nullptr;
}

// ---- devices --------------------------------------------------------------------------

TableDevice::TableDevice(const Context& context, keel_plugin_instance* instance, uint32_t ordinal,
                         uint64_t memory_bytes, Where where)
    : context_(context) {
  const keel_plugin& plugin = device_of(context).plugin();
  const keel_status status = plugin.device->open(instance, ordinal, &device_);
  if (observe_status(status, where) != KEEL_OK) {
    unsupported("a device that is open in one instance cannot be opened in another");
  }
  need(plugin.memory->alloc(device_, KEEL_MEMORY_DEVICE, memory_bytes, /*usage=*/0, &pointer_),
       "memory.alloc", where);
  need(plugin.stream->event_create(device_, /*flags=*/0, &event_), "stream.event_create", where);
  need(plugin.stream->create(device_, /*priority=*/0, &stream_), "stream.create", where);
}

TableDevice::~TableDevice() {
  const keel_plugin& plugin = device_of(context_).plugin();
  if (stream_ != nullptr) {
    keel_status status = plugin.stream->event_record(event_, stream_);
    if (status == KEEL_OK) {
      status = poll_unobserved([&] { return plugin.stream->event_query(event_); },
                               context_.environment.wait_ns);
    }
    if (status == KEEL_NOT_READY) return;
    plugin.stream->event_destroy(event_);
    plugin.stream->destroy(stream_);
  }
  if (pointer_ != nullptr) (void)plugin.memory->free(device_, KEEL_MEMORY_DEVICE, pointer_);
  if (device_ != nullptr) plugin.device->close(device_);
}

void TableDevice::settle(Where where) const {
  need(streams_of(context_).event_record(event_, stream_), "stream.event_record", where);
  need(poll([&] { return streams_of(context_).event_query(event_); }, context_.environment.wait_ns,
            where),
       "work of another instance's device", where);
}

void TableDevice::copy(keel_copy_kind kind, void* destination, const void* source, uint64_t size,
                       const Where& where) const {
  need(streams_of(context_).copy(stream_, kind, destination, source, size), "stream.copy", where);
  settle(where);
}

void TableDevice::write(std::span<const std::byte> bytes, Where where) const {
  copy(KEEL_COPY_HOST_TO_DEVICE, pointer_, bytes.data(), bytes.size(), where);
}

void TableDevice::expect(std::span<const std::byte> wanted, const std::string& what,
                         Where where) const {
  std::vector<std::byte> got(wanted.size());
  copy(KEEL_COPY_DEVICE_TO_HOST, got.data(), pointer_, got.size(), where);
  check_equal(got, wanted, what, where);
}

// ---- the process ----------------------------------------------------------------------

uint64_t observe_entries(const char* folder, Where where) {
  std::error_code failure;
  const std::filesystem::directory_iterator entries(std::string("/proc/self/") + folder, failure);
  return observe(
      failure ? uint64_t{0} : static_cast<uint64_t>(std::distance(begin(entries), end(entries))),
      where);
}

uint64_t observe_address_space(Where where) {
  unsigned long long pages = 0;
  if (std::FILE* const file = std::fopen("/proc/self/statm", "re"); file != nullptr) {
    if (std::fscanf(file, "%llu", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  return observe(uint64_t{pages} * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)), where);
}

}  // namespace keel::conformance
