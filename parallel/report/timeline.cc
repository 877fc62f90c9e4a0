// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <keel/parallel/timeline.hpp>

namespace keel::parallel {
inline namespace v0 {

const char* name_of(SpanKind kind) {
  constexpr std::array<const char*, 17> kNames = {"forward",
                                                  "backward",
                                                  "data gradient",
                                                  "weight gradient",
                                                  "recompute",
                                                  "optimizer",
                                                  "send",
                                                  "receive",
                                                  "send gradient",
                                                  "receive gradient",
                                                  "collective",
                                                  "gradient all_reduce",
                                                  "gradient reduce_scatter",
                                                  "value all_gather",
                                                  "tensor parallel",
                                                  "loader",
                                                  "wait"};
  return kNames.at(static_cast<size_t>(kind));
}

bool is_pass(SpanKind kind) {
  return kind <= SpanKind::kBackwardWeight;
}

bool is_communication(SpanKind kind) {
  return kind >= SpanKind::kSend && kind <= SpanKind::kTensorCollective;
}

bool is_message(SpanKind kind) {
  return kind >= SpanKind::kSend && kind <= SpanKind::kReceiveGradient;
}

Event& StepRecorder::event(size_t number) {
  while (events_.size() <= number) events_.emplace_back(KEEL_EVENT_TIMING);
  return events_[number];
}

void StepRecorder::start(const Stream& stream) {
  marks_.clear();
  passes_ = stream.get();
  stage_ = micro_batch_ = 0;
  event(0).record(stream);
  used_ = 1;
  host_start_ = std::chrono::steady_clock::now();
}

size_t StepRecorder::begin(const Stream& stream, SpanKind kind, uint32_t stage,
                           uint32_t micro_batch, uint32_t group) {
  if (is_pass(kind)) {
    stage_ = stage;
    micro_batch_ = micro_batch;
  }
  return mark(stream, {kind, stage, micro_batch, 0, 0, group});
}

size_t StepRecorder::begin_within(const Stream& stream, SpanKind kind, uint32_t group,
                                  uint32_t sequence) {
  return mark(stream, {kind, stage_, micro_batch_, 0, 0, group, sequence});
}

size_t StepRecorder::mark(const Stream& stream, const Span& span) {
  Mark mark;
  mark.span = span;
  mark.span.blocks = stream.get().id == passes_.id &&
                     (is_communication(span.kind) || span.kind == SpanKind::kWait);
  mark.events = used_;
  used_ += 2;
  event(mark.events).record(stream);
  marks_.push_back(mark);
  return marks_.size() - 1;
}

void StepRecorder::end(size_t number, const Stream& stream) {
  event(marks_.at(number).events + 1).record(stream);
}

void StepRecorder::add_host_span(SpanKind kind, std::chrono::steady_clock::time_point begin) {
  const auto seconds = [&](std::chrono::steady_clock::time_point time) {
    return std::max(std::chrono::duration<double>(time - host_start_).count(), 0.0);
  };
  Mark mark;
  mark.span = {kind, 0, 0, seconds(begin), seconds(std::chrono::steady_clock::now())};
  mark.on_host = true;
  marks_.push_back(mark);
}

std::vector<Span> StepRecorder::finish() {
  std::vector<Span> spans;
  spans.reserve(marks_.size());
  for (Mark& mark : marks_) {
    if (!mark.on_host) {
      const auto seconds = [&](size_t number) {
        event(number).wait();
        return std::chrono::duration<double>(event(number).elapsed_since(event(0))).count();
      };
      mark.span.begin = seconds(mark.events);
      mark.span.end = seconds(mark.events + 1);
    }
    spans.push_back(mark.span);
  }
  marks_.clear();
  std::stable_sort(spans.begin(), spans.end(),
                   [](const Span& a, const Span& b) { return a.begin < b.begin; });
  return spans;
}

}  // namespace v0
}  // namespace keel::parallel
