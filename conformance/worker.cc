// SPDX-License-Identifier: Apache-2.0
#include "conformance/worker.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "conformance/catalogue.h"
#include "conformance/harness.h"
#include "conformance/kernel_binaries.h"
#include "conformance/protocol.h"
#include "conformance/result.h"

namespace keel::conformance {

namespace {

void answer(const nlohmann::json& message) {
  // Text of a plugin need not be UTF-8.
  const std::string line =
      message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  size_t written = 0;
  while (written < line.size()) {
    const ssize_t count = write(kAnswerDescriptor, line.data() + written, line.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) _exit(3);  // the runner has gone
    written += static_cast<size_t>(count);
  }
}

// What the validation layer found first in this process, once it is listened to.
class ProblemLog {
 public:
  static ProblemLog& get() {
    static auto& instance = *new ProblemLog;
    return instance;
  }
  void listen() {
    keel_set_log(
        KEEL_LOG_WARNING,
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

// Whether there is time for the next case. Once there is none, there is none for those behind it.
class TimeLimit {
 public:
  using Clock = std::chrono::steady_clock;
  explicit TimeLimit(Clock::time_point end) : end_(end) {}
  void look() { is_over_ = is_over_ || Clock::now() >= end_; }
  bool is_over() const { return is_over_; }

 private:
  const Clock::time_point end_;
  bool is_over_ = false;
};

class ConformanceTest : public testing::Test {
 public:
  ConformanceTest(const Environment& environment, const Case& conformance_case,
                  const TimeLimit& limit)
      : environment_(environment), case_(conformance_case), limit_(limit) {}

  void SetUp() override { keel_validation_count(&problems_before_); }
  // Under KEEL_VALIDATE=1 a case passes only if that layer has nothing to say.
  void TearDown() override {
    uint64_t problems = 0;
    keel_validation_count(&problems);
    if (problems != problems_before_) {
      ADD_FAILURE() << "problems found by the validation layer: " << problems - problems_before_
                    << "; the first: " << ProblemLog::get().first();
    }
  }

  void TestBody() override {
    if (limit_.is_over()) return;  // nobody hears of it
    const uint64_t missing = case_.claims & ~environment_.info.claims;
    if (missing != 0) GTEST_SKIP() << "not claimed: " << claim_text(missing);
    try {
      case_.body(Context{environment_, case_.id});
    } catch (const CaseUnsupported& reason) {
      GTEST_SKIP() << reason.what();
    } catch (const CaseFailure& failure) {
      FAIL() << failure.what();
    }
  }

 private:
  const Environment& environment_;
  const Case& case_;
  const TimeLimit& limit_;
  uint64_t problems_before_ = 0;
};

// Reports each test as it begins and ends, while there is time.
class Reporter : public testing::EmptyTestEventListener {
 public:
  explicit Reporter(TimeLimit& limit) : limit_(limit) {}

  void OnTestStart(const testing::TestInfo& info) override {
    limit_.look();
    if (limit_.is_over()) return;
    answer({{"type", "begin"}, {"id", info.name()}});
  }

  void OnTestEnd(const testing::TestInfo& info) override {
    if (limit_.is_over()) return;
    const testing::TestResult& result = *info.result();
    const Outcome outcome = result.Failed()    ? Outcome::kFail
                            : result.Skipped() ? Outcome::kUnsupported
                                               : Outcome::kPass;
    std::string message;
    for (int i = 0; i < result.total_part_count(); ++i) {
      std::string text = result.GetTestPartResult(i).message();
      for (const std::string_view head : {"Failed\n", "Succeeded\n"}) {
        if (text.starts_with(head)) text.erase(0, head.size());
      }
      message += (message.empty() ? "" : "\n") + text;
    }
    while (message.ends_with('\n')) message.pop_back();
    answer({{"type", "end"},
            {"id", info.name()},
            {"outcome", outcome_name(outcome)},
            {"message", message},
            {"seconds", static_cast<double>(result.elapsed_time()) * 1e-3}});
  }

 private:
  TimeLimit& limit_;
};

void describe(const Environment& environment, const std::vector<Case>& cases) {
  nlohmann::json list = nlohmann::json::array();
  for (const Case& each : cases) list.push_back({{"id", each.id}, {"full", each.full}});
  answer({{"type", "target"},
          {"target", environment.target},
          {"on_host", computes_on_host(environment)},
          {"cases", list}});
}

// Registers the cases that |ids| names, in that order, and runs them until |limit|.
void run(const Environment& environment, const std::vector<Case>& cases,
         const std::vector<std::string>& ids, TimeLimit limit) {
  int argument_count = 1;
  std::string program = "keel";
  char* arguments[] = {program.data(), nullptr};
  testing::InitGoogleTest(&argument_count, arguments);
  testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new Reporter(limit));

  std::unordered_map<std::string, const Case*> by_id;
  for (const Case& each : cases) by_id.emplace(each.id, &each);
  for (const std::string& id : ids) {
    const auto found = by_id.find(id);
    if (found == by_id.end()) continue;
    const Case& conformance_case = *found->second;
    testing::RegisterTest(level_info(level_of(id)).name, id.c_str(), nullptr, nullptr, __FILE__,
                          __LINE__, [&environment, &conformance_case, &limit]() -> testing::Test* {
                            return new ConformanceTest(environment, conformance_case, limit);
                          });
  }
  [[maybe_unused]] const int status = RUN_ALL_TESTS();  // the reporter has the results
}

}  // namespace

int worker_main() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // not to outlive a runner that was killed
  WorkerRequest request;
  const std::string text(std::istreambuf_iterator<char>(std::cin), {});
  if (!from_text(text, &request)) {
    std::cerr << "keel " << kWorkerCommand << " is for `keel conform` to start\n";
    return 2;
  }
  // Not destroyed: threads of a plugin may still look at what cases hold.
  auto& environment = *new Environment;
  environment.seed = request.seed;
  std::string error;
  bool usage = false;
  if (!request.choice.kernels.empty() && !use_kernel_folder(request.choice.kernels, &error)) {
    answer({{"type", "error"}, {"text", error}, {"usage", true}});
    return 1;
  }
  const bool on_tables = !request.cases.empty() && is_on_tables(request.cases.front());
  if (on_tables ? !start_on_tables(request.choice, request.path, request.timeout_seconds,
                                   &environment, &error)
                : !start_environment(request.choice, request.timeout_seconds, &environment, &error,
                                     &usage)) {
    answer({{"type", "error"}, {"text", error}, {"usage", usage}});
    return 1;
  }
  const char* validate = on_tables ? nullptr : std::getenv("KEEL_VALIDATE");
  if (validate != nullptr && std::string_view(validate) == "1") ProblemLog::get().listen();
  if (!on_tables) keel_op_forbid_fallback(1);  // the CPU's kernels are not what is under test
  const auto& cases = *new std::vector<Case>(make_catalogue(environment));
  if (request.cases.empty()) {
    describe(environment, cases);
  } else {
    run(environment, cases, request.cases, TimeLimit(request.end));
  }
  if (on_tables) {
    environment.tables.reset();
  } else {
    keel_shutdown();
  }
  answer({{"type", "done"}});
  return 0;
}

}  // namespace keel::conformance
