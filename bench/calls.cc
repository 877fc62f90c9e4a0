// SPDX-License-Identifier: Apache-2.0
#include "bench/calls.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

namespace keel::bench {

namespace {

constexpr uint64_t kBytes = 64;

// Returns the function tables of a plugin that libkeel has loaded.
const keel_plugin& tables_of(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* symbol = library == nullptr ? nullptr : dlsym(library, KEEL_PLUGIN_QUERY_SYMBOL);
  if (symbol == nullptr) throw std::runtime_error(dlerror());
  static constexpr keel_host kHost = {{sizeof(keel_host), KEEL_STRUCT_HOST, nullptr},
                                      nullptr,
                                      [](void*, keel_log_level, const char*) {},
                                      [](void*, const char*) {}};
  const keel_plugin* plugin = nullptr;
  check(reinterpret_cast<keel_plugin_query_fn>(symbol)(&kHost, &plugin));
  return *plugin;
}

void add_two_vectors() {
  const Device cpu = Device::find("cpu");
  const Stream stream(cpu);
  const auto x = Buffer::of<float>(cpu, 1024);
  const auto y = Buffer::of<float>(cpu, 1024);
  ops::add(
      stream,
      {.a = x.tensor<float>({1024}), .b = x.tensor<float>({1024}), .c = y.tensor<float>({1024})});
  stream.synchronize();
}

}  // namespace

struct Calls::State {
  Device device = load_null();
  Stream stream{device};
  Event event;
  Buffer source{device, KEEL_MEMORY_DEVICE, kBytes};
  Buffer destination{device, KEEL_MEMORY_DEVICE, kBytes};
  keel_module module = {};
  keel_kernel kernel = {};
  void* pointer = nullptr;
  int64_t count = kBytes;
  const void* arguments[2] = {&pointer, &count};
  uint32_t sizes[2] = {sizeof(pointer), sizeof(count)};
  keel_launch launch = KEEL_STRUCT_INIT(keel_launch, KEEL_STRUCT_LAUNCH);
  keel_tensor x = {};
  keel_tensor y = {};
  const keel_tensor* inputs[1] = {&x};
  keel_attribute form = {};  // gelu by tanh
  const keel_tensor* outputs[1] = {&y};
  keel_op_call call = KEEL_STRUCT_INIT(keel_op_call, KEEL_STRUCT_OP_CALL);

  // Handles for the direct plugin calls: the plugin's handles of one kind are all equal.
  const keel_plugin& plugin = tables_of(find_test_plugin("null"));
  keel_plugin_device* native_device = nullptr;
  keel_plugin_stream* native_stream = nullptr;
  keel_plugin_event* native_event = nullptr;
  keel_plugin_kernel* native_kernel = nullptr;

  State() {
    check(keel_module_load(device.get(), KEEL_BINARY_VENDOR, "x", 1, &module));
    check(keel_kernel_find(module, "nothing", &kernel));
    pointer = destination.data();
    for (int axis = 0; axis < 3; ++axis) launch.grid[axis] = launch.block[axis] = 1;
    launch.argument_count = 2;
    launch.arguments = arguments;
    launch.argument_sizes = sizes;
    x = source.tensor<float>({kBytes / sizeof(float)});
    y = destination.tensor<float>({kBytes / sizeof(float)});
    call.op = KEEL_OP_GELU;
    call.input_count = call.output_count = call.attribute_count = 1;
    call.inputs = inputs;
    call.outputs = outputs;
    call.attributes = &form;
    check(plugin.device->open(nullptr, 0, &native_device));
    check(plugin.stream->create(native_device, 0, &native_stream));
    check(plugin.stream->event_create(native_device, 0, &native_event));
    keel_plugin_module* native_module = nullptr;
    check(plugin.kernel->load(native_device, KEEL_BINARY_VENDOR, "x", 1, &native_module));
    check(plugin.kernel->find(native_module, "nothing", &native_kernel));
  }
  ~State() { keel_module_unload(module); }
};

Calls::Calls() : state_(std::make_unique<State>()) {
  State& s = *state_;
  calls_ = {
      {"record", "keel_event_record",
       [&s] { check(keel_event_record(s.event.get(), s.stream.get())); },
       [&s] { check(s.plugin.stream->event_record(s.native_event, s.native_stream)); }},
      {"query", "keel_event_query", [&s] { check(keel_event_query(s.event.get())); },
       [&s] { check(s.plugin.stream->event_query(s.native_event)); }},
      {"record_query", "keel_event_record and keel_event_query",
       [&s] {
         check(keel_event_record(s.event.get(), s.stream.get()));
         check(keel_event_query(s.event.get()));
       },
       [&s] {
         check(s.plugin.stream->event_record(s.native_event, s.native_stream));
         check(s.plugin.stream->event_query(s.native_event));
       }},
      {"copy", "keel_copy of 64 bytes within the device",
       [&s] {
         check(keel_copy(s.stream.get(), s.device.get(), s.destination.data(), s.device.get(),
                         s.source.data(), kBytes));
       },
       [&s] {
         check(s.plugin.stream->copy(s.native_stream, KEEL_COPY_DEVICE_TO_DEVICE,
                                     s.destination.data(), s.source.data(), kBytes));
       }},
      {"launch", "keel_kernel_launch of an empty kernel with two arguments",
       [&s] { check(keel_kernel_launch(s.stream.get(), s.kernel, &s.launch)); },
       [&s] { check(s.plugin.kernel->launch(s.native_stream, s.native_kernel, &s.launch)); }},
      {"op", "keel_op_run of gelu, which checks the call against the schema",
       [&s] { check(keel_op_run(s.stream.get(), &s.call)); },
       [&s] { check(s.plugin.op->run(s.native_stream, &s.call, nullptr)); }},
  };
  for (const Call& call : calls_) call.keel();  // records each event before its query
}

Calls::~Calls() = default;

std::string find_test_plugin(const std::string& name) {
  // Beside the tests of a build or a bundle.
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const auto file = (folder / "../tests/plugins" / ("libkeel_" + name + ".so")).lexically_normal();
  return std::filesystem::exists(file) ? file.string() : std::string();
}

Device load_null() {
  const std::string path = find_test_plugin("null");
  if (path.empty()) throw std::runtime_error(kNoTestPlugins);
  uint32_t index = 0;
  check(keel_plugin_load(path.c_str(), nullptr, nullptr, &index));
  return Device::find(backends().at(index).name);
}

bool repeat_call(const std::string& what, uint64_t count) {
  if (what == "nothing") return true;
  if (what == "first_operation") {
    setenv("KEEL_BACKENDS", "cpu", /*overwrite=*/1);
    const Runtime runtime;
    add_two_vectors();
    return true;
  }
  setenv("KEEL_BACKENDS", "", /*overwrite=*/1);
  const Runtime runtime;
  const Calls calls;
  for (const Call& call : calls.all()) {
    for (const bool keel : {true, false}) {
      if (what != fmt::format("{}/{}", call.name, keel ? "keel" : "plugin")) continue;
      const std::function<void()>& run = keel ? call.keel : call.plugin;
      for (uint64_t i = 0; i < count; ++i) run();
      return true;
    }
  }
  return false;
}

}  // namespace keel::bench
