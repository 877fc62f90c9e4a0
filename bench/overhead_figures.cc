// SPDX-License-Identifier: Apache-2.0
// Keel's overhead over the plugin for short work: calls, gates, and the time from process start to
// the first result.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/ipc/process.h"
#include "bench/callgrind.h"
#include "bench/calls.h"
#include "bench/driver_calls.h"
#include "bench/figures.h"

namespace keel::bench {

namespace {

std::string this_program() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

// ---- gates --------------------------------------------------------------------------

constexpr size_t kGates = 1000;
constexpr size_t kStreams = 8;

// Operations behind one gate each, round robin over the streams; the gates open in a different
// order.
class Gates {
 public:
  explicit Gates(Device device) {
    for (size_t i = 0; i < kStreams; ++i) {
      streams_.emplace_back(device);
      memory_.emplace_back(device, KEEL_MEMORY_DEVICE, 64);
    }
    for (size_t i = 0; i < kGates; ++i) order_[i] = i;
    std::shuffle(order_.begin(), order_.end(), std::mt19937(/*seed=*/8));
  }
  // Throws if a stream stalls.
  void run() {
    const uint32_t zero = 0;
    for (size_t i = 0; i < kGates; ++i) {
      const keel_stream stream = streams_[i % kStreams].get();
      check(keel_gate_create(&gates_[i]));
      check(keel_stream_wait_gate(stream, gates_[i]));
      check(keel_fill(stream, memory_[i % kStreams].data(), &zero, sizeof(zero), 64));
    }
    for (const size_t i : order_) check(keel_gate_open(gates_[i], KEEL_OK, nullptr));
    for (const Stream& stream : streams_) stream.synchronize();
    for (const keel_gate gate : gates_) check(keel_gate_destroy(gate));
  }
  // Runs the same operations in the same order without gates.
  void run_ungated() {
    const uint32_t zero = 0;
    for (size_t i = 0; i < kGates; ++i) {
      const size_t stream = i % kStreams;
      check(keel_fill(streams_[stream].get(), memory_[stream].data(), &zero, sizeof(zero), 64));
    }
    for (const Stream& stream : streams_) stream.synchronize();
  }

 private:
  std::vector<Stream> streams_;
  std::vector<Buffer> memory_;
  std::array<keel_gate, kGates> gates_ = {};
  std::array<size_t, kGates> order_ = {};
};

Figure gates_on(Device device, const std::string& backend, const Setup& setup) {
  Gates gates(device);
  const Contender contenders[] = {
      {"Keel", 1, [&] { gates.run(); }},
      {"the operations alone", 1, [&] { gates.run_ungated(); }},
  };
  Figure figure;
  figure.name = "core_gates/" + backend;
  figure.about = fmt::format(
      "a fill of 64 bytes behind a gate of its own on {}: gate made, waited for, opened and "
      "destroyed; each of {} on {} streams, opened in random order. Against the fills alone.",
      device.name(), kGates, kStreams);
  figure.unit = Unit::kMicroseconds;
  figure.measure = Measure::kSubject;
  figure.timings = race(contenders, setup.race);
  for (Timings& timings : figure.timings) {
    for (double& seconds : timings.seconds) seconds /= kGates;
  }
  figure.subject = "Keel";
  figure.peer = figure.limit = "the operations alone";
  figure.target = Target{1.5};
  return figure;
}

// ---- the first operation ------------------------------------------------------------

// Runs this program with --repeat |what|, with only the CPU's backend.
void run_alone(const std::string& what) {
  ProcessOptions options;
  options.command = {this_program(), "--repeat", what};
  const ProgramResult result = run_program(options, std::chrono::hours(1));
  if (!result.succeeded()) {
    throw std::runtime_error(fmt::format("--repeat {}: {}", what, result.failure()));
  }
}

}  // namespace

std::vector<Figure> core_overhead(Setup& setup) {
  if (find_test_plugin("null").empty()) {
    return {Figure::skip("core_overhead", kNoTestPlugins)};
  }
  const Calls calls;
  const bool counted = has_callgrind();
  const auto instructions = [](const std::string& what) {
    return instructions_of_call(fmt::format("'{}' --repeat {} --count", this_program(), what));
  };
  std::vector<Figure> figures;
  for (const Call& call : calls.all()) {
    const Contender contenders[] = {{"Keel", 1, call.keel},
                                    {"the plugin's function", 1, call.plugin}};
    Figure figure;
    figure.name = "core_overhead/" + call.name;
    figure.about = fmt::format(
        "{} on a backend that does nothing, against its function called directly; instructions {}.",
        call.function, counted ? "by callgrind" : "not counted: there is no valgrind");
    figure.unit = Unit::kNanoseconds;
    figure.measure = Measure::kDifference;
    figure.timings = race(contenders, setup.race);
    figure.subject = "Keel";
    figure.peer = figure.limit = "the plugin's function";
    // Keel checks the operator against its schema, which the plugin call skips, so the operator has
    // no target. Two calls may execute twice as many instructions.
    const double calls = call.name == "record_query" ? 2 : 1;
    if (call.name != "op") figure.target = Target{60, /*instructions=*/150 * calls};
    if (counted) {
      figure.instructions =
          Instructions{instructions(call.name + "/keel"), instructions(call.name + "/plugin")};
    }
    figures.push_back(std::move(figure));
  }
  return figures;
}

// Instructions do not vary as times do: one count is one round.
std::vector<Figure> emulated_overhead(Setup& setup) {
  constexpr char kName[] = "emulated_overhead";
  constexpr char kPeer[] = "cuda";
  constexpr double kBound = 1.10;
  if (!has_callgrind()) return {Figure::skip(kName, "there is no valgrind")};
  const auto count = [](const std::string& backend, const DriverCall& call) {
    return instructions_above(
        fmt::format("'{}' --repeat driver/{}/{} --count", this_program(), backend, call.name),
        call.functions, fmt::format("/libkeel_{}.so", backend),
        fmt::format("/keel/emulated/{}/", backend));
  };
  const auto figure_of = [&](const std::string& name, std::string about, const std::string& backend,
                             double own, double peer) {
    Figure figure;
    figure.name = name;
    figure.about = std::move(about);
    figure.unit = Unit::kInstructions;
    figure.measure = Measure::kRatio;
    figure.timings = {{backend, 1, 1, {own}}, {kPeer, 1, 1, {peer}}};
    figure.subject = backend;
    figure.peer = figure.limit = kPeer;
    return figure;
  };
  std::map<std::string, double> peers;
  std::vector<Figure> figures;
  for (const std::string backend : {"hip", "level_zero"}) {
    const std::string name = fmt::format("{}/{}", kName, backend);
    if (!setup.wants(name)) continue;
    if (emulated_libraries(backend).empty() || emulated_libraries(kPeer).empty()) {
      figures.push_back(Figure::skip(name, "the emulated libraries are not beside libkeel"));
      continue;
    }
    try {
      double own_sum = 0;
      double peer_sum = 0;
      for (const DriverCall& call : driver_calls()) {
        const double own = count(backend, call);
        if (!peers.contains(call.name)) peers[call.name] = count(kPeer, call);
        own_sum += own;
        peer_sum += peers[call.name];
        figures.push_back(figure_of(
            fmt::format("{}/{}", name, call.name),
            fmt::format("{}: instructions, without the emulated driver's own.", call.about),
            backend, own, peers[call.name]));
      }
      figures.push_back(figure_of(name, "the sum of these calls.", backend, own_sum, peer_sum));
      figures.back().target = Target{kBound};
    } catch (const std::exception& error) {
      figures.push_back(Figure::fail(name, error.what()));
    }
  }
  return figures;
}

std::vector<Figure> core_gates(Setup& setup) {
  std::vector<Figure> figures;
  if (find_test_plugin("null").empty()) {
    figures.push_back(Figure::skip("core_gates/null", kNoTestPlugins));
  } else {
    figures.push_back(gates_on(load_null(), "null", setup));
  }
  figures.push_back(setup.cpu ? gates_on(*setup.cpu, "cpu", setup)
                              : Figure::skip("core_gates/cpu", setup.no_cpu));
  return figures;
}

std::vector<Figure> core_first_operation(Setup& setup) {
  Figure figure;
  figure.name = "core_first_operation";
  if (!setup.cpu) return {Figure::skip(figure.name, setup.no_cpu)};
  const Contender contenders[] = {
      {"Keel", 1, [] { run_alone("first_operation"); }},
      {"a process", 1, [] { run_alone("nothing"); }},
  };
  figure.about =
      "a process that starts Keel, loads the CPU plugin, makes a stream, adds two vectors and "
      "waits, against the same program when it ends at once.";
  figure.unit = Unit::kMilliseconds;
  figure.measure = Measure::kDifference;
  figure.timings = race(contenders, setup.race);
  figure.subject = "Keel";
  figure.peer = figure.limit = "a process";
  figure.target = Target{50};
  return {figure};
}

}  // namespace keel::bench
