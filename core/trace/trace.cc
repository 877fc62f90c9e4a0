// SPDX-License-Identifier: Apache-2.0
#include "core/trace/trace.h"

#include <unistd.h>

#include <thread>

#include "core/stream.h"
#include "core/trace/trace_writer.h"

namespace keel {

namespace {

// The open spans of a thread. Holds no references, since a thread may outlive everything else.
struct ThreadState {
  const uint32_t id = static_cast<uint32_t>(::gettid());
  static constexpr uint32_t kMaxSpans = 8;
  struct Span {
    const char* name;
    int64_t begin_ns;
    uint64_t bytes_read;
    uint64_t bytes_written;
  };
  std::array<Span, kMaxSpans> spans;
  uint32_t depth = 0;
  uint32_t trace = 0;  // the trace of these spans
};

ThreadState& this_thread() {
  thread_local ThreadState state;
  return state;
}

TraceItem item_of(TraceItem::Kind kind, const Stream& stream) {
  TraceItem item;
  item.kind = kind;
  item.stream = stream.number();
  item.device = &stream.device();
  item.internal = stream.is_internal();
  return item;
}

bool is_timed(const Device& device) {
  return device.has(KEEL_CAPABILITY_TIMING) &&
         KEEL_HAS(keel_stream_table, device.stream_table(), event_elapsed);
}

}  // namespace

// Lives for the length of a callback; false once the trace ends.
class Trace::Entry {
 public:
  explicit Entry(Trace& trace) : shard_(trace.shards_[this_thread().id % trace.shards_.size()]) {
    shard_.inside.fetch_add(1, std::memory_order_seq_cst);
    inside_ = trace.observing_.load(std::memory_order_seq_cst);
  }
  ~Entry() { shard_.inside.fetch_sub(1, std::memory_order_release); }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  explicit operator bool() const { return inside_; }

 private:
  Shard& shard_;
  bool inside_;
};

Trace::Trace() = default;

Trace& Trace::get() {
  static Trace& instance = *new Trace;
  return instance;
}

Status Trace::start(const std::string& path) {
  std::lock_guard lock(mutex_);
  if (writer_) return failure(KEEL_ALREADY_EXISTS, "a trace is being written already");
  if (!ring_) ring_ = std::make_unique<TraceRing<TraceItem>>(kRingItems);
  dropped_.store(0, std::memory_order_relaxed);
  bridged_bytes_.store(0, std::memory_order_relaxed);
  number_.fetch_add(1, std::memory_order_relaxed);
  KEEL_RETURN_IF_ERROR(TraceWriter::create(path, *ring_, dropped_, &writer_));
  observing_.store(true, std::memory_order_seq_cst);
  set_observer(ObserverSlot::kTrace, this);
  return {};
}

Status Trace::stop(const Deadline& deadline) {
  std::lock_guard lock(mutex_);
  if (!writer_) return failure(KEEL_FAILED_PRECONDITION, "no trace is being written");
  abandon();
  while (!is_quiet()) std::this_thread::yield();  // callbacks take microseconds
  Status written = writer_->finish(deadline);
  writer_.reset();
  return written;
}

bool Trace::is_started() {
  std::lock_guard lock(mutex_);
  return writer_ != nullptr;
}

void Trace::abandon() {
  set_observer(ObserverSlot::kTrace, nullptr);
  observing_.store(false, std::memory_order_seq_cst);
}

bool Trace::is_quiet() const {
  for (const Shard& shard : shards_) {
    if (shard.inside.load(std::memory_order_seq_cst) != 0) return false;
  }
  return true;
}

void Trace::push(TraceItem&& item) {
  if (!ring_->push(std::move(item))) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (ring_->size() == kRingItems / 2) writer_->hurry();
}

void Trace::enqueued(Stream& stream, const Step& step) {
  if (step.kind != Step::Kind::kWaitGate) return;
  const Entry entry(*this);
  if (!entry) return;
  TraceItem item = item_of(TraceItem::Kind::kGateEnqueued, stream);
  item.serial = step.serial;
  item.begin_ns = host_now_ns();
  push(std::move(item));
}

void Trace::starting(Stream& stream, const Step& step) {
  const Entry entry(*this);
  if (!entry) return;
  TraceMarks& marks = stream.marks();
  marks.begin = nullptr;
  marks.serial = step.serial;
  marks.begin_ns = host_now_ns();
  if (!is_timed(stream.device()) || ring_->size() >= kRingItems) return;
  // If the end of the previous operation is still to come, it is the beginning of this operation.
  const keel_stream_table* table = stream.device().stream_table();
  if (marks.last && table->event_query(marks.last->native()) == KEEL_NOT_READY) {
    marks.begin = marks.last;
  } else if (!stream.mark_locked(KEEL_EVENT_TIMING, &marks.begin).ok()) {
    marks.begin = nullptr;
  }
}

void Trace::passed(Stream& stream, const Step& step, const Status& status) {
  const Entry entry(*this);
  TraceMarks& marks = stream.marks();
  if (step.kind != Step::Kind::kRecord && step.kind != Step::Kind::kWork) marks = {};
  if (!entry || !status.ok()) {
    marks = {};
    return;
  }
  TraceItem item;
  switch (step.kind) {
    case Step::Kind::kWork:
      if (marks.serial != step.serial) return;  // the trace began in between
      item = item_of(TraceItem::Kind::kWork, stream);
      item.name = step.name;
      item.set_accesses(step.accesses);
      item.begin_ns = marks.begin_ns;
      item.begin = std::move(marks.begin);
      if (is_timed(stream.device()) != static_cast<bool>(item.begin) ||
          !stream.mark_locked(item.begin ? KEEL_EVENT_TIMING : 0, &item.end).ok()) {
        dropped_.fetch_add(1, std::memory_order_relaxed);
        marks = {};
        return;
      }
      if (item.begin) marks.last = item.end;
      break;
    case Step::Kind::kRecord:
      item = item_of(TraceItem::Kind::kRecord, stream);
      break;
    case Step::Kind::kWaitEvent:
      if (step.serial == 0) return;
      item = item_of(TraceItem::Kind::kWaitEvent, stream);
      break;
    case Step::Kind::kWaitGate:
      item = item_of(TraceItem::Kind::kGatePassed, stream);
      item.name = step.name;
      break;
  }
  item.serial = step.serial;
  item.end_ns = host_now_ns();
  push(std::move(item));
}

void Trace::closed(Stream& stream) {
  stream.marks() = {};
  const Entry entry(*this);
  if (entry) push(item_of(TraceItem::Kind::kStreamClosed, stream));
}

void Trace::host_begin(const char* name, std::span<const Access> accesses) {
  ThreadState& thread = this_thread();
  const uint32_t trace = number_.load(std::memory_order_relaxed);
  if (thread.trace != trace) thread.depth = 0;
  thread.trace = trace;
  if (thread.depth++ >= ThreadState::kMaxSpans) return;
  ThreadState::Span& span = thread.spans[thread.depth - 1];
  span = {name, host_now_ns(), 0, 0};
  for (const Access& access : accesses) {
    (access.writes ? span.bytes_written : span.bytes_read) += access.bytes;
  }
}

void Trace::host_end() {
  ThreadState& thread = this_thread();
  // The span began before the trace.
  if (thread.depth == 0 || thread.trace != number_.load(std::memory_order_relaxed)) return;
  if (--thread.depth >= ThreadState::kMaxSpans) return;
  const Entry entry(*this);
  if (!entry) return;
  const ThreadState::Span& span = thread.spans[thread.depth];
  TraceItem item;
  item.kind = TraceItem::Kind::kHostSpan;
  item.thread = thread.id;
  item.name = span.name;
  item.begin_ns = span.begin_ns;
  item.end_ns = host_now_ns();
  item.bytes = span.bytes_read;
  item.bytes_written = span.bytes_written;
  push(std::move(item));
}

void Trace::memory_changed(Device& device, uint64_t allocated_bytes) {
  const Entry entry(*this);
  if (!entry) return;
  TraceItem item;
  item.kind = TraceItem::Kind::kMemory;
  item.device = &device;
  item.end_ns = host_now_ns();
  item.bytes = allocated_bytes;
  push(std::move(item));
}

void Trace::bridged(uint64_t bytes) {
  const Entry entry(*this);
  if (!entry) return;
  TraceItem item;
  item.kind = TraceItem::Kind::kBridged;
  item.end_ns = host_now_ns();
  item.bytes = bridged_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  push(std::move(item));
}

}  // namespace keel
