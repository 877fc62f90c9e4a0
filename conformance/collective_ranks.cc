// SPDX-License-Identifier: Apache-2.0
#include "conformance/collective_ranks.h"

#include <algorithm>
#include <utility>

namespace keel::conformance {

Ranks::Ranks(const Context& context, bool reversed, Where where) : context_(context) {
  constexpr uint32_t kMost = 8;
  std::vector<keel_device> devices = {context.device()};
  for (const NamedDevice& device : context.environment.backend_devices) {
    if (devices.size() < kMost) devices.push_back(device.handle);
  }
  devices.resize(observe(static_cast<uint32_t>(devices.size()), where));
  if (devices.size() < 2) unsupported("needs two devices of the backend");
  if (reversed) std::reverse(devices.begin(), devices.end());
  comms_.resize(devices.size());
  auto options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
  options.timeout_ns = context.environment.wait_ns;
  must(keel_comm_init_all(devices.data(), static_cast<uint32_t>(devices.size()), &options,
                          comms_.data()),
       "keel_comm_init_all", where);
  for (const keel_device device : devices) {
    streams_.emplace_back(context, device, /*priority=*/0, where);
  }
}

Ranks::Ranks(const Context& context, std::vector<keel_comm> comms, std::vector<keel_device> devices)
    : context_(context), comms_(std::move(comms)) {
  for (const keel_device device : devices) streams_.emplace_back(context, device);
}

Ranks::~Ranks() {
  for (const keel_comm comm : comms_) keel_comm_destroy(comm);
}

Buffer Ranks::buffer(uint32_t rank, uint64_t bytes) const {
  return {streams_[rank].device(), KEEL_MEMORY_DEVICE, std::max<uint64_t>(bytes, 1)};
}

uint64_t Ranks::native_operations(Where where) const {
  auto stats = KEEL_STRUCT_INIT(keel_comm_stats, KEEL_STRUCT_COMM_STATS);
  must(keel_comm_stats_get(comms_[0], &stats), "keel_comm_stats_get", where);
  return observe(stats.native_operations, where);
}

void Ranks::synchronize(Where where) const {
  for (const Stream& stream : streams_) stream.synchronize(where);
}

void Ranks::recover(Where where) const {
  for (const Stream& stream : streams_) {
    must(keel_stream_recover(stream.get(), context_.environment.wait_ns), "keel_stream_recover",
         where);
  }
}

std::vector<keel_status> Ranks::statuses(uint32_t waits, Where where) const {
  std::vector<keel_status> all;
  for (const Stream& stream : streams_) {
    keel_status status = KEEL_TIMED_OUT;
    for (uint32_t i = 0; i < waits && status == KEEL_TIMED_OUT; ++i) {
      status = keel_stream_synchronize(stream.get(), context_.environment.wait_ns);
      // An operation missed its own deadline.
      if (status == KEEL_TIMED_OUT && keel_stream_query(stream.get()) == KEEL_TIMED_OUT) break;
    }
    all.push_back(observe_status(status, where));
  }
  return all;
}

}  // namespace keel::conformance
