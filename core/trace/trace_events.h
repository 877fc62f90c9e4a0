// SPDX-License-Identifier: Apache-2.0
// Formats the events of a trace in the Chrome trace format.
#ifndef KEEL_CORE_TRACE_TRACE_EVENTS_H_
#define KEEL_CORE_TRACE_TRACE_EVENTS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/observer.h"
#include "core/trace/trace_file.h"

namespace keel {

// The place of slices: a process (a device, or the host) and a row in it (a stream, or a thread).
struct TraceRow {
  uint32_t process = 0;
  uint64_t row = 0;
};

// A time on a row, inside a slice.
struct TracePoint {
  TraceRow at;
  int64_t ns = 0;
};

// Appends one event per call to the file. Times are on the host's steady clock and are written in
// microseconds since |start_ns|. Used by one thread.
class TraceEvents {
 public:
  TraceEvents(TraceFile& file, int64_t start_ns) : file_(file), start_ns_(start_ns) {}

  void name_process(uint32_t process, std::string_view name);
  void name_row(TraceRow at, std::string_view name);

  struct Slice {
    const char* category;
    const char* name;
    int64_t begin_ns;
    int64_t end_ns;
    uint64_t bytes_read = 0;
    uint64_t bytes_written = 0;
    std::span<const Access> accesses = {};
    const char* remark = nullptr;
  };
  void slice(TraceRow at, const Slice& slice);
  // Draws an arrow from inside one slice to the start of another.
  void arrow(const TracePoint& from, const TracePoint& to);
  void counter(uint32_t process, const char* name, int64_t ns, uint64_t value);

 private:
  std::string& begin(char phase, TraceRow at, int64_t ns);
  void append_time(const char* key, int64_t ns);
  void append_number(const char* key, uint64_t value);
  void append_ranges(const char* key, std::span<const Access> accesses, bool writes);

  TraceFile& file_;
  const int64_t start_ns_;
  uint64_t arrows_ = 0;
};

}  // namespace keel

#endif  // KEEL_CORE_TRACE_TRACE_EVENTS_H_
