// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/perf_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <iterator>

#include "tools/command.h"
#include "tools/perf/perf_operation.h"
#include "tools/perf/perf_peers.h"

namespace keel::cli {
namespace {

constexpr int64_t kMostRanks = 1024;  // per thread

template <typename Value>
struct Named {
  Value value;
  const char* name;       // nccl-tests'
  const char* also = "";  // Keel's
};

constexpr Named<keel_dtype> kDtypes[] = {
    {KEEL_INT8, "int8"},
    {KEEL_UINT8, "uint8"},
    {KEEL_INT16, "int16"},
    {KEEL_UINT16, "uint16"},
    {KEEL_INT32, "int32"},
    {KEEL_UINT32, "uint32"},
    {KEEL_INT64, "int64"},
    {KEEL_UINT64, "uint64"},
    {KEEL_FLOAT16, "half", "float16"},
    {KEEL_FLOAT32, "float", "float32"},
    {KEEL_FLOAT64, "double", "float64"},
    {KEEL_BFLOAT16, "bfloat16"},
    {KEEL_FLOAT8_E4M3FN, "f8e4m3", "float8_e4m3"},
    {KEEL_FLOAT8_E5M2, "f8e5m2", "float8_e5m2"},
};

constexpr Named<keel_reduction> kReductions[] = {
    {KEEL_SUM, "sum"}, {KEEL_PROD, "prod"}, {KEEL_MAX, "max"},
    {KEEL_MIN, "min"}, {KEEL_AVG, "avg"},   {KEEL_PREMUL_SUM, "mulsum", "premul_sum"},
};

template <typename Value, size_t kCount>
bool find(const Named<Value> (&table)[kCount], const std::string& name, Value* out) {
  for (const Named<Value>& each : table) {
    if (name == each.name || name == each.also) {
      *out = each.value;
      return true;
    }
  }
  return false;
}

template <typename Value, size_t kCount>
const char* name_of(const Named<Value> (&table)[kCount], Value value) {
  for (const Named<Value>& each : table) {
    if (each.value == value) return each.name;
  }
  return "unknown";
}

// Parses a list of names, or "all".
template <typename Value, size_t kCount>
std::string read_list(const Named<Value> (&table)[kCount], const std::string& text,
                      std::vector<Value>* out) {
  out->clear();
  std::string known;
  for (const Named<Value>& each : table) {
    if (text == "all") out->push_back(each.value);
    known += fmt::format("{}, ", each.name);
  }
  Value value{};
  if (find(table, text, &value)) out->push_back(value);
  return out->empty() ? fmt::format("'{}' is none of {}all", text, known) : std::string();
}

// Adds an option whose text |read| parses; |read| returns an error text, or an empty one.
CLI::Option* add_text(CLI::App& command, const char* names, const char* help, const char* type,
                      std::function<std::string(const std::string&)> read) {
  return command
      .add_option_function<std::string>(
          names, [](const std::string&) {}, help)
      ->type_name(type)
      ->check(CLI::Validator([read = std::move(read)](std::string& text) { return read(text); },
                             std::string()));
}

// Parses "openmpi,gloo".
std::string read_peers(const std::string& text, std::vector<std::string>* out) {
  const std::vector<std::string> known = perf_peer_names();
  out->clear();
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string name = text.substr(at, comma - at);
    if (!known.empty() && std::find(known.begin(), known.end(), name) == known.end()) {
      return fmt::format("'{}' is none of {}", name, join(known));
    }
    if (std::find(out->begin(), out->end(), name) == out->end()) out->push_back(name);
    at = comma + 1;
  }
  return {};
}

CLI::Option* add_size(CLI::App& command, const char* names, const char* help, uint64_t* out) {
  return add_text(command, names, help, "BYTES", [out](const std::string& text) {
    return parse_size(text, out) ? std::string()
                                 : fmt::format("'{}' is no size, such as 8, 64K, 1.5M or 2G", text);
  });
}

}  // namespace

std::vector<uint64_t> PerfOptions::sizes() const {
  std::vector<uint64_t> all;
  for (uint64_t size = min_bytes; size <= max_bytes;) {
    all.push_back(size);
    const uint64_t next = step_factor > 1 ? size * step_factor : size + step_bytes;
    if (next <= size || (step_factor > 1 && next / step_factor != size)) break;  // overflow
    size = next;
  }
  return all;
}

bool parse_size(const std::string& text, uint64_t* out) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (error != std::errc() || !(number >= 0) || end - rest > 1) return false;
  double unit = 1;
  if (rest != end) {
    switch (*rest) {
      case 'K':
      case 'k':
        unit = 1024;
        break;
      case 'M':
      case 'm':
        unit = 1 << 20;
        break;
      case 'G':
      case 'g':
        unit = 1 << 30;
        break;
      default:
        return false;
    }
  }
  constexpr double kLargest = 1ull << 48;
  if (number * unit > kLargest) return false;
  *out = static_cast<uint64_t>(number * unit);
  return true;
}

bool parse_dtype(const std::string& name, keel_dtype* out) {
  return find(kDtypes, name, out);
}
bool parse_reduction(const std::string& name, keel_reduction* out) {
  return find(kReductions, name, out);
}
const char* perf_dtype_name(keel_dtype dtype) {
  return name_of(kDtypes, dtype);
}
const char* perf_reduction_name(keel_reduction reduction) {
  return name_of(kReductions, reduction);
}

void add_perf_options(CLI::App& command, const std::shared_ptr<PerfOptions>& options) {
  PerfOptions* const out = options.get();
  add_plugin_option(command, &out->plugins);
  add_text(command, "operation", "What is timed; or all", "OPERATION",
           [out](const std::string& text) {
             out->operation = text;
             if (text == "all" || find_perf_operation(text) != nullptr) return std::string();
             return fmt::format("'{}' is none of {}, all", text, join(perf_operation_names()));
           })
      ->required();
  const CLI::Option* minimum =
      add_size(command, "-b,--minbytes", "Smallest size; 32M", &out->min_bytes);
  const CLI::Option* maximum =
      add_size(command, "-e,--maxbytes", "Largest size; 32M", &out->max_bytes);
  add_size(command, "-i,--stepbytes", "From one size to the next; 1M", &out->step_bytes);
  const auto count = [&](const char* names, auto* value, const char* help, int64_t least,
                         int64_t most) {
    return command.add_option(names, *value, help)
        ->type_name("N")
        ->capture_default_str()
        ->check(CLI::Range(least, most));
  };
  count("-f,--stepfactor", &out->step_factor, "Times the size, instead, if above 1", 1, 1 << 20);
  const CLI::Option* iterations =
      count("-n,--iters", &out->iterations, "Operations that are timed together", 1, 1 << 30);
  count("-w,--warmup_iters", &out->warmup_iterations,
        "Operations before, of the largest and the "
        "smallest size",
        0, 1 << 30);
  count("-c,--check", &out->check, "Times each result is verified; 0: not", 0, 1 << 20);
  add_text(command, "-d,--datatype", "Type of the elements, or all; float", "TYPE",
           [out](const std::string& text) { return read_list(kDtypes, text, &out->dtypes); });
  add_text(command, "-o,--op", "Reduction, or all; sum", "OP", [out](const std::string& text) {
    return read_list(kReductions, text, &out->reductions);
  });
  count("-r,--root", &out->root, "Root; -1: each rank in turn", -1, 1 << 20);
  count("-t,--nthreads", &out->threads, "Threads of a process", 1, 1024);
  const CLI::Option* ranks =
      count("-g,--ngpus", &out->devices_per_thread,
            "Ranks that each thread drives; without it, enough for all --devices", 1, kMostRanks);
  count("--procs", &out->processes, "Processes, which are started; under a launcher, its world", 1,
        1024);
  command
      .add_option("--devices", out->devices,
                  "Devices, a rank each; dealt round robin to more ranks (-g, -t, --procs). "
                  "Default: the first there is, for all")
      ->type_name("NAME,...")
      ->delimiter(',');
  command.add_option("-J,--output_file", out->output_file, "Write results as JSON, too")
      ->type_name("FILE");
  add_text(command, "-z,--blocking", "1: as --sync-each", "0|1", [out](const std::string& text) {
    if (text != "0" && text != "1") return fmt::format("'{}' is neither 0 nor 1", text);
    out->sync_each |= text == "1";
    return std::string();
  });
  command.add_flag_callback(
      "--sync-each", [out] { out->sync_each = true; },
      "Wait for the stream after each operation: the time of one that blocks");
  command.add_flag("--foreign", out->foreign,
                   "Memory of malloc and keel_host_register; CPU devices only");
  command.add_flag("--tune", out->tune,
                   "Measure every algorithm at every size (1K to 16M, times 4) and keep the "
                   "fastest for this machine; with --foreign, whether to attach or to stage");
  command.add_flag("--explain", out->explain,
                   "Print how rank 0 goes about it, and of each size what it was to take");
  command.add_option("--svg", out->svg, "Draw islands, links, shares and times of the last size")
      ->type_name("FILE");
  command
      .add_option_function<double>(
          "-T,--timeout",
          [out](const double& seconds) { out->timeout_ns = static_cast<int64_t>(seconds * 1e9); },
          "Deadline of each wait and operation")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.001, 1e8));
  add_text(command, "--peers", "Compare with these, installed beside Keel: openmpi, mpich, gloo",
           "NAME,...", [out](const std::string& text) { return read_peers(text, &out->peers); });
  command.add_option("--peer-programs", out->peer_programs, "Folder of the peers' programs")
      ->type_name("FOLDER");
  count("--rounds", &out->rounds, "With --peers: launches of each", 1, 1000);
  // If only one of the two is given, the other one's default follows.
  command.parse_complete_callback([out, minimum, maximum, iterations, ranks] {
    out->iterations_given = iterations->count() != 0;
    out->ranks_given = ranks->count() != 0;
    if (out->tune && minimum->count() == 0 && maximum->count() == 0) {
      out->min_bytes = 1 << 10;
      out->max_bytes = 16 << 20;
      out->step_factor = 4;
      return;
    }
    if (minimum->count() == 0) out->min_bytes = std::min(out->min_bytes, out->max_bytes);
    if (maximum->count() == 0) out->max_bytes = std::max(out->min_bytes, out->max_bytes);
  });
}

void fit_ranks_to_devices(PerfOptions* options) {
  const size_t devices = options->devices.size();
  if (devices <= options->world()) return;
  const uint32_t drivers = options->processes * options->threads;
  if (options->ranks_given) {
    throw UsageError(fmt::format(
        "--devices names {} and -g {} makes {} rank{} of {} process{} with {} thread{}: leave -g "
        "out, or name as many devices",
        devices, options->devices_per_thread, options->world(), options->world() == 1 ? "" : "s",
        options->processes, options->processes == 1 ? "" : "es", options->threads,
        options->threads == 1 ? "" : "s"));
  }
  if (devices % drivers != 0 || devices / drivers > kMostRanks) {
    throw UsageError(fmt::format(
        "--devices names {}, which {} processes (--procs, or a launcher's) with {} threads (-t) "
        "cannot share evenly",
        devices, options->processes, options->threads));
  }
  options->devices_per_thread = static_cast<uint32_t>(devices / drivers);
}

void check_perf_options(const PerfOptions& options) {
  if (options.min_bytes > options.max_bytes) {
    throw UsageError(fmt::format("--minbytes {} is more than --maxbytes {}", options.min_bytes,
                                 options.max_bytes));
  }
  if (options.step_factor > 1 && options.min_bytes == 0) {
    throw UsageError("--stepfactor leads nowhere from --minbytes 0");
  }
  if (options.step_factor <= 1 && options.step_bytes == 0 &&
      options.min_bytes != options.max_bytes) {
    throw UsageError("--stepbytes 0 leads nowhere");
  }
  if (options.tune && !options.output_file.empty()) {
    throw UsageError("--output_file: --tune writes its table alone");
  }
  if (options.root >= options.world()) {
    throw UsageError(fmt::format("--root {}: there are {} ranks", options.root, options.world()));
  }
}

}  // namespace keel::cli
