// SPDX-License-Identifier: Apache-2.0
// Sequences of allocations as training programs make them, to replay against an allocator.
#ifndef KEEL_CORE_TESTING_ALLOCATION_TRACES_H_
#define KEEL_CORE_TESTING_ALLOCATION_TRACES_H_

#include <cstdint>
#include <vector>

namespace keel::testing {

struct TraceStep {
  enum class Kind {
    kAlloc,   // |id| gets |size| bytes on |stream|
    kFree,    // |id| is freed on |stream|
    kWork,    // |stream| is given work
    kWaitFor  // |stream| waits for what stream |id| has been given so far
  } kind;
  uint32_t stream;
  uint64_t id;
  uint64_t size;
};
using Trace = std::vector<TraceStep>;

// |steps| training steps of GPT-2 small (12 layers of 768, 12 heads, 50257 tokens) in
// bfloat16 with float32 master weights and Adam: 4 sequences of 1024 tokens. Sizes follow
// from the shapes; the order is that of an eager framework with reverse-mode
// differentiation, which keeps what backward needs and frees each tensor at its last use.
Trace gpt2_training(uint32_t steps);

// The same model's forward and backward without an optimizer, 4 sequences padded to the
// longest, of 64 to 1024 tokens by a fixed pseudo-random sequence.
Trace variable_lengths(uint32_t steps);

// gpt2_training of 4 layers with a second stream, which fetches the next batch two steps
// ahead and reduces gradients in buckets of 25 MB while backward goes on.
Trace two_streams(uint32_t steps);

// What programs did, recorded on 2026-11-21 by core/testing/record_allocations.cc, which
// says how; the files in core/testing/traces say of what. All on stream 0, no work.
Trace recorded_training();
Trace recorded_conformance();

}  // namespace keel::testing

#endif  // KEEL_CORE_TESTING_ALLOCATION_TRACES_H_
