// SPDX-License-Identifier: Apache-2.0
#include "core/runtime.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>
#include <string_view>

#include "core/instance_name.h"
#include "core/log.h"
#include "core/passthrough_allocator.h"
#include "core/profiler.h"
#include "core/slow_path_flags.h"
#include "core/trace/trace.h"
#include "core/validation/leaks.h"
#include "core/validation/validation.h"

namespace keel {

namespace {

constexpr int64_t kNanosPerSecond = 1'000'000'000;
constexpr int64_t kDefaultTimeoutSeconds = 600;

std::atomic<bool> g_was_set_up{false};

keel_host make_host() {
  keel_host host = {};
  host.header = {sizeof(host), KEEL_STRUCT_HOST, nullptr};
  host.log = [](void*, keel_log_level level, const char* text) {
    if (text != nullptr) log_text(level, text);
  };
  host.set_error = [](void*, const char* text) { set_plugin_text(text); };
  return host;
}

const keel_host* host() {
  static const keel_host& instance = *new keel_host(make_host());
  return &instance;
}

// Returns the folder keel/plugins beside this code's library.
std::string folder_beside_library() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<void*>(&make_host), &info) == 0 || info.dli_fname == nullptr) {
    return {};
  }
  std::unique_ptr<char, decltype(&std::free)> resolved(realpath(info.dli_fname, nullptr),
                                                       std::free);
  if (!resolved) return {};
  std::string path = resolved.get();
  path.resize(path.rfind('/'));
  return path + "/keel/plugins";
}

Status timeout_from_environment(int64_t* out_timeout_ns) {
  *out_timeout_ns = kDefaultTimeoutSeconds * kNanosPerSecond;
  const char* text = trusted_environment("KEEL_TIMEOUT");
  if (text == nullptr) return {};
  int64_t seconds = 0;
  const char* end = text + std::strlen(text);
  const auto parsed = std::from_chars(text, end, seconds);
  if (parsed.ec != std::errc() || parsed.ptr != end || seconds <= 0 ||
      seconds > INT64_MAX / kNanosPerSecond) {
    return failure(KEEL_INVALID_ARGUMENT, "KEEL_TIMEOUT={} is no number of seconds above 0", text);
  }
  *out_timeout_ns = seconds * kNanosPerSecond;
  return {};
}

// Returns whether |name| is in the comma-separated |list|.
bool is_listed(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    if (list.substr(0, comma) == name) return true;
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  return false;
}

// Returns "vulkan" for ".../libkeel_vulkan.so".
std::string plugin_stem(const std::string& path) {
  constexpr std::string_view kPrefix = "libkeel_";
  std::string name = path.substr(path.rfind('/') + 1);
  if (name.starts_with(kPrefix)) name.erase(0, kPrefix.size());
  return name.substr(0, name.find('.'));
}

// Returns "run.3.json" for "run.json" in process 3 of a job started by `keel run`.
std::string trace_path(std::string path) {
  const char* rank = trusted_environment("KEEL_RANK");
  if (rank == nullptr || *rank == '\0' || std::strspn(rank, "0123456789") != std::strlen(rank)) {
    return path;
  }
  const size_t name = path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1;
  const size_t dot = path.rfind('.');
  return path.insert(dot == std::string::npos || dot <= name ? path.size() : dot,
                     fmt::format(".{}", rank));
}

void start_trace_from_environment() {
  const char* path = trusted_environment("KEEL_TRACE");
  if (path == nullptr || *path == '\0') return;
  const Status started = Trace::get().start(trace_path(path));
  if (!started.ok()) log(KEEL_LOG_WARNING, "KEEL_TRACE: {}", started.text());
}

// Observers hold objects of devices, so observers end first.
void end_observers(const Deadline& deadline) {
  if (Trace::get().is_started()) {
    const Status written = Trace::get().stop(deadline);
    if (!written.ok()) log(KEEL_LOG_WARNING, "{}", written.text());
  }
  const Status removed = Profiler::get().set(nullptr, deadline);
  if (!removed.ok()) log(KEEL_LOG_WARNING, "{}", removed.text());
}

}  // namespace

namespace {

// Callers compiled before |fork_memory| was added pass a shorter struct.
uint32_t fork_memory_of(const keel_init_options& options) {
  constexpr size_t kEnd =
      offsetof(keel_init_options, fork_memory) + sizeof(keel_init_options::fork_memory);
  return options.header.size < kEnd ? uint32_t{KEEL_FORK_PRIVATE} : options.fork_memory;
}

}  // namespace

Runtime& Runtime::create() {
  static Runtime& instance = *new Runtime;
  instance_.store(&instance, std::memory_order_release);
  return instance;
}

Runtime::Runtime() {
  // A process that never initialized Keel, or only made a call too early, may fork and use Keel in
  // the child.
  pthread_atfork(nullptr, nullptr, [] {
    if (g_was_set_up.load(std::memory_order_relaxed)) {
      g_api_state.store(ApiState::kForked, std::memory_order_relaxed);
    }
  });
}

Status Runtime::initialize(const keel_init_options* options) {
  std::lock_guard lock(lifecycle_mutex_);
  if (is_initialized()) return failure(KEEL_ALREADY_EXISTS, "keel_init was called before");
  if (g_api_state.load(std::memory_order_acquire) == ApiState::kEnding) {
    return failure(KEEL_FAILED_PRECONDITION,
                   "keel_shutdown timed out: call it again before keel_init");
  }
  int64_t timeout_ns = options == nullptr ? 0 : options->default_timeout_ns;
  if (timeout_ns < 0) {
    return failure(KEEL_INVALID_ARGUMENT, "options.default_timeout_ns is {}", timeout_ns);
  }
  if (timeout_ns == 0) KEEL_RETURN_IF_ERROR(timeout_from_environment(&timeout_ns));

  const uint32_t fork_memory =
      options == nullptr ? uint32_t{KEEL_FORK_PRIVATE} : fork_memory_of(*options);
  if (fork_memory > KEEL_FORK_SHARED) {
    return failure(KEEL_INVALID_ARGUMENT, "options.fork_memory is {}", fork_memory);
  }
  fork_memory_ = fork_memory;

  KEEL_RETURN_IF_ERROR(passthrough_allocator::configure());
  KEEL_RETURN_IF_ERROR(validation::configure(options));

  const char* folder = options == nullptr ? nullptr : options->plugin_folder;
  if (folder == nullptr) folder = trusted_environment("KEEL_PLUGIN_PATH");
  const char* backends = options == nullptr ? nullptr : options->backends;
  if (backends == nullptr) backends = trusted_environment("KEEL_BACKENDS");

  default_timeout_ns_ = timeout_ns;
  g_was_set_up.store(true, std::memory_order_relaxed);
  progress_ = std::make_unique<Progress>();
  const Status loaded = load_folder(folder == nullptr ? folder_beside_library() : folder, backends);
  if (!loaded.ok()) {
    destroy_leftovers();
    return loaded;
  }
  start_trace_from_environment();
  g_api_state.store(ApiState::kOpen, std::memory_order_release);
  return {};
}

Status Runtime::load_folder(const std::string& folder, const char* backends) {
  if (backends != nullptr && backends[0] == '\0') return {};
  std::vector<std::string> paths;
  KEEL_RETURN_IF_ERROR(list_plugin_files(folder, &paths));
  std::vector<std::string> loaded;
  for (const std::string& path : paths) {
    const std::string stem = plugin_stem(path);
    if (backends != nullptr && !is_listed(backends, stem)) continue;
    loaded.push_back(stem);
    uint32_t index = 0;
    const Status status = add_backend(path.c_str(), nullptr, nullptr, &index);
    if (!status.ok()) log(KEEL_LOG_WARNING, "{}", status.text());
  }
  // A backend requested by name must exist.
  std::string_view wanted = backends == nullptr ? "" : backends;
  while (!wanted.empty()) {
    const size_t comma = wanted.find(',');
    const std::string_view name = wanted.substr(0, comma);
    if (std::find(loaded.begin(), loaded.end(), name) == loaded.end()) {
      return failure(KEEL_NOT_FOUND, "backend '{}': no libkeel_{}.so in {}", name, name, folder);
    }
    wanted.remove_prefix(comma == std::string_view::npos ? wanted.size() : comma + 1);
  }
  return {};
}

Status Runtime::load_plugin(const char* path, const keel_instance_settings* settings,
                            const char* sha256, uint32_t* out_backend) {
  return add_backend(path, settings, sha256, out_backend);
}

Status Runtime::add_backend(const char* path, const keel_instance_settings* settings,
                            const char* sha256, uint32_t* out_backend) {
  NamedSettings named;
  KEEL_RETURN_IF_ERROR(NamedSettings::read(settings, &named));
  PluginFile file;
  const Status opened = load_plugin_file(path, sha256, host(), &file);
  const std::string shown_path = opened.ok() ? file.path : (path == nullptr ? "" : path);
  const std::string base_name = opened.ok() ? file.plugin->name : plugin_stem(shown_path);

  std::unique_lock lock(backends_mutex_);
  const auto taken = [&](const std::string& name) {
    return std::any_of(backends_.begin(), backends_.end(),
                       [&](const auto& other) { return other->name() == name; });
  };
  if (!named.name().empty() && taken(named.name())) {
    return failure(KEEL_ALREADY_EXISTS, "instance_name '{}' is another instance's", named.name());
  }
  std::string name = named.name().empty() ? base_name : named.name();
  for (int copy = 2; taken(name); ++copy) name = fmt::format("{}#{}", base_name, copy);
  auto backend = std::make_unique<Backend>(name, shown_path);
  Status status = opened;
  if (status.ok()) {
    status = backend->load(file.plugin, named.rest(), fork_memory_);
  } else {
    backend->set_failed(status);
  }
  for (const Ref<Device>& device : backend->devices()) {
    device->set_handle(device_handles_.insert(device));
  }
  *out_backend = static_cast<uint32_t>(backends_.size());
  backends_.push_back(std::move(backend));
  return status;
}

uint32_t Runtime::backend_count() {
  std::shared_lock lock(backends_mutex_);
  return static_cast<uint32_t>(backends_.size());
}

const Backend* Runtime::backend(uint32_t index) {
  std::shared_lock lock(backends_mutex_);
  return index < backends_.size() ? backends_[index].get() : nullptr;
}

std::vector<Ref<Device>> Runtime::devices() {
  std::shared_lock lock(backends_mutex_);
  std::vector<Ref<Device>> all;
  for (const auto& backend : backends_) {
    all.insert(all.end(), backend->devices().begin(), backend->devices().end());
  }
  return all;
}

Status Runtime::deadline(int64_t timeout_ns, Deadline* out_deadline, int64_t operations_ns) const {
  if (timeout_ns == KEEL_TIMEOUT_OPERATIONS && operations_ns >= 0) {
    *out_deadline = insiders::deadline(add_timeouts(default_timeout_ns_, operations_ns));
    return {};
  }
  if (timeout_ns < 0 && timeout_ns != KEEL_TIMEOUT_DEFAULT) {
    return failure(KEEL_INVALID_ARGUMENT, "timeout_ns is {}", timeout_ns);
  }
  *out_deadline =
      insiders::deadline(timeout_ns == KEEL_TIMEOUT_DEFAULT ? default_timeout_ns_ : timeout_ns);
  return {};
}

void Runtime::add_stream(Stream* stream) {
  std::lock_guard lock(streams_mutex_);
  streams_.push_back(stream);
}

void Runtime::remove_stream(Stream* stream) {
  std::lock_guard lock(streams_mutex_);
  std::erase(streams_, stream);
}

std::vector<Ref<Stream>> Runtime::streams() {
  std::vector<Ref<Stream>> alive;
  std::lock_guard lock(streams_mutex_);
  alive.reserve(streams_.size());
  for (Stream* stream : streams_) {
    if (stream->try_retain()) alive.push_back(Ref<Stream>::adopt(stream));
  }
  return alive;
}

size_t Runtime::streams_after(const Stream* previous, std::span<Ref<Stream>> out_streams) {
  std::lock_guard lock(streams_mutex_);
  // A live stream is in the list, and the list keeps its order.
  auto next = previous == nullptr
                  ? streams_.begin()
                  : std::next(std::find(streams_.begin(), streams_.end(), previous));
  size_t count = 0;
  for (; next != streams_.end() && count < out_streams.size(); ++next) {
    if ((*next)->try_retain()) out_streams[count++] = Ref<Stream>::adopt(*next);
  }
  return count;
}

std::vector<Ref<Stream>> Runtime::streams_of(const Device& device) {
  std::vector<Ref<Stream>> found = streams();
  std::erase_if(found, [&](const Ref<Stream>& stream) { return &stream->device() != &device; });
  return found;
}

void Runtime::add_shutdown_hook(std::function<void()> hook) {
  std::lock_guard lock(hooks_mutex_);
  shutdown_hooks_.push_back(std::move(hook));
}

void Runtime::add_registration_user(CheckUnused check) {
  std::lock_guard lock(hooks_mutex_);
  registration_users_.push_back(std::move(check));
}

Status Runtime::check_unused(const Device& device, uintptr_t begin, uintptr_t end) {
  std::vector<CheckUnused> users;
  {
    std::lock_guard lock(hooks_mutex_);
    users = registration_users_;
  }
  for (const CheckUnused& check : users) KEEL_RETURN_IF_ERROR(check(device, begin, end));
  return {};
}

Status Runtime::shutdown() {
  if (insiders::is_inside() || insiders::is_in_callback()) {
    return failure(KEEL_FAILED_PRECONDITION,
                   "keel_shutdown waits for this callback of Keel's, so it must not be called "
                   "within it");
  }
  std::lock_guard lock(lifecycle_mutex_);
  const ApiState state = g_api_state.load(std::memory_order_acquire);
  if (state != ApiState::kOpen && state != ApiState::kEnding) {
    return failure(KEEL_FAILED_PRECONDITION, "keel_init has not been called");
  }
  g_api_state.store(ApiState::kEnding, std::memory_order_seq_cst);
  const Deadline deadline = default_deadline();
  Status left = insiders::await(deadline);
  // Callbacks run until the last call that adds one has returned.
  if (left.ok()) left = host_callbacks_.stop(deadline);
  if (!left.ok()) {
    log(KEEL_LOG_ERROR, "shutdown: {}", left.text());
    return left;
  }
  if (validation::enabled()) validation::report_leaks();
  std::vector<std::function<void()>> hooks;
  {
    std::lock_guard hooks_lock(hooks_mutex_);
    hooks = shutdown_hooks_;
  }
  for (const auto& hook : hooks) hook();
  end_observers(default_deadline());
  const size_t streams = stream_handles_.size();
  const size_t events = event_handles_.size();
  const size_t gates = gate_handles_.size();
  const size_t modules = module_handles_.size();
  if (streams + events + gates + modules != 0) {
    log(KEEL_LOG_WARNING,
        "shutdown: {} streams, {} events, {} gates and {} modules were never destroyed", streams,
        events, gates, modules);
  }
  destroy_leftovers();
  validation::finish();
  g_api_state.store(ApiState::kClosed, std::memory_order_release);
  return {};
}

void Runtime::destroy_leftovers() {
  WakeList wake;
  for (uint64_t handle : gate_handles_.live_handles()) {
    const Ref<Gate> gate = gate_handles_.remove(handle);
    gate->open(failure(KEEL_CANCELLED, "Keel was shut down"), wake);
  }
  advance_all(wake);
  for (uint64_t handle : event_handles_.live_handles()) {
    event_handles_.remove(handle, /*lazily=*/true);
  }
  for (uint64_t handle : stream_handles_.live_handles()) {
    stream_handles_.remove(handle)->close();
  }
  for (uint64_t handle : module_handles_.live_handles()) module_handles_.remove(handle)->close();
  progress_->stop();
  progress_.reset();
  std::vector<Ref<Device>> devices;
  for (uint64_t handle : device_handles_.live_handles()) {
    devices.push_back(device_handles_.remove(handle));
  }
  // No other thread is inside Keel now, so all retired objects can be reclaimed. A call being
  // refused is briefly in a section, which would otherwise delay reclaiming until the devices are
  // gone.
  while (retired_count() != 0) reclaim_retired();
  for (const auto& device : devices) device->release_all();
  for (const auto& device : devices) device->close();
  devices.clear();
  slow_path_flags::g_process.fetch_and(~slow_path_flags::kLostDevice, std::memory_order_relaxed);
  std::unique_lock lock(backends_mutex_);
  backends_.clear();
}

}  // namespace keel
