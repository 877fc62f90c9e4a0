// SPDX-License-Identifier: Apache-2.0
#include "conformance/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <thread>
#include <utility>

#include "conformance/emulated_libraries.h"
#include "conformance/worker_process.h"

namespace keel::conformance {

namespace {

using Clock = WorkerProcess::Clock;

// Maximum cases per worker. A worker takes 0.1 s to start, and a driver recompiles pipelines in
// each: with 64 cases per worker instead of 512, a Vulkan device on two cores took 42 s instead of
// 33 s. A large batch does not blur attribution: the case whose worker dies runs once more alone,
// and the remaining cases continue in a new worker.
constexpr size_t kBatch = 512;
// Minimum batch of parallel workers, whose batches shrink so that all workers finish at about the
// same time.
constexpr size_t kSmallestBatch = 64;

WorkerRequest make_request(const RunSettings& settings, std::vector<std::string> cases,
                           Clock::time_point end, bool traced, std::string fault = {}) {
  std::random_device random;
  const uint64_t token = uint64_t{random()} << 32 | random();
  return {settings.choice,          settings.path, token, settings.seed,
          settings.timeout_seconds, traced,        end,   std::move(cases),
          std::move(fault)};
}

Clock::time_point case_deadline(const RunSettings& settings) {
  return Clock::now() + std::chrono::seconds(settings.timeout_seconds);
}

// How a worker died, with its last output.
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
  const std::string calls = worker.calls_in_progress();
  if (!calls.empty()) death.text += "\ncalls in progress:\n" + calls;
  const std::string printed = worker.take_printed();
  if (!printed.empty()) death.text += "\nlast output:\n" + printed;
  return death;
}

// Thrown when no more messages arrive from a worker.
struct WorkerGone {
  WorkerProcess::Read how;
};

// Receives the results of successive workers, in case order.
struct BatchListener {
  std::function<void(CaseResult)> result;
  std::function<void()> waiting;
  std::function<bool()> is_over;
};

// Runs batches for one listener, one worker at a time.
class BatchRunner {
 public:
  BatchRunner(const RunSettings& settings, const JudgedCases& cases, Clock::time_point end,
              const BatchListener& listener)
      : settings_(settings), cases_(cases), end_(end), listener_(listener) {}

  bool has_time() const { return Clock::now() < end_ && !listener_.is_over(); }
  // Runs a batch and returns how many of |ids|, from the first on, now have a result.
  size_t run(const std::vector<std::string>& ids);

 private:
  struct BatchEnd {
    size_t ended = 0;                    // cases with a result
    std::optional<CaseResult> last;      // held back: a death after it may be its fault
    std::optional<std::string> running;  // the case that has begun but not ended
    std::optional<Death> death;
  };

  // Throws WorkerGone.
  WorkerAnswer next(WorkerProcess& worker, Clock::time_point deadline) const;
  CaseResult judge(WorkerProcess& worker, const std::string& id,
                   std::optional<Where>* out_place) const;
  BatchEnd run_batch(const std::vector<std::string>& ids, bool traced) const;
  CaseResult run_again(const std::string& id, const Death& first) const;
  void settle_death(const std::string& first, BatchEnd* end) const;

  const RunSettings& settings_;
  const JudgedCases& cases_;
  const Clock::time_point end_;
  const BatchListener& listener_;
};

WorkerAnswer BatchRunner::next(WorkerProcess& worker, Clock::time_point deadline) const {
  constexpr std::chrono::seconds kLong{1};
  WorkerAnswer answer;
  while (true) {
    const Clock::time_point soon = Clock::now() + kLong;
    const WorkerProcess::Read read = worker.read(std::min(soon, deadline), &answer);
    if (read == WorkerProcess::Read::kAnswer) return answer;
    if (read == WorkerProcess::Read::kClosed || soon >= deadline) throw WorkerGone{read};
    listener_.waiting();
  }
}

// Judges a case that has just begun, and adds the worker's output to the message of a failure.
CaseResult BatchRunner::judge(WorkerProcess& worker, const std::string& id,
                              std::optional<Where>* out_place) const {
  const Clock::time_point deadline = case_deadline(settings_);
  worker.drop_printed_before(id);
  CaseResult result = cases_.judge(
      *cases_.find(id), [&] { return next(worker, deadline); }, out_place);
  const std::string printed = worker.take_printed();
  if (is_failure(result.outcome) && !printed.empty()) {
    result.message += "\nprinted meanwhile:\n" + printed;
  }
  return result;
}

BatchRunner::BatchEnd BatchRunner::run_batch(const std::vector<std::string>& ids,
                                             bool traced) const {
  using Type = WorkerAnswer::Type;
  BatchEnd end;
  std::optional<Where> place;
  WorkerProcess worker(make_request(settings_, ids, end_, traced, cases_.find(ids[0])->fault));
  try {
    while (true) {
      const WorkerAnswer answer = next(worker, case_deadline(settings_));
      if (answer.type == Type::kDone) return end;
      if (answer.type == Type::kError) {
        end.death = Death{Outcome::kFail, answer.text};
        return end;
      }
      if (answer.type != Type::kBegin || end.ended == ids.size() || answer.id != ids[end.ended]) {
        continue;
      }
      end.running = answer.id;
      CaseResult result = judge(worker, answer.id, &place);
      end.running.reset();
      if (end.last) listener_.result(std::move(*end.last));
      end.last = std::move(result);
      ++end.ended;
      if (listener_.is_over()) return end;
    }
  } catch (const WorkerGone& gone) {
    end.death = autopsy(worker, gone.how, settings_);
    if (traced && end.running && place) {
      end.death->text += "\nthe case had come to " + place->text();
    }
    return end;
  }
}

// Returns the result of a case whose worker died: the case gets one try alone if time is left.
CaseResult BatchRunner::run_again(const std::string& id, const Death& first) const {
  CaseResult result;
  result.id = id;
  result.outcome = first.outcome;
  if (!has_time()) {
    result.message = first.text + "\nnot run again alone: no time is left";
    return result;
  }
  const auto start = Clock::now();
  const BatchEnd again = run_batch({id}, /*traced=*/true);
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
  result.message = fmt::format(
      "{}\nalone it ended with {}: this case, or one shortly before it, "
      "does damage now and then",
      first.text, again.last ? outcome_name(again.last->outcome) : "no result");
  return result;
}

// Attributes the death of a batch's worker: to the running case; between two cases and at shutdown
// to the previous case; before the first case to |first|.
void BatchRunner::settle_death(const std::string& first, BatchEnd* end) const {
  std::string guilty = first;
  if (end->running) {
    guilty = *end->running;
  } else if (end->last) {
    if (is_failure(end->last->outcome)) {  // the failure explains more than the death after it
      end->last->message += "\nthen " + end->death->text;
      return;
    }
    guilty = end->last->id;
    end->last.reset();
    --end->ended;
  }
  if (end->last) listener_.result(std::move(*end->last));
  end->last = run_again(guilty, *end->death);
  ++end->ended;
}

size_t BatchRunner::run(const std::vector<std::string>& ids) {
  BatchEnd end = run_batch(ids, /*traced=*/false);
  if (end.death) settle_death(ids.front(), &end);
  if (end.last) listener_.result(std::move(*end.last));
  // A worker that ended normally has run every case of its batch for which there was time.
  if (!end.death && end.ended < ids.size() && has_time()) {
    listener_.result({ids[end.ended], Outcome::kFail, 0, "the worker left this case out"});
    ++end.ended;
  }
  return end.ended;
}

using Ids = std::span<const std::string>;

std::vector<std::string> copy_of(Ids ids) {
  return {ids.begin(), ids.end()};
}

// Returns how many of the first |ids| share the level of the first one and its way to the plugin
// (Keel or tables), because a worker runs no others. A case that runs alone is a stretch by itself.
size_t length_of_stretch(const JudgedCases& cases, Ids ids) {
  const auto runs_alone = [&](const std::string& id) { return cases.find(id)->alone; };
  size_t length = 1;
  if (runs_alone(ids[0])) return length;
  while (length < ids.size() && level_of(ids[length]) == level_of(ids[0]) &&
         is_on_tables(ids[length]) == is_on_tables(ids[0]) && !runs_alone(ids[length])) {
    ++length;
  }
  return length;
}

// Runs one stretch of cases in several workers in parallel: one thread per worker takes batches and
// hands the results to the calling thread.
class SideBySide {
 public:
  // |first|: the index of the first case of |ids|.
  SideBySide(const RunSettings& settings, const JudgedCases& cases, Ids ids, size_t first,
             Clock::time_point end, const RunListener& listener)
      : settings_(settings),
        cases_(cases),
        ids_(ids),
        first_(first),
        end_(end),
        listener_(listener) {}

  void run();

 private:
  struct Batch {
    size_t begin;
    size_t size;  // 0: no cases are left
  };
  Batch take_batch();
  void run_lane();
  void run_batches();
  void put(size_t index, CaseResult result);

  const RunSettings& settings_;
  const JudgedCases& cases_;
  const Ids ids_;
  const size_t first_;
  const Clock::time_point end_;
  const RunListener& listener_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<size_t, CaseResult>> settled_;  // results to hand to the calling thread
  size_t next_ = 0;
  uint32_t running_ = 0;  // lanes
  std::exception_ptr failure_;
};

SideBySide::Batch SideBySide::take_batch() {
  const std::lock_guard lock(mutex_);
  if (failure_ || Clock::now() >= end_ || listener_.is_over()) return {0, 0};
  const size_t left = ids_.size() - next_;
  const size_t share = left / (2 * size_t{settings_.jobs});
  const Batch batch = {next_, std::min(left, std::clamp(share, kSmallestBatch, kBatch))};
  next_ += batch.size;
  return batch;
}

void SideBySide::put(size_t index, CaseResult result) {
  const std::lock_guard lock(mutex_);
  settled_.emplace_back(first_ + index, std::move(result));
  changed_.notify_one();
}

void SideBySide::run_batches() {
  size_t index = 0;
  const BatchListener listener = {[&](CaseResult result) { put(index++, std::move(result)); },
                                  [] {}, listener_.is_over};
  BatchRunner runner(settings_, cases_, end_, listener);
  for (Batch batch = take_batch(); batch.size != 0; batch = take_batch()) {
    index = batch.begin;
    const size_t batch_end = batch.begin + batch.size;
    while (index < batch_end && runner.has_time()) {
      runner.run(copy_of(ids_.subspan(index, batch_end - index)));
    }
  }
}

void SideBySide::run_lane() {
  std::exception_ptr failure;
  try {
    run_batches();
  } catch (...) {
    failure = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  if (failure && !failure_) failure_ = failure;
  --running_;
  changed_.notify_one();
}

void SideBySide::run() {
  constexpr std::chrono::seconds kLong{1};
  std::vector<std::jthread> lanes;
  running_ = settings_.jobs;
  for (uint32_t i = 0; i < settings_.jobs; ++i) lanes.emplace_back([this] { run_lane(); });
  std::unique_lock lock(mutex_);
  while (running_ != 0 || !settled_.empty()) {
    const bool is_news =
        changed_.wait_for(lock, kLong, [&] { return running_ == 0 || !settled_.empty(); });
    std::deque<std::pair<size_t, CaseResult>> settled = std::exchange(settled_, {});
    lock.unlock();
    if (!is_news) listener_.waiting();
    for (auto& [index, result] : settled) listener_.result(index, std::move(result));
    lock.lock();
  }
  if (failure_) std::rethrow_exception(failure_);
}

Discovery ask_for_target(const RunSettings& settings, bool traced) {
  Discovery found;
  WorkerProcess worker(make_request(settings, {}, Clock::time_point::max(), traced));
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
  found.found = std::move(answer.found);
  // The judge must ask of the cases what their workers report: a run on emulated libraries that the
  // environment names is one on the emulated chip too.
  PluginChoice choice = settings.choice;
  choice.emulated = choice.emulated || uses_emulated_libraries(found.found.target.backend);
  found.cases = std::make_shared<const JudgedCases>(found.found, choice, settings.seed,
                                                    settings.timeout_seconds);
  // Wait for the worker's shutdown. A crash in it is ignored here: the cases find and attribute it.
  worker.read(case_deadline(settings), &answer);
  return found;
}

}  // namespace

Discovery discover(const RunSettings& settings) {
  Discovery found = ask_for_target(settings, /*traced=*/false);
  if (found.outcome == Outcome::kFail) return found;
  // The worker died: a traced one names the call in which it did.
  Discovery again = ask_for_target(settings, /*traced=*/true);
  if (again.outcome != Outcome::kFail) return again;
  found.error +=
      fmt::format("\nonce more it did not die{}{}", again.error.empty() ? "" : ": ", again.error);
  return found;
}

uint32_t timeout_for_load(double runnable, uint32_t cores) {
  const uint32_t kUsual = RunSettings().timeout_seconds;
  constexpr double kMost = 3;
  const double times = runnable / (2.0 * std::max(1U, cores));
  return static_cast<uint32_t>(kUsual * std::clamp(times, 1.0, kMost));
}

uint32_t default_timeout_seconds() {
  double runnable = 0;
  if (getloadavg(&runnable, 1) != 1) runnable = 0;
  return timeout_for_load(runnable, std::thread::hardware_concurrency());
}

uint32_t default_jobs(const Discovery& found) {
  return found.found.on_host ? std::max(1U, std::thread::hardware_concurrency()) : 1;
}

void run_cases(const RunSettings& settings, const JudgedCases& cases,
               const std::vector<std::string>& ids, Clock::time_point end,
               const RunListener& listener) {
  size_t next = 0;
  const BatchListener in_order = {
      [&](CaseResult result) { listener.result(next++, std::move(result)); }, listener.waiting,
      listener.is_over};
  BatchRunner runner(settings, cases, end, in_order);
  while (next < ids.size() && runner.has_time()) {
    Ids stretch = Ids(ids).subspan(next);
    stretch = stretch.first(length_of_stretch(cases, stretch));
    if (settings.jobs > 1 && level_of(ids[next]) == Level::kOps) {
      SideBySide(settings, cases, stretch, next, end, listener).run();
      next += stretch.size();
    } else {
      runner.run(copy_of(stretch.first(std::min(stretch.size(), kBatch))));
    }
  }
}

std::string choice_options(const PluginChoice& choice) {
  std::string options =
      choice.plugin.empty() ? "--backend " + choice.backend : "--plugin " + choice.plugin;
  if (choice.emulated) options += " --emulated";
  if (!choice.kernels.empty()) options += " --kernels " + choice.kernels;
  if (choice.ordinal != 0) options += fmt::format(" --device {}", choice.ordinal);
  return options;
}

std::string repeat_command(const RunSettings& settings, const std::string& id, bool full) {
  std::string command = fmt::format("keel conform run {} --filter '{}' --seed {}",
                                    choice_options(settings.choice), id, settings.seed);
  if (settings.timeout_seconds != RunSettings().timeout_seconds) {
    command += fmt::format(" --timeout {}", settings.timeout_seconds);
  }
  if (full) command += " --profile full";
  return command;
}

}  // namespace keel::conformance
