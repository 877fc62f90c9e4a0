// SPDX-License-Identifier: Apache-2.0
#include "conformance/worker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <iterator>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "conformance/catalogue.h"
#include "conformance/harness.h"
#include "conformance/kernel_binaries.h"
#include "conformance/levels.h"
#include "conformance/protocol.h"

namespace keel::conformance {

namespace {

// The first problem that the validation layer reported in this process since listen().
class ProblemLog {
 public:
  static ProblemLog& get() {
    static auto& instance = *new ProblemLog;
    return instance;
  }
  // Keeps a level of KEEL_LOG below warnings: a case that is run again shows the same messages.
  void listen() {
    keel_set_log(
        asked_level(),
        [](void*, keel_log_level, const char* text) { ProblemLog::get().take(text); }, nullptr);
  }
  std::string first() {
    const std::lock_guard lock(mutex_);
    return std::exchange(first_, {});
  }

 private:
  static keel_log_level asked_level() {
    constexpr std::string_view kNames[] = {"trace", "debug", "info"};  // in the levels' order
    const char* const asked = std::getenv("KEEL_LOG");
    const auto* const found = std::find(std::begin(kNames), std::end(kNames), asked ? asked : "");
    if (found == std::end(kNames)) return KEEL_LOG_WARNING;
    return static_cast<keel_log_level>(KEEL_LOG_TRACE + (found - std::begin(kNames)));
  }
  void take(const char* text) {
    std::cerr << std::string("keel: ") + text + "\n";
    const std::lock_guard lock(mutex_);
    if (first_.empty() && std::string_view(text).starts_with("validation: ")) first_ = text;
  }
  std::mutex mutex_;
  std::string first_;
};

// The worker's side of observations.
class Witness : public Observer {
 public:
  explicit Witness(PacketWriter& writer) : writer_(writer) {}
  bool is_judge() const override { return false; }
  void cross(ObservationKind kind, std::span<std::byte> bytes, const Where& where) override {
    writer_.write(kind, where.line(), bytes);
  }

 private:
  PacketWriter& writer_;
};

// How a body ended, with the reason.
struct Ending {
  BodyEnd how = BodyEnd::kReturned;
  std::string text;
};

// Under KEEL_VALIDATE=1 a case passes only if the validation layer reports no problem.
Ending run_validated(const Case& each, const Context& context) {
  uint64_t before = 0;
  keel_validation_count(&before);
  Ending ending;
  try {
    run_body(each, context);
  } catch (const CaseUnsupported& reason) {
    ending = {BodyEnd::kUnsupported, reason.what()};
  } catch (const CaseFailure& failure) {
    ending = {BodyEnd::kFailed, failure.what()};
  } catch (const std::exception& error) {
    ending = {BodyEnd::kFailed, error.what()};
  }
  uint64_t after = 0;
  keel_validation_count(&after);
  if (after == before) return ending;
  return {BodyEnd::kFailed,
          fmt::format("{}{}problems found by the validation layer: {}; the first: {}", ending.text,
                      ending.text.empty() ? "" : "\n", after - before, ProblemLog::get().first())};
}

// Runs the cases that |request| names, in order, while time is left.
void run(const Environment& environment, const std::vector<Case>& cases,
         const WorkerRequest& request, PacketWriter& writer) {
  const CaseIndex index(cases);
  Witness witness(writer);
  for (const std::string& id : request.cases) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point start = Clock::now();
    if (start >= request.end) return;
    const Case* const found = index.find(id);
    if (found == nullptr) continue;
    writer.write(begin_text(id));
    Ending ending;
    {
      const ObserverScope scope(&witness);
      ending = run_validated(*found, Context{environment, found->id});
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    writer.write(end_text(id, ending.how, ending.text, seconds));
  }
}

// Reads the request, and then replaces standard input by /dev/null and clears the text, so that a
// plugin cannot read the token and forge answers.
bool read_request(WorkerRequest* out_request) {
  std::string text(std::istreambuf_iterator<char>(std::cin), {});
  const bool good = from_text(text, out_request);
  std::fill(text.begin(), text.end(), '\0');
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  fcntl(kAnswerDescriptor, F_SETFD, FD_CLOEXEC);
  return good;
}

}  // namespace

int worker_main() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // do not outlive a killed runner
  WorkerRequest request;
  if (!read_request(&request)) {
    std::cerr << "keel " << kWorkerCommand << " is for `keel conform` to start\n";
    return 2;
  }
  PacketWriter writer(kAnswerDescriptor, request.token, /*holds=*/!request.traced);
  // Leaked: plugin threads may still access the environment.
  auto& environment = *new Environment;
  environment.seed = request.seed;
  std::string error;
  bool usage = false;
  if (!request.choice.kernels.empty() && !use_kernel_folder(request.choice.kernels, &error)) {
    writer.write(error_text(error, /*usage=*/true));
    return 1;
  }
  const bool on_tables = !request.cases.empty() && is_on_tables(request.cases.front());
  if (on_tables ? !start_on_tables(request.choice, request.path, request.timeout_seconds,
                                   &environment, &error)
                : !start_environment(request.choice, request.timeout_seconds, &environment, &error,
                                     &usage)) {
    writer.write(error_text(error, usage));
    return 1;
  }
  const char* validate = on_tables ? nullptr : std::getenv("KEEL_VALIDATE");
  if (validate != nullptr && std::string_view(validate) == "1") ProblemLog::get().listen();
  if (!on_tables) keel_op_forbid_fallback(1);  // the CPU's kernels are not under test
  if (request.cases.empty()) {
    writer.write(target_text(found_by(environment)));
  } else {
    const auto& cases = *new std::vector<Case>(make_catalogue(environment));
    run(environment, cases, request, writer);
  }
  if (on_tables) {
    environment.tables.reset();
  } else {
    keel_shutdown();
  }
  writer.write(done_text());
  return 0;
}

}  // namespace keel::conformance
