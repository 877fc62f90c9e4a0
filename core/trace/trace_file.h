// SPDX-License-Identifier: Apache-2.0
// A file in the Chrome trace format (JSON object form).
#ifndef KEEL_CORE_TRACE_TRACE_FILE_H_
#define KEEL_CORE_TRACE_TRACE_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "core/status.h"

namespace keel {

// Every flush leaves a complete JSON text; the next flush overwrites the end of that text. The file
// is therefore valid after a crash, and on a full disk ends with the last event for which there was
// room. Used by one thread.
class TraceFile {
 public:
  TraceFile() = default;
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // Opens |path|: empties a regular file, or opens a character device; writes nothing yet.
  // KEEL_PERMISSION_DENIED for a symbolic link, another user's file and a file with a second name
  // (files/output_file.h). KEEL_ALREADY_EXISTS while another process writes a trace there.
  Status open(const std::string& path);

  // Adds a comma if needed; the caller appends one event to the text.
  std::string& begin_event();
  std::string& text() { return buffer_; }
  uint64_t buffered_bytes() const { return buffer_.size(); }

  // Writes the buffered text. |metadata|: the members of the object "metadata". After a failure
  // nothing more is written, and each call returns the failure.
  Status flush(std::string_view metadata);

 private:
  Status write_all(std::string_view text, uint64_t offset);

  std::string path_;
  int descriptor_ = -1;
  uint64_t end_ = 0;  // end of the last complete event in the file
  bool empty_ = true;
  std::string buffer_;
  std::string tail_;  // text behind the events in the file
  Status failure_;
};

}  // namespace keel

#endif  // KEEL_CORE_TRACE_TRACE_FILE_H_
