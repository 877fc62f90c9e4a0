// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "fuzz/random_calls.h"

namespace keel::fuzz {
namespace {

constexpr uint64_t kLargestBlock = 64 << 10;
constexpr size_t kBlocksPerLane = 6;

}  // namespace

// ---- memory ---------------------------------------------------------------------

void RandomCalls::allocate() {
  Lane& target = lane();
  std::unique_lock lock(target.mutex, std::try_to_lock);
  if (!lock || target.blocks.size() == kBlocksPerLane) return;
  Lane::Block made = {target.device, nullptr, bytes_->below(kLargestBlock - 1) + 1u,
                      KEEL_MEMORY_DEVICE};
  if (bytes_->one_in(4))
    made.device = world_.devices_[bytes_->below(static_cast<uint32_t>(world_.devices_.size()))];
  if (bytes_->one_in(8)) made.kind = bytes_->below(4);
  const uint64_t asked = bytes_->one_in(64) ? bytes_->word() | 1ull << 50 : made.size;
  void* pointer = nullptr;
  keel_status status = KEEL_OK;
  if (bytes_->one_in(2) && made.kind == KEEL_MEMORY_DEVICE) {
    made.device = target.device;
    status = keel_alloc_on_stream({target.stream}, asked, &pointer);
    check("keel_alloc_on_stream", status);
  } else {
    status = keel_alloc(made.device, made.kind, asked, &pointer);
    check("keel_alloc", status);
  }
  if (status != KEEL_OK) return;
  made.base = static_cast<char*>(pointer);
  target.blocks.push_back(made);
}

void RandomCalls::free_block() {
  Lane& target = lane();
  std::unique_lock lock(target.mutex, std::try_to_lock);
  if (!lock) return;
  if (bytes_->one_in(16)) {  // inside a block, or an invalid address: refused
    const Lane::Block wrong = block(target);
    check("keel_free", keel_free(wrong.device, wrong.at(1)));
    return;
  }
  if (target.blocks.empty()) return;
  const size_t index = bytes_->below(static_cast<uint32_t>(target.blocks.size()));
  const Lane::Block freed = target.blocks[index];
  keel_status status = KEEL_INVALID_HANDLE;
  // All work on the block was enqueued on the lane's own stream.
  if (bytes_->one_in(2) && freed.device.id == target.device.id && target.stream != 0 &&
      freed.kind == KEEL_MEMORY_DEVICE) {
    status = keel_free_on_stream({target.stream}, freed.base);
    check("keel_free_on_stream", status);
  } else {
    status = keel_free(freed.device, freed.base);
    check("keel_free", status);
  }
  if (status == KEEL_OK) target.blocks.erase(target.blocks.begin() + static_cast<long>(index));
}

void RandomCalls::trim() {
  check("keel_memory_trim", keel_memory_trim(device()));
}

void RandomCalls::find_memory() {
  keel_memory_info info = {};
  info.header = header(sizeof(info), KEEL_STRUCT_MEMORY_INFO);
  Lane& target = lane();
  std::unique_lock lock(target.mutex, std::try_to_lock);
  if (!lock) return;
  const Lane::Block looked_up = block(target);
  check("keel_memory_find",
        keel_memory_find(looked_up.device, looked_up.at(offset(looked_up)), &info));
}

void RandomCalls::register_host() {
  Lane& target = lane();
  std::unique_lock lock(target.mutex, std::try_to_lock);
  if (!lock) return;
  // If another thread unregisters the memory, a pending copy would use unregistered memory.
  if (target.stream != 0 && keel_stream_query({target.stream}) != KEEL_OK) return;
  const keel_status status =
      keel_host_register(target.device, target.host.data(), target.host.size());
  check("keel_host_register", status);
  if (status != KEEL_OK) return;
  check("keel_host_unregister", keel_host_unregister(target.device, target.host.data()));
}

void RandomCalls::memory_statistics() {
  const keel_device asked = device();
  keel_memory_stats stats = {};
  stats.header = header(sizeof(stats), KEEL_STRUCT_MEMORY_STATS);
  check("keel_memory_stats_get", keel_memory_stats_get(asked, &stats));
  if (bytes_->one_in(4)) {
    check("keel_memory_stats_reset_peaks", keel_memory_stats_reset_peaks(asked));
  }
  std::array<char, 512> snapshot;
  uint64_t room = bytes_->below(static_cast<uint32_t>(snapshot.size()) + 1);
  check("keel_memory_snapshot", keel_memory_snapshot(asked, snapshot.data(), &room));
}

// ---- copies ---------------------------------------------------------------------

void RandomCalls::copy_host() {
  Lane& target = lane();
  std::unique_lock lock(target.mutex, std::try_to_lock);
  if (!lock) return;
  const Lane::Block side = block(target);
  const uint64_t at = offset(side);
  // At most the host buffer's size: the caller must ensure so.
  uint64_t bytes = std::min<uint64_t>(side.size > at ? side.size - at : 0, target.host.size());
  if (bytes_->one_in(16)) bytes = std::min<uint64_t>(bytes + 1, target.host.size());
  const keel_stream stream = {handle(target.stream)};
  keel_device to = side.device;
  keel_device from = KEEL_HOST;
  void* destination = side.at(at);
  void* source = target.source.data();
  if (bytes_->one_in(2)) {
    std::swap(to, from);
    source = destination;
    destination = target.host.data();
  }
  check("keel_copy", keel_copy(stream, to, destination, from, source, bytes));
}

void RandomCalls::copy_blocks() {
  Lane& target = lane();
  std::unique_lock lock(target.mutex, std::try_to_lock);
  if (!lock) return;
  const Lane::Block to = block(target);
  const Lane::Block from = block(target);
  // Memory pinned for another device is pageable for this one: the copy may read it at once, while
  // the lane's stream still writes it.
  if (from.kind != KEEL_MEMORY_DEVICE && from.device.id != target.device.id) return;
  const uint64_t bytes = size(bytes_->below(4096));
  check("keel_copy", keel_copy({target.stream}, to.device, to.at(offset(to)), from.device,
                               from.at(offset(from)), bytes));
}

void RandomCalls::fill() {
  Lane& target = lane();
  std::unique_lock lock(target.mutex, std::try_to_lock);
  if (!lock) return;
  Lane::Block filled = block(target);
  filled.base = near(filled, target);
  const uint64_t pattern = bytes_->word();
  const uint32_t width = bytes_->one_in(8) ? bytes_->byte() : 1u << bytes_->below(4);
  const uint64_t at = bytes_->one_in(8) ? offset(filled) : 0;
  const uint64_t bytes = size(width == 0 ? 8 : bytes_->below(512) * uint64_t{width});
  check("keel_fill", keel_fill({target.stream}, filled.at(at), &pattern, width, bytes));
}

void RandomCalls::ask_path() {
  keel_copy_path path = {};
  path.header = header(sizeof(path), KEEL_STRUCT_COPY_PATH);
  const keel_device to = bytes_->one_in(8) ? KEEL_HOST : device();
  check("keel_copy_path_get",
        keel_copy_path_get(to, bytes_->one_in(8) ? KEEL_HOST : device(), &path));
}

}  // namespace keel::fuzz
