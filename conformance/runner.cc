#include "conformance/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "conformance/worker_process.h"

namespace keel::conformance {

namespace {

using Clock = WorkerProcess::Clock;

// Small enough that a case meets few that ran before it, large enough that starting
// workers, 0.1 s each, costs little.
constexpr size_t kBatch = 64;

WorkerRequest make_request(const RunSettings& settings, std::vector<std::string> cases) {
  return {settings.choice, settings.seed, settings.timeout_seconds, std::move(cases)};
}

Clock::time_point case_deadline(const RunSettings& settings) {
  return Clock::now() + std::chrono::seconds(settings.timeout_seconds);
}

// How a worker died, with the last it printed.
struct Death {
  Outcome outcome = Outcome::kCrash;
  std::string text;
};

Death autopsy(WorkerProcess& worker, WorkerProcess::Read read, const RunSettings& settings) {
  Death death;
  if (read == WorkerProcess::Read::kTimedOut) {
    death.outcome = Outcome::kTimeout;
    death.text = fmt::format("no end after {} s, the worker was killed", settings.timeout_seconds);
    worker.finish();
  } else {
    death.text = "the worker " + worker.finish();
  }
  if (!worker.printed().empty()) death.text += "\nlast output:\n" + worker.printed();
  return death;
}

struct BatchEnd {
  std::vector<CaseResult> results;     // of the cases that ended
  std::optional<std::string> running;  // the case that had begun and not ended
  std::optional<Death> death;
};

BatchEnd run_batch(const RunSettings& settings, const std::vector<std::string>& ids) {
  BatchEnd end;
  WorkerProcess worker(make_request(settings, ids));
  Clock::time_point deadline = case_deadline(settings);
  WorkerAnswer answer;
  while (true) {
    const WorkerProcess::Read read = worker.read(deadline, &answer);
    if (read != WorkerProcess::Read::kAnswer) {
      end.death = autopsy(worker, read, settings);
      return end;
    }
    switch (answer.type) {
      case WorkerAnswer::Type::kBegin:
        // Anything but the case whose turn it is came from the plugin.
        if (end.results.size() == ids.size() || answer.result.id != ids[end.results.size()]) {
          continue;
        }
        end.running = answer.result.id;
        break;
      case WorkerAnswer::Type::kEnd:
        if (end.running != answer.result.id) continue;
        end.running.reset();
        end.results.push_back(std::move(answer.result));
        break;
      case WorkerAnswer::Type::kError:
        end.death = Death{Outcome::kFail, answer.text};
        return end;
      case WorkerAnswer::Type::kDone:
        return end;
      case WorkerAnswer::Type::kTarget:
        continue;
    }
    deadline = case_deadline(settings);
  }
}

// The result of a case whose worker died: it has one try alone.
CaseResult run_again(const RunSettings& settings, const std::string& id, const Death& first) {
  const auto start = Clock::now();
  const BatchEnd again = run_batch(settings, {id});
  CaseResult result;
  result.id = id;
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (again.death) {
    result.outcome = again.death->outcome;
    result.message = again.death->text + "\nthe same, alone, as among others";
    if (again.death->outcome != first.outcome) {
      result.message = fmt::format("{}\namong others: {}: {}", again.death->text,
                                   outcome_name(first.outcome), first.text);
    }
    return result;
  }
  result.outcome = first.outcome;
  result.message = fmt::format(
      "{}\nalone it ended with {}: this case, or one shortly before it, "
      "does damage now and then",
      first.text, again.results.empty() ? "no result" : outcome_name(again.results[0].outcome));
  return result;
}

// Finds whose fault the death of a batch's worker was: the case that ran; between two
// cases and at shutdown the one before; before the first one, |first|.
void settle_death(const RunSettings& settings, const std::string& first, BatchEnd* end) {
  std::string guilty = first;
  if (end->running) {
    guilty = *end->running;
  } else if (!end->results.empty()) {
    CaseResult& last = end->results.back();
    if (is_failure(last.outcome)) {  // the failure says more than the death it led to
      last.message += "\nthen " + end->death->text;
      return;
    }
    guilty = last.id;
    end->results.pop_back();
  }
  end->results.push_back(run_again(settings, guilty, *end->death));
}

}  // namespace

Discovery discover(const RunSettings& settings) {
  Discovery found;
  WorkerProcess worker(make_request(settings, {}));
  WorkerAnswer answer;
  const WorkerProcess::Read read = worker.read(case_deadline(settings), &answer);
  if (read != WorkerProcess::Read::kAnswer) {
    const Death death = autopsy(worker, read, settings);
    found.error = death.text;
    found.outcome = death.outcome;
    return found;
  }
  if (answer.type != WorkerAnswer::Type::kTarget) {
    const bool is_error = answer.type == WorkerAnswer::Type::kError;
    found.error = is_error ? answer.text : "the worker gave no answer";
    found.usage = answer.usage;
    return found;
  }
  found.target = std::move(answer.target);
  found.cases = std::move(answer.cases);
  // Lets it shut down: a crash there is found by the cases too, which name it.
  worker.read(case_deadline(settings), &answer);
  return found;
}

std::vector<CaseResult> run_cases(const RunSettings& settings, const std::vector<std::string>& ids,
                                  const std::function<void(const CaseResult&)>& report) {
  std::vector<CaseResult> results;
  size_t next = 0;
  while (next < ids.size()) {
    size_t last = next + 1;  // a batch stays within a level
    while (last < ids.size() && last - next < kBatch &&
           level_of(ids[last]) == level_of(ids[next])) {
      ++last;
    }
    BatchEnd end = run_batch(settings, {ids.begin() + static_cast<std::ptrdiff_t>(next),
                                        ids.begin() + static_cast<std::ptrdiff_t>(last)});
    if (end.death) settle_death(settings, ids[next], &end);
    next += end.results.size();
    for (CaseResult& result : end.results) {
      report(result);
      results.push_back(std::move(result));
    }
    // A worker that ended well has run all of its batch.
    if (!end.death && next < last) {
      results.push_back({ids[next], Outcome::kFail, 0, "the worker left this case out"});
      report(results.back());
      ++next;
    }
  }
  return results;
}

std::string repeat_command(const RunSettings& settings, const std::string& id, bool full) {
  const PluginChoice& choice = settings.choice;
  std::string command = fmt::format(
      "keel conform run {} --filter '{}' --seed {}",
      choice.plugin.empty() ? "--backend " + choice.backend : "--plugin " + choice.plugin, id,
      settings.seed);
  if (choice.emulated) command += " --emulated";
  if (choice.ordinal != 0) command += fmt::format(" --device {}", choice.ordinal);
  if (settings.timeout_seconds != RunSettings().timeout_seconds) {
    command += fmt::format(" --timeout {}", settings.timeout_seconds);
  }
  if (full) command += " --profile full";
  return command;
}

}  // namespace keel::conformance
