// SPDX-License-Identifier: Apache-2.0
#include "core/stream_refusal.h"

#include "core/runtime.h"
#include "core/stream.h"

namespace keel {

Status stream_refusal(const Stream& stream, const Status& status) {
  if (!stream.has_failed()) return status;
  // A refused call returns what the stream stored; the call that failed it has another text object.
  const Status known = stream.status();
  if (known.code() == KEEL_DEVICE_LOST || known.code() != status.code() ||
      known.text() != status.text()) {
    return status;
  }
  return failure(KEEL_STREAM_FAILED, "the stream has failed before: {}: {}",
                 status_name(status.code()), status.text());
}

Status stream_refusal(keel_stream stream, const Status& status) {
  const Ref<Stream> found = Runtime::get().stream_handles().find(stream.id);
  return found ? stream_refusal(*found, status) : status;
}

}  // namespace keel
