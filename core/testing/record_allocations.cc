// SPDX-License-Identifier: Apache-2.0
// Preloaded into a program, writes the program's device allocations and frees through keel.h to
// $KEEL_ALLOCATIONS, with the process number added, for core/testing/traces:
//   LD_PRELOAD=build/tests/librecord_allocations.so KEEL_ALLOCATIONS=/tmp/run PROGRAM
// One line per call: "a SIZE DEVICE" gives the allocation the next number from 0 on, "f NUMBER"
// frees it; devices are numbered from 0 on as they appear. The traces contain the lines of one
// device, renumbered.
#include <dlfcn.h>
#include <keel/keel.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace {

class Recorder {
 public:
  static Recorder& get() {
    static Recorder& instance = *new Recorder;
    return instance;
  }

  void created(keel_stream stream, uint64_t device) {
    std::lock_guard lock(mutex_);
    streams_[stream.id] = device;
  }
  uint64_t device_of(keel_stream stream) {
    std::lock_guard lock(mutex_);
    return streams_[stream.id];
  }
  void allocated(uint64_t device, const void* pointer, uint64_t size) {
    std::lock_guard lock(mutex_);
    const auto [known, added] = devices_.emplace(device, devices_.size());
    live_[{device, pointer}] = next_++;
    write("a %llu %zu\n", static_cast<unsigned long long>(size), known->second);
  }
  // Called before the free: afterwards, another thread may get the address. A failed free frees
  // nothing, but programs with failed calls are not worth recording.
  void freed(uint64_t device, const void* pointer) {
    std::lock_guard lock(mutex_);
    const auto found = live_.find({device, pointer});
    if (found == live_.end()) return;  // pinned
    write("f %llu\n", static_cast<unsigned long long>(found->second));
    live_.erase(found);
  }

 private:
  Recorder() {
    const char* const path = std::getenv("KEEL_ALLOCATIONS");
    if (path == nullptr) return;
    file_ = std::fopen((std::string(path) + "." + std::to_string(::getpid())).c_str(), "we");
  }
  template <typename... Arguments>
  void write(const char* format, Arguments... arguments) {
    if (file_ == nullptr) return;
    std::fprintf(file_, format, arguments...);
    std::fflush(file_);
  }

  std::mutex mutex_;
  FILE* file_ = nullptr;
  uint64_t next_ = 0;
  std::map<uint64_t, size_t> devices_;
  std::map<uint64_t, uint64_t> streams_;  // devices by stream
  std::map<std::pair<uint64_t, const void*>, uint64_t> live_;
};

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

KEEL_EXPORT keel_status keel_stream_create(keel_device device, int32_t priority,
                                           keel_stream* out_stream) {
  static auto* const call = next<decltype(keel_stream_create)>("keel_stream_create");
  const keel_status status = call(device, priority, out_stream);
  if (status == KEEL_OK) Recorder::get().created(*out_stream, device.id);
  return status;
}

KEEL_EXPORT keel_status keel_alloc(keel_device device, keel_memory_kind kind, uint64_t size,
                                   void** out_pointer) {
  static auto* const call = next<decltype(keel_alloc)>("keel_alloc");
  const keel_status status = call(device, kind, size, out_pointer);
  if (status == KEEL_OK && kind == KEEL_MEMORY_DEVICE) {
    Recorder::get().allocated(device.id, *out_pointer, size);
  }
  return status;
}

KEEL_EXPORT keel_status keel_alloc_on_stream(keel_stream stream, uint64_t size,
                                             void** out_pointer) {
  static auto* const call = next<decltype(keel_alloc_on_stream)>("keel_alloc_on_stream");
  const keel_status status = call(stream, size, out_pointer);
  if (status == KEEL_OK)
    Recorder::get().allocated(Recorder::get().device_of(stream), *out_pointer, size);
  return status;
}

KEEL_EXPORT keel_status keel_free(keel_device device, void* pointer) {
  static auto* const call = next<decltype(keel_free)>("keel_free");
  Recorder::get().freed(device.id, pointer);
  return call(device, pointer);
}

KEEL_EXPORT keel_status keel_free_on_stream(keel_stream stream, void* pointer) {
  static auto* const call = next<decltype(keel_free_on_stream)>("keel_free_on_stream");
  Recorder::get().freed(Recorder::get().device_of(stream), pointer);
  return call(stream, pointer);
}

}  // extern "C"
