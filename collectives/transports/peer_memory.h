// SPDX-License-Identifier: Apache-2.0
// Mappings of the memory of ranks in other processes.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_PEER_MEMORY_H_
#define KEEL_COLLECTIVES_TRANSPORTS_PEER_MEMORY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "collectives/bootstrap/mem_handle_server.h"
#include "collectives/transports/abort_record.h"
#include "collectives/transports/mem_handle.h"
#include "collectives/transports/wait_context.h"
#include "core/deadline.h"
#include "core/status.h"

namespace keel {

// A shared memory object of another process, mapped read-only: a rank cannot write another rank's
// memory, whatever an operation descriptor says.
class PeerMapping {
 public:
  static Status map(const FileDescriptor& file, std::shared_ptr<PeerMapping>* out_mapping);
  ~PeerMapping();
  PeerMapping(const PeerMapping&) = delete;
  PeerMapping& operator=(const PeerMapping&) = delete;

  const char* data() const { return data_; }
  uint64_t size() const { return size_; }

 private:
  PeerMapping(const char* data, uint64_t size) : data_(data), size_(size) {}
  const char* const data_;
  const uint64_t size_;
};

// Remote-mapping cache: one per communicator and process, shared by the ranks of the process, lest
// 16 threads map and fault in the same arena 16 times. Thread-safe.
class PeerMemory {
 public:
  // Returns the mapping of |place|'s object of the process |owner|; fetches and maps an object
  // once. KEEL_ABORTED once the communicator of |failures| has failed.
  Status map(const ProcessToken& owner, const MemHandle& place, const AbortRecord& failures,
             WaitContext& wait_context, std::shared_ptr<PeerMapping>* out_mapping);
  // Drops the mappings of |owner|, whose objects may be gone.
  void forget(const ProcessToken& owner);

 private:
  std::mutex mutex_;
  std::map<std::pair<ProcessToken, std::pair<uint64_t, uint64_t>>, std::shared_ptr<PeerMapping>>
      mappings_;
};

// A rank's cache of the objects last used of one peer rank. For one thread.
class RemoteMappingCache {
 public:
  // Returns in |*out_data| the address in this process of |size| bytes at |offset| from |place|.
  Status resolve(PeerMemory& memory, const ProcessToken& owner, bool same_process,
                 const MemHandle& place, uint32_t epoch, uint64_t offset, uint64_t size,
                 const AbortRecord& failures, WaitContext& wait_context, const char** out_data);

 private:
  struct Seen {
    uint64_t device;
    uint64_t inode;
    std::shared_ptr<PeerMapping> mapping;
  };
  // Send buffer, receive buffer and staging pipeline lie in at most one object each.
  static constexpr size_t kMostSeen = 8;
  std::vector<Seen> seen_;
  uint32_t epoch_ = 0;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_PEER_MEMORY_H_
