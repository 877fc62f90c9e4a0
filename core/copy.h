// SPDX-License-Identifier: Apache-2.0
// Copies between any two memories. The route follows from the devices' capabilities; a copy is
// built from streams and events.
#ifndef KEEL_CORE_COPY_H_
#define KEEL_CORE_COPY_H_

#include <string>

#include "core/device.h"
#include "core/ref_counted.h"
#include "core/status.h"
#include "core/stream.h"

namespace keel {

// The route of a copy from one device to another. Devices live until shutdown; NULL is the host.
struct CopyPath {
  keel_copy_route route = KEEL_ROUTE_LOCAL;
  uint32_t steps = 1;
  uint64_t chunk_bytes = 0;
  // KEEL_ROUTE_ALIAS: the device that performs the copy. KEEL_ROUTE_STAGED: the device whose pinned
  // memory provides the bounce buffers.
  Device* mover = nullptr;
  std::string describe(const Device* destination, const Device* source) const;
};

CopyPath choose_copy_path(Device* destination, Device* source);

// Source or destination of a copy.
struct Endpoint {
  Device* device = nullptr;  // NULL: the host
  void* pointer = nullptr;
};

// Enqueues one native copy on |stream|, between the stream's device and the host or within the
// device. The caller has checked the ranges.
Status submit_copy(Stream& stream, keel_copy_kind kind, void* destination, const void* source,
                   uint64_t size);
// Overload for a host address that aliases another device's memory: |destination_endpoint| and
// |source_endpoint| describe the real memory to observers.
Status submit_copy(Stream& stream, keel_copy_kind kind, void* destination, const void* source,
                   uint64_t size, const Endpoint& destination_endpoint,
                   const Endpoint& source_endpoint);

// Whether one native copy suffices: within one device, or between a device and the host.
inline bool is_direct(const Endpoint& destination, const Endpoint& source) {
  return destination.device == nullptr || source.device == nullptr ||
         destination.device == source.device;
}
// Enqueues a direct copy on |stream|, a stream of the device involved. Never blocks.
Status submit_direct_copy(Stream& stream, const Endpoint& destination, const Endpoint& source,
                          uint64_t size);

// Enqueues any copy on |stream|. The caller has checked the ranges. May block for staging memory.
Status enqueue_copy(const Ref<Stream>& stream, const Endpoint& destination, const Endpoint& source,
                    uint64_t size);

// Enqueues a fill of device memory on |stream|: the plugin's fill or, if the plugin lacks one for
// the pattern, copies from a filled pinned buffer.
Status enqueue_fill(const Ref<Stream>& stream, void* destination, const void* pattern,
                    uint32_t pattern_size, uint64_t size);

}  // namespace keel

#endif  // KEEL_CORE_COPY_H_
