// SPDX-License-Identifier: Apache-2.0
#include "conformance/validated_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <mutex>
#include <string_view>
#include <utility>

#include "conformance/harness.h"
#include "conformance/levels.h"
#include "conformance/log_level.h"

namespace keel::conformance {

namespace {

// The first problem that the validation layer reported in this process since listen(). A case may
// have set another log function.
class ProblemLog {
 public:
  static ProblemLog& get() {
    static auto& instance = *new ProblemLog;
    return instance;
  }
  // Keeps a level of KEEL_LOG below warnings: a case that is run again shows the same messages.
  void listen() {
    (void)first();
    keel_set_log(
        std::min<keel_log_level>(asked_log_level(), KEEL_LOG_WARNING),
        [](void*, keel_log_level, const char* text) { ProblemLog::get().take(text); }, nullptr);
  }
  std::string first() {
    const std::lock_guard lock(mutex_);
    return std::exchange(first_, {});
  }

 private:
  void take(const char* text) {
    std::cerr << std::string("keel: ") + text + "\n";
    const std::lock_guard lock(mutex_);
    if (first_.empty() && std::string_view(text).starts_with("validation: ")) first_ = text;
  }
  std::mutex mutex_;
  std::string first_;
};

}  // namespace

Ending run_validated(const Case& each, const Context& context) {
  const char* const validate = is_on_tables(each.id) ? nullptr : std::getenv("KEEL_VALIDATE");
  if (validate != nullptr && std::string_view(validate) == "1") ProblemLog::get().listen();
  uint64_t before = 0;
  keel_validation_count(&before);
  Ending ending;
  try {
    run_body(each, context);
  } catch (const CaseUnsupported& reason) {
    ending = {BodyEnd::kUnsupported, reason.what()};
  } catch (const std::exception& failure) {
    ending = {BodyEnd::kFailed, failure.what()};
  }
  uint64_t after = 0;
  keel_validation_count(&after);
  if (after == before) return ending;
  return {BodyEnd::kFailed,
          fmt::format("{}{}problems found by the validation layer: {}; the first: {}", ending.text,
                      ending.text.empty() ? "" : "\n", after - before, ProblemLog::get().first())};
}

}  // namespace keel::conformance
