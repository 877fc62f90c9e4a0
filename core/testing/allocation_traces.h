// SPDX-License-Identifier: Apache-2.0
// Allocation sequences of training programs, for replay against an allocator.
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
    kWaitFor  // |stream| waits for the work enqueued so far on stream |id|
  } kind;
  uint32_t stream;
  uint64_t id;
  uint64_t size;
};
using Trace = std::vector<TraceStep>;

// |steps| training steps of GPT-2 small (12 layers of 768, 12 heads, 50257 tokens) in bfloat16 with
// float32 master weights and Adam: 4 sequences of 1024 tokens. Sizes follow from the shapes; the
// order is that of an eager framework with reverse-mode differentiation, which keeps the tensors
// for backward and frees each tensor at its last use.
Trace gpt2_training(uint32_t steps);

// Forward and backward of the same model without an optimizer: 4 sequences padded to the longest,
// of 64 to 1024 tokens by a fixed pseudo-random sequence.
Trace variable_lengths(uint32_t steps);

// gpt2_training with 4 layers and a second stream, which fetches the next batch two steps ahead and
// reduces gradients in buckets of 25 MB during backward.
Trace two_streams(uint32_t steps);

// Recordings of programs, made on 2026-11-21 with core/testing/record_allocations.cc, which
// describes the method; the files in core/testing/traces name the programs. All on stream 0,
// without work.
Trace recorded_training();
Trace recorded_conformance();

}  // namespace keel::testing

#endif  // KEEL_CORE_TESTING_ALLOCATION_TRACES_H_
