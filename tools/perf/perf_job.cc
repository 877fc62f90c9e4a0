// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/perf_job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <keel/plugin_kit.hpp>
#include <keel/thread_start.hpp>
#include <mutex>
#include <new>
#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>

#include "tensorfile/replacement.h"
#include "tools/perf/perf_ring.h"

namespace keel::cli {
namespace {

std::vector<Device> devices_of(const PerfOptions& options, uint32_t process) {
  std::vector<Device> known;
  for (const std::string& name : options.devices) {
    known.push_back(find_device("--devices", name));
  }
  if (known.empty()) {
    uint32_t count = 0;
    check(keel_device_count(&count));
    if (count == 0) throw std::runtime_error("there is no device; 'keel devices' tells why");
    keel_device first{};
    check(keel_device_get(0, &first));
    known.emplace_back(first);
  }
  std::vector<Device> devices;
  for (uint32_t i = 0; i < options.ranks_per_process(); ++i) {
    devices.push_back(known[(process * options.ranks_per_process() + i) % known.size()]);
    auto info = KEEL_STRUCT_INIT(keel_device_info, KEEL_STRUCT_DEVICE_INFO);
    check(keel_device_info_get(devices.back().get(), &info));
    if (options.foreign && info.type != KEEL_DEVICE_CPU) {
      throw UsageError(fmt::format("--foreign: {} is no CPU device", devices.back().name()));
    }
  }
  return devices;
}

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return std::string(name).substr(0, std::string(name).find('.'));
}

// Runs |body| for 0 .. |count| - 1, one thread each. The first thread that fails calls |failed|, so
// that the other threads end too; its exception is rethrown here once all threads have ended.
template <typename Body, typename Failed>
void run_threads(uint32_t count, const Body& body, const Failed& failed) {
  std::mutex mutex;
  std::exception_ptr first;
  const auto note_failure = [&] {
    const std::lock_guard lock(mutex);
    if (first != nullptr) return;
    first = std::current_exception();
    failed();
  };
  std::vector<std::jthread> threads;
  try {
    for (uint32_t i = 0; i < count; ++i) {
      threads.push_back(kit::start_thread<std::jthread>("keel-perf", [&, i] {
        try {
          body(i);
        } catch (...) {
          note_failure();
        }
      }));
    }
  } catch (const std::bad_alloc&) {
    note_failure();  // started threads would wait for the missing ones
  }
  threads.clear();
  if (first != nullptr) std::rethrow_exception(first);
}

}  // namespace

PerfJob::PerfJob(const PerfOptions& options, uint32_t process)
    : options_(options),
      // Only process 0 writes the file, and fails before the other processes wait for it.
      output_("--output_file", process == 0 ? options.output_file : std::string()),
      picture_("--svg", process == 0 ? options.svg : std::string()),
      devices_(devices_of(options, process)),
      control_(devices_.front(), process, options.processes, options.timeout_ns),
      team_(options.threads) {
  const uint32_t first = process * options.ranks_per_process();
  for (uint32_t i = 0; i < devices_.size(); ++i) {
    ranks_.push_back(std::make_unique<PerfRank>(devices_[i], first + i, options.world(),
                                                options.max_bytes, options.foreign,
                                                options.timeout_ns));
  }
  make_communicators();
}

void PerfJob::make_communicators(const char* algorithm) {
  if (algorithm != nullptr) setenv("KEEL_ALGORITHM", algorithm, /*overwrite=*/1);
  auto options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
  options.timeout_ns = options_.timeout_ns < 0 ? 0 : options_.timeout_ns;
  if (options_.processes == 1 && options_.threads == 1) {
    std::vector<keel_device> devices;
    for (const Device& device : devices_) devices.push_back(device.get());
    std::vector<keel_comm> comms(devices.size());
    check(keel_comm_init_all(devices.data(), static_cast<uint32_t>(devices.size()), &options,
                             comms.data()));
    for (size_t i = 0; i < comms.size(); ++i) ranks_[i]->set_comm(comms[i]);
    return;
  }
  keel_unique_id id{};
  if (control_.process() == 0) check(keel_unique_id_create(&id));
  control_.broadcast(std::as_writable_bytes(std::span(id.text)));
  run_threads(
      static_cast<uint32_t>(ranks_.size()),
      [&](uint32_t i) {
        keel_comm comm{};
        check(keel_comm_init_rank(devices_[i].get(), &id, ranks_[i]->rank(), options_.world(),
                                  &options, &comm));
        ranks_[i]->set_comm(comm);
      },
      [] {});
}

std::vector<PerfRankInfo> PerfJob::gather_ranks() {
  Json mine = Json::array();
  for (const auto& rank : ranks_) {
    auto info = KEEL_STRUCT_INIT(keel_device_info, KEEL_STRUCT_DEVICE_INFO);
    check(keel_device_info_get(rank->device().get(), &info));
    mine.push_back({rank->rank(), getpid(), host_name(), rank->device().name(), info.name});
  }
  std::vector<PerfRankInfo> all;
  for (const std::string& text : control_.gather(mine.dump())) {
    for (const Json& each : json_of(text)) {
      all.push_back({each[0], each[1], each[2], each[3], each[4]});
    }
  }
  return all;
}

bool PerfJob::run() {
  std::vector<PerfRankInfo> all = gather_ranks();
  if (control_.process() == 0) {
    for (const PerfRankInfo& rank : all) device_names_.push_back(rank.device);
    report_.emplace(options_, std::move(all));
    report_->print_start();
    const std::string text = explain();
    explained_ = json_of(text);
    if (options_.explain) print("# " + text + "\n");
  }
  if (options_.tune) return tune();
  run_threads(
      options_.threads, [&](uint32_t thread) { run_thread(thread); },
      [&] {
        team_.abort();
        // Ends other processes' waits for this process's ranks before their deadline.
        for (const auto& rank : ranks_) keel_comm_abort(rank->comm());
      });
  const uint64_t wrong = control_.sum(report_ ? report_->wrong_rows() : 0);
  if (report_) {
    output_.write(report_->json().dump(2) + '\n');
    if (!options_.svg.empty()) {
      picture_.write(draw_perf_ring(perf_ring(json_of(explain()), device_names_)));
    }
  }
  return wrong == 0;
}

std::string PerfJob::explain() const {
  const keel_comm comm = ranks_.front()->comm();
  return api_detail::read_text(
      [&](char* out, uint64_t* size) { return keel_comm_explain(comm, out, size); });
}

// Prints the rounds of the operation that |step| just ran, if it ran in rounds.
void PerfJob::explain_last(const PerfStep& step, const PerfRow& row) const {
  const Json last = json_of(explain())["last"];
  if (last.is_null() || last["operation"] != step.operation->name || last["bytes"] != row.bytes) {
    return;
  }
  print("# " + last.dump() + "\n");
}

std::span<const std::unique_ptr<PerfRank>> PerfJob::ranks_of(uint32_t thread) const {
  return std::span(ranks_).subspan(thread * options_.devices_per_thread,
                                   options_.devices_per_thread);
}

void PerfJob::meet() {
  team_.meet([&] { control_.sum(0); });
}

void PerfJob::run_thread(uint32_t thread) {
  for (const std::string& name : perf_operation_names()) {
    if (options_.operation == "all" || options_.operation == name) {
      run_operation(thread, *find_perf_operation(name));
    }
  }
}

void PerfJob::run_operation(uint32_t thread, const PerfOperation& operation) {
  if (reports(thread)) {
    report_->begin(operation);
    print(perf_algorithms_text(explained_, operation.name));
  }
  const std::vector<keel_reduction> one = {KEEL_SUM};
  std::vector<uint32_t> roots = {0};
  if (operation.rooted && options_.root < 0) {
    for (uint32_t root = 1; root < options_.world(); ++root) roots.push_back(root);
  } else if (operation.rooted) {
    roots = {static_cast<uint32_t>(options_.root)};
  }
  std::vector<keel_dtype> dtypes = options_.dtypes;
  if (operation.shape == PerfOperation::Shape::kNothing) dtypes.resize(1);
  for (const keel_dtype dtype : dtypes) {
    for (const keel_reduction reduction : operation.reduces ? options_.reductions : one) {
      for (const uint32_t root : roots) {
        run_table(thread, {&operation, {}, dtype, reduction, root, false});
      }
    }
  }
  if (!reports(thread)) return;
  if (options_.explain) print(perf_ring_text(perf_ring(json_of(explain()), device_names_)));
  report_->end();
}

void PerfJob::run_table(uint32_t thread, PerfStep step) {
  const PerfOperation& operation = *step.operation;
  const bool is_empty = operation.shape == PerfOperation::Shape::kNothing;
  const uint32_t element_bytes = kit::dtype_size(step.dtype);
  std::vector<uint64_t> sizes = options_.sizes();
  if (is_empty) sizes.resize(1);
  const auto ranks = ranks_of(thread);
  for (const uint64_t size : {sizes.back(), sizes.front()}) {
    step.counts = operation.counts(size, element_bytes, options_.world());
    for (uint32_t i = 0; i < options_.warmup_iterations; ++i) start_all(ranks, step);
    for (const auto& rank : ranks) rank->synchronize();
  }
  for (const uint64_t size : sizes) {
    step.counts = operation.counts(size, element_bytes, options_.world());
    PerfRow row;
    row.bytes = std::max(step.counts.send, step.counts.receive) * element_bytes;
    row.count = step.counts.count;
    row.dtype = step.dtype;
    if (operation.reduces) row.reduction = step.reduction;
    if (operation.rooted) row.root = step.root;
    step.in_place = false;
    row.out_of_place = time(thread, step);
    step.in_place = true;
    if (operation.in_place) row.in_place = time(thread, step);
    if (!reports(thread)) continue;
    report_->add(row);
    if (options_.explain) explain_last(step, row);
  }
}

void PerfJob::check_foreign_ways() const {
  if (options_.processes == 1) {
    throw UsageError("--tune: what is --foreign has two ways between processes alone: --procs");
  }
  const char* const attach = std::getenv("KEEL_ATTACH");
  if (attach != nullptr && std::string_view(attach) == "0") {
    throw UsageError("--tune: KEEL_ATTACH=0 leaves one way only for what is --foreign");
  }
}

uint64_t PerfJob::bytes_in_place() {
  uint64_t bytes = 0;
  for (const auto& rank : ranks_) {
    auto stats = KEEL_STRUCT_INIT(keel_comm_stats, KEEL_STRUCT_COMM_STATS);
    check(keel_comm_stats_get(rank->comm(), &stats));
    bytes += stats.bytes_in_place;
  }
  return control_.sum(bytes);
}

bool PerfJob::tune() {
  if (options_.foreign) check_foreign_ways();
  PerfTuning tuning(explain(), options_.foreign);
  if (control_.process() == 0) tuning.require_writable();
  std::vector<const PerfOperation*> operations;
  std::vector<std::string> algorithms;  // in order of first appearance
  for (const std::string& name : perf_operation_names()) {
    if (options_.operation != "all" && options_.operation != name) continue;
    operations.push_back(find_perf_operation(name));
    for (const std::string& algorithm : tuning.algorithms(name)) {
      if (std::find(algorithms.begin(), algorithms.end(), algorithm) == algorithms.end()) {
        algorithms.push_back(algorithm);
      }
    }
  }
  if (algorithms.empty()) {
    throw UsageError(fmt::format("--tune: there is one way only for {}", options_.operation));
  }
  // Ignore earlier measurements.
  setenv("KEEL_COLLECTIVE_TABLE", "builtin", /*overwrite=*/1);
  // Several passes, far apart in time, so that temporary load does not affect all of them.
  constexpr uint32_t kPasses = 3;
  Json built_in;
  uint64_t attached = 0;  // bytes read in place, with and without attach
  uint64_t staged = 0;
  for (uint32_t at = 0; at < kPasses * algorithms.size(); ++at) {
    const std::string& algorithm = algorithms[at % algorithms.size()];
    const bool is_built_in = algorithm == PerfTuning::kBuiltIn;
    if (options_.foreign) setenv("KEEL_ATTACH", is_built_in ? "1" : "0", /*overwrite=*/1);
    make_communicators(is_built_in || options_.foreign ? "" : algorithm.c_str());
    const Json explained = json_of(explain());
    if (is_built_in) built_in = explained;
    run_threads(
        options_.threads,
        [&](uint32_t thread) {
          for (const PerfOperation* operation : operations) {
            tune_operation(thread, *operation, algorithm, explained, built_in, &tuning);
          }
        },
        [&] {
          team_.abort();
          for (const auto& rank : ranks_) keel_comm_abort(rank->comm());
        });
    if (options_.foreign) (is_built_in ? attached : staged) = bytes_in_place();
  }
  if (options_.foreign && attached <= staged) {
    // Both times measured the same transfer.
    if (control_.process() == 0) print("# Nothing was read by cross-memory attach: no rules\n");
    return true;
  }
  if (control_.process() == 0) {
    print(tuning.report());
    tuning.write();
    std::string text = fmt::format("# {} now says\n", tuning.path());
    for (const std::string& rule : tuning.rules()) text += "#   " + rule + "\n";
    if (tuning.rules().empty()) text += "#   nothing of these: what is built in is the fastest\n";
    print(text);
  }
  return true;
}

void PerfJob::tune_operation(uint32_t thread, const PerfOperation& operation,
                             const std::string& algorithm, const Json& explained,
                             const Json& built_in, PerfTuning* tuning) {
  const std::vector<std::string> all = tuning->algorithms(operation.name);
  if (std::find(all.begin(), all.end(), algorithm) == all.end()) return;
  const auto root = static_cast<uint32_t>(std::max<int64_t>(options_.root, 0));
  PerfStep step = {&operation, {},   options_.dtypes.front(), options_.reductions.front(),
                   root,       false};
  const uint32_t element_bytes = kit::dtype_size(step.dtype);
  for (const uint64_t size : options_.sizes()) {
    step.counts = operation.counts(size, element_bytes, options_.world());
    const uint64_t bytes = step.counts.send * element_bytes;
    if (bytes == 0) continue;  // less than a rank's smallest part
    const std::string usual = perf_algorithm_at(built_in, operation.name, bytes);
    if (options_.foreign) {
      // Other algorithms have only one transfer.
      if (usual != (std::string_view(operation.name) == "all_reduce" ? "one_shot" : "direct")) {
        continue;
      }
      // In the first operations the ranks only agree whether they may read each other.
      constexpr uint32_t kUntilAgreed = 4;
      for (uint32_t i = 0; i < kUntilAgreed; ++i) start_all(ranks_of(thread), step);
    } else if (algorithm != PerfTuning::kBuiltIn) {
      // Ranks of several hosts do not tell the algorithm of a size beforehand.
      const bool is_known = built_in.contains("algorithms");
      const bool differs =
          usual != algorithm && perf_algorithm_at(explained, operation.name, bytes) == algorithm;
      if (is_known && !differs) continue;
    }
    const PerfTiming timing = time(thread, step);
    if (timing.wrong.value_or(0) != 0) {
      throw std::runtime_error(fmt::format("{} by {} of {} bytes: {} wrong elements",
                                           operation.name, algorithm, size, *timing.wrong));
    }
    if (!reports(thread)) continue;
    tuning->add(operation.name, bytes, algorithm, timing.seconds);
  }
}

void PerfJob::start_all(std::span<const std::unique_ptr<PerfRank>> ranks, const PerfStep& step) {
  for (const auto& rank : ranks) rank->start(step);
  if (!options_.sync_each) return;
  for (const auto& rank : ranks) rank->synchronize();
}

PerfTiming PerfJob::time(uint32_t thread, const PerfStep& step) {
  using Clock = std::chrono::steady_clock;
  const auto ranks = ranks_of(thread);
  const auto synchronize = [&] {
    for (const auto& rank : ranks) rank->synchronize();
  };
  start_all(ranks, step);
  synchronize();
  meet();
  const auto begin = Clock::now();
  for (uint32_t i = 0; i < options_.iterations; ++i) start_all(ranks, step);
  synchronize();
  const std::chrono::duration<double> took = Clock::now() - begin;

  PerfTiming timing;
  timing.seconds = team_.max(took.count() / options_.iterations,
                             [&](double value) { return control_.max(value); });
  const uint32_t element_bytes = kit::dtype_size(step.dtype);
  timing.algorithm_bandwidth =
      step.operation->algorithm_bandwidth(step.counts, element_bytes, timing.seconds);
  timing.bus_bandwidth = timing.algorithm_bandwidth * step.operation->bus_factor(options_.world());
  const bool has_data = step.operation->shape != PerfOperation::Shape::kNothing;
  for (uint32_t i = 0; has_data && i < options_.check && timing.wrong.value_or(0) == 0; ++i) {
    // A different seed for each check and each placement.
    const uint64_t seed = 2 * i + (step.in_place ? 1 : 0) + 1;
    for (const auto& rank : ranks) rank->fill(step, seed);
    meet();
    start_all(ranks, step);
    synchronize();
    uint64_t wrong = 0;
    for (const auto& rank : ranks) wrong += rank->verify(step, seed);
    timing.wrong = team_.sum(wrong, [&](uint64_t value) { return control_.sum(value); });
  }
  return timing;
}

}  // namespace keel::cli
