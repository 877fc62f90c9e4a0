// SPDX-License-Identifier: Apache-2.0
// Timeline of a step: spans of time on a rank's device and host.
#ifndef KEEL_PARALLEL_TIMELINE_HPP_
#define KEEL_PARALLEL_TIMELINE_HPP_

#include <chrono>
#include <cstdint>
#include <deque>
#include <keel/keel.hpp>
#include <string>
#include <vector>

namespace keel::parallel {
inline namespace v0 {

enum class SpanKind : uint8_t {
  kForward,
  kBackward,
  kBackwardData,
  kBackwardWeight,
  kRecompute,  // a forward pass repeated; lies inside a backward pass
  kOptimizer,
  kSend,              // an output, from the sender's call until the receiver has it
  kReceive,           // likewise, from the receiver's call
  kSendGradient,      // an input's gradient
  kReceiveGradient,   // likewise
  kCollective,        // of the world, or of a tied table
  kGradientBucket,    // all_reduce of a bucket of gradients on axis dp
  kGradientScatter,   // reduce_scatter of a unit's gradients on axis dp, ZeRO
  kValueGather,       // all_gather of a unit's values on axis dp, ZeRO
  kTensorCollective,  // on axis tp
  kLoader,            // the host waits for the data of the step
  kWait,              // the stream of the passes waits for another stream
};
const char* name_of(SpanKind kind);  // "forward"
bool is_pass(SpanKind kind);
bool is_communication(SpanKind kind);
bool is_message(SpanKind kind);  // between two stages

struct Span {
  SpanKind kind = SpanKind::kForward;
  uint32_t stage = 0;
  uint32_t micro_batch = 0;
  double begin = 0, end = 0;  // seconds from the beginning of the step
  uint32_t group = 0;         // of ranks that communicate, equal on all of them
  uint32_t sequence = 0;      // of a collective in its group; equal on all of its ranks
  bool blocks = false;        // communication or a wait on the stream of the passes
};

// Records one rank's step. Marks are timing events, so that recording makes no stream wait. Not
// thread-safe; reused for many steps: a step with no more spans than one before allocates nothing.
class StepRecorder {
 public:
  // Starts a step at the end of what |stream|, the stream of the passes, has enqueued so far. Ranks
  // that start together, after a barrier, have comparable times.
  void start(const Stream& stream);
  // Marks the beginning of a span on |stream|, of the same device; returns its number.
  size_t begin(const Stream& stream, SpanKind kind, uint32_t stage = 0, uint32_t micro_batch = 0,
               uint32_t group = 0);
  // The same for work of the pass that began last, whose stage and micro-batch the span gets.
  size_t begin_within(const Stream& stream, SpanKind kind, uint32_t group = 0,
                      uint32_t sequence = 0);
  void end(size_t number, const Stream& stream);
  // A span of the host, until now.
  void add_host_span(SpanKind kind, std::chrono::steady_clock::time_point begin);
  // Waits for the marks; returns the spans, in the order of their beginnings.
  std::vector<Span> finish();

 private:
  struct Mark {
    Span span;
    size_t events = 0;  // of the beginning, followed by the end's; for a span of the device
    bool on_host = false;
  };
  Event& event(size_t number);
  size_t mark(const Stream& stream, const Span& span);

  std::deque<Event> events_;  // kept for later steps; the first is the start's
  size_t used_ = 0;
  std::vector<Mark> marks_;
  keel_stream passes_ = {};
  uint32_t stage_ = 0, micro_batch_ = 0;  // of the pass that began last
  std::chrono::steady_clock::time_point host_start_;
};

// Runs |enqueue|, whose work on |stream| |recorder| marks as |span|: of its kind, stage,
// micro-batch and group. Without a recorder, NULL, only runs |enqueue|.
template <typename Enqueue>
void record(StepRecorder* recorder, const Stream& stream, const Span& span,
            const Enqueue& enqueue) {
  if (recorder == nullptr) return enqueue();
  const size_t mark = recorder->begin(stream, span.kind, span.stage, span.micro_batch, span.group);
  enqueue();
  recorder->end(mark, stream);
}
// The same for work of the pass that began last: of the kind, group and sequence of |span|.
template <typename Enqueue>
void record_within(StepRecorder* recorder, const Stream& stream, const Span& span,
                   const Enqueue& enqueue) {
  if (recorder == nullptr) return enqueue();
  const size_t mark = recorder->begin_within(stream, span.kind, span.group, span.sequence);
  enqueue();
  recorder->end(mark, stream);
}

}  // namespace v0
}  // namespace keel::parallel

#endif  // KEEL_PARALLEL_TIMELINE_HPP_
