// SPDX-License-Identifier: Apache-2.0
// Cache of IPC handles: maps a rank's buffers to shared memory objects.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_IPC_HANDLE_CACHE_H_
#define KEEL_COLLECTIVES_TRANSPORTS_IPC_HANDLE_CACHE_H_

#include <cstdint>
#include <vector>

#include "collectives/bootstrap/mem_handle_server.h"
#include "collectives/transports/mem_handle.h"
#include "core/device.h"
#include "core/status.h"

namespace keel {

// Exports each arena once through the device's plugin, caches the handle and publishes it to the
// ranks of other processes. When the device has released memory, the cache is cleared and epoch()
// increases; ranks that see the new epoch drop their mappings of the old arenas. For one thread.
class IpcHandleCache {
 public:
  explicit IpcHandleCache(Device& device) : device_(device) {}
  ~IpcHandleCache() { clear(); }
  IpcHandleCache(const IpcHandleCache&) = delete;
  IpcHandleCache& operator=(const IpcHandleCache&) = delete;

  // Fills device, inode and offset of [pointer, pointer + size), addresses of one allocation of
  // this device. Returns false where the range lies in no shareable object.
  bool locate(const void* pointer, uint64_t size, MemHandle* out_place);
  uint32_t epoch() const { return epoch_; }

 private:
  struct Arena {
    uintptr_t begin;
    uint64_t size;
    ObjectId object;
  };

  void clear();

  Device& device_;
  std::vector<Arena> arenas_;
  uint64_t releases_ = 0;
  uint32_t epoch_ = 0;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_IPC_HANDLE_CACHE_H_
