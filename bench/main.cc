// SPDX-License-Identifier: Apache-2.0
// keel_bench: measures the figures of docs/results/README.md on this machine. A missed target is
// reported but is no failure. Exit codes: 0, 1 for a failure, 2 for a mistake in the command line.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <keel/keel.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/calls.h"
#include "bench/driver_calls.h"
#include "bench/figures.h"
#include "bench/machine.h"
#include "bench/rank_processes.h"
#include "bench/report.h"
#include "tensorfile/replacement.h"

namespace {

using namespace keel::bench;

constexpr int kFailure = 1;
constexpr int kUsage = 2;

struct Entry {
  const char* name;
  FigureFunction take;
};

constexpr Entry kFigures[] = {
    {"vulkan_dispatch", vulkan_dispatch},
    {"vulkan_matmul", vulkan_matmul},
    {"cpu_matmul", cpu_matmul},
    {"bridge_all_reduce", bridge_all_reduce},
    {"bridge_exchange", bridge_exchange},
    {"collective_priority", collective_priority},
    {"collective_start", collective_start},
    {"collective_idle", collective_idle},
    {"collective_failure", collective_failure},
    {"collective_recording", collective_recording},
    {"copy_cross", copy_cross},
    {"core_stream_handoff", core_stream_handoff},
    {"core_cross_copy", core_cross_copy},
    {"core_alloc", core_alloc},
    {"core_alloc/traces", core_alloc_traces},
    {"core_overhead", core_overhead},
    {"emulated_overhead", emulated_overhead},
    {"core_gates", core_gates},
    {"core_first_operation", core_first_operation},
    {"core_trace", core_trace},
    {"ops_matmul", ops_matmul},
    {"ops_matmul_packed", ops_matmul_packed},
    {"ops_memory", ops_memory},
    {"ops_attention", ops_attention},
    {"ops_call", ops_call},
    // Fast figures first, since a GPU may be available only for a while.
    {"cuda_calls", cuda_calls},
    {"cuda_bridge_all_reduce", cuda_bridge},
    {"cuda_vulkan_matmul", cuda_vulkan_matmul},
    {"cuda_matmul", cuda_matmul},
    {"cuda_op", cuda_operators},
};

std::optional<keel::Device> find_device(const char* backend, std::string* out_why) {
  try {
    return keel::Device::find(backend);
  } catch (const keel::Error& error) {
    *out_why = error.what();
    return std::nullopt;
  }
}

// Returns the first GPU; else the backend's reason in |*out_why|.
std::optional<keel::Device> find_cuda(std::string* out_why) {
  for (const keel_backend_info& backend : keel::backends()) {
    if (std::string(backend.name) != "cuda") continue;
    if (backend.device_count != 0) return find_device("cuda", out_why);
    *out_why = backend.reason;
    return std::nullopt;
  }
  *out_why = "there is no backend cuda";
  return std::nullopt;
}

void examine_devices(Setup* out_setup) {
  Setup& setup = *out_setup;
  setup.cpu = find_device("cpu", &setup.no_cpu);
  setup.vulkan = find_device("vulkan", &setup.no_vulkan);
  if (setup.vulkan) {
    setup.raw_vulkan = RawVulkan::open(setup.vulkan->info().uuid, &setup.no_raw_vulkan);
  }
  setup.cuda = find_cuda(&setup.no_cuda);
  if (setup.cuda) {
    setup.emulated_cuda = std::string_view(setup.cuda->info().name).starts_with("Emulated GPU");
    try {
      setup.raw_cuda = RawCuda::open(setup.cuda->info().uuid, &setup.no_raw_cuda);
    } catch (const std::exception& error) {
      setup.no_raw_cuda = error.what();  // other figures are still measured
    }
  }
  setup.cuda_torch = std::make_unique<CudaTorch>(setup.emulated_cuda);
}

// Fills in the devices' names, or why they are absent.
void describe_devices(const Setup& setup, Machine* machine) {
  machine->vulkan_device = "no Vulkan device";
  machine->vulkan_driver = setup.no_vulkan;
  if (setup.vulkan) {
    const keel_device_info info = setup.vulkan->info();
    machine->vulkan_device = info.name;
    machine->vulkan_driver = info.driver;
  }
  machine->cuda_device = "no CUDA device";
  machine->cuda_driver = setup.no_cuda;
  if (setup.cuda) {
    const keel_device_info info = setup.cuda->info();
    machine->cuda_device = info.name;
    machine->cuda_driver = info.driver;
  }
}

// Writes figures to the requested files as they are measured, so that an interrupted run has a line
// for every requested figure.
class Report {
 public:
  Report(std::string json_path, std::string markdown_path, bool quick, Machine* machine)
      : json_path_(std::move(json_path)),
        markdown_path_(std::move(markdown_path)),
        quick_(quick),
        machine_(*machine) {}

  // Adds a figure that is not measured yet.
  void expect(Figure figure) { expected_.push_back(std::move(figure)); }
  void take(Figure figure) {
    figure.quick = quick_;
    any_failed_ |= figure.failed;
    fmt::print("{}\n", to_line(figure));
    std::fflush(stdout);
    forget(figure.name);
    taken_.push_back(std::move(figure));
  }
  void forget(const std::string& name) {
    std::erase_if(expected_, [&](const Figure& figure) { return figure.name == name; });
  }
  // Outputs that are not regular files are only written once, at the end.
  void write_so_far() const { write_where(&keel::tensorfile::is_replaceable); }
  void write() const {
    write_where([](const std::filesystem::path&) { return true; });
  }
  bool any_failed() const { return any_failed_; }

 private:
  void write_where(bool (*is_wanted)(const std::filesystem::path& path)) const {
    std::vector<Figure> all = taken_;
    all.insert(all.end(), expected_.begin(), expected_.end());
    machine_.load_after = load_average();
    if (!json_path_.empty() && is_wanted(json_path_)) {
      keel::tensorfile::put_file(json_path_, to_json(machine_, all, quick_));
    }
    if (!markdown_path_.empty() && is_wanted(markdown_path_)) {
      keel::tensorfile::put_file(markdown_path_, to_markdown(machine_, all, quick_));
    }
  }

  const std::string json_path_;
  const std::string markdown_path_;
  const bool quick_;
  Machine& machine_;
  std::vector<Figure> taken_;
  std::vector<Figure> expected_;
  bool any_failed_ = false;
};

// Adds all chosen figures as expected. CUDA functions measure several figures and list them by
// name.
void expect_all(const std::vector<Entry>& chosen, Setup& setup, Report* report) {
  setup.only_names = true;
  setup.publish = [&](Figure figure) { report->expect(std::move(figure)); };
  for (const Entry& entry : chosen) {
    if (std::string_view(entry.name).starts_with("cuda_")) {
      entry.take(setup);
    } else {
      report->expect(Figure::skip(entry.name, kNotReached));
    }
  }
  setup.only_names = false;
}

int run(int argc, char** argv) {
  CLI::App app("Takes Keel's figures side by side with their peers", "keel_bench");
  std::vector<std::string> filters;
  std::string json_path;
  std::string markdown_path;
  uint32_t rounds = RaceOptions().rounds;
  std::string names;
  for (const Entry& entry : kFigures) names += fmt::format(" {}", entry.name);
  app.add_option("--filter", filters, "Only figures whose name contains this; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--json", json_path, "Where to write the figures as JSON");
  app.add_option("--markdown", markdown_path, "Where to write them as a table");
  app.add_option("--rounds", rounds, "Rounds of each comparison")
      ->check(CLI::Range(3u, 10000u))
      ->capture_default_str();
  bool quick = false;
  app.add_flag(
      "--quick", quick,
      "Three short rounds, of the figures of CUDA and of operators on little memory: shows that "
      "they can be taken, and measures nothing");
  uint32_t within = 0;
  app.add_option("--within", within,
                 "Seconds after which no figure of CUDA is begun: those that are left are skipped");
  bool machine_alone = false;
  app.add_flag("--machine", machine_alone,
               "Takes no figure, but writes of this machine what a report has of it, as JSON");
  std::string repeated;
  uint64_t count = 1;
  app.add_option("--repeat", repeated,
                 "Takes no figure, but does one thing in a process of its own")
      ->group("");  // used by keel_bench itself
  app.add_option("--count", count)->group("");
  app.footer("Figures:" + names);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;  // 0: --help
  }

  if (!repeated.empty()) {
    if (be_rank_process(repeated) || repeat_driver_call(repeated, count) ||
        repeat_call(repeated, count)) {
      return 0;
    }
    fmt::print(stderr, "keel_bench: nothing is called {}\n", repeated);
    return kUsage;
  }

  std::vector<Entry> chosen;
  for (const Entry& entry : kFigures) {
    if (is_chosen(entry.name, filters)) chosen.push_back(entry);
  }
  if (chosen.empty()) {
    fmt::print(stderr, "keel_bench: no figure has such a name; there are:{}\n", names);
    return kUsage;
  }

  Machine machine = examine_machine();
  Report report(json_path, markdown_path, quick, &machine);
  Setup setup;
  setup.race.rounds = rounds;
  setup.filters = filters;
  if (quick) {
    setup.quick = true;
    setup.race = {/*rounds=*/3, /*round_time=*/std::chrono::milliseconds(1),
                  /*pause=*/std::chrono::nanoseconds(0)};
  }
  if (!machine_alone) {
    // Before opening devices, which may take long too.
    expect_all(chosen, setup, &report);
    report.write_so_far();
  }

  keel::Runtime runtime;
  // With the fallback, a figure would measure the CPU's kernel on staged copies.
  keel::check(keel_op_forbid_fallback(1));
  examine_devices(&setup);
  describe_devices(setup, &machine);
  if (machine_alone) {
    machine.load_after = load_average();
    fmt::print("{}", to_json(machine));
    return 0;
  }

  if (within != 0) {
    setup.end = std::chrono::steady_clock::now() + std::chrono::seconds(within);
  }
  // Writes after each figure, so that an interrupted run keeps earlier figures.
  setup.publish = [&](Figure figure) {
    machine.cuda_pytorch = setup.cuda_torch->status();
    report.take(std::move(figure));
    report.write_so_far();
  };
  for (const Entry& entry : chosen) {
    for (Figure& figure : entry.take(setup)) setup.publish(std::move(figure));
    report.forget(entry.name);
  }
  machine.cuda_pytorch = setup.cuda_torch->status();
  report.write();
  return report.any_failed() ? kFailure : 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "keel_bench: {}\n", error.what());
    return kFailure;
  }
}
