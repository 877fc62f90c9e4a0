// SPDX-License-Identifier: Apache-2.0
#include "core/validation/validation.h"

#include <cstddef>
#include <cstring>

#include "core/log.h"
#include "core/plugin_file.h"
#include "core/validation/call_notes.h"
#include "core/validation/leaks.h"
#include "core/validation/race_detector.h"

namespace keel::validation {

namespace {
constexpr uint64_t kLoggedProblems = 1000;
std::atomic<uint64_t> g_problems{0};
}  // namespace

std::atomic<bool> g_enabled{false};

Status configure(const keel_init_options* options) {
  bool wanted = false;
  // Callers compiled against a shorter struct do not have |validate|.
  if (options != nullptr && options->header.size >= offsetof(keel_init_options, fork_memory)) {
    if (options->validate > 1) {
      return failure(KEEL_INVALID_ARGUMENT, "options.validate is {}: 0 or 1", options->validate);
    }
    wanted = options->validate == 1;
  }
  const char* text = trusted_environment("KEEL_VALIDATE");
  if (!wanted && text != nullptr && text[0] != '\0') {
    wanted = std::strcmp(text, "1") == 0;
    if (!wanted && std::strcmp(text, "0") != 0) {
      return failure(KEEL_INVALID_ARGUMENT, "KEEL_VALIDATE={} is neither 0 nor 1", text);
    }
  }
  g_enabled.store(wanted, std::memory_order_relaxed);
  if (wanted) open_call_notes();
  clear_leaks();
  wanted ? RaceDetector::get().start() : RaceDetector::get().stop();
  return {};
}

void finish() {
  RaceDetector::get().stop();
  g_enabled.store(false, std::memory_order_relaxed);
}

void report_problem(const std::string& text) {
  const uint64_t number = g_problems.fetch_add(1, std::memory_order_relaxed) + 1;
  if (number > kLoggedProblems) return;
  log(KEEL_LOG_ERROR, "validation: {}", text);
  if (number == kLoggedProblems) {
    log(KEEL_LOG_ERROR, "validation: that was problem {}: later ones are counted, not logged",
        number);
  }
}

uint64_t problem_count() {
  return g_problems.load(std::memory_order_relaxed);
}

}  // namespace keel::validation
