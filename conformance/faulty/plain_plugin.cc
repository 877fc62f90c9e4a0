#include "conformance/faulty/plain_plugin.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <keel/float_types.hpp>
#include <keel/plugin_kit.hpp>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

namespace keel::faulty {

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kCapacity = uint64_t{768} << 20;
constexpr uint32_t kAlignment = 256;

struct Instance {};

// ---- memory -----------------------------------------------------------------------

class Device {
 public:
  keel_status alloc(uint64_t size, void** out_pointer) {
    const std::lock_guard lock(mutex_);
    if (size > kCapacity - used_) {
      return kit::fail(KEEL_OUT_OF_MEMORY, "plain: %llu bytes are left",
                       static_cast<unsigned long long>(kCapacity - used_));
    }
    void* pointer =
        std::aligned_alloc(kAlignment, (size + kAlignment - 1) / kAlignment * kAlignment);
    if (pointer == nullptr) return kit::fail(KEEL_OUT_OF_MEMORY, "plain: malloc has none left");
    used_ += size;
    sizes_[pointer] = size;
    *out_pointer = pointer;
    return KEEL_OK;
  }

  void free(void* pointer) {
    const std::lock_guard lock(mutex_);
    used_ -= sizes_.at(pointer);
    sizes_.erase(pointer);
    std::free(pointer);
  }

  uint64_t left() {
    const std::lock_guard lock(mutex_);
    return kCapacity - used_;
  }

 private:
  std::mutex mutex_;
  uint64_t used_ = 0;
  std::unordered_map<void*, uint64_t> sizes_;
};

// ---- streams and events -------------------------------------------------------------

class Stream {
 public:
  Stream() : thread_([this] { run(); }) {}
  ~Stream() {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void enqueue(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(work));
    }
    changed_.notify_one();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return closing_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const std::function<void()> work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool closing_ = false;
  std::thread thread_;  // last: it uses all of the above
};

// Each record has a number of its own; the event is done when the last one is.
class Event {
 public:
  uint64_t begin_record() {
    const std::lock_guard lock(mutex_);
    return ++recorded_;
  }

  void finish_record(uint64_t record) {
    {
      const std::lock_guard lock(mutex_);
      finished_ = std::max(finished_, record);
      time_ = Clock::now();
    }
    changed_.notify_all();
  }

  bool done() {
    const std::lock_guard lock(mutex_);
    return finished_ == recorded_;
  }

  bool wait(int64_t timeout_ns) {
    std::unique_lock lock(mutex_);
    // Deadlines beyond a day are cut, since adding them to now would wrap.
    const auto timeout =
        std::chrono::nanoseconds(std::min<int64_t>(timeout_ns, 86'400'000'000'000));
    return changed_.wait_for(lock, timeout, [&] { return finished_ == recorded_; });
  }

  uint64_t last_record() {
    const std::lock_guard lock(mutex_);
    return recorded_;
  }

  void wait_for_record(uint64_t record) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return finished_ >= record; });
  }

  Clock::time_point time() {
    const std::lock_guard lock(mutex_);
    return time_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t recorded_ = 0;
  uint64_t finished_ = 0;
  Clock::time_point time_;
};

// What a handle points to: streams share their events with what is queued.
using EventHandle = std::shared_ptr<Event>;

Device& object(keel_plugin_device* handle) {
  return *reinterpret_cast<Device*>(handle);
}
Stream& object(keel_plugin_stream* handle) {
  return *reinterpret_cast<Stream*>(handle);
}
EventHandle& object(keel_plugin_event* handle) {
  return *reinterpret_cast<EventHandle*>(handle);
}

// ---- tables -----------------------------------------------------------------------------

keel_status create_instance(const keel_instance_settings* settings,
                            keel_plugin_instance** out_instance) {
  if (settings != nullptr && settings->count != 0) {
    return kit::fail(KEEL_INVALID_ARGUMENT, "plain: setting '%s' is not known", settings->keys[0]);
  }
  *out_instance = reinterpret_cast<keel_plugin_instance*>(new Instance);
  return KEEL_OK;
}

void destroy_instance(keel_plugin_instance* instance) {
  delete reinterpret_cast<Instance*>(instance);
}

keel_status device_count(keel_plugin_instance*, uint32_t* out_count) {
  *out_count = 1;
  return KEEL_OK;
}

keel_status device_info(keel_plugin_instance*, uint32_t, keel_device_info* out_info) {
  kit::copy_text(out_info->name, "host memory with a thread a stream");
  kit::copy_text(out_info->architecture, "plain");
  kit::copy_text(out_info->driver, "none");
  out_info->type = KEEL_DEVICE_OTHER;
  out_info->numa_node = -1;
  out_info->claims = KEEL_CLAIM_PINNED | KEEL_CLAIM_ASYNC | KEEL_CLAIM_TIMING | KEEL_CLAIM_OPS |
                     KEEL_CLAIM_FILL | KEEL_CLAIM_MEMORY_INFO | KEEL_CLAIM_PAGEABLE_ASYNC;
  out_info->memory_bytes = kCapacity;
  out_info->alignment = kAlignment;
  out_info->copy_alignment = 1;
  return KEEL_OK;
}

keel_status device_open(keel_plugin_instance*, uint32_t, keel_plugin_device** out_device) {
  *out_device = reinterpret_cast<keel_plugin_device*>(new Device);
  return KEEL_OK;
}

void device_close(keel_plugin_device* device) {
  delete &object(device);
}

keel_status device_memory_info(keel_plugin_device* device, uint64_t* out_free,
                               uint64_t* out_total) {
  *out_free = object(device).left();
  *out_total = kCapacity;
  return KEEL_OK;
}

keel_status memory_alloc(keel_plugin_device* device, keel_memory_kind kind, uint64_t size, uint32_t,
                         void** out_pointer) {
  if (kind == KEEL_MEMORY_MANAGED) return kit::fail(KEEL_UNSUPPORTED, "plain: no managed memory");
  return kit::guard([&] { return object(device).alloc(size, out_pointer); });
}

keel_status memory_free(keel_plugin_device* device, keel_memory_kind, void* pointer) {
  return kit::guard([&] {
    object(device).free(pointer);
    return keel_status{KEEL_OK};
  });
}

keel_status stream_create(keel_plugin_device*, int32_t, keel_plugin_stream** out_stream) {
  return kit::guard([&] {
    *out_stream = reinterpret_cast<keel_plugin_stream*>(new Stream);
    return keel_status{KEEL_OK};
  });
}

void stream_destroy(keel_plugin_stream* stream) {
  delete &object(stream);
}

keel_status stream_copy(keel_plugin_stream* stream, keel_copy_kind, void* destination,
                        const void* source, uint64_t size) {
  return kit::guard([&] {
    enqueue(stream, [=] { std::memcpy(destination, source, size); });
    return keel_status{KEEL_OK};
  });
}

keel_status stream_fill(keel_plugin_stream* stream, void* destination, const void* pattern,
                        uint32_t pattern_size, uint64_t size) {
  uint64_t value = 0;
  std::memcpy(&value, pattern, pattern_size);
  return kit::guard([&] {
    enqueue(stream, [=] {
      for (uint64_t offset = 0; offset < size; offset += pattern_size) {
        std::memcpy(static_cast<char*>(destination) + offset, &value, pattern_size);
      }
    });
    return keel_status{KEEL_OK};
  });
}

keel_status event_create(keel_plugin_device*, uint32_t, keel_plugin_event** out_event) {
  return kit::guard([&] {
    *out_event = reinterpret_cast<keel_plugin_event*>(new EventHandle(std::make_shared<Event>()));
    return keel_status{KEEL_OK};
  });
}

void event_destroy(keel_plugin_event* event) {
  delete &object(event);
}

keel_status event_record(keel_plugin_event* event, keel_plugin_stream* stream) {
  return kit::guard([&] {
    const EventHandle recorded = object(event);
    const uint64_t record = recorded->begin_record();
    enqueue(stream, [recorded, record] { recorded->finish_record(record); });
    return keel_status{KEEL_OK};
  });
}

keel_status event_query(keel_plugin_event* event) {
  return object(event)->done() ? KEEL_OK : KEEL_NOT_READY;
}

keel_status event_wait(keel_plugin_event* event, int64_t timeout_ns) {
  return object(event)->wait(timeout_ns) ? KEEL_OK : KEEL_TIMED_OUT;
}

keel_status stream_wait_event(keel_plugin_stream* stream, keel_plugin_event* event) {
  return kit::guard([&] {
    const EventHandle waited = object(event);
    const uint64_t record = waited->last_record();
    enqueue(stream, [waited, record] { waited->wait_for_record(record); });
    return keel_status{KEEL_OK};
  });
}

keel_status event_elapsed(keel_plugin_event* start, keel_plugin_event* end,
                          uint64_t* out_nanoseconds) {
  const auto elapsed = object(end)->time() - object(start)->time();
  *out_nanoseconds = static_cast<uint64_t>(std::chrono::nanoseconds(elapsed).count());
  return KEEL_OK;
}

// ---- operators: fill, add, cast -----------------------------------------------------------

// Values go through float32, which is exact for all but large integers, which do not.
float load(const void* data, keel_dtype dtype, int64_t index) {
  switch (dtype) {
    case KEEL_FLOAT16:
      return to_float(static_cast<const float16_t*>(data)[index]);
    case KEEL_BFLOAT16:
      return to_float(static_cast<const bfloat16_t*>(data)[index]);
    default:
      return static_cast<const float*>(data)[index];
  }
}

void store(void* data, keel_dtype dtype, int64_t index, float value) {
  switch (dtype) {
    case KEEL_FLOAT16:
      static_cast<float16_t*>(data)[index] = to_float16(value);
      break;
    case KEEL_BFLOAT16:
      static_cast<bfloat16_t*>(data)[index] = to_bfloat16(value);
      break;
    case KEEL_INT32:
      static_cast<int32_t*>(data)[index] = static_cast<int32_t>(value);
      break;
    default:
      static_cast<float*>(data)[index] = value;
  }
}

bool takes(const keel_op_call& call) {
  for (uint32_t i = 0; i < call.input_count; ++i) {
    if (call.inputs[i] == nullptr || !kit::is_contiguous(*call.inputs[i])) return false;
  }
  const keel_tensor& output = *call.outputs[0];
  if (!kit::is_contiguous(output)) return false;
  const auto is_float = [](keel_dtype dtype) {
    return dtype == KEEL_FLOAT32 || dtype == KEEL_FLOAT16 || dtype == KEEL_BFLOAT16;
  };
  switch (call.op) {
    case KEEL_OP_FILL:
      return output.dtype == KEEL_FLOAT32 || output.dtype == KEEL_INT32;
    case KEEL_OP_ADD:
      return output.dtype == KEEL_FLOAT32;
    case KEEL_OP_CAST:
      return is_float(call.inputs[0]->dtype) && is_float(output.dtype);
    default:
      return false;
  }
}

keel_status op_query(keel_plugin_device*, const keel_op_call* call, keel_op_support* out_support) {
  out_support->level = takes(*call) ? KEEL_OP_NATIVE : KEEL_OP_NONE;
  out_support->score = 100;
  out_support->workspace_bytes = 0;
  out_support->kernel = "plain";
  return KEEL_OK;
}

keel_status op_run(keel_plugin_stream* stream, const keel_op_call* call, void*) {
  const keel_tensor y = *call->outputs[0];
  const keel_tensor a = call->input_count > 0 ? *call->inputs[0] : y;
  const keel_tensor b = call->input_count > 1 ? *call->inputs[1] : a;
  const auto fill = call->op == KEEL_OP_FILL ? static_cast<float>(call->attributes[0].f) : 0.0F;
  const keel_op_id op = call->op;
  return kit::guard([&] {
    enqueue(stream, [=] {
      const int64_t count = kit::element_count(y);
      for (int64_t i = 0; i < count; ++i) {
        float value = fill;
        if (op != KEEL_OP_FILL) value = load(kit::first_element(a), a.dtype, i);
        if (op == KEEL_OP_ADD) value += load(kit::first_element(b), b.dtype, i);
        store(kit::first_element(y), y.dtype, i, value);
      }
    });
    return keel_status{KEEL_OK};
  });
}

constexpr keel_device_table kDeviceTable = {
    .header = kit::header<keel_device_table>(KEEL_STRUCT_DEVICE_TABLE),
    .count = device_count,
    .info = device_info,
    .open = device_open,
    .close = device_close,
    .memory_info = device_memory_info,
    .health = nullptr,
    .native_handle = nullptr,
};

Tables make_tables() {
  Tables tables = {};
  tables.memory.header = kit::header<keel_memory_table>(KEEL_STRUCT_MEMORY_TABLE);
  tables.memory.alloc = memory_alloc;
  tables.memory.free = memory_free;
  tables.stream.header = kit::header<keel_stream_table>(KEEL_STRUCT_STREAM_TABLE);
  tables.stream.create = stream_create;
  tables.stream.destroy = stream_destroy;
  tables.stream.copy = stream_copy;
  tables.stream.fill = stream_fill;
  tables.stream.event_create = event_create;
  tables.stream.event_destroy = event_destroy;
  tables.stream.event_record = event_record;
  tables.stream.event_query = event_query;
  tables.stream.event_wait = event_wait;
  tables.stream.stream_wait_event = stream_wait_event;
  tables.stream.event_elapsed = event_elapsed;
  tables.op.header = kit::header<keel_op_table>(KEEL_STRUCT_OP_TABLE);
  tables.op.query = op_query;
  tables.op.run = op_run;
  return tables;
}

}  // namespace

void enqueue(keel_plugin_stream* stream, std::function<void()> work) {
  object(stream).enqueue(std::move(work));
}

void signal_now(keel_plugin_event* event) {
  object(event)->finish_record(object(event)->begin_record());
}

const Tables& plain_tables() {
  static const Tables tables = make_tables();
  return tables;
}

keel_status answer_query(const char* name, const Tables& tables, const keel_host* host,
                         const keel_plugin** out_plugin) {
  static Tables used;
  static keel_plugin plugin;
  kit::g_host = host;
  used = tables;
  plugin = {};
  plugin.header = kit::header<keel_plugin>(KEEL_STRUCT_PLUGIN);
  plugin.abi_major = KEEL_ABI_MAJOR;
  plugin.name = name;
  plugin.vendor = "Keel";
  plugin.version = "0.1.0";
  plugin.create_instance = create_instance;
  plugin.destroy_instance = destroy_instance;
  plugin.device = &kDeviceTable;
  plugin.memory = &used.memory;
  plugin.stream = &used.stream;
  plugin.op = &used.op;
  *out_plugin = &plugin;
  return KEEL_OK;
}

}  // namespace keel::faulty
