// SPDX-License-Identifier: Apache-2.0
#include "bench/raw_cuda.h"

#include <cudaTypedefs.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace keel::bench {

namespace {

// Functions with the version of their interface.
#define KEEL_CUDA_FUNCTIONS(X)      \
  X(CtxPopCurrent, 4000)            \
  X(CtxPushCurrent, 4000)           \
  X(DeviceGet, 2000)                \
  X(DeviceGetCount, 2000)           \
  X(DeviceGetUuid, 11040)           \
  X(DevicePrimaryCtxRelease, 11000) \
  X(DevicePrimaryCtxRetain, 7000)   \
  X(EventCreate, 2000)              \
  X(EventDestroy, 4000)             \
  X(EventElapsedTime, 2000)         \
  X(EventRecord, 2000)              \
  X(GetErrorName, 6000)             \
  X(Init, 2000)                     \
  X(LaunchKernel, 4000)             \
  X(MemcpyDtoDAsync, 3020)          \
  X(MemcpyDtoHAsync, 3020)          \
  X(MemcpyHtoDAsync, 3020)          \
  X(ModuleGetFunction, 2000)        \
  X(ModuleLoadDataEx, 2010)         \
  X(ModuleUnload, 2000)             \
  X(StreamCreateWithPriority, 5050) \
  X(StreamDestroy, 4000)            \
  X(StreamQuery, 2000)

struct Functions {
#define KEEL_CUDA_MEMBER(name, version) PFN_cu##name##_v##version name = nullptr;
  KEEL_CUDA_FUNCTIONS(KEEL_CUDA_MEMBER)
#undef KEEL_CUDA_MEMBER
};

// Opened once and never closed: drivers do not support unloading well.
bool open_driver(Functions* out_functions, std::string* out_reason) {
  const char* const folder = secure_getenv("KEEL_CUDA_LIBRARY_FOLDER");
  const std::string path =
      folder == nullptr || *folder == '\0' ? "libcuda.so.1" : std::string(folder) + "/libcuda.so.1";
  static void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    *out_reason = path + " is not here";
    return false;
  }
  const auto get =
      reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(library, "cuGetProcAddress_v2"));
  if (get == nullptr) {
    *out_reason = path + " is older than CUDA 12.0";
    return false;
  }
  std::string missing;
  const auto find = [&](const char* name, int version, auto* out_function) {
    void* address = nullptr;
    if (get(name, &address, version, CU_GET_PROC_ADDRESS_DEFAULT, nullptr) != CUDA_SUCCESS ||
        address == nullptr) {
      missing = name;
    }
    std::memcpy(out_function, &address, sizeof(address));
  };
#define KEEL_CUDA_FIND(name, version) find("cu" #name, version, &out_functions->name);
  KEEL_CUDA_FUNCTIONS(KEEL_CUDA_FIND)
#undef KEEL_CUDA_FIND
  if (!missing.empty()) *out_reason = path + " has no " + missing;
  return missing.empty();
}

CUdeviceptr address_of(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

class Program final : public RawCuda {
 public:
  // On failure |*out_reason| is the reason.
  bool open(const uint8_t* uuid, std::string* out_reason) {
    if (!open_driver(&cu_, out_reason) || !find_device(uuid, out_reason)) return false;
    check(cu_.DevicePrimaryCtxRetain(&context_, device_), "cuDevicePrimaryCtxRetain");
    check(cu_.CtxPushCurrent(context_), "cuCtxPushCurrent");
    is_current_ = true;
    for (CUstream* stream : {&stream_, &other_}) {
      check(cu_.StreamCreateWithPriority(stream, CU_STREAM_NON_BLOCKING, /*priority=*/0),
            "cuStreamCreateWithPriority");
    }
    check(cu_.EventCreate(&mark_, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    check(cu_.EventCreate(&start_, CU_EVENT_DEFAULT), "cuEventCreate");
    check(cu_.EventCreate(&end_, CU_EVENT_DEFAULT), "cuEventCreate");
    return true;
  }

  ~Program() override {
    if (context_ == nullptr) return;
    for (CUevent event : {mark_, start_, end_}) {
      if (event != nullptr) (void)cu_.EventDestroy(event);
    }
    for (CUstream stream : {stream_, other_}) {
      if (stream != nullptr) (void)cu_.StreamDestroy(stream);
    }
    if (module_ != nullptr) (void)cu_.ModuleUnload(module_);
    CUcontext popped = nullptr;
    if (is_current_) (void)cu_.CtxPopCurrent(&popped);
    (void)cu_.DevicePrimaryCtxRelease(device_);
  }

  bool load(std::span<const std::byte> image, const char* name) override {
    if (cu_.ModuleLoadDataEx(&module_, image.data(), 0, nullptr, nullptr) != CUDA_SUCCESS) {
      module_ = nullptr;
      return false;
    }
    check(cu_.ModuleGetFunction(&kernel_, module_, name), "cuModuleGetFunction");
    return true;
  }
  void launch() override {
    uint32_t number = 0;
    void* arguments[] = {&number};
    check(cu_.LaunchKernel(kernel_, 1, 1, 1, 1, 1, 1, /*sharedMemBytes=*/0, stream_, arguments,
                           /*extra=*/nullptr),
          "cuLaunchKernel");
  }
  void upload(void* destination, const void* source, uint64_t bytes) override {
    check(cu_.MemcpyHtoDAsync(address_of(destination), source, bytes, stream_),
          "cuMemcpyHtoDAsync");
  }
  void record() override { check(cu_.EventRecord(mark_, stream_), "cuEventRecord"); }

  void copy(void* destination, const void* source, uint64_t bytes) override {
    check(cu_.MemcpyDtoDAsync(address_of(destination), address_of(source), bytes, stream_),
          "cuMemcpyDtoDAsync");
  }
  void exchange(void* device, const void* host, void* host_too, const void* device_too,
                uint64_t bytes) override {
    check(cu_.MemcpyHtoDAsync(address_of(device), host, bytes, stream_), "cuMemcpyHtoDAsync");
    check(cu_.MemcpyDtoHAsync(host_too, address_of(device_too), bytes, other_),
          "cuMemcpyDtoHAsync");
    wait_for(stream_);
    wait_for(other_);
  }

  double seconds_of(const std::function<void()>& enqueue) override {
    check(cu_.EventRecord(start_, stream_), "cuEventRecord");
    enqueue();
    check(cu_.EventRecord(end_, stream_), "cuEventRecord");
    wait();
    float milliseconds = 0;
    check(cu_.EventElapsedTime(&milliseconds, start_, end_), "cuEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e-3;
  }
  void wait() override { wait_for(stream_); }

  void* stream() const override { return stream_; }

 private:
  void check(CUresult result, const char* call) const {
    if (result == CUDA_SUCCESS) return;
    const char* name = nullptr;
    if (cu_.GetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) name = "unknown";
    throw std::runtime_error(fmt::format("{}: {}", call, name));
  }

  bool find_device(const uint8_t* uuid, std::string* out_reason) {
    if (const CUresult started = cu_.Init(/*Flags=*/0); started != CUDA_SUCCESS) {
      *out_reason = fmt::format("cuInit: error {}", static_cast<int>(started));
      return false;
    }
    int count = 0;
    check(cu_.DeviceGetCount(&count), "cuDeviceGetCount");
    for (int ordinal = 0; ordinal < count; ++ordinal) {
      CUuuid of_device = {};
      check(cu_.DeviceGet(&device_, ordinal), "cuDeviceGet");
      check(cu_.DeviceGetUuid(&of_device, device_), "cuDeviceGetUuid");
      if (std::memcmp(of_device.bytes, uuid, sizeof(of_device.bytes)) == 0) return true;
    }
    *out_reason = "the driver shows no device with the UUID of Keel's";
    return false;
  }

  // Polls, for the shortest wait, but yields the core to other threads.
  void wait_for(CUstream stream) const {
    CUresult result = cu_.StreamQuery(stream);
    while (result == CUDA_ERROR_NOT_READY) {
      std::this_thread::yield();
      result = cu_.StreamQuery(stream);
    }
    check(result, "cuStreamQuery");
  }

  Functions cu_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  bool is_current_ = false;
  CUstream stream_ = nullptr;
  CUstream other_ = nullptr;
  CUevent mark_ = nullptr;
  CUevent start_ = nullptr;
  CUevent end_ = nullptr;
  CUmodule module_ = nullptr;
  CUfunction kernel_ = nullptr;
};

}  // namespace

std::unique_ptr<RawCuda> RawCuda::open(const uint8_t* uuid, std::string* out_reason) {
  auto program = std::make_unique<Program>();
  if (!program->open(uuid, out_reason)) return nullptr;
  return program;
}

}  // namespace keel::bench
