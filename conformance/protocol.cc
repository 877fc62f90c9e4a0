// SPDX-License-Identifier: Apache-2.0
#include "conformance/protocol.h"

#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/json_value.h"
#include "base/strict_json.h"

namespace keel::conformance {

std::string to_text(const WorkerRequest& request) {
  const nlohmann::json json = {{"backend", request.choice.backend},
                               {"plugin", request.choice.plugin},
                               {"ordinal", request.choice.ordinal},
                               {"emulated", request.choice.emulated},
                               {"kernels", request.choice.kernels},
                               {"path", request.path},
                               {"token", request.token},
                               {"seed", request.seed},
                               {"timeout_seconds", request.timeout_seconds},
                               {"traced", request.traced},
                               {"end", request.end.time_since_epoch().count()},
                               {"cases", request.cases},
                               {"fault", request.fault}};
  return json.dump();
}

bool from_text(const std::string& text, WorkerRequest* out_request) {
  nlohmann::json json;
  std::string error;
  if (!parse_json(text, &json, &error)) return false;
  try {
    const JsonValue root(json);
    out_request->choice.backend = root.at("backend").text();
    out_request->choice.plugin = root.at("plugin").text();
    out_request->choice.ordinal = root.at("ordinal").count<uint32_t>();
    out_request->choice.emulated = root.at("emulated").boolean();
    out_request->traced = root.at("traced").boolean();
    out_request->choice.kernels = root.at("kernels").text();
    out_request->path = root.at("path").text();
    out_request->token = root.at("token").count<uint64_t>();
    out_request->seed = root.at("seed").count<uint64_t>();
    out_request->timeout_seconds = root.at("timeout_seconds").count<uint32_t>();
    using Clock = std::chrono::steady_clock;
    out_request->end = Clock::time_point(Clock::duration(root.at("end").count<Clock::rep>()));
    out_request->cases.clear();
    for (const JsonValue& each : root.at("cases").elements()) {
      out_request->cases.push_back(each.text());
    }
    out_request->fault = root.at("fault").text();
    return true;
  } catch (const JsonError&) {
    return false;
  }
}

namespace {

constexpr const char* kBodyEnds[] = {"returned", "failed", "unsupported"};

// Replaces invalid UTF-8, which a plugin's text may contain.
std::string dump(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<std::string> texts_of(const JsonValue& array) {
  std::vector<std::string> texts;
  for (const JsonValue& each : array.elements()) texts.push_back(each.text());
  return texts;
}

// Returns false if the size differs from this program's keel_device_info.
bool read_info(const JsonValue& bytes, keel_device_info* out_info) {
  std::vector<uint8_t> all;
  for (const JsonValue& byte : bytes.elements()) all.push_back(byte.count<uint8_t>());
  if (all.size() != sizeof(*out_info)) return false;
  std::memcpy(out_info, all.data(), all.size());
  return true;
}

std::optional<BodyEnd> find_end(const std::string& name) {
  for (size_t i = 0; i < std::size(kBodyEnds); ++i) {
    if (name == kBodyEnds[i]) return static_cast<BodyEnd>(i);
  }
  return std::nullopt;
}

bool read_answer(const JsonValue& root, WorkerAnswer* out_answer) {
  using Type = WorkerAnswer::Type;
  const std::string type = root.at("type").text();
  if (type == "target") {
    out_answer->type = Type::kTarget;
    Found& found = out_answer->found;
    found.target = target_of(root.at("target"));
    found.backend_devices = texts_of(root.at("backend_devices"));
    found.foreign_devices = texts_of(root.at("foreign_devices"));
    found.on_host = root.at("on_host").boolean();
    return read_info(root.at("device_info"), &found.info);
  }
  if (type == "begin" || type == "end") {
    out_answer->type = type == "begin" ? Type::kBegin : Type::kEnd;
    out_answer->id = root.at("id").text();
    if (out_answer->id.empty()) return false;
    if (type == "begin") return true;
    const auto how = find_end(root.at("how").text());
    if (!how) return false;
    out_answer->how = *how;
    out_answer->text = root.at("text").text();
    out_answer->seconds = root.at("seconds").number();
    return true;
  }
  if (type == "error") {
    out_answer->type = Type::kError;
    out_answer->text = root.at("text").text();
    out_answer->usage = root.at("usage").boolean();
    return true;
  }
  out_answer->type = Type::kDone;
  return type == "done";
}

}  // namespace

std::string target_text(const Found& found) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&found.info);
  return dump({{"type", "target"},
               {"target", found.target},
               {"device_info", std::vector<uint8_t>(bytes, bytes + sizeof(found.info))},
               {"backend_devices", found.backend_devices},
               {"foreign_devices", found.foreign_devices},
               {"on_host", found.on_host}});
}

std::string begin_text(const std::string& id) {
  return dump({{"type", "begin"}, {"id", id}});
}

std::string end_text(const std::string& id, BodyEnd how, const std::string& text, double seconds) {
  return dump({{"type", "end"},
               {"id", id},
               {"how", kBodyEnds[static_cast<size_t>(how)]},
               {"text", text},
               {"seconds", seconds}});
}

std::string error_text(const std::string& text, bool usage) {
  return dump({{"type", "error"}, {"text", text}, {"usage", usage}});
}

std::string done_text() {
  return dump({{"type", "done"}});
}

bool from_text(const std::string& text, WorkerAnswer* out_answer) {
  nlohmann::json json;
  std::string error;
  if (!parse_json(text, &json, &error)) return false;
  try {
    WorkerAnswer answer;
    if (!read_answer(JsonValue(json), &answer)) return false;
    *out_answer = std::move(answer);
    return true;
  } catch (const JsonError&) {
    return false;
  }
}

}  // namespace keel::conformance
