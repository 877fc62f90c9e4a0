#include "conformance/protocol.h"

#include <nlohmann/json.hpp>

namespace keel::conformance {

std::string to_text(const WorkerRequest& request) {
  const nlohmann::json json = {
      {"backend", request.choice.backend},          {"plugin", request.choice.plugin},
      {"ordinal", request.choice.ordinal},          {"seed", request.seed},
      {"timeout_seconds", request.timeout_seconds}, {"cases", request.cases}};
  return json.dump();
}

bool from_text(const std::string& text, WorkerRequest* out_request) {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    json.at("backend").get_to(out_request->choice.backend);
    json.at("plugin").get_to(out_request->choice.plugin);
    json.at("ordinal").get_to(out_request->choice.ordinal);
    json.at("seed").get_to(out_request->seed);
    json.at("timeout_seconds").get_to(out_request->timeout_seconds);
    json.at("cases").get_to(out_request->cases);
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

}  // namespace keel::conformance
