// SPDX-License-Identifier: Apache-2.0
#include "core/trace/trace_writer.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <keel/thread_start.hpp>

#include "core/log.h"
#include "core/trace/trace.h"

namespace keel {

namespace {

// Pause between two looks at the ring, which a million items per second fill in 8 ms.
constexpr int64_t kBusyPauseNs = 5'000'000;
constexpr int64_t kIdlePauseNs = 20'000'000;
// Pause if an operation's end is the time when the host first sees it.
constexpr int64_t kPollPauseNs = 100'000;
constexpr int64_t kFlushEveryNs = 200'000'000;
constexpr uint64_t kFlushBytes = 256 << 10;
// Limit of items that wait for the device, of 350 bytes and two native events each; further items
// stay in the ring.
constexpr uint64_t kMaxPending = 16384;
constexpr size_t kMaxRecords = 65536;

constexpr uint32_t kHostProcess = 0;

std::string thread_name(uint32_t id) {
  char name[32] = {};
  const std::string path = fmt::format("/proc/self/task/{}/comm", id);
  if (FILE* file = std::fopen(path.c_str(), "re")) {
    if (std::fgets(name, sizeof(name), file) == nullptr) name[0] = '\0';
    std::fclose(file);
  }
  std::string text = name;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return fmt::format("{} {}", text.empty() ? "thread" : text, id);
}

}  // namespace

TraceWriter::TraceWriter(TraceRing<TraceItem>& ring, std::atomic<uint64_t>& dropped)
    : ring_(ring), dropped_(dropped), events_(file_, host_now_ns()) {}

Status TraceWriter::create(const std::string& path, TraceRing<TraceItem>& ring,
                           std::atomic<uint64_t>& dropped,
                           std::unique_ptr<TraceWriter>* out_writer) {
  std::unique_ptr<TraceWriter> writer(new TraceWriter(ring, dropped));
  KEEL_RETURN_IF_ERROR(writer->file_.open(path));
  writer->thread_ =
      kit::start_thread<std::thread>("keel-trace", [raw = writer.get()] { raw->run(); });
  *out_writer = std::move(writer);
  return {};
}

TraceWriter::~TraceWriter() {
  if (thread_.joinable()) finish(Deadline::after(0)).ok();
}

Status TraceWriter::finish(const Deadline& deadline) {
  {
    std::lock_guard lock(mutex_);
    finishing_ = true;
    deadline_ = deadline;
  }
  changed_.notify_one();
  thread_.join();
  if (!failure_.ok()) return failure_;
  const uint64_t dropped = dropped_.load(std::memory_order_relaxed);
  if (dropped + unfinished_ == 0) return {};
  return failure(KEEL_DATA_LOSS,
                 "the trace lacks {} events that came too fast and {} operations "
                 "that were not done in time",
                 dropped, unfinished_);
}

int64_t TraceWriter::pause_ns() const {
  if (polls_) return kPollPauseNs;
  return pending_ == 0 ? kIdlePauseNs : kBusyPauseNs;
}

void TraceWriter::run() {
  // With signals blocked, a file beyond the process's size limit fails with EFBIG and does not kill
  // the process.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  events_.name_process(kHostProcess, "host");
  flush();
  while (true) {
    bool finishing = false;
    {
      std::unique_lock lock(mutex_);
      if (!finishing_) changed_.wait_for(lock, std::chrono::nanoseconds(pause_ns()));
      finishing = finishing_;
    }
    take_items();
    resolve_all();
    if (finishing && pending_ == 0 && ring_.size() == 0) break;
    if (finishing && (deadline_.passed() || !failure_.ok())) break;
    if (finishing) wait_for_device();
    if (file_.text().size() >= kFlushBytes || host_now_ns() - flushed_ns_ > kFlushEveryNs) flush();
  }
  complete();
}

void TraceWriter::wait_for_device() {
  for (const auto& [number, row] : rows_) {
    if (row.pending.empty() || row.pending.front().kind != TraceItem::Kind::kWork) continue;
    const EventRecord& end = *row.pending.front().end;
    const keel_stream_table* table = end.device().stream_table();
    if (!KEEL_HAS(keel_stream_table, table, event_wait)) continue;
    // The operation is done already if the item only waits for the device's clock.
    if (table->event_query(end.native()) != KEEL_NOT_READY) continue;
    table->event_wait(end.native(), kBusyPauseNs);
    return;
  }
  // No event to wait for: poll again after a pause.
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::nanoseconds(kPollPauseNs));
}

void TraceWriter::complete() {
  TraceItem item;
  while (ring_.pop(&item)) take(std::move(item));
  for (auto& [number, row] : rows_) {
    for (const TraceItem& left : row.pending) {
      if (left.kind == TraceItem::Kind::kWork && failure_.ok()) ++unfinished_;
    }
    row.pending.clear();
    if (!row.incoming.empty()) write_point(row, "wait", row.last_end_ns);
  }
  flush();
  devices_.clear();
}

void TraceWriter::flush() {
  flushed_ns_ = host_now_ns();
  if (!failure_.ok()) {
    file_.text().clear();
    return;
  }
  failure_ =
      file_.flush(fmt::format("\"clock\":\"steady\",\"process_id\":{},\"dropped_events\":{},"
                              "\"unfinished_operations\":{}",
                              ::getpid(), dropped_.load(std::memory_order_relaxed), unfinished_));
  if (failure_.ok()) return;
  log(KEEL_LOG_WARNING, "the trace ends here: {}", failure_.text());
  Trace::get().abandon();
}

// ---- items ------------------------------------------------------------------------

void TraceWriter::take_items() {
  TraceItem item;
  while (pending_ < kMaxPending && ring_.pop(&item)) {
    take(std::move(item));
    if (file_.text().size() >= kFlushBytes) flush();
  }
}

void TraceWriter::take(TraceItem&& item) {
  if (!failure_.ok()) return;  // only releases references
  switch (item.kind) {
    case TraceItem::Kind::kNone:
      return;
    case TraceItem::Kind::kHostSpan:
      return write_host_span(item);
    case TraceItem::Kind::kMemory:
      return events_.counter(device_of(*item.device).process, "memory allocated", item.end_ns,
                             item.bytes);
    case TraceItem::Kind::kBridged:
      return write_bridged(item);
    case TraceItem::Kind::kGateEnqueued:
      row_of(item).gates.emplace(item.serial, item.begin_ns);
      return;
    case TraceItem::Kind::kRecord:
      records_pending_.insert(item.serial);
      break;
    default:
      break;
  }
  ++pending_;
  row_of(item).pending.push_back(std::move(item));
}

// Threads that count at the same time may push their totals in reverse order: neither the total nor
// the time goes back.
void TraceWriter::write_bridged(const TraceItem& item) {
  bridged_bytes_ = std::max(bridged_bytes_, item.bytes);
  bridged_ns_ = std::max(bridged_ns_, item.end_ns);
  events_.counter(kHostProcess, "bridged", bridged_ns_, bridged_bytes_);
}

TraceWriter::DeviceState& TraceWriter::device_of(Device& device) {
  DeviceState& state = devices_[&device];
  if (!state.clock) {
    state.process = static_cast<uint32_t>(devices_.size());
    state.clock = std::make_unique<DeviceClock>(device);
    events_.name_process(state.process, fmt::format("{} {}", device.name(), device.info().name));
  }
  return state;
}

TraceWriter::Row& TraceWriter::row_of(const TraceItem& item) {
  Row& row = rows_[item.stream];
  if (row.clock == nullptr) {
    const DeviceState& device = device_of(*item.device);
    row.at = {device.process, item.stream};
    row.clock = device.clock.get();
    events_.name_row(
        row.at, fmt::format("{} {}", item.internal ? "internal stream" : "stream", item.stream));
  }
  return row;
}

// ---- what is done -------------------------------------------------------------------

void TraceWriter::resolve_all() {
  bool any = true;
  while (any) {  // a wait is resolved after its record, perhaps on a later row
    any = false;
    polls_ = false;
    for (auto it = rows_.begin(); it != rows_.end();) {
      Row& row = it->second;
      bool closed = false;
      while (!closed && !row.pending.empty() && resolve(row, row.pending.front())) {
        closed = row.pending.front().kind == TraceItem::Kind::kStreamClosed;
        row.pending.pop_front();
        --pending_;
        any = true;
      }
      if (file_.text().size() >= kFlushBytes) flush();
      if (closed && !row.incoming.empty()) write_point(row, "wait", row.last_end_ns);
      it = closed ? rows_.erase(it) : std::next(it);
    }
  }
}

bool TraceWriter::resolve(Row& row, const TraceItem& item) {
  switch (item.kind) {
    case TraceItem::Kind::kWork:
      return resolve_work(row, item);
    case TraceItem::Kind::kRecord:
      resolve_record(row, item);
      return true;
    case TraceItem::Kind::kWaitEvent:
      return resolve_wait(row, item);
    case TraceItem::Kind::kGatePassed:
      resolve_gate(row, item);
      return true;
    default:
      return true;
  }
}

bool TraceWriter::resolve_work(Row& row, const TraceItem& item) {
  const keel_stream_table* table = item.device->stream_table();
  const keel_status done = table->event_query(item.end->native());
  if (done == KEEL_NOT_READY) {
    if (!item.begin) polls_ = true;
    return false;
  }
  const int64_t seen_ns = host_now_ns();
  int64_t begin_ns = item.begin_ns;
  int64_t end_ns = seen_ns;
  const char* remark = nullptr;
  if (done != KEEL_OK) {
    remark = "failed, or not run after a failure";
    end_ns = item.end_ns;
  } else if (!item.begin) {
    remark = "end as the host saw it";
  } else {
    const bool told = row.clock->ready() && row.clock->to_host(*item.begin, &begin_ns) &&
                      row.clock->to_host(*item.end, &end_ns);
    if (!told && !row.clock->unusable()) return false;  // the clock is not known yet
    if (!told) remark = "end as the host saw it";
    if (!told) end_ns = seen_ns;
  }
  // Where the clocks differ by less than can be measured, only the order is known.
  begin_ns = std::max({begin_ns, item.begin_ns, row.has_slice ? row.last_end_ns : INT64_MIN});
  end_ns = std::max(begin_ns, std::min(end_ns, seen_ns));
  write_slice(row, {"work",
                    item.name,
                    begin_ns,
                    end_ns,
                    item.bytes,
                    item.bytes_written,
                    {item.accesses.data(), item.access_count},
                    remark});
  return true;
}

void TraceWriter::resolve_record(Row& row, const TraceItem& item) {
  // An arrow starts inside a slice. Without a slice, or after a wait since the last one, the record
  // itself becomes a slice.
  if (!row.has_slice || !row.incoming.empty()) {
    write_point(row, "record", row.has_slice ? row.last_end_ns : item.end_ns);
  }
  records_pending_.erase(item.serial);
  records_.emplace(item.serial, TracePoint{row.at, row.last_end_ns - 1});
  records_in_order_.push_back(item.serial);
  if (records_in_order_.size() <= kMaxRecords) return;
  records_.erase(records_in_order_.front());
  records_in_order_.pop_front();
}

bool TraceWriter::resolve_wait(Row& row, const TraceItem& item) {
  const auto record = records_.find(item.serial);
  if (record != records_.end()) {
    row.incoming.push_back(record->second);
    return true;
  }
  // Otherwise the record was made before the trace began, or lost.
  return !records_pending_.contains(item.serial);
}

void TraceWriter::resolve_gate(Row& row, const TraceItem& item) {
  const auto enqueued = row.gates.find(item.serial);
  if (enqueued == row.gates.end()) return;
  const int64_t begin_ns = std::max(enqueued->second, row.has_slice ? row.last_end_ns : INT64_MIN);
  row.gates.erase(enqueued);
  // The gate was open when the stream reached it, so there was no wait.
  if (item.end_ns <= begin_ns) return;
  write_slice(row, {"gate", item.name, begin_ns, item.end_ns});
}

// ---- events -------------------------------------------------------------------------

void TraceWriter::write_slice(Row& row, TraceEvents::Slice slice) {
  for (const TracePoint& from : row.incoming)
    slice.begin_ns = std::max(slice.begin_ns, from.ns + 1);
  // An arrow starts a nanosecond before the end.
  slice.end_ns = std::max(slice.end_ns, slice.begin_ns + 1);
  events_.slice(row.at, slice);
  for (const TracePoint& from : row.incoming) events_.arrow(from, {row.at, slice.begin_ns});
  row.incoming.clear();
  row.has_slice = true;
  row.last_end_ns = slice.end_ns;
}

void TraceWriter::write_point(Row& row, const char* name, int64_t ns) {
  write_slice(row, {"order", name, ns, ns + 1});
}

void TraceWriter::write_host_span(const TraceItem& item) {
  const TraceRow at{kHostProcess, item.thread};
  if (threads_.insert(item.thread).second) events_.name_row(at, thread_name(item.thread));
  events_.slice(at,
                {"host", item.name, item.begin_ns, item.end_ns, item.bytes, item.bytes_written});
}

}  // namespace keel
