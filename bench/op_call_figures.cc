// SPDX-License-Identifier: Apache-2.0
// Host time of a small operator through keel.h, compared with the plugin's own function.
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "bench/calls.h"
#include "bench/figures.h"

namespace keel::bench {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kElements = 8;
// Calls are enqueued behind a longer operation that keeps the stream busy, so that neither waking
// the stream's thread nor its work is timed.
constexpr uint64_t kBatch = 256;
constexpr int64_t kBusyElements = 1 << 20;

// A plugin with its own device, stream and memory. Loaded from a copy of the file, because the
// instance that Keel uses has Keel as its host.
class DirectPlugin {
 public:
  explicit DirectPlugin(const std::string& path) : plugin_(load(path)) {
    constexpr auto kNone = keel_instance_settings{
        {sizeof(keel_instance_settings), KEEL_STRUCT_INSTANCE_SETTINGS, nullptr},
        0,
        0,
        nullptr,
        nullptr};
    check(plugin_.create_instance(&kNone, &instance_));
    check(plugin_.device->open(instance_, 0, &device_));
    check(plugin_.stream->create(device_, 0, &stream_));
  }
  ~DirectPlugin() {
    synchronize();
    plugin_.stream->destroy(stream_);
    for (void* memory : memory_) plugin_.memory->free(device_, KEEL_MEMORY_DEVICE, memory);
    plugin_.device->close(device_);
    plugin_.destroy_instance(instance_);
  }
  DirectPlugin(const DirectPlugin&) = delete;
  DirectPlugin& operator=(const DirectPlugin&) = delete;

  void* alloc(uint64_t bytes) {
    void* memory = nullptr;
    check(plugin_.memory->alloc(device_, KEEL_MEMORY_DEVICE, bytes, 0, &memory));
    memory_.push_back(memory);
    return memory;
  }
  void run(const OpCall& call) { check(plugin_.op->run(stream_, &call.get(), nullptr)); }
  void synchronize() {
    constexpr int64_t kMinute = 60'000'000'000;
    if (KEEL_HAS(keel_stream_table, plugin_.stream, synchronize)) {
      check(plugin_.stream->synchronize(stream_, kMinute));
    }
  }

 private:
  static const keel_plugin& load(const std::string& path) {
    const int source = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    const int copy = memfd_create("plugin", MFD_CLOEXEC);
    struct stat status = {};
    if (source < 0 || copy < 0 || fstat(source, &status) != 0) {
      throw std::system_error(errno, std::generic_category(), path);
    }
    for (off_t at = 0; at < status.st_size;) {
      if (sendfile(copy, source, &at, static_cast<size_t>(status.st_size - at)) <= 0) {
        throw std::system_error(errno, std::generic_category(), path);
      }
    }
    close(source);
    // The descriptor stays open as long as the library is loaded.
    void* const library =
        dlopen(fmt::format("/proc/self/fd/{}", copy).c_str(), RTLD_NOW | RTLD_LOCAL);
    void* const symbol = library == nullptr ? nullptr : dlsym(library, KEEL_PLUGIN_QUERY_SYMBOL);
    if (symbol == nullptr) throw std::runtime_error(dlerror());
    static constexpr keel_host kHost = {{sizeof(keel_host), KEEL_STRUCT_HOST, nullptr},
                                        nullptr,
                                        [](void*, keel_log_level, const char*) {},
                                        [](void*, const char*) {}};
    const keel_plugin* plugin = nullptr;
    check(reinterpret_cast<keel_plugin_query_fn>(symbol)(&kHost, &plugin));
    return *plugin;
  }

  const keel_plugin& plugin_;
  keel_plugin_instance* instance_ = nullptr;
  keel_plugin_device* device_ = nullptr;
  keel_plugin_stream* stream_ = nullptr;
  std::vector<void*> memory_;
};

// A small add, and an operation that keeps a stream busy: the sum of a row, which one thread
// computes.
struct Work {
  template <typename Allocate>
  explicit Work(Allocate alloc)
      : row(make_tensor(alloc(kBusyElements * sizeof(float)), KEEL_FLOAT32, {1, kBusyElements})),
        sum(make_tensor(alloc(sizeof(float)), KEEL_FLOAT32, {1})),
        vector(make_tensor(alloc(kElements * sizeof(float)), KEEL_FLOAT32, {kElements})),
        result(make_tensor(alloc(kElements * sizeof(float)), KEEL_FLOAT32, {kElements})) {}

  const keel_tensor row, sum, vector, result;
  const OpCall busy{KEEL_OP_SUM, {row}, {sum}, {1}};
  const OpCall add{KEEL_OP_ADD, {vector, vector}, {result}};
};

// Returns the seconds of |count| calls of |add|, in batches enqueued behind |busy|.
template <typename Run, typename Wait>
double time_adds(uint64_t count, const Work& work, const Run& run, const Wait& wait) {
  Clock::duration spent{};
  for (uint64_t left = count; left > 0;) {
    const uint64_t batch = std::min(left, kBatch);
    run(work.busy);
    const Clock::time_point start = Clock::now();
    for (uint64_t i = 0; i < batch; ++i) run(work.add);
    spent += Clock::now() - start;
    wait();
    left -= batch;
  }
  return std::chrono::duration<double>(spent).count();
}

Figure add_on(Device device, const std::string& path, const std::string& backend,
              const Setup& setup) {
  constexpr char kKeel[] = "Keel";
  constexpr char kFunction[] = "the plugin's function";
  const Stream stream(device);
  std::vector<Buffer> memory;
  const Work keel_work([&](uint64_t bytes) {
    return memory.emplace_back(device, KEEL_MEMORY_DEVICE, bytes).data();
  });
  DirectPlugin plugin(path);
  const Work plugin_work([&](uint64_t bytes) { return plugin.alloc(bytes); });
  const Contender contenders[] = {
      {kKeel, 1, /*run=*/nullptr,
       [&](uint64_t repetitions) {
         return time_adds(
             repetitions, keel_work, [&](const OpCall& call) { call.run(stream); },
             [&] { stream.synchronize(); });
       }},
      {kFunction, 1, /*run=*/nullptr,
       [&](uint64_t repetitions) {
         return time_adds(
             repetitions, plugin_work, [&](const OpCall& call) { plugin.run(call); },
             [&] { plugin.synchronize(); });
       }},
  };
  Figure figure;
  figure.name = "ops_call/add/" + backend;
  figure.about = fmt::format(
      "what the host spends on keel_op_run of an add of {} floats on {}, in batches of {} on a "
      "busy "
      "stream, against the plugin's function called directly.",
      kElements, backend, kBatch);
  figure.unit = Unit::kNanoseconds;
  figure.measure = Measure::kDifference;
  RaceOptions options = setup.race;
  options.round_time = std::min(options.round_time, std::chrono::nanoseconds(4'000'000));
  figure.timings = race(contenders, options);
  figure.subject = kKeel;
  figure.peer = figure.limit = kFunction;
  figure.target = Target{120};
  return figure;
}

std::string path_of(const std::string& name) {
  for (const keel_backend_info& backend : backends()) {
    if (backend.name == name) return backend.path;
  }
  return {};
}

}  // namespace

std::vector<Figure> ops_call(Setup& setup) {
  std::vector<Figure> figures;
  const std::string null = find_test_plugin("null");
  figures.push_back(null.empty() ? Figure::skip("ops_call/add/null", kNoTestPlugins)
                                 : add_on(load_null(), null, "null", setup));
  figures.push_back(setup.cpu ? add_on(*setup.cpu, path_of("cpu"), "cpu", setup)
                              : Figure::skip("ops_call/add/cpu", setup.no_cpu));
  return figures;
}

}  // namespace keel::bench
