// SPDX-License-Identifier: Apache-2.0
// Streams shared with work of the vendor's own interface.
#include "core/runtime.h"
#include "core/stream.h"

namespace keel {

Status Stream::wrap(Device& device, void* native, Ref<Stream>* out_stream) {
  KEEL_RETURN_IF_ERROR(device.open());
  KEEL_RETURN_IF_ERROR(device.check_alive());
  if (!KEEL_HAS(keel_stream_table, device.stream_table(), wrap)) {
    return failure(KEEL_UNSUPPORTED, "{} does not take native streams", device.name());
  }
  keel_plugin_stream* wrapper = nullptr;
  KEEL_RETURN_IF_ERROR(
      device.check(device.stream_table()->wrap(device.native(), native, &wrapper), "stream.wrap"));
  *out_stream = adopt(device, /*priority=*/0, wrapper, /*internal=*/false, /*wrapped=*/true);
  (*out_stream)->share();
  return {};
}

Status Stream::unwrap(void** out_native) {
  if (!KEEL_HAS(keel_stream_table, device_.stream_table(), unwrap)) {
    return failure(KEEL_UNSUPPORTED, "{} does not give out native streams", device_.name());
  }
  std::lock_guard lock(mutex_);
  void* native = nullptr;
  KEEL_RETURN_IF_ERROR(
      device_.check(device_.stream_table()->unwrap(native_, &native), "stream.unwrap"));
  share();  // before the handle can be used
  *out_native = native;
  return {};
}

void Stream::note_native_work() {
  if (!is_shared()) return;
  std::lock_guard lock(mutex_);
  if (!closed_) timeline_->advance(++position_);
}

}  // namespace keel
