// SPDX-License-Identifier: Apache-2.0
#include "conformance/table_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <keel/plugin_kit.hpp>
#include <numeric>
#include <thread>
#include <utility>

namespace keel::conformance {

const keel_ccl_table& ccl_table_of(const Context& context) {
  const keel_ccl_table* const table = device_of(context).plugin().ccl;
  check(observe(KEEL_HAS(keel_ccl_table, table, capability) &&
                KEEL_HAS(keel_ccl_table, table, unique_id) &&
                KEEL_HAS(keel_ccl_table, table, init_rank) &&
                KEEL_HAS(keel_ccl_table, table, destroy) && KEEL_HAS(keel_ccl_table, table, run) &&
                KEEL_HAS(keel_ccl_table, table, info)),
        "CCL is claimed without the slots that it needs");
  return *table;
}

bool ccl_can(const Context& context, keel_collective collective, keel_dtype dtype,
             keel_reduction reduction, Where where) {
  const PluginDevice& device = device_of(context);
  return observe_status(
             device.plugin().ccl->capability(device.instance(), collective, dtype, reduction),
             where) == KEEL_OK;
}

// ---- TableDevices -----------------------------------------------------------------------------

TableDevices::TableDevices(const Context& context, uint32_t most, Where where) : context_(context) {
  const PluginDevice& device = device_of(context);
  const keel_device_table& table = *device.plugin().device;
  if (observe(device.info().hardware_queues, where) == 1) {
    unsupported("a device with one queue takes no part");
  }
  uint32_t count = 0;
  need(table.count(device.instance(), &count), "device.count", where);
  count = observe(count, where);
  const std::string& name = context.environment.target.device;
  const uint32_t own =
      observe(static_cast<uint32_t>(std::atoi(name.substr(name.rfind(':') + 1).c_str())), where);
  devices_.push_back(device.get());
  for (uint32_t ordinal = 0; ordinal < count && devices_.size() < most; ++ordinal) {
    if (ordinal == own) continue;
    auto info = KEEL_STRUCT_INIT(keel_device_info, KEEL_STRUCT_DEVICE_INFO);
    need(table.info(device.instance(), ordinal, &info), "device.info", where);
    if ((observe(info.capabilities, where) & KEEL_CAPABILITY_CCL) == 0) continue;
    if (observe(info.hardware_queues, where) == 1) continue;
    keel_plugin_device* other = nullptr;
    // Skip a device that another process has opened exclusively.
    if (observe_status(table.open(device.instance(), ordinal, &other), where) != KEEL_OK) continue;
    devices_.push_back(other);
  }
  if (devices_.size() < 2 && most > 1) unsupported("needs two devices of the backend");
}

TableDevices::~TableDevices() {
  const keel_device_table& table = *device_of(context_).plugin().device;
  for (size_t i = 1; i < devices_.size(); ++i) {
    if (devices_[i] != nullptr) table.close(devices_[i]);
  }
}

// ---- TableRanks -------------------------------------------------------------------------------

TableRanks::TableRanks(const Context& context, const TableDevices& devices,
                       std::vector<uint32_t> order, Where where)
    : context_(context), devices_(devices), order_(std::move(order)) {
  constexpr uint64_t kMost = 16384;
  const keel_ccl_table& table = ccl_table_of(context);
  for (uint32_t i = 0; order_.size() < devices.count(); ++i) order_.push_back(i);
  std::vector<std::byte> id(kMost);
  uint64_t size = id.size();
  need(table.unique_id(devices.get(order_[0]), id.data(), &size), "ccl.unique_id", where);
  size = observe(size, where);
  check(size > 0 && size <= kMost, fmt::format("ccl.unique_id gives {} bytes", size), where);
  comms_.resize(order_.size());
  const std::vector<keel_status> statuses = call_all(
      [&](uint32_t rank) {
        return table.init_rank(device(rank), id.data(), size, static_cast<int32_t>(rank),
                               static_cast<int32_t>(world()), context.environment.wait_ns,
                               &comms_[rank]);
      },
      where);
  for (uint32_t rank = 0; rank < world(); ++rank) {
    check(statuses[rank] == KEEL_OK,
          fmt::format("ccl.init_rank of rank {} of {}: {}", rank, world(),
                      keel_status_name(statuses[rank])),
          where);
    check(observe(comms_[rank] != nullptr, where), "ccl.init_rank gives no communicator", where);
  }
  make_streams(where);
}

TableRanks::TableRanks(const Context& context, const TableDevices& devices,
                       std::vector<uint32_t> order, std::vector<keel_plugin_comm*> comms,
                       Where where)
    : context_(context), devices_(devices), order_(std::move(order)), comms_(std::move(comms)) {
  make_streams(where);
}

void TableRanks::make_streams(Where where) {
  const keel_stream_table& table = *device_of(context_).plugin().stream;
  for (uint32_t rank = 0; rank < world(); ++rank) {
    streams_.push_back(nullptr);
    need(table.create(device(rank), /*priority=*/0, &streams_.back()), "stream.create", where);
    events_.push_back(nullptr);
    need(table.event_create(device(rank), /*flags=*/0, &events_.back()), "stream.event_create",
         where);
  }
}

TableRanks::~TableRanks() {
  destroy();
  const keel_stream_table& table = *device_of(context_).plugin().stream;
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (i >= events_.size() || events_[i] == nullptr ||
        settle_unobserved(static_cast<uint32_t>(i)) == KEEL_NOT_READY) {
      continue;  // leak a stream whose work does not end
    }
    table.event_destroy(events_[i]);
    table.destroy(streams_[i]);
  }
}

void TableRanks::destroy() {
  const keel_ccl_table& table = *device_of(context_).plugin().ccl;
  for (uint32_t rank = 0; rank < world(); ++rank) {
    // Leak a communicator that its library may still be using.
    if (rank < events_.size() && settle_unobserved(rank) == KEEL_NOT_READY) comms_[rank] = nullptr;
  }
  run_threads(world(), [&](uint32_t rank) {
    if (comms_[rank] != nullptr) table.destroy(comms_[rank]);
  });
  std::fill(comms_.begin(), comms_.end(), nullptr);
}

std::vector<uint32_t> TableRanks::all() const {
  std::vector<uint32_t> ranks(world());
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::vector<keel_status> TableRanks::call_all(const std::function<keel_status(uint32_t rank)>& call,
                                              Where where) const {
  std::vector<keel_status> statuses(world(), KEEL_OK);
  run_threads(world(), [&](uint32_t rank) { statuses[rank] = call(rank); });
  for (keel_status& status : statuses) status = observe_status(status, where);
  return statuses;
}

void TableRanks::need_all(const std::function<keel_status(uint32_t rank)>& call,
                          const std::string& what, Where where) const {
  std::vector<std::string> texts(world());
  const std::vector<keel_status> statuses = call_all(
      [&](uint32_t rank) {
        const keel_status status = call(rank);
        if (status != KEEL_OK) texts[rank] = PluginDevice::last_text();
        return status;
      },
      where);
  for (uint32_t rank = 0; rank < world(); ++rank) {
    if (statuses[rank] == KEEL_OK) continue;
    const std::string text = observe_text(texts[rank], where);
    fail_case(fmt::format("{}, rank {} of {}: {}: {}", what, rank, world(),
                          keel_status_name(statuses[rank]), text),
              where);
  }
}

keel_status TableRanks::settle_unobserved(uint32_t rank) const {
  const keel_stream_table& table = *device_of(context_).plugin().stream;
  const keel_status status = table.event_record(events_[rank], streams_[rank]);
  if (status != KEEL_OK) return status;
  return poll_unobserved([&] { return table.event_query(events_[rank]); },
                         context_.environment.wait_ns);
}

keel_status TableRanks::settle(uint32_t rank, Where where) const {
  return observe_status(settle_unobserved(rank), where);
}

void TableRanks::upload(uint32_t rank, std::byte* to, std::span<const std::byte> from,
                        Where where) const {
  need(device_of(context_).plugin().stream->copy(streams_[rank], KEEL_COPY_HOST_TO_DEVICE, to,
                                                 from.data(), from.size()),
       "stream.copy", where);
  need(settle(rank, where), "a copy", where);
}

Bytes TableRanks::download(uint32_t rank, const std::byte* from, uint64_t size, Where where) const {
  Bytes bytes(size);
  need(device_of(context_).plugin().stream->copy(streams_[rank], KEEL_COPY_DEVICE_TO_HOST,
                                                 bytes.data(), from, size),
       "stream.copy", where);
  need(settle(rank, where), "a copy", where);
  return bytes;
}

// ---- RankMemory -------------------------------------------------------------------------------

RankMemory::RankMemory(const TableRanks& ranks, uint32_t rank, uint64_t size, Where where)
    : plugin_(device_of(ranks.context()).plugin()), device_(ranks.device(rank)), size_(size) {
  need(plugin_.memory->alloc(device_, KEEL_MEMORY_DEVICE, size, /*usage=*/0, &pointer_),
       fmt::format("memory.alloc of {} bytes", size), where);
}

RankMemory::~RankMemory() {
  if (pointer_ != nullptr) (void)plugin_.memory->free(device_, KEEL_MEMORY_DEVICE, pointer_);
}

}  // namespace keel::conformance
