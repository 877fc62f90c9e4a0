// SPDX-License-Identifier: Apache-2.0
#include "backends/level_zero/stream.h"

#include <algorithm>
#include <keel/plugin_kit.hpp>

namespace keel::gpu {
namespace {

// Below, the two events between the lists cost more than a copy engine saves.
constexpr uint64_t kEngineBytes = uint64_t{256} << 10;

}  // namespace

keel_status Stream::create(Device& device, int32_t priority, std::unique_ptr<Stream>* out_stream) {
  std::unique_ptr<Stream> stream(new Stream(device, /*is_owned=*/true));
  stream->priority_ = priority;
  const keel_status status = stream->create_list(device.groups().compute, &stream->kernels_);
  if (status == KEEL_OK) *out_stream = std::move(stream);
  return status;
}

keel_status Stream::wrap(Device& device, ze::CommandList native,
                         std::unique_ptr<Stream>* out_stream) {
  if (native == nullptr) {
    return kit::fail(KEEL_INVALID_ARGUMENT, "level_zero: a stream is an immediate command list");
  }
  std::unique_ptr<Stream> stream(new Stream(device, /*is_owned=*/false));
  stream->kernels_.native = native;
  stream->kernels_.is_ordered = false;
  stream->is_shared_ = true;
  *out_stream = std::move(stream);
  return KEEL_OK;
}

Stream::~Stream() {
  for (const ze::CommandList list : {kernels_.native, copies_.native}) {
    if (!is_owned_ || list == nullptr) continue;
    (void)device_.release("zeCommandListDestroy",
                          [&](const ze::Functions& ze) { return ze.CommandListDestroy(list); });
  }
  for (const ze::Event event : links_) device_.events().give_back(event);
}

keel_status Stream::create_list(uint32_t group, List* out_list) {
  ze::QueueDesc desc;
  desc.ordinal = group;
  desc.priority = priority_ < 0   ? ze::kPriorityHigh
                  : priority_ > 0 ? ze::kPriorityLow
                                  : ze::kPriorityNormal;
  return device_.call("zeCommandListCreateImmediate", [&](const ze::Functions& ze) {
    return ze.CommandListCreateImmediate(device_.context(), device_.handle(), &desc,
                                         &out_list->native);
  });
}

keel_status Stream::unwrap(void** out_native) {
  is_shared_ = true;
  const keel_status status = turn_to(kernels_);
  if (status == KEEL_OK) *out_native = kernels_.native;
  return status;
}

keel_status Stream::turn_to(List& list) {
  if (active_ == &list) {
    // Work of the caller may be behind the last barrier.
    if (is_shared_) list.is_ordered = false;
    return KEEL_OK;
  }
  const keel_status status = link(*active_, list);
  if (status == KEEL_OK) active_ = &list;
  return status;
}

keel_status Stream::link(List& from, List& to) {
  // A signalled event means that the older ones have been waited for.
  while (links_.size() > 1 && device_.functions().EventQueryStatus(links_[1]) == ze::kSuccess) {
    device_.events().give_back(links_.front());
    links_.pop_front();
  }
  ze::Event event = nullptr;
  keel_status status = device_.events().take(&event);
  if (status != KEEL_OK) return status;
  links_.push_back(event);
  return device_.call("zeCommandListAppendBarrier", [&](const ze::Functions& ze) {
    ze::Result result = ze.CommandListAppendBarrier(from.native, event, 0, nullptr);
    if (result == ze::kSuccess) {
      from.is_ordered = true;
      result = ze.CommandListAppendBarrier(to.native, nullptr, 1, &event);
    }
    if (result == ze::kSuccess) to.is_ordered = true;
    return result;
  });
}

bool Stream::is_for_engine(keel_copy_kind kind, uint64_t size) const {
  return kind != KEEL_COPY_DEVICE_TO_DEVICE && size >= kEngineBytes && !is_shared_ &&
         device_.groups().copy.has_value();
}

keel_status Stream::append_copy(List& list, void* destination, const void* source, uint64_t size) {
  return append(list, "zeCommandListAppendMemoryCopy",
                [&](const ze::Functions& ze, ze::CommandList native) {
                  return ze.CommandListAppendMemoryCopy(native, destination, source, size, nullptr,
                                                        0, nullptr);
                });
}

keel_status Stream::copy(keel_copy_kind kind, void* destination, const void* source,
                         uint64_t size) {
  if (!is_for_engine(kind, size)) return append_copy(kernels_, destination, source, size);
  if (copies_.native == nullptr) {
    const keel_status status = create_list(*device_.groups().copy, &copies_);
    if (status != KEEL_OK) return status;
  }
  return append_copy(copies_, destination, source, size);
}

keel_status Stream::copy_peer(Device& /*destination_device*/, void* destination,
                              Device& /*source_device*/, const void* source, uint64_t size) {
  return append_copy(kernels_, destination, source, size);
}

keel_status Stream::fill(void* destination, const void* pattern, uint32_t pattern_size,
                         uint64_t size) {
  return append(kernels_, "zeCommandListAppendMemoryFill",
                [&](const ze::Functions& ze, ze::CommandList native) {
                  return ze.CommandListAppendMemoryFill(native, destination, pattern, pattern_size,
                                                        size, nullptr, 0, nullptr);
                });
}

keel_status Stream::launch(ze::Kernel kernel, const ze::GroupCount& groups) {
  return append(kernels_, "zeCommandListAppendLaunchKernel",
                [&](const ze::Functions& ze, ze::CommandList native) {
                  return ze.CommandListAppendLaunchKernel(native, kernel, &groups, nullptr, 0,
                                                          nullptr);
                });
}

keel_status Stream::signal(ze::Event event) {
  return device_.call("zeCommandListAppendBarrier", [&](const ze::Functions& ze) {
    const ze::Result result = ze.CommandListAppendBarrier(active_->native, event, 0, nullptr);
    if (result == ze::kSuccess) active_->is_ordered = true;
    return result;
  });
}

keel_status Stream::wait(ze::Event event, ze::Event passed) {
  return device_.call("zeCommandListAppendBarrier", [&](const ze::Functions& ze) {
    const ze::Result result = ze.CommandListAppendBarrier(active_->native, passed, 1, &event);
    if (result == ze::kSuccess) active_->is_ordered = true;
    return result;
  });
}

keel_status Stream::write_timestamp(uint64_t* destination, ze::Event event) {
  return append(*active_, "zeCommandListAppendWriteGlobalTimestamp",
                [&](const ze::Functions& ze, ze::CommandList native) {
                  return ze.CommandListAppendWriteGlobalTimestamp(native, destination, event, 0,
                                                                  nullptr);
                });
}

}  // namespace keel::gpu
