// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/ipc_handle_cache.h"

#include <utility>

namespace keel {

void IpcHandleCache::clear() {
  for (const Arena& arena : arenas_) MemHandleServer::get().withdraw(arena.object);
  arenas_.clear();
}

bool IpcHandleCache::locate(const void* pointer, uint64_t size, MemHandle* out_place) {
  // After a release, an address may belong to another arena.
  const uint64_t releases = device_.memory().releases();
  if (releases != releases_) {
    releases_ = releases;
    ++epoch_;
    clear();
  }
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  for (const Arena& arena : arenas_) {
    if (address - arena.begin < arena.size && size <= arena.size - (address - arena.begin)) {
      out_place->device = arena.object.device;
      out_place->inode = arena.object.inode;
      out_place->offset = address - arena.begin;
      return true;
    }
  }
  const keel_memory_table* table = device_.memory_table();
  if (!device_.has(KEEL_CAPABILITY_EXPORT) || !KEEL_HAS(keel_memory_table, table, export_memory)) {
    return false;
  }
  auto exported = KEEL_STRUCT_INIT(keel_memory_export, KEEL_STRUCT_MEMORY_EXPORT);
  exported.fd = -1;
  if (!device_
           .check(table->export_memory(device_.native(), const_cast<void*>(pointer), size,
                                       KEEL_EXPORT_MEMFD, /*importer_pid=*/0, &exported),
                  "memory.export_memory")
           .ok()) {
    return false;
  }
  FileDescriptor file(exported.fd);
  if (exported.kind != KEEL_EXPORT_MEMFD || exported.offset > exported.object_size ||
      size > exported.object_size - exported.offset) {
    return false;
  }
  Arena arena = {address - exported.offset, exported.object_size, {}};
  if (!MemHandleServer::get().publish(std::move(file), &arena.object).ok()) return false;
  arenas_.push_back(arena);
  out_place->device = arena.object.device;
  out_place->inode = arena.object.inode;
  out_place->offset = exported.offset;
  return true;
}

}  // namespace keel
