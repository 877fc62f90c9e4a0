// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/measurement.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/strict_json.h"

namespace keel::bench::peers {

std::string to_line(const Measurement& measurement) {
  const nlohmann::ordered_json json = {{"op", name_of(measurement.operation)},
                                       {"ranks", measurement.ranks},
                                       {"bytes", measurement.bytes},
                                       {"moved", measurement.moved},
                                       {"way", measurement.way},
                                       {"form", measurement.form},
                                       {"times", measurement.times},
                                       {"us", measurement.microseconds},
                                       {"right", measurement.right}};
  return json.dump();
}

std::optional<Measurement> parse_line(const std::string& line) {
  if (line.empty() || line.front() != '{') return std::nullopt;
  nlohmann::json json;
  std::string error;
  if (!parse_json(line, &json, &error)) return std::nullopt;
  try {
    const std::optional<Operation> operation = find_operation(json.at("op").get<std::string>());
    if (!operation) return std::nullopt;
    Measurement measurement = {*operation,       json.at("ranks"), json.at("bytes"),
                               json.at("moved"), json.at("way"),   json.at("form"),
                               json.at("times"), json.at("us"),    json.at("right")};
    if (!(measurement.microseconds > 0) || !std::isfinite(measurement.microseconds)) {
      return std::nullopt;
    }
    return measurement;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace keel::bench::peers
