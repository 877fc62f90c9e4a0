// SPDX-License-Identifier: Apache-2.0
// Runs of the program, for its tests.
#ifndef KEEL_SAMPLES_TRAIN_GPT_PROGRAM_TEST_FIXTURE_H_
#define KEEL_SAMPLES_TRAIN_GPT_PROGRAM_TEST_FIXTURE_H_

#include <chrono>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/ipc/process.h"
#include "samples/train_gpt/test_fixture.h"

namespace train_gpt {

struct Outcome {
  int exit_code;
  std::string output;  // stdout and stderr
};

inline std::string programs() {
  const char* variable = std::getenv("KEEL_TEST_BIN");
  return variable == nullptr ? "." : variable;
}

inline Outcome run_command(const std::string& command) {
  Outcome outcome{-1, {}};
  keel::ProcessOptions options;
  options.command = {"sh", "-c", command};
  options.output = keel::ProcessOptions::Stream::kPiped;
  options.errors = keel::ProcessOptions::Stream::kAsOutput;
  keel::ProgramResult result = keel::run_program(options, std::chrono::minutes(20));
  if (result.start_error == 0 && result.end.signal == 0) outcome.exit_code = result.end.exit_code;
  outcome.output = std::move(result.output);
  return outcome;
}

// |launcher| precedes the program; |settings|, environment variables, precede the launcher.
inline Outcome run_program(const std::string& arguments, const std::string& launcher = {},
                           const std::string& settings = {}) {
  return run_command(settings + " " + (launcher.empty() ? "" : programs() + "/" + launcher + " ") +
                     programs() + "/train_gpt " + arguments);
}

// Returns whether this run uses guarded memory or validation.
inline bool is_variant() {
  return std::getenv("KEEL_CPU_GUARD") != nullptr || std::getenv("KEEL_VALIDATE") != nullptr;
}

class ProgramTest : public testing::Test {
 protected:
  ProgramTest() { std::ofstream(folder_ / "text", std::ios::binary) << lines_of_text(300); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::vector<double> losses_of(const std::string& name) const {
    const nlohmann::json run = nlohmann::json::parse(contents(name), nullptr, false);
    return run.value("losses_nats_per_byte", std::vector<double>());
  }
  double held_out_of(const std::string& name) const {
    const nlohmann::json run = nlohmann::json::parse(contents(name), nullptr, false);
    return run.value("held_out_bits_per_byte", -1.0);
  }
  std::string contents(const std::string& name) const {
    std::ifstream file(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // Arguments of a very short training.
  std::string quick(const std::string& more) const {
    return "--text " + path("text") +
           " --layers 1 --width 16 --heads 2 --context 16 --batch 4 --warmup 2 --report-every 5 "
           "--sample-length 10 " +
           more;
  }
  Folder folder_;
};

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_PROGRAM_TEST_FIXTURE_H_
