// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/peer_memory.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace keel {

namespace {

// Maps |file| read-only at a multiple of the huge page size: the kernel maps a file's huge pages as
// huge only if both file offset and address are aligned. NULL with errno on failure.
const char* map_aligned(int file, uint64_t size) {
  constexpr uint64_t kHugePage = 2 << 20;
  void* const reserved = mmap(nullptr, size + kHugePage, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return nullptr;
  char* const room = static_cast<char*>(reserved);
  const uint64_t head = -reinterpret_cast<uintptr_t>(room) % kHugePage;
  const void* const data =
      mmap(room + head, size, PROT_READ, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file, 0);
  const int error = errno;
  if (data == MAP_FAILED) {
    munmap(room, size + kHugePage);
    errno = error;
    return nullptr;
  }
  if (head != 0) munmap(room, head);
  munmap(room + head + size, kHugePage - head);
  return room + head;
}

}  // namespace

Status PeerMapping::map(const FileDescriptor& file, std::shared_ptr<PeerMapping>* out_mapping) {
  struct stat status = {};
  if (fstat(file.get(), &status) != 0 || status.st_size <= 0) {
    return failure(KEEL_RANK_FAILED, "a rank's memory object is none");
  }
  const auto size = static_cast<uint64_t>(status.st_size);
  const char* const data = map_aligned(file.get(), size);
  if (data == nullptr) {
    return failure(KEEL_OUT_OF_MEMORY, "no address space for {} bytes of a rank's memory: {}", size,
                   std::strerror(errno));
  }
  out_mapping->reset(new PeerMapping(data, size));
  return {};
}

PeerMapping::~PeerMapping() {
  munmap(const_cast<char*>(data_), size_);
}

Status PeerMemory::map(const ProcessToken& owner, const MemHandle& place,
                       const AbortRecord& failures, WaitContext& wait_context,
                       std::shared_ptr<PeerMapping>* out_mapping) {
  const auto key = std::make_pair(owner, std::make_pair(place.device, place.inode));
  {
    std::lock_guard lock(mutex_);
    const auto known = mappings_.find(key);
    if (known != mappings_.end()) {
      *out_mapping = known->second;
      return {};
    }
  }
  FileDescriptor file;
  const auto is_given_up = [&] { return wait_context.cancelled() || failures.failed(); };
  KEEL_RETURN_IF_ERROR(fetch_object(owner, {place.device, place.inode}, wait_context.deadline(),
                                    is_given_up, &file));
  std::shared_ptr<PeerMapping> mapping;
  KEEL_RETURN_IF_ERROR(PeerMapping::map(file, &mapping));
  std::lock_guard lock(mutex_);
  // Another rank of this process may have inserted the mapping first.
  *out_mapping = mappings_.emplace(key, std::move(mapping)).first->second;
  return {};
}

void PeerMemory::forget(const ProcessToken& owner) {
  std::lock_guard lock(mutex_);
  std::erase_if(mappings_, [&](const auto& entry) { return entry.first.first == owner; });
}

Status RemoteMappingCache::resolve(PeerMemory& memory, const ProcessToken& owner, bool same_process,
                                   const MemHandle& place, uint32_t epoch, uint64_t offset,
                                   uint64_t size, const AbortRecord& failures,
                                   WaitContext& wait_context, const char** out_data) {
  if (same_process) {
    *out_data = reinterpret_cast<const char*>(place.address) + offset;
    return {};
  }
  if (epoch != epoch_) {
    epoch_ = epoch;
    seen_.clear();
    memory.forget(owner);
  }
  const Seen* found = nullptr;
  for (const Seen& seen : seen_) {
    if (seen.inode == place.inode && seen.device == place.device) found = &seen;
  }
  if (found == nullptr) {
    if (place.inode == 0) return failure(KEEL_RANK_FAILED, "its buffer cannot be reached");
    std::shared_ptr<PeerMapping> mapping;
    KEEL_RETURN_IF_ERROR(memory.map(owner, place, failures, wait_context, &mapping));
    if (seen_.size() == kMostSeen) seen_.erase(seen_.begin());
    seen_.push_back({place.device, place.inode, std::move(mapping)});
    found = &seen_.back();
  }
  const uint64_t limit = found->mapping->size();
  if (place.offset > limit || offset > limit - place.offset ||
      size > limit - place.offset - offset) {
    return failure(KEEL_RANK_FAILED, "its buffer lies beyond its memory");
  }
  *out_data = found->mapping->data() + place.offset + offset;
  return {};
}

}  // namespace keel
