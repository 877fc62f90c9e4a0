// SPDX-License-Identifier: Apache-2.0
#include "conformance/worker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <iterator>
#include <string>

#include "conformance/catalogue.h"
#include "conformance/kernel_binaries.h"
#include "conformance/levels.h"
#include "conformance/library_faults.h"
#include "conformance/observation.h"
#include "conformance/protocol.h"
#include "conformance/validated_body.h"

namespace keel::conformance {

namespace {

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
    const std::string mark = case_mark(id);
    // Before the answer, so that the runner finds it; without it, the runner shows more output.
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, mark.data(), mark.size());
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
  if (!request.fault.empty()) add_library_fault(request.fault);
  const bool on_tables = !request.cases.empty() && is_on_tables(request.cases.front());
  if (on_tables ? !start_on_tables(request.choice, request.path, request.timeout_seconds,
                                   &environment, &error)
                : !start_environment(request.choice, request.timeout_seconds, &environment, &error,
                                     &usage)) {
    writer.write(error_text(error, usage));
    return 1;
  }
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
