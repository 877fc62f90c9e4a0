// SPDX-License-Identifier: Apache-2.0
#include "conformance/protocol.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "conformance/json_count.h"

namespace keel::conformance {

std::string to_text(const WorkerRequest& request) {
  const nlohmann::json json = {{"backend", request.choice.backend},
                               {"plugin", request.choice.plugin},
                               {"ordinal", request.choice.ordinal},
                               {"emulated", request.choice.emulated},
                               {"path", request.path},
                               {"seed", request.seed},
                               {"timeout_seconds", request.timeout_seconds},
                               {"end", request.end.time_since_epoch().count()},
                               {"cases", request.cases}};
  return json.dump();
}

bool from_text(const std::string& text, WorkerRequest* out_request) {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    json.at("backend").get_to(out_request->choice.backend);
    json.at("plugin").get_to(out_request->choice.plugin);
    out_request->choice.ordinal = get_count<uint32_t>(json.at("ordinal"));
    json.at("emulated").get_to(out_request->choice.emulated);
    json.at("path").get_to(out_request->path);
    out_request->seed = get_count<uint64_t>(json.at("seed"));
    out_request->timeout_seconds = get_count<uint32_t>(json.at("timeout_seconds"));
    using Clock = std::chrono::steady_clock;
    out_request->end = Clock::time_point(Clock::duration(get_count<Clock::rep>(json.at("end"))));
    json.at("cases").get_to(out_request->cases);
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

bool from_text(const std::string& line, WorkerAnswer* out_answer) {
  using Type = WorkerAnswer::Type;
  try {
    const nlohmann::json json = nlohmann::json::parse(line);
    const auto type = json.at("type").get<std::string>();
    WorkerAnswer answer;
    if (type == "target") {
      answer.type = Type::kTarget;
      json.at("target").get_to(answer.target);
      json.at("on_host").get_to(answer.on_host);
      for (const nlohmann::json& each : json.at("cases")) {
        answer.cases.push_back({each.at("id"), each.at("full")});
      }
    } else if (type == "begin" || type == "end") {
      answer.type = type == "begin" ? Type::kBegin : Type::kEnd;
      CaseResult& result = answer.result;
      json.at("id").get_to(result.id);
      if (result.id.empty()) return false;
      if (answer.type == Type::kEnd) {
        const auto outcome = find_outcome(json.at("outcome").get<std::string>());
        if (!outcome) return false;
        result.outcome = *outcome;
        json.at("message").get_to(result.message);
        json.at("seconds").get_to(result.seconds);
      }
    } else if (type == "error") {
      answer.type = Type::kError;
      json.at("text").get_to(answer.text);
      json.at("usage").get_to(answer.usage);
    } else if (type != "done") {
      return false;
    }
    *out_answer = std::move(answer);
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

}  // namespace keel::conformance
