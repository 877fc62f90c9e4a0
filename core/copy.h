// SPDX-License-Identifier: Apache-2.0
// Copies between any two memories: chosen from what the devices claim, and composed
// of streams and events.
#ifndef KEEL_CORE_COPY_H_
#define KEEL_CORE_COPY_H_

#include <string>

#include "core/device.h"
#include "core/ref_counted.h"
#include "core/status.h"
#include "core/stream.h"

namespace keel {

// How bytes get from one device to another. Devices live until shutdown, and NULL is the
// host.
struct CopyPath {
  keel_copy_route route = KEEL_ROUTE_LOCAL;
  uint32_t legs = 1;
  uint64_t chunk_bytes = 0;
  // KEEL_ROUTE_ALIAS: the device that moves the bytes. KEEL_ROUTE_STAGED: the one whose
  // pinned memory stages them.
  Device* mover = nullptr;
  std::string describe(const Device* destination, const Device* source) const;
};

CopyPath choose_copy_path(Device* destination, Device* source);

// One side of a copy.
struct Endpoint {
  Device* device = nullptr;  // NULL: the host
  void* pointer = nullptr;
};

// Enqueues one native copy on |stream|, between its own device and the host or within
// the device. Ranges have been checked.
Status submit_copy(Stream& stream, keel_copy_kind kind, void* destination, const void* source,
                   uint64_t size);
// The same where a host address is another device's memory: |destination_endpoint| and
// |source_endpoint| say what the bytes are, for observers.
Status submit_copy(Stream& stream, keel_copy_kind kind, void* destination, const void* source,
                   uint64_t size, const Endpoint& destination_endpoint,
                   const Endpoint& source_endpoint);

// Whether one native copy does it: within one device, or between it and the host.
inline bool is_direct(const Endpoint& destination, const Endpoint& source) {
  return destination.device == nullptr || source.device == nullptr ||
         destination.device == source.device;
}
// Enqueues such a copy on |stream|, a stream of that device. Waits for nothing.
Status submit_direct_copy(Stream& stream, const Endpoint& destination, const Endpoint& source,
                          uint64_t size);

// Enqueues any copy on |stream|. Ranges have been checked. May wait for memory to stage in.
Status enqueue_copy(const Ref<Stream>& stream, const Endpoint& destination, const Endpoint& source,
                    uint64_t size);

// Enqueues a fill of device memory on |stream|, with the plugin's fill or, where it
// has none for the pattern, copies from a filled pinned buffer.
Status enqueue_fill(const Ref<Stream>& stream, void* destination, const void* pattern,
                    uint32_t pattern_size, uint64_t size);

}  // namespace keel

#endif  // KEEL_CORE_COPY_H_
