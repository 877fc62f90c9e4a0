// SPDX-License-Identifier: Apache-2.0
#include "conformance/session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "base/printable.h"
#include "conformance/certificate.h"
#include "conformance/emulated_libraries.h"
#include "conformance/here.h"
#include "conformance/kernel_binaries.h"
#include "conformance/leftovers.h"
#include "conformance/plan.h"
#include "conformance/text_file.h"
#include "tensorfile/replacement.h"

namespace keel::conformance {

namespace {

// `verify --rerun` runs one of 23 cases of the full profile.
constexpr uint32_t kFullSample = 23;

int usage_error(const std::string& text) {
  fmt::print(stderr, "keel conform: {}\n", text);
  return kExitUsage;
}

// Checks writability before the run, which may take hours.
bool may_write(const std::string& path, std::string* error) {
  if (path.empty()) return true;
  try {
    tensorfile::check_put_file(path);
    return true;
  } catch (const tensorfile::FileError& failure) {
    *error = failure.what();
    return false;
  }
}

// Does nothing for an empty path.
bool write_file(const std::string& path, const std::string& text) {
  if (path.empty()) return true;
  try {
    tensorfile::put_file(path, text);
    return true;
  } catch (const tensorfile::FileError& error) {
    fmt::print(stderr, "keel conform: {}\n", error.what());
    return false;
  }
}

// Makes the path of the plugin file absolute, as keel_plugin_load requires, and that of the kernel
// folder.
bool resolve_choice(PluginChoice* choice, std::string* error) {
  if (choice->backend.empty() == choice->plugin.empty()) {
    *error = "one of --backend and --plugin says what to test";
    return false;
  }
  if (choice->emulated && !use_emulated_libraries(error)) return false;
  const auto resolve = [&](std::string* in_out_path) {
    const std::unique_ptr<char, decltype(&std::free)> path(realpath(in_out_path->c_str(), nullptr),
                                                           std::free);
    if (!path) {
      *error = fmt::format("there is no file {}", *in_out_path);
      return false;
    }
    *in_out_path = path.get();
    return true;
  };
  if (!choice->plugin.empty() && !resolve(&choice->plugin)) return false;
  return choice->kernels.empty() ||
         (resolve(&choice->kernels) && use_kernel_folder(choice->kernels, error));
}

// Prints progress: a live counter on a terminal, otherwise a line every ten seconds; and all
// failures.
class Progress {
 public:
  Progress(const Report& report, const Waivers& waivers, size_t total)
      : report_(report), waivers_(waivers), total_(total), live_(isatty(STDOUT_FILENO) != 0) {}

  // Call it once per result, in case order.
  void tell(const CaseResult& result) const {
    if (!is_failure(result.outcome) || waivers_.find(result.id) != nullptr) return;
    if (live_) fmt::print("\r\033[K");
    fmt::print("\n{}", failure_text(report_, result));
  }
  // Call it when the case |id| has a result, in any order.
  void count(const std::string& id) {
    ++done_;
    if (live_) {
      fmt::print("\r\033[K{} of {}  {}", done_, total_, id);
    } else if (Clock::now() - told_ >= std::chrono::seconds(10)) {
      fmt::print("{} of {} cases\n", done_, total_);
      told_ = Clock::now();
    }
    std::fflush(stdout);
  }

  void end() const {
    if (live_) fmt::print("\r\033[K");
  }

 private:
  using Clock = std::chrono::steady_clock;
  const Report& report_;
  const Waivers& waivers_;
  const size_t total_;
  const bool live_;
  size_t done_ = 0;
  Clock::time_point told_ = Clock::now();
};

// Stores results in case order, whatever their order of arrival.
class ResultsInOrder {
 public:
  explicit ResultsInOrder(size_t cases) : results_(cases) {}

  // Stores the result of the case |index|, which must have none yet.
  void put(size_t index, CaseResult result) {
    results_[index] = std::move(result);
    ++count_;
  }
  size_t count() const { return count_; }
  // Returns the results that exist.
  std::vector<CaseResult> copy() const {
    std::vector<CaseResult> there;
    there.reserve(count_);
    for (const auto& result : results_) {
      if (result) there.push_back(*result);
    }
    return there;
  }
  // Calls |body| once per result, in case order: now for the results without a gap before them, or
  // with |at_end| for all.
  template <typename Body>
  void for_each_new(bool at_end, const Body& body) {
    for (; passed_ < results_.size() && (at_end || results_[passed_]); ++passed_) {
      if (results_[passed_]) body(*results_[passed_]);
    }
  }

 private:
  std::vector<std::optional<CaseResult>> results_;
  size_t count_ = 0;
  size_t passed_ = 0;
};

// Summarises the levels of the results so far.
void summarise_run(const Plan& plan, Report* report) {
  Selection selection = {plan.levels, plan.filtered, "", report->target.capabilities,
                         report->incomplete()};
  if (!report->target.has_device()) selection.no_device = report->target.no_device;
  report->levels = summarise(report->results, selection);
}

// Keeps the JSON file up to date during the run, for a reader of a killed run: the file lacks at
// most the results of the last second.
class Interim {
 public:
  Interim(const std::string& path, const Plan& plan, const Waivers& waivers, const Report& report,
          const ResultsInOrder& results)
      : path_(path), plan_(plan), waivers_(waivers), report_(report), results_(results) {
    // A file that cannot be replaced is written once, at the end.
    is_wanted_ = !path.empty() && tensorfile::is_replaceable(path);
    write();
  }

  void write() {
    if (!is_wanted_ || written_ == results_.count()) return;
    Report now = report_;
    now.results = results_.copy();
    now.stopped = "the run was ended before";
    apply_waivers(waivers_, &now.results, &now.notes);
    summarise_run(plan_, &now);
    is_wanted_ = write_file(path_, to_json_text(now));
    written_ = results_.count();
    last_ = Clock::now();
  }
  void write_if_late() {
    if (Clock::now() - last_ >= std::chrono::seconds(1)) write();
  }

 private:
  using Clock = std::chrono::steady_clock;
  const std::string& path_;
  const Plan& plan_;
  const Waivers& waivers_;
  const Report& report_;
  const ResultsInOrder& results_;
  bool is_wanted_ = false;
  size_t written_ = SIZE_MAX;
  Clock::time_point last_;
};

// Describes a plugin that does not load, which is reported as one failed case.
Discovery not_loaded(const RunSettings& settings, const Discovery& found) {
  Discovery result = found;
  result.found.target.backend = settings.choice.backend;
  result.found.target.path = settings.choice.plugin;
  result.found.target.no_device = "the plugin does not load";
  return result;
}

}  // namespace

int run_session(const SessionOptions& options, Report* out_report) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = options.within_seconds == 0
                                    ? Clock::time_point::max()
                                    : Clock::now() + std::chrono::seconds(options.within_seconds);
  Report local;
  Report& report = out_report == nullptr ? local : *out_report;
  report.settings = options.settings;
  report.profile = options.profile;
  report.filter = options.filter;
  report.within_seconds = options.within_seconds;
  report.every = options.every;
  report.date = today_utc();
  std::string error;
  Plan plan;
  if (!parse_levels(options.levels, &plan.levels, &error)) return usage_error(error);
  if (!resolve_choice(&report.settings.choice, &error)) return usage_error(error);
  if (!options.certificate_file.empty() &&
      (!options.filter.empty() || options.every > 1 || !options.rerun_failed.empty())) {
    return usage_error(
        "--certificate is for whole levels: leave --filter, --every and --rerun-failed out");
  }
  if (options.here &&
      (options.within_seconds != 0 || !options.waivers_file.empty() || !options.json_file.empty() ||
       !options.junit_file.empty() || !options.certificate_file.empty())) {
    return usage_error(
        "--here and --gdb make no report: leave --json, --junit, --certificate, --waivers and "
        "--within out");
  }
  for (const std::string& file :
       {options.json_file, options.junit_file, options.certificate_file}) {
    if (!may_write(file, &error)) return usage_error(error);
  }
  std::string waivers_text = "[]";
  if (!options.waivers_file.empty() && !read_file(options.waivers_file, &waivers_text)) {
    return usage_error(fmt::format("{} cannot be read", options.waivers_file));
  }

  Leftovers leftovers;
  Discovery found = discover(report.settings);
  if (found.usage) return usage_error(found.error);
  if (options.here && !found.error.empty()) {
    fmt::print(stderr, "keel conform: a worker did not load the plugin: {}\n", found.error);
    leftovers.end();  // before the plugin runs here, which may end this process
    return run_here(report.settings, {}, options.fail_fast, /*fault=*/"");
  }
  Waivers waivers;
  const std::string& backend =
      found.error.empty() ? found.found.target.backend : options.settings.choice.backend;
  if (!parse_waivers(waivers_text, backend, report.date, &waivers, &error)) {
    return usage_error(fmt::format("{}: {}", options.waivers_file, error));
  }
  report.notes = waivers.messages;
  for (const std::string& message : waivers.messages) fmt::print(stderr, "{}\n", message);
  if (!found.error.empty()) {
    found = not_loaded(report.settings, found);
    report.target = found.found.target;
    report.results = {{"null/load", found.outcome, 0, found.error}};
    report.chosen = 1;
    fmt::print("{}", failure_text(report, report.results[0]));
  } else {
    if (!select_cases(options, found, &plan, &error)) return usage_error(error);
    report.target = found.found.target;
    // An emulated run without the option must not be reported as a real chip's either.
    bool& emulated = report.settings.choice.emulated;
    emulated = emulated || uses_emulated_libraries(report.target.backend);
    report.settings.path = report.target.path;
    if (options.here) {
      leftovers.end();
      const bool is_one = plan.ids.size() == 1;
      return run_here(report.settings, plan.ids, options.fail_fast,
                      is_one ? found.cases->find(plan.ids[0])->fault : std::string());
    }
    if (report.settings.jobs == 0) report.settings.jobs = default_jobs(found);
    if (!sha256_of_file(report.target.path, &report.plugin_sha256, &error)) {
      return usage_error(error);
    }
    for (const Case& each : found.cases->all()) {
      if (each.full) report.full_cases.insert(each.id);
    }
    fmt::print("{}", head_text(report));
    std::fflush(stdout);
    report.chosen = plan.ids.size();
    Progress progress(report, waivers, plan.ids.size());
    ResultsInOrder results(plan.ids.size());
    Interim interim(options.json_file, plan, waivers, report, results);
    const auto tell = [&](const CaseResult& result) { progress.tell(result); };
    std::atomic<bool> stopped = false;
    const auto take = [&](size_t index, CaseResult result) {
      if (options.fail_fast && is_failure(result.outcome) && waivers.find(result.id) == nullptr) {
        stopped = true;
      }
      results.put(index, std::move(result));
      results.for_each_new(/*at_end=*/false, tell);
      progress.count(plan.ids[index]);
      interim.write_if_late();
    };
    run_cases(report.settings, *found.cases, plan.ids, end,
              {take, [&] { interim.write(); }, [&] { return stopped.load(); }});
    results.for_each_new(/*at_end=*/true, tell);
    progress.end();
    report.results = results.copy();
    if (report.results.size() < plan.ids.size()) {
      report.stopped = stopped ? "stopped at the first failure"
                               : fmt::format("out of time after {} s", options.within_seconds);
    }
    const auto marshalled =
        std::count_if(report.results.begin(), report.results.end(), [](const CaseResult& result) {
          return result.outcome == Outcome::kPass && result.message.starts_with(kMarshalling);
        });
    if (marshalled != 0) {
      report.notes.push_back(fmt::format(
          "{} of the cases that passed are marked marshalling: the emulated library computes as "
          "the reference does",
          marshalled));
    }
  }
  const std::vector<std::string> ended = leftovers.end();
  if (!ended.empty()) {
    report.notes.push_back(
        fmt::format("processes that the plugin had left were ended: {}", fmt::join(ended, ", ")));
  }
  // Each worker loads the file by its name, and a build may have replaced the file during the run.
  std::string sha256_now;
  if (!report.plugin_sha256.empty() && (!sha256_of_file(report.target.path, &sha256_now, &error) ||
                                        sha256_now != report.plugin_sha256)) {
    report.stopped = "the plugin file changed during the run";
  }
  std::vector<CaseResult> before = report.results;
  apply_waivers(waivers, &report.results, &report.notes);
  for (size_t i = 0; i < before.size(); ++i) {  // passes that a waiver turned into failures
    if (before[i].outcome == Outcome::kPass && report.results[i].outcome == Outcome::kFail) {
      fmt::print("\n{}", failure_text(report, report.results[i]));
    }
  }
  summarise_run(plan, &report);
  fmt::print("{}", summary_text(report));

  // Write the files last, when no process of the plugin is left that could change them.
  const bool written = write_file(options.json_file, to_json_text(report)) &&
                       write_file(options.junit_file, to_junit_text(report)) &&
                       write_file(options.certificate_file,
                                  options.certificate_file.empty() ? "" : certificate_text(report));
  // A user who names levels wants their certification, which a sample cannot give; otherwise the
  // device's capabilities decide.
  const bool missed = !options.levels.empty() && options.filter.empty() && options.every == 1 &&
                      options.rerun_failed.empty() &&
                      std::any_of(report.levels.begin(), report.levels.end(),
                                  [](const LevelSummary& level) { return !level.certified; });
  const bool failed = any_failure(report.results) || !report.stopped.empty() || missed || !written;
  return failed ? kExitFailed : kExitOk;
}

int list_session(const SessionOptions& options) {
  RunSettings settings = options.settings;
  std::string error;
  Plan plan;
  if (!parse_levels(options.levels, &plan.levels, &error)) return usage_error(error);
  if (!resolve_choice(&settings.choice, &error)) return usage_error(error);
  const Leftovers leftovers;
  const Discovery found = discover(settings);
  if (!found.error.empty()) {
    usage_error(found.error);
    return found.usage ? kExitUsage : kExitFailed;
  }
  if (!select_cases(options, found, &plan, &error)) return usage_error(error);
  for (const std::string& id : plan.ids) {
    fmt::print("{:<13} {}\n", level_info(level_of(id)).name, id);
  }
  return kExitOk;
}

int verify_session(const std::string& file, bool rerun) {
  std::string text;
  if (!read_file(file, &text)) return usage_error(fmt::format("{} cannot be read", file));
  Certificate certificate;
  std::string error;
  std::string digest;
  const auto refuse = [&](const std::string& why) {
    fmt::print("{}\n", printable(fmt::format("{}: refused: {}", file, why)));
    return kExitFailed;
  };
  if (!read_certificate(text, &certificate, &error)) return refuse(error);
  if (!sha256_of_file(certificate.plugin_path, &digest, &error)) return refuse(error);
  if (digest != certificate.plugin_sha256) {
    return refuse(fmt::format("{} is another file: its SHA-256 is {}, the certificate is for {}",
                              certificate.plugin_path, digest, certificate.plugin_sha256));
  }
  // Anyone can forge a certificate with arbitrary text and a matching digest, so print only safe
  // characters.
  fmt::print(
      "{}\n",
      printable(fmt::format(
          "{}: valid for {}{} ({}), levels: {}; failures: {}{}", file, certificate.backend,
          certificate.settings.choice.emulated ? " on an emulated chip" : "",
          certificate.plugin_path, fmt::join(certificate.levels, " "), certificate.failures,
          certificate.waived == 0 ? "" : fmt::format("; waived cases: {}", certificate.waived))));
  if (!rerun) return kExitOk;
  // Use fresh inputs and a fresh sample, in case the plugin recognizes those of the certificate.
  std::random_device random;
  SessionOptions options;
  options.settings = certificate.settings;
  options.settings.seed = random();
  options.profile = certificate.profile;
  options.levels = certificate.levels;
  if (certificate.waived != 0) options.waivers_file = file;
  Report report;
  const int status = run_session(options, &report);
  if (status == kExitUsage) return refuse("its levels cannot be run again");
  if (status != kExitOk || results_digest(report) != certificate.results_sha256) {
    return refuse("its levels are not certified again: " + first_difference(certificate, report));
  }
  if (certificate.profile == "full") return kExitOk;
  options.profile = "full";
  options.every = kFullSample;
  options.first = options.settings.seed;
  Report sample;
  if (run_session(options, &sample) == kExitUsage) return refuse("a sample cannot be run");
  if (!sample.stopped.empty()) return refuse("a sample of all cases: " + sample.incomplete());
  for (const CaseResult& result : sample.results) {
    // The glob of a waiver may fit cases of the full profile that pass: an unexpected pass is no
    // failure here.
    if (is_failure(result.outcome) && !result.waiver) {
      return refuse(
          fmt::format("of a sample of all cases: {}: {}", result.id, outcome_name(result.outcome)));
    }
  }
  return kExitOk;
}

}  // namespace keel::conformance
