// SPDX-License-Identifier: Apache-2.0
#include "core/trace/trace_events.h"

#include <algorithm>

#include "core/device.h"
#include "core/json_writer.h"

namespace keel {

namespace {

void append(std::string& out, uint64_t value) {
  const fmt::format_int text(value);
  out.append(text.data(), text.size());
}

}  // namespace

void TraceEvents::append_number(const char* key, uint64_t value) {
  std::string& out = file_.text();
  out += key;
  append(out, value);
}

// Microseconds with three decimals: viewers keep times as doubles or as nanoseconds.
void TraceEvents::append_time(const char* key, int64_t ns) {
  std::string& out = file_.text();
  const auto value = static_cast<uint64_t>(std::max<int64_t>(0, ns));
  out += key;
  append(out, value / 1000);
  const uint64_t rest = value % 1000;
  out += {'.', static_cast<char>('0' + rest / 100), static_cast<char>('0' + rest / 10 % 10),
          static_cast<char>('0' + rest % 10)};
}

std::string& TraceEvents::begin(char phase, TraceRow at, int64_t ns) {
  std::string& out = file_.begin_event();
  out += "{\"ph\":\"";
  out += phase;
  append_number("\",\"pid\":", at.process);
  append_number(",\"tid\":", at.row);
  append_time(",\"ts\":", ns - start_ns_);
  return out;
}

void TraceEvents::name_process(uint32_t process, std::string_view name) {
  std::string& out = begin('M', {process, 0}, start_ns_);
  out += ",\"name\":\"process_name\",\"args\":{\"name\":";
  append_json_string(out, name);
  out += "}}";
  begin('M', {process, 0}, start_ns_);
  append_number(",\"name\":\"process_sort_index\",\"args\":{\"sort_index\":", process);
  out += "}}";
}

void TraceEvents::name_row(TraceRow at, std::string_view name) {
  std::string& out = begin('M', at, start_ns_);
  out += ",\"name\":\"thread_name\",\"args\":{\"name\":";
  append_json_string(out, name);
  out += "}}";
  begin('M', at, start_ns_);
  append_number(",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":", at.row);
  out += "}}";
}

// ,"reads":["cpu:0 0x7f5c2a000040 + 4096"]
void TraceEvents::append_ranges(const char* key, std::span<const Access> accesses, bool writes) {
  std::string& out = file_.text();
  bool first = true;
  for (const Access& access : accesses) {
    if (access.writes != writes) continue;
    out += first ? key : "\",\"";
    first = false;
    // Device names come from plugin files, so they are escaped, as in the names of processes.
    std::string device;
    append_json_string(device, access.device == nullptr ? "host" : access.device->name());
    out.append(device, 1, device.size() - 2);
    fmt::format_to(std::back_inserter(out), " {:#x} + {}",
                   reinterpret_cast<uintptr_t>(access.pointer), access.bytes);
  }
  if (!first) out += "\"]";
}

void TraceEvents::slice(TraceRow at, const Slice& slice) {
  std::string& out = begin('X', at, slice.begin_ns);
  append_time(",\"dur\":", slice.end_ns - slice.begin_ns);
  out += ",\"cat\":\"";
  out += slice.category;
  out += "\",\"name\":";
  append_json_string(out, slice.name);
  append_number(",\"args\":{\"bytes_read\":", slice.bytes_read);
  append_number(",\"bytes_written\":", slice.bytes_written);
  append_ranges(",\"reads\":[\"", slice.accesses, /*writes=*/false);
  append_ranges(",\"writes\":[\"", slice.accesses, /*writes=*/true);
  if (slice.remark != nullptr) {
    out += ",\"remark\":";
    append_json_string(out, slice.remark);
  }
  out += "}}";
}

void TraceEvents::arrow(const TracePoint& from, const TracePoint& to) {
  ++arrows_;
  std::string& out = begin('s', from.at, from.ns);
  append_number(",\"cat\":\"event\",\"name\":\"event\",\"id\":", arrows_);
  out += '}';
  begin('f', to.at, std::max(from.ns, to.ns));
  append_number(",\"bp\":\"e\",\"cat\":\"event\",\"name\":\"event\",\"id\":", arrows_);
  out += '}';
}

void TraceEvents::counter(uint32_t process, const char* name, int64_t ns, uint64_t value) {
  std::string& out = begin('C', {process, 0}, ns);
  out += ",\"name\":\"";
  out += name;
  append_number("\",\"args\":{\"bytes\":", value);
  out += "}}";
}

}  // namespace keel
