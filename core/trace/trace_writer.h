// SPDX-License-Identifier: Apache-2.0
// The thread that writes observed activity to a file.
#ifndef KEEL_CORE_TRACE_TRACE_WRITER_H_
#define KEEL_CORE_TRACE_TRACE_WRITER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/deadline.h"
#include "core/status.h"
#include "core/trace/device_clock.h"
#include "core/trace/trace_events.h"
#include "core/trace/trace_file.h"
#include "core/trace/trace_item.h"
#include "core/trace/trace_ring.h"

namespace keel {

// Takes items, waits until the device has executed their operations, and writes events: one process
// per device with a row per stream, and a process for the host's threads.
class TraceWriter {
 public:
  // Starts the thread. |ring| and |dropped|, the number of items lost before the ring, outlive the
  // writer.
  static Status create(const std::string& path, TraceRing<TraceItem>& ring,
                       std::atomic<uint64_t>& dropped, std::unique_ptr<TraceWriter>* out_writer);
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // Called when the ring fills up. Any thread.
  void hurry() { changed_.notify_one(); }
  // Called once no thread puts items into the ring: completes the file and ends the thread.
  Status finish(const Deadline& deadline);

 private:
  struct DeviceState {
    uint32_t process = 0;
    std::unique_ptr<DeviceClock> clock;
  };
  struct Row {
    TraceRow at;
    DeviceClock* clock = nullptr;
    std::deque<TraceItem> pending;  // in the stream's order
    bool has_slice = false;
    int64_t last_end_ns = 0;
    std::vector<TracePoint> incoming;             // points waited for since the last slice
    std::unordered_map<uint64_t, int64_t> gates;  // enqueue times by serial
  };

  TraceWriter(TraceRing<TraceItem>& ring, std::atomic<uint64_t>& dropped);

  void run();
  // Returns the pause until the next look.
  int64_t pause_ns() const;
  // While finishing: waits for the device's remaining work, or for a moment.
  void wait_for_device();
  void take_items();
  void take(TraceItem&& item);
  // Writes the items done by now.
  void resolve_all();
  // Returns whether the item at the head of |row| was handled.
  bool resolve(Row& row, const TraceItem& item);
  bool resolve_work(Row& row, const TraceItem& item);
  void resolve_record(Row& row, const TraceItem& item);
  bool resolve_wait(Row& row, const TraceItem& item);
  void resolve_gate(Row& row, const TraceItem& item);
  void write_host_span(const TraceItem& item);
  void write_bridged(const TraceItem& item);
  void flush();
  void complete();

  void write_slice(Row& row, TraceEvents::Slice slice);
  // Writes the smallest slice, for an arrow to begin or end at.
  void write_point(Row& row, const char* name, int64_t ns);

  Row& row_of(const TraceItem& item);
  DeviceState& device_of(Device& device);

  TraceRing<TraceItem>& ring_;
  std::atomic<uint64_t>& dropped_;

  // Used by the thread alone while it runs:
  TraceFile file_;
  TraceEvents events_;
  Status failure_;
  int64_t flushed_ns_ = 0;
  uint64_t bridged_bytes_ = 0;
  int64_t bridged_ns_ = 0;
  uint64_t unfinished_ = 0;  // operations not done by the deadline
  uint64_t pending_ = 0;     // items in all rows
  bool polls_ = false;       // an operation without timing events is pending
  std::map<const Device*, DeviceState> devices_;
  std::map<uint64_t, Row> rows_;
  std::unordered_set<uint32_t> threads_;
  // Records by serial: records still in a row, and the points of the latest resolved ones.
  std::unordered_set<uint64_t> records_pending_;
  std::unordered_map<uint64_t, TracePoint> records_;
  std::deque<uint64_t> records_in_order_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool finishing_ = false;
  Deadline deadline_ = Deadline::after(0);
  std::thread thread_;
};

}  // namespace keel

#endif  // KEEL_CORE_TRACE_TRACE_WRITER_H_
