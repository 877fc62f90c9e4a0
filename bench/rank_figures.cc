// SPDX-License-Identifier: Apache-2.0
// Costs of ranks besides their operations: startup, idle waiting, detection of a dead rank, and the
// recording of each operation.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/ipc/process.h"
#include "bench/callgrind.h"
#include "bench/figures.h"
#include "bench/rank_processes.h"

namespace keel::bench {

namespace {

constexpr uint32_t kProcesses = 64;
constexpr uint32_t kThreads = 16;
constexpr std::chrono::seconds kDeadline(60);

using Milestone = int64_t RankMilestones::*;

// Returns the seconds from the last spawn until the last process reached |milestone|.
double seconds_until(Milestone milestone, const std::vector<RankMilestones>& all, int64_t start) {
  int64_t last = 0;
  for (const RankMilestones& each : all) last = std::max(last, each.*milestone);
  return static_cast<double>(last - start) * 1e-9;
}

// Returns the CPU seconds used by all processes within |time|.
double idle_cpu(uint32_t processes, uint32_t threads, std::chrono::milliseconds time) {
  RankProcesses ranks(processes, threads);
  ranks.wait_for_all(kDeadline);
  // Just after an operation a rank still polls for about 10 ms; this time is not idle.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const double before = ranks.cpu_seconds();
  std::this_thread::sleep_for(time);
  return ranks.cpu_seconds() - before;
}

std::string recording_program() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "keel_bench_recording")
      .string();
}

// Makes a figure from |program|'s output about operations of 1 MiB; one contender records each
// operation a second time.
Figure recording_of_1mib(const std::string& program, uint32_t rounds) {
  Figure figure;
  figure.name = "collective_recording/1MiB";
  ProcessOptions options;
  options.command = {program, "all_reduce", std::to_string(rounds)};
  options.output = ProcessOptions::Stream::kPiped;
  const ProgramResult result = run_program(options, std::chrono::hours(1));
  std::istringstream output(result.output);
  Timings once{"recorded once", 1, 1, {}};
  Timings twice{"recorded twice", 1, 1, {}};
  double first = 0;
  double second = 0;
  while (output >> first >> second) {
    once.seconds.push_back(first);
    twice.seconds.push_back(second);
  }
  if (once.seconds.size() != rounds) {
    return Figure::fail(figure.name, fmt::format("{}: {} of {} rounds {}", program,
                                                 once.seconds.size(), rounds, result.failure()));
  }
  figure.about =
      "an all_reduce of 1 MiB float32 over two CPU ranks of one process, waited for each time, of "
      "which the caller of each rank does once more what is done to record it (fingerprint, post, "
      "comparison, entry of a flight recorder), against the same without: the recording of an "
      "operation cannot be left out, so that what a second one adds stands for the first.";
  figure.unit = Unit::kMicroseconds;
  figure.measure = Measure::kRatio;
  figure.timings = {twice, once};
  figure.subject = twice.name;
  figure.peer = figure.limit = once.name;
  figure.target = Target{1.01};
  return figure;
}

}  // namespace

std::vector<Figure> collective_start(Setup& setup) {
  Figure figure;
  figure.name = "collective_start";
  if (!setup.cpu) return {Figure::skip(figure.name, setup.no_cpu)};
  constexpr std::pair<const char*, Milestone> kMilestones[] = {
      {"first barrier over", &RankMilestones::all_there_ns},
      {"all processes in main()", &RankMilestones::running_ns},
      {"Keel up in all", &RankMilestones::up_ns},
      {"all communicators there", &RankMilestones::joined_ns},
  };
  for (const auto& [name, milestone] : kMilestones) figure.timings.push_back({name, 1, 1, {}});
  const uint32_t rounds = std::min(setup.race.rounds, 7u);  // one to two seconds each
  for (uint32_t round = 0; round < rounds; ++round) {
    RankProcesses ranks(kProcesses, kThreads);
    const std::vector<RankMilestones> all = ranks.wait_for_all(kDeadline);
    for (size_t i = 0; i < figure.timings.size(); ++i) {
      figure.timings[i].seconds.push_back(
          seconds_until(kMilestones[i].second, all, ranks.last_spawn_ns()));
    }
  }
  figure.about = fmt::format(
      "{} ranks, {} processes of {} threads with the CPU backend, that meet by a unique id: from "
      "the last process's spawn until all are through their first barrier, and how far they are "
      "before.",
      kProcesses * kThreads, kProcesses, kThreads);
  figure.unit = Unit::kMilliseconds;
  figure.measure = Measure::kSubject;
  figure.subject = kMilestones[0].first;
  figure.peer = figure.limit = kMilestones[1].first;
  figure.target = Target{2000};
  return {figure};
}

std::vector<Figure> collective_idle(Setup& setup) {
  Figure figure;
  figure.name = "collective_idle";
  if (!setup.cpu) return {Figure::skip(figure.name, setup.no_cpu)};
  constexpr std::chrono::seconds kTime(2);
  Timings processes{"8 processes", 1, 1, {}};
  Timings threads{"8 threads of one process", 1, 1, {}};
  constexpr uint32_t kRounds = 3;
  for (uint32_t round = 0; round < kRounds; ++round) {
    processes.seconds.push_back(idle_cpu(8, 1, kTime));
    threads.seconds.push_back(idle_cpu(1, 8, kTime));
  }
  figure.about = fmt::format(
      "processor time that 8 ranks, which have come through a barrier and do nothing, use within "
      "{} s.",
      kTime.count());
  figure.unit = Unit::kMicroseconds;
  figure.measure = Measure::kSubject;
  figure.timings = {processes, threads};
  figure.subject = processes.name;
  figure.peer = figure.limit = threads.name;
  figure.target = Target{0};
  return {figure};
}

std::vector<Figure> collective_failure(Setup& setup) {
  Figure figure;
  figure.name = "collective_failure";
  if (!setup.cpu) return {Figure::skip(figure.name, setup.no_cpu)};
  constexpr uint32_t kSizes[] = {2, 4, 8};
  for (const uint32_t size : kSizes) {
    Timings timings{fmt::format("{} processes", size), 1, 1, {}};
    for (uint32_t round = 0; round < setup.race.rounds; ++round) {
      RankProcesses ranks(size, /*threads=*/1, AfterBarrier::kWaitForLast);
      ranks.wait_for_all(kDeadline);
      // By now the other processes are in the barrier that never completes.
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const int64_t killed = ranks.kill_last();
      timings.seconds.push_back(static_cast<double>(ranks.wait_for_failure(kDeadline) - killed) *
                                1e-9);
    }
    figure.timings.push_back(timings);
  }
  figure.about =
      "from the SIGKILL of a process with a rank until all others, which wait for it in an "
      "operation, have been told that it failed.";
  figure.unit = Unit::kMilliseconds;
  figure.measure = Measure::kSubject;
  figure.subject = figure.timings.back().name;
  figure.peer = figure.limit = figure.timings.front().name;
  figure.target = Target{100};
  return {figure};
}

std::vector<Figure> collective_recording(Setup& setup) {
  Figure figure;
  figure.name = "collective_recording";
  const std::string program = recording_program();
  if (access(program.c_str(), X_OK) != 0) {
    return {Figure::skip(figure.name, "keel_bench_recording is not beside keel_bench")};
  }
  Figure whole = recording_of_1mib(program, setup.race.rounds);
  if (!has_callgrind()) return {Figure::skip(figure.name, "there is no valgrind"), whole};
  const auto run = [&](const char* what, uint64_t count) {
    ProcessOptions options;
    options.command = {program, what, std::to_string(count)};
    const ProgramResult result = run_program(options, std::chrono::hours(1));
    if (!result.succeeded()) {
      throw std::runtime_error(fmt::format("{} {}: {}", program, what, result.failure()));
    }
  };
  constexpr uint64_t kOperations = 1'000'000;
  const Contender contenders[] = {
      {"with", 1, [&] { run("recorded", kOperations); }},
      {"without", 1, [&] { run("bare", kOperations); }},
  };
  RaceOptions race_options = setup.race;
  race_options.rounds = std::min(setup.race.rounds, 11u);
  figure.timings = race(contenders, race_options);
  for (Timings& timings : figure.timings) {
    for (double& seconds : timings.seconds) seconds /= kOperations;
  }
  figure.about =
      "the fingerprint of an operation of 2 ranks (made, posted, compared) and its entry in the "
      "flight recorder (enqueued, posted, done), in a loop of their own, against the loop without "
      "them; instructions by callgrind.";
  figure.unit = Unit::kNanoseconds;
  figure.measure = Measure::kDifference;
  figure.subject = "with";
  figure.peer = figure.limit = "without";
  figure.target = Target{/*bound=*/100, /*instructions=*/60};
  figure.instructions = Instructions{instructions_of_call(fmt::format("'{}' recorded", program)),
                                     instructions_of_call(fmt::format("'{}' bare", program))};
  return {figure, whole};
}

}  // namespace keel::bench
