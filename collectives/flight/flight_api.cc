// keel_flight_read: the files of flight recorders as JSON.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <keel/plugin_kit.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "collectives/flight/flight_folder.h"
#include "collectives/flight/flight_report.h"
#include "collectives/operation.h"
#include "core/api.h"

namespace keel {
namespace {

using Json = nlohmann::ordered_json;

struct UnreadableFlight {
  std::string file;
  std::string reason;
};

struct FoundFlights {
  std::vector<std::pair<std::string, FlightLog>> logs;  // by file
  std::vector<UnreadableFlight> unreadable;
};

// Of |pid|, 0: of everybody.
Status read_folder(const std::string& folder, int32_t pid, FoundFlights* out) {
  const FileDescriptor list(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!list) return failure(KEEL_NOT_FOUND, "{}: {}", folder, std::strerror(errno));
  for (const std::string& name : list_flights(list.get(), pid)) {
    const std::string path = folder + "/" + name;
    FlightLog log;
    const Status status = read_flight(path, &log);
    // One that ended just now took its file with it.
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

Json microseconds(const std::optional<int64_t>& ns) {
  return ns ? Json(static_cast<double>(*ns) / 1000) : Json(nullptr);
}

Json operation_json(const FlightOperation& operation) {
  const char* state = operation.state == FlightState::kQueued    ? "queued"
                      : operation.state == FlightState::kRunning ? "running"
                      : operation.status == KEEL_OK              ? "done"
                                                                 : "failed";
  Json json;
  json["sequence"] = operation.sequence;
  json["operation"] = collective_name(operation.collective);
  json["count"] = operation.count;
  json["dtype"] = kit::dtype_name(operation.dtype);
  json["reduction"] = reduction_name(operation.reduction);
  json["root"] = operation.root;
  json["state"] = state;
  json["status"] =
      operation.state == FlightState::kDone ? Json(status_name(operation.status)) : Json(nullptr);
  json["queued_ns"] = operation.queued_ns;
  json["age_us"] = microseconds(operation.age_ns);
  json["wait_us"] = microseconds(operation.wait_ns);
  json["duration_us"] = microseconds(operation.run_ns);
  return json;
}

Json rank_json(const std::string& file, const FlightLog& log) {
  Json json;
  json["rank"] = log.rank;
  json["device"] = log.device;
  json["pid"] = log.pid;
  json["alive"] = log.alive;
  json["file"] = file;
  json["created_ns"] = log.created_ns;
  json["unrecorded"] = log.unrecorded;
  json["torn"] = log.torn;
  json["operations"] = Json::array();
  for (const FlightOperation& operation : log.operations) {
    json["operations"].push_back(operation_json(operation));
  }
  return json;
}

std::string flights_json(FoundFlights found) {
  std::stable_sort(found.logs.begin(), found.logs.end(), [](const auto& a, const auto& b) {
    return a.second.communicator != b.second.communicator
               ? a.second.communicator < b.second.communicator
               : a.second.rank < b.second.rank;
  });
  Json json;
  json["communicators"] = Json::array();
  Json& communicators = json["communicators"];
  for (const auto& [file, log] : found.logs) {
    if (communicators.empty() || communicators.back()["name"] != log.communicator ||
        communicators.back()["world"] != log.world) {
      communicators.push_back(
          {{"name", log.communicator}, {"world", log.world}, {"ranks", Json::array()}});
    }
    communicators.back()["ranks"].push_back(rank_json(file, log));
  }
  json["unreadable"] = Json::array();
  for (const UnreadableFlight& each : found.unreadable) {
    json["unreadable"].push_back({{"file", each.file}, {"reason", each.reason}});
  }
  // Names in a file may be any bytes.
  return json.dump(1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace
}  // namespace keel

keel_status keel_flight_read(const char* path_or_pid, char* out_text, uint64_t* in_out_size) {
  return keel::api_call<false>([&]() -> keel::Status {
    KEEL_REQUIRE(in_out_size)
    keel::FoundFlights found;
    KEEL_RETURN_IF_ERROR(
        keel::find_flights(path_or_pid == nullptr ? std::string() : path_or_pid, &found));
    return keel::return_text(keel::flights_json(std::move(found)), out_text, in_out_size);
  });
}
