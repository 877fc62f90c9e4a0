// SPDX-License-Identifier: Apache-2.0
#include "collectives/hosts/host_scratch.h"

#include <algorithm>

#include "core/staging.h"

namespace keel {

HostScratch::~HostScratch() {
  if (data_ != nullptr) context_.device().memory().free(data_).ok();
}

Status HostScratch::reserve(uint64_t bytes) {
  if (bytes <= bytes_) return {};
  // By a half at least: with arrays of counts, sizes differ from call to call.
  bytes = std::max(bytes, bytes_ + bytes_ / 2);
  Memory& memory = context_.device().memory();
  if (data_ != nullptr) KEEL_RETURN_IF_ERROR(memory.free(data_));
  data_ = nullptr;
  bytes_ = 0;
  // Memory of the device where the other ranks of the host reach it in place.
  KEEL_RETURN_IF_ERROR(context_.has_alias() ? memory.alloc(KEEL_MEMORY_DEVICE, bytes, &data_)
                                            : alloc_staging(context_.device(), bytes, &data_));
  Side side;
  KEEL_RETURN_IF_ERROR(context_.make_side(data_, bytes, /*published=*/false, &side));
  host_ = side.buffer.host;
  bytes_ = bytes;
  return {};
}

Status HostScratch::prepare_stage() {
  if (stage_) return {};
  stage_ = std::make_unique<StagingPipeline>(context_.device(), window_bytes_, /*shared=*/false,
                                             context_.team().is_urgent());
  return stage_->prepare(/*device_copies=*/true);
}

void HostScratch::settle() {
  if (stage_) stage_->settle();
}

}  // namespace keel
