// SPDX-License-Identifier: Apache-2.0
// The status of a call that a failed stream refuses.
#ifndef KEEL_CORE_STREAM_REFUSAL_H_
#define KEEL_CORE_STREAM_REFUSAL_H_

#include <keel/keel.h>

#include "core/status.h"

namespace keel {

class Stream;

// Returns KEEL_STREAM_FAILED, with the stream's failure in the text, if |status| is the failure
// that |stream| had before the call; else |status|, which is the call's own. The loss of the device
// stays KEEL_DEVICE_LOST. For failures only.
[[gnu::cold]] Status stream_refusal(const Stream& stream, const Status& status);
// The same for a handle, which need not be alive.
[[gnu::cold]] Status stream_refusal(keel_stream stream, const Status& status);

}  // namespace keel

#endif  // KEEL_CORE_STREAM_REFUSAL_H_
