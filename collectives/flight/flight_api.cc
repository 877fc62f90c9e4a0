// SPDX-License-Identifier: Apache-2.0
// keel_flight_read: the files of flight recorders as JSON.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <keel/plugin_kit.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "collectives/flight/flight_folder.h"
#include "collectives/flight/flight_report.h"
#include "collectives/operation.h"
#include "core/api.h"
#include "core/json_writer.h"

namespace keel {
namespace {

struct UnreadableFlight {
  std::string file;
  std::string reason;
};

struct FoundFlights {
  std::vector<std::pair<std::string, FlightLog>> logs;  // by file
  std::vector<UnreadableFlight> unreadable;
};

// Reads the files of process |pid|, or of all processes if |pid| is 0.
Status read_folder(const std::string& folder, int32_t pid, FoundFlights* out) {
  const FileDescriptor list(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!list) return failure(KEEL_NOT_FOUND, "{}: {}", folder, std::strerror(errno));
  for (const std::string& name : list_flights(list.get(), pid)) {
    const std::string path = folder + "/" + name;
    FlightLog log;
    const Status status = read_flight(path, &log);
    // A process that exited just now has removed its file.
    if (status.code() == KEEL_NOT_FOUND) continue;
    if (status.ok()) {
      out->logs.emplace_back(path, std::move(log));
    } else {
      out->unreadable.push_back({path, status.text()});
    }
  }
  if (out->logs.empty() && out->unreadable.empty()) {
    return pid == 0 ? failure(KEEL_NOT_FOUND, "{} has no flight recorder's file", folder)
                    : failure(KEEL_NOT_FOUND, "{} has no flight recorder's file of process {}",
                              folder, pid);
  }
  return {};
}

Status find_flights(const std::string& where, FoundFlights* out) {
  if (where.empty()) return read_folder(flight_folder(), 0, out);
  int32_t pid = 0;
  const char* end = where.data() + where.size();
  const auto number = std::from_chars(where.data(), end, pid);
  if (number.ec == std::errc() && number.ptr == end && pid > 0) {
    return read_folder(flight_folder(), pid, out);
  }
  struct stat about = {};
  if (stat(where.c_str(), &about) == 0 && S_ISDIR(about.st_mode)) return read_folder(where, 0, out);
  FlightLog log;
  KEEL_RETURN_IF_ERROR(read_flight(where, &log));
  out->logs.emplace_back(where, std::move(log));
  return {};
}

void write_microseconds(JsonWriter& json, const std::optional<int64_t>& ns) {
  if (ns) {
    json.number(static_cast<double>(*ns) / 1000);
  } else {
    json.null();
  }
}

void write_operation(JsonWriter& json, const FlightOperation& operation) {
  const bool is_done = operation.state == FlightState::kDone;
  const char* state = operation.state == FlightState::kQueued    ? "queued"
                      : operation.state == FlightState::kRunning ? "running"
                      : operation.status == KEEL_OK              ? "done"
                                                                 : "failed";
  json.begin_object();
  json.key("sequence").number(operation.sequence);
  json.key("operation").text(collective_name(operation.collective));
  json.key("count").number(operation.count);
  json.key("dtype").text(element_name(operation.dtype));
  json.key("reduction").text(reduction_name(operation.reduction));
  json.key("root").number(operation.root);
  json.key("state").text(state);
  json.key("status").text_or_null(is_done ? status_name(operation.status) : nullptr);
  json.key("queued_ns").number(operation.queued_ns);
  write_microseconds(json.key("age_us"), operation.age_ns);
  write_microseconds(json.key("wait_us"), operation.wait_ns);
  write_microseconds(json.key("duration_us"), operation.run_ns);
  json.end_object();
}

void write_rank(JsonWriter& json, const std::string& file, const FlightLog& log) {
  json.begin_object();
  json.key("rank").number(log.rank);
  json.key("device").text(log.device);
  json.key("host").text(log.host);
  json.key("pid").number(log.pid);
  if (log.alive) {
    json.key("alive").boolean(*log.alive);
  } else {
    json.key("alive").null();
  }
  json.key("file").text(file);
  json.key("created_ns").number(log.created_ns);
  json.key("unrecorded").number(log.unrecorded);
  json.key("torn").number(log.torn);
  json.key("operations").begin_array();
  for (const FlightOperation& operation : log.operations) write_operation(json, operation);
  json.end_array();
  json.end_object();
}

void write_communicators(JsonWriter& json, const FoundFlights& found) {
  json.begin_array();
  const FlightLog* former = nullptr;
  for (const auto& [file, log] : found.logs) {
    const bool is_another =
        former == nullptr || former->communicator != log.communicator || former->world != log.world;
    if (is_another) {
      if (former != nullptr) {
        json.end_array();
        json.end_object();
      }
      json.begin_object();
      json.key("name").text(log.communicator);
      json.key("world").number(log.world);
      json.key("ranks").begin_array();
    }
    write_rank(json, file, log);
    former = &log;
  }
  if (former != nullptr) {
    json.end_array();
    json.end_object();
  }
  json.end_array();
}

std::string flights_json(FoundFlights found) {
  std::sort(found.logs.begin(), found.logs.end(), [](const auto& a, const auto& b) {
    return std::tie(a.second.communicator, a.second.rank, a.first) <
           std::tie(b.second.communicator, b.second.rank, b.first);
  });
  std::string text;
  JsonWriter json(&text);
  json.begin_object();
  write_communicators(json.key("communicators"), found);
  json.key("unreadable").begin_array();
  for (const UnreadableFlight& each : found.unreadable) {
    json.begin_object();
    json.key("file").text(each.file);
    json.key("reason").text(each.reason);
    json.end_object();
  }
  json.end_array();
  json.end_object();
  return text;
}

}  // namespace
}  // namespace keel

keel_status keel_flight_read(const char* path_or_pid, char* out_text, uint64_t* in_out_size) {
  return keel::api_call_outside([&]() -> keel::Status {
    KEEL_REQUIRE(in_out_size)
    keel::FoundFlights found;
    KEEL_RETURN_IF_ERROR(
        keel::find_flights(path_or_pid == nullptr ? std::string() : path_or_pid, &found));
    return keel::return_text(keel::flights_json(std::move(found)), out_text, in_out_size);
  });
}
