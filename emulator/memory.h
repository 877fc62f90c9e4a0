// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_MEMORY_H_
#define KEEL_EMULATOR_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "emulator/shared_file.h"
#include "emulator/status.h"

namespace keel::emulator {

// An address in a device's address space, or a host address that the device can access.
using Address = uint64_t;

inline Address address_of(const void* pointer) {
  return reinterpret_cast<Address>(pointer);
}

// The address range of all devices: reserved by the host with no access rights, so a host
// dereference of a device pointer faults. All chips of the process share one range, which is never
// released.
class DeviceRange {
 public:
#ifdef __SANITIZE_THREAD__
  // TSan leaves a process 1.5 TiB of addresses, and each copy of a shim library reserves a range.
  static constexpr uint64_t kMostBytes = uint64_t{16} << 30;
#else
  static constexpr uint64_t kMostBytes = uint64_t{256} << 30;
#endif
  // Where the address space is limited (ulimit -v, valgrind: 32 GiB), the range is smaller.
  static constexpr uint64_t kLeastBytes = uint64_t{1} << 30;

  // Returns NULL, with |*out_error|, if not even kLeastBytes can be reserved.
  static const DeviceRange* get(std::string* out_error);

  Address begin() const {
    return begin_;
  }
  uint64_t size() const {
    return size_;
  }
  // Returns whether any of the |size| bytes lies in the range.
  bool touches(Address address, uint64_t size) const {
    return address < begin_ + size_ && (address >= begin_ || begin_ - address < size);
  }

 private:
  DeviceRange(Address begin, uint64_t size) : begin_(begin), size_(size) {}
  const Address begin_;
  const uint64_t size_;
};

// Host memory, backed by pages on first touch.
class Storage {
 public:
  // Maps anonymous memory, or a piece of |file|. Returns NULL on failure.
  static std::shared_ptr<Storage> create(uint64_t size,
                                         const std::shared_ptr<SharedFile>& file = nullptr);
  // Maps the memory that |place|, a handle from another process, names. Returns the status of
  // SharedFile::open, or kOutOfMemory.
  static Status open(const SharedFileHandle& place, std::shared_ptr<Storage>* out_storage);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }
  // Returns the handle of the file's piece, margin included; empty for anonymous memory. Memory
  // of another process has a handle, too.
  const std::optional<SharedFileHandle>& place() const { return place_; }
  // Returns whether the margin behind the data is intact. Code of this machine whose accesses are
  // not checked writes here first when it runs past the end. Processes that share the memory share
  // the margin.
  bool is_margin_whole() const;

 private:
  static constexpr uint64_t kMargin = 4096;

  Storage(std::byte* data, uint64_t size, std::shared_ptr<SharedFile> file,
          const std::optional<SharedFileHandle>& place)
      : data_(data), size_(size), file_(std::move(file)), place_(place) {}
  std::byte* const data_;
  const uint64_t size_;
  const std::shared_ptr<SharedFile> file_;  // NULL: anonymous, or another process's
  const std::optional<SharedFileHandle> place_;
};

// A contiguous block of memory, and its host address.
struct Reach {
  Address begin;
  uint64_t size;
  std::byte* data;
};

// The memory that a device can access: its own, and host memory pinned for it. Each device's
// addresses begin at the start of the range, so two devices often use equal addresses. Thread-safe.
class Memory {
 public:
  static constexpr uint64_t kAlignment = 256;
  // Fresh allocations up to kPoisonedSize are filled with kPoison, so that reads of memory never
  // written show; larger allocations read as zeroes.
  static constexpr uint64_t kPoisonedSize = 1 << 20;
  static constexpr unsigned char kPoison = 0xa5;
  // Unassigned addresses between two allocations: an access just outside one allocation is not
  // inside the next.
  static constexpr uint64_t kGap = 4096;

  // |shareable|: allocations can be exported to other processes.
  // |offset|: where the first allocation begins in |range|.
  Memory(const DeviceRange& range, uint64_t bytes, bool shareable, uint64_t offset = 0);

  // Allocates first-fit by address, so a freed range is reused at once.
  Status allocate(uint64_t size, Address* out_address);
  // Returns kInvalidArgument if no allocation begins at |address|.
  Status free(Address address);
  // Exports the allocation that begins at |address| as a handle for other processes. Returns
  // kInvalidArgument if no allocation begins there, kUnsupported if the memory is not shareable.
  Status share(Address address, SharedFileHandle* out_place) const;
  // Maps memory that another process exported, until close_import. Importing |place| again returns
  // the same address and requires one more close_import. Imports do not reduce free_bytes.
  Status import(const SharedFileHandle& place, Address* out_address);
  // Returns kInvalidArgument if import did not return |address|.
  Status close_import(Address address);
  Status allocate_pinned(uint64_t size, void** out_pointer);
  Status free_pinned(void* pointer);
  // Pins the caller's memory, which the caller keeps until unpin.
  Status pin(void* pointer, uint64_t size);
  Status unpin(void* pointer);

  uint64_t total_bytes() const { return bytes_; }
  uint64_t free_bytes() const;
  // Returns whether the device may access these host bytes at any time.
  bool is_pinned(const void* pointer, uint64_t size) const;
  // Returns whether a host range overlaps the addresses of devices.
  bool is_device_address(const void* pointer, uint64_t size) const {
    return range_.touches(address_of(pointer), size);
  }

  // Returns the host address of |size| bytes at |address|, which must lie in one allocation, pinned
  // block or pinned range. |*out_keep| keeps the memory mapped. Otherwise returns kIllegalAddress,
  // naming the nearest block.
  Status resolve(Address address, uint64_t size, std::byte** out_data,
                 std::shared_ptr<Storage>* out_keep) const;
  // Resolves the whole block that contains |address|.
  Status resolve_block(Address address, Reach* out_reach, std::shared_ptr<Storage>* out_keep) const;

 private:
  struct Block {
    uint64_t size;
    std::shared_ptr<Storage> storage;  // NULL: the caller owns the memory
    uint32_t imports = 0;              // close_import calls due; 0: not an import
  };
  using Blocks = std::map<Address, Block>;

  // Returns the block that contains the range, or NULL with |*out_error|.
  static const Blocks::value_type* find(const Blocks& blocks, Address address, uint64_t size,
                                        std::string* out_error);
  // Returns the first address with room for |size| bytes; 0 if no hole is large enough.
  Address find_hole(uint64_t size) const;

  const DeviceRange& range_;
  const Address begin_;
  const uint64_t bytes_;
  const std::shared_ptr<SharedFile> file_;  // of device memory; NULL: not shareable
  mutable std::shared_mutex mutex_;
  uint64_t used_ = 0;
  Blocks device_blocks_;
  Blocks host_blocks_;
};

// The memory accesses of one piece of work: checks each access, and keeps the accessed memory
// mapped until the work is done.
class Access {
 public:
  explicit Access(const Memory& memory) : memory_(memory) {}
  // See Memory::resolve.
  Status reach(Address address, uint64_t size, std::byte** out_data);
  // See Memory::resolve_block.
  Status reach_block(Address address, Reach* out_reach);
  // Returns kIllegalAddress if the margin of an accessed block was overwritten.
  Status check_margins() const;

 private:
  const Memory& memory_;
  std::vector<std::shared_ptr<Storage>> kept_;
};

}  // namespace keel::emulator

#endif  // KEEL_EMULATOR_MEMORY_H_
