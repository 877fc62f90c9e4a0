// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "fuzz/random_calls.h"

namespace keel::fuzz {

uint64_t RandomCalls::handle(uint64_t usual) {
  switch (bytes_->below(64)) {
    case 63:
      return bytes_->word();
    case 62:  // another generation of the slot
      return usual + 1;
    case 61:
      return world_.devices_.front().id;
    case 60:
      return world_.events_[0];
    default:
      return usual;
  }
}

keel_device RandomCalls::device() {
  const auto count = static_cast<uint32_t>(world_.devices_.size());
  return {handle(world_.devices_[bytes_->below(count)].id)};
}

int64_t RandomCalls::timeout() {
  switch (bytes_->below(32)) {
    case 31:
      return -static_cast<int64_t>(bytes_->below(4)) - 2;
    case 30:
      return kMillisecond;
    default:
      return 0;
  }
}

keel_header RandomCalls::header(uint32_t size, uint32_t type) {
  if (bytes_->one_in(32)) return {bytes_->below(size + 1), bytes_->byte(), nullptr};
  return {size, type, nullptr};
}

Lane::Block RandomCalls::block(Lane& lane) {
  if (lane.blocks.empty() || bytes_->one_in(32)) {
    return {lane.device, reinterpret_cast<char*>(bytes_->word()), bytes_->below(4096),
            KEEL_MEMORY_DEVICE};
  }
  return lane.blocks[bytes_->below(static_cast<uint32_t>(lane.blocks.size()))];
}

char* RandomCalls::near(const Lane::Block& block, const Lane& lane) {
  const bool is_near = block.kind != KEEL_MEMORY_DEVICE || block.device.id == lane.device.id;
  return is_near ? block.base : nullptr;
}

uint64_t RandomCalls::offset(const Lane::Block& block) {
  if (bytes_->one_in(2)) return 0;
  return bytes_->below(65536) % (block.size + 2);
}

uint64_t RandomCalls::size(uint64_t usual) {
  switch (bytes_->below(32)) {
    case 31:
      return bytes_->word();
    case 30:
      return usual + 1;
    case 29:
      return 0;
    default:
      return usual;
  }
}

keel_tensor RandomCalls::tensor(char* memory) {
  keel_tensor tensor = {};
  tensor.size = sizeof(keel_tensor);
  tensor.dtype = bytes_->usually(KEEL_FLOAT32, 4, KEEL_DTYPE_COUNT + 1);
  tensor.rank = bytes_->one_in(4) ? bytes_->below(KEEL_MAX_RANK + 2) : 2;
  tensor.data = memory;
  tensor.byte_offset = bytes_->one_in(8) ? bytes_->below(256) : 0;
  int64_t stride = 1;
  for (uint32_t i = std::min<uint32_t>(tensor.rank, KEEL_MAX_RANK); i-- > 0;) {
    tensor.shape[i] = bytes_->one_in(4) ? bytes_->below(9) : 4;
    if (bytes_->one_in(64)) tensor.shape[i] = static_cast<int64_t>(bytes_->word());
    tensor.strides[i] = bytes_->one_in(16) ? bytes_->below(64) : stride;
    if (bytes_->one_in(64)) tensor.strides[i] = static_cast<int64_t>(bytes_->word());
    if (tensor.shape[i] > 0 && tensor.shape[i] < 64 && stride < 1 << 20) stride *= tensor.shape[i];
  }
  return tensor;
}

}  // namespace keel::fuzz
