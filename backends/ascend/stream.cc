// SPDX-License-Identifier: Apache-2.0
#include "backends/ascend/stream.h"

#include <algorithm>
#include <cstring>
#include <keel/plugin_kit.hpp>
#include <memory>

namespace keel::ascend {
namespace {

// Alignment of copies within a device.
constexpr uintptr_t kCopyAlignment = 64;
constexpr uint64_t kBounceBytes = uint64_t{1} << 20;

bool is_aligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % kCopyAlignment == 0;
}

// Ends a copy through a pinned block, on a thread of the runtime, which must not be called from
// there.
void end_use(void* argument) {
  const std::unique_ptr<PinnedPool::Use> use(static_cast<PinnedPool::Use*>(argument));
  PinnedPool::end(*use);
}

}  // namespace

keel_status Stream::create(Device& device, int32_t priority, std::unique_ptr<Stream>* out_stream) {
  std::unique_ptr<Stream> stream(new Stream(device, /*is_owned=*/true));
  keel_status status = device.call("aclrtCreateStreamWithConfig", [&](const Functions& acl) {
    return acl.aclrtCreateStreamWithConfig(&stream->native_, device.native_priority(priority),
                                           ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC);
  });
  if (status == KEEL_OK && device.functions().aclrtSetStreamFailureMode != nullptr) {
    status = device.call("aclrtSetStreamFailureMode", [&](const Functions& acl) {
      return acl.aclrtSetStreamFailureMode(stream->native_, ACL_STOP_ON_FAILURE);
    });
  }
  if (status == KEEL_OK) *out_stream = std::move(stream);
  return status;
}

keel_status Stream::wrap(Device& device, aclrtStream native, std::unique_ptr<Stream>* out_stream) {
  std::unique_ptr<Stream> stream(new Stream(device, /*is_owned=*/false));
  stream->native_ = native;
  const keel_status status = stream->query();
  if (status != KEEL_OK && status != KEEL_NOT_READY) return status;
  *out_stream = std::move(stream);
  return KEEL_OK;
}

Stream::~Stream() {
  device_.pinned_pool().reclaim(this);
  if (is_owned_ && native_ != nullptr) {
    (void)device_.release("aclrtDestroyStream",
                          [&](const Functions& acl) { return acl.aclrtDestroyStream(native_); });
  }
  if (bounce_ != nullptr) (void)device_.free(KEEL_MEMORY_PINNED, bounce_);
}

keel_status Stream::query() {
  aclrtStreamStatus answer = ACL_STREAM_STATUS_NOT_READY;
  const keel_status status = device_.call("aclrtStreamQuery", [&](const Functions& acl) {
    return acl.aclrtStreamQuery(native_, &answer);
  });
  if (status != KEEL_OK) return status;
  return answer == ACL_STREAM_STATUS_COMPLETE ? KEEL_OK : KEEL_NOT_READY;
}

keel_status Stream::copy(keel_copy_kind kind, void* destination, const void* source,
                         uint64_t size) {
  switch (kind) {
    case KEEL_COPY_HOST_TO_DEVICE:
      if (!device_.is_pinned(source, size)) return upload_pageable(destination, source, size);
      return copy_native(destination, source, size, ACL_MEMCPY_HOST_TO_DEVICE);
    case KEEL_COPY_DEVICE_TO_HOST:
      if (!device_.is_pinned(destination, size))
        return download_pageable(destination, source, size);
      return copy_native(destination, source, size, ACL_MEMCPY_DEVICE_TO_HOST);
    case KEEL_COPY_DEVICE_TO_DEVICE:
      if (!is_aligned(destination) || !is_aligned(source)) {
        return copy_unaligned(destination, source, size);
      }
      return copy_native(destination, source, size, ACL_MEMCPY_DEVICE_TO_DEVICE);
    default:
      return kit::fail(KEEL_INVALID_ARGUMENT, "ascend: no copy of kind %u", kind);
  }
}

keel_status Stream::copy_native(void* destination, const void* source, uint64_t size,
                                aclrtMemcpyKind kind) {
  return device_.call("aclrtMemcpyAsync", [&](const Functions& acl) {
    return acl.aclrtMemcpyAsync(destination, /*destMax=*/size, source, size, kind, native_);
  });
}

keel_status Stream::take_block(PinnedPool::Block** out_block) {
  PinnedPool& pool = device_.pinned_pool();
  *out_block = pool.take(this);
  if (*out_block == nullptr && pool.has_many() &&
      device_.functions().aclrtSynchronizeStream != nullptr) {
    const keel_status ended = device_.call("aclrtSynchronizeStream", [&](const Functions& acl) {
      return acl.aclrtSynchronizeStream(native_);
    });
    if (ended != KEEL_OK) return ended;
    *out_block = pool.take(this);
  }
  if (*out_block != nullptr) return KEEL_OK;
  *out_block = pool.add(this);
  // The pool must keep no block without memory, also where |alloc| runs out of the host's.
  const keel_status status = kit::guard([&] {
    return device_.alloc(KEEL_MEMORY_PINNED, PinnedPool::kBlockBytes, &(*out_block)->memory);
  });
  if (status != KEEL_OK) pool.remove(*out_block);
  return status;
}

template <typename Body>
keel_status Stream::copy_by_blocks(uint64_t size, void* download, Body&& body) {
  for (uint64_t done = 0; done < size; done += PinnedPool::kBlockBytes) {
    PinnedPool::Block* block = nullptr;
    keel_status status = take_block(&block);
    if (status != KEEL_OK) return status;
    const uint64_t bytes = std::min(size - done, PinnedPool::kBlockBytes);
    void* const end = download == nullptr ? nullptr : static_cast<char*>(download) + done;
    std::unique_ptr<PinnedPool::Use> use = device_.pinned_pool().make_use(block, end, bytes);
    status = body(block->memory, done, bytes);
    if (status == KEEL_OK) {
      status = device_.call("aclrtLaunchHostFunc", [&](const Functions& acl) {
        const aclError launched = acl.aclrtLaunchHostFunc(native_, end_use, use.get());
        if (launched == ACL_SUCCESS) (void)use.release();  // owned by the function
        return launched;
      });
    }
    if (status != KEEL_OK) return status;  // reclaimed with the stream
  }
  return KEEL_OK;
}

keel_status Stream::upload_pageable(void* destination, const void* source, uint64_t size) {
  return copy_by_blocks(size, /*download=*/nullptr, [&](void* block, uint64_t at, uint64_t bytes) {
    std::memcpy(block, static_cast<const char*>(source) + at, bytes);
    return copy_native(static_cast<char*>(destination) + at, block, bytes,
                       ACL_MEMCPY_HOST_TO_DEVICE);
  });
}

keel_status Stream::download_pageable(void* destination, const void* source, uint64_t size) {
  return copy_by_blocks(size, destination, [&](void* block, uint64_t at, uint64_t bytes) {
    return copy_native(block, static_cast<const char*>(source) + at, bytes,
                       ACL_MEMCPY_DEVICE_TO_HOST);
  });
}

// By an operator, which addresses elements; without operators, through pinned memory.
keel_status Stream::copy_unaligned(void* destination, const void* source, uint64_t size) {
  const auto count = static_cast<int64_t>(size);
  if (device_.sdk().no_operators().empty() && operators_.functions().aclnnInplaceCopy != nullptr) {
    return KEEL_ACLNN(operators_, InplaceCopy, dense(destination, ACL_UINT8, {count}),
                      dense(const_cast<void*>(source), ACL_UINT8, {count}));
  }
  if (bounce_ == nullptr) {
    const keel_status status = device_.alloc(KEEL_MEMORY_PINNED, kBounceBytes, &bounce_);
    if (status != KEEL_OK) return status;
  }
  // The stream runs in order, so its copies share the block.
  for (uint64_t done = 0; done < size; done += kBounceBytes) {
    const uint64_t part = std::min(size - done, kBounceBytes);
    keel_status status = copy_native(bounce_, static_cast<const char*>(source) + done, part,
                                     ACL_MEMCPY_DEVICE_TO_HOST);
    if (status == KEEL_OK) {
      status = copy_native(static_cast<char*>(destination) + done, bounce_, part,
                           ACL_MEMCPY_HOST_TO_DEVICE);
    }
    if (status != KEEL_OK) return status;
  }
  return KEEL_OK;
}

keel_status Stream::fill(void* destination, const void* pattern, uint32_t pattern_size,
                         uint64_t size) {
  if (pattern_size != 1) {
    return kit::fail(KEEL_UNSUPPORTED, "ascend: no fill with patterns of %u bytes", pattern_size);
  }
  const int32_t value = *static_cast<const uint8_t*>(pattern);
  return device_.call("aclrtMemsetAsync", [&](const Functions& acl) {
    return acl.aclrtMemsetAsync(destination, /*maxCount=*/size, value, size, native_);
  });
}

}  // namespace keel::ascend
