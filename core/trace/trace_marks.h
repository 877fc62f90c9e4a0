// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_CORE_TRACE_TRACE_MARKS_H_
#define KEEL_CORE_TRACE_TRACE_MARKS_H_

#include <cstdint>

#include "core/event.h"
#include "core/ref_counted.h"

namespace keel {

// The trace's state of one stream, between the calls for one operation. Guarded by the stream's
// lock; the stream only drops the marks when the records before no longer count.
struct TraceMarks {
  Ref<EventRecord> begin;  // of the operation about to be submitted
  Ref<EventRecord> last;   // at the end of the previous operation
  uint64_t serial = 0;     // of the operation about to be submitted
  int64_t begin_ns = 0;
};

}  // namespace keel

#endif  // KEEL_CORE_TRACE_TRACE_MARKS_H_
