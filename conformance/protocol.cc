// SPDX-License-Identifier: Apache-2.0
#include "conformance/protocol.h"

#include <nlohmann/json.hpp>
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
                               {"seed", request.seed},
                               {"timeout_seconds", request.timeout_seconds},
                               {"end", request.end.time_since_epoch().count()},
                               {"cases", request.cases}};
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
    out_request->choice.kernels = root.at("kernels").text();
    out_request->path = root.at("path").text();
    out_request->seed = root.at("seed").count<uint64_t>();
    out_request->timeout_seconds = root.at("timeout_seconds").count<uint32_t>();
    using Clock = std::chrono::steady_clock;
    out_request->end = Clock::time_point(Clock::duration(root.at("end").count<Clock::rep>()));
    out_request->cases.clear();
    for (const JsonValue& each : root.at("cases").elements()) {
      out_request->cases.push_back(each.text());
    }
    return true;
  } catch (const JsonError&) {
    return false;
  }
}

bool from_text(const std::string& line, WorkerAnswer* out_answer) {
  using Type = WorkerAnswer::Type;
  nlohmann::json json;
  std::string error;
  if (!parse_json(line, &json, &error)) return false;
  try {
    const JsonValue root(json);
    const std::string type = root.at("type").text();
    WorkerAnswer answer;
    if (type == "target") {
      answer.type = Type::kTarget;
      answer.target = target_of(root.at("target"));
      answer.on_host = root.at("on_host").boolean();
      for (const JsonValue& each : root.at("cases").elements()) {
        answer.cases.push_back({each.at("id").text(), each.at("full").boolean()});
      }
    } else if (type == "begin" || type == "end") {
      answer.type = type == "begin" ? Type::kBegin : Type::kEnd;
      CaseResult& result = answer.result;
      result.id = root.at("id").text();
      if (result.id.empty()) return false;
      if (answer.type == Type::kEnd) {
        const auto outcome = find_outcome(root.at("outcome").text());
        if (!outcome) return false;
        result.outcome = *outcome;
        result.message = root.at("message").text();
        result.seconds = root.at("seconds").number();
      }
    } else if (type == "error") {
      answer.type = Type::kError;
      answer.text = root.at("text").text();
      answer.usage = root.at("usage").boolean();
    } else if (type != "done") {
      return false;
    }
    *out_answer = std::move(answer);
    return true;
  } catch (const JsonError&) {
    return false;
  }
}

}  // namespace keel::conformance
