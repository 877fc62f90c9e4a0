// SPDX-License-Identifier: Apache-2.0
#include "bench/driver_calls.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <keel/keel.hpp>
#include <map>
#include <stdexcept>

namespace keel::bench {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kElements = 1024;
// A kernel that takes one number and does nothing. CUDA's and HIP's emulated drivers take code for
// the host in place of a cubin or a code object; Level Zero's interprets SPIR-V.
constexpr uint8_t kSharedObject[] = {
#include "empty.inc"
};
constexpr uint32_t kSpirv[] = {
    0x07230203, 0x00010000, 0,          7,          0,           // header, seven ids
    0x00020011, 4,                                               // OpCapability Addresses
    0x00020011, 6,                                               // OpCapability Kernel
    0x0003000e, 2,          2,                                   // Physical64, OpenCL
    0x0005000f, 6,          1,          0x74706d65, 0x00000079,  // kernel "empty"
    0x00020013, 2,                                               // %2 = void
    0x00040015, 5,          32,         0,                       // %5 = uint32
    0x00040021, 3,          2,          5,                       // %3 = void (uint32)
    0x00050036, 2,          1,          0,          3,           // %1 = function %3
    0x00030037, 5,          6,                                   // %6: its parameter
    0x000200f8, 4,          0x000100fd, 0x00010038,              // its body
};

// Returns |backend|'s own form of the empty kernel.
Module load_empty(Device device, const std::string& backend) {
  if (backend == "level_zero") {
    return Module(device, KEEL_BINARY_SPIRV, std::as_bytes(std::span(kSpirv)));
  }
  const keel_binary_format format = backend == "hip" ? KEEL_BINARY_HSACO : KEEL_BINARY_CUBIN;
  return Module(device, format, std::as_bytes(std::span(kSharedObject)));
}

// Owns the objects of the calls.
class Calls {
 public:
  explicit Calls(const std::string& backend)
      : device_(Device::find(backend)), module_(load_empty(device_, backend)) {
    launch_.argument_count = 1;
    launch_.arguments = arguments_;
    launch_.argument_sizes = sizes_;
    for (uint32_t& extent : launch_.grid) extent = 1;
    for (uint32_t& extent : launch_.block) extent = 1;
    event_.record(stream_);
    other_.record(other_stream_);
    other_.wait();
    synchronize();
  }

  void synchronize() const {
    stream_.synchronize();
    other_stream_.synchronize();
    event_.wait();  // a stream without work does not wait for an event alone
  }

  std::function<void()> find(const std::string& name) {
    const std::map<std::string, std::function<void()>> calls = {
        {"record", [this] { check(keel_event_record(event_.get(), stream_.get())); }},
        {"query", [this] { check(keel_event_query(other_.get())); }},
        {"wait",
         [this] {
           check(keel_event_record(event_.get(), stream_.get()));
           check(keel_stream_wait_event(other_stream_.get(), event_.get()));
         }},
        {"upload",
         [this] {
           check(keel_copy(stream_.get(), device_.get(), memory_.data(), KEEL_HOST, host_.data(),
                           kBytes));
         }},
        {"copy",
         [this] {
           check(keel_copy(stream_.get(), device_.get(), memory_.data(), device_.get(),
                           second_.data(), kBytes));
         }},
        {"fill",
         [this] {
           const uint32_t zero = 0;
           check(keel_fill(stream_.get(), memory_.data(), &zero, sizeof(zero), kBytes));
         }},
        {"launch", [this] { check(keel_kernel_launch(stream_.get(), kernel_.get(), &launch_)); }},
        {"op", [this] { scale_.run(stream_); }},
        {"alloc",
         [this] {
           void* pointer = nullptr;
           check(keel_alloc_on_stream(stream_.get(), kBytes, &pointer));
           check(keel_free_on_stream(stream_.get(), pointer));
         }},
    };
    const auto found = calls.find(name);
    return found == calls.end() ? nullptr : found->second;
  }

 private:
  static constexpr uint64_t kBytes = kElements * sizeof(float);

  Device device_;
  Stream stream_{device_};
  Stream other_stream_{device_};
  Event event_;
  Event other_;
  Buffer memory_{device_, KEEL_MEMORY_DEVICE, kBytes};
  Buffer second_{device_, KEEL_MEMORY_DEVICE, kBytes};
  Buffer host_{device_, KEEL_MEMORY_PINNED, kBytes};
  Module module_;
  Kernel kernel_ = module_.kernel("empty");
  uint32_t number_ = 0;
  const void* arguments_[1] = {&number_};
  uint32_t sizes_[1] = {sizeof(number_)};
  keel_launch launch_ = KEEL_STRUCT_INIT(keel_launch, KEEL_STRUCT_LAUNCH);
  OpCall scale_{ops::Scale{.x = memory_.tensor<float>({kElements}),
                           .y = second_.tensor<float>({kElements}),
                           .alpha = 0.5}};
};

}  // namespace

std::span<const DriverCall> driver_calls() {
  static const std::array<DriverCall, 9> kCalls = {{
      {"record", "an event recorded", {"keel_event_record"}},
      {"query", "a query of an event that is done", {"keel_event_query"}},
      {"wait",
       "an event recorded, and another stream's wait for it",
       {"keel_event_record", "keel_stream_wait_event"}},
      {"upload", "a copy of 4 KiB of pinned memory to the device", {"keel_copy"}},
      {"copy", "a copy of 4 KiB within the device", {"keel_copy"}},
      {"fill", "a fill of 4 KiB", {"keel_fill"}},
      {"launch",
       "a launch of a kernel that does nothing, with one argument",
       {"keel_kernel_launch"}},
      {"op", "the operator scale of 1024 floats", {"keel_op_run"}},
      {"alloc",
       "4 KiB of the stream's memory allocated and freed",
       {"keel_alloc_on_stream", "keel_free_on_stream"}},
  }};
  return kCalls;
}

std::string emulated_libraries(const std::string& backend) {
  Dl_info info = {};
  if (dladdr(dlsym(RTLD_DEFAULT, "keel_version"), &info) == 0) return {};
  std::error_code failure;
  const fs::path folder = fs::canonical(info.dli_fname, failure).parent_path();
  const fs::path libraries = folder / "keel" / "emulated" / backend;
  return fs::exists(libraries, failure) ? libraries.string() : std::string();
}

bool repeat_driver_call(const std::string& what, uint64_t count) {
  constexpr std::string_view kPrefix = "driver/";
  const size_t slash = what.rfind('/');
  if (!what.starts_with(kPrefix) || slash < kPrefix.size()) return false;
  const std::string backend = what.substr(kPrefix.size(), slash - kPrefix.size());
  std::string variable = "KEEL_" + backend + "_LIBRARY_FOLDER";
  std::ranges::transform(variable, variable.begin(), [](unsigned char letter) {
    return static_cast<char>(std::toupper(letter));
  });
  setenv(variable.c_str(), emulated_libraries(backend).c_str(), /*overwrite=*/1);
  setenv("KEEL_BACKENDS", backend.c_str(), /*overwrite=*/1);
  const Runtime runtime;
  // Another device's kernel would be counted with its copies.
  check(keel_op_forbid_fallback(1));
  Calls calls(backend);
  const std::function<void()> call = calls.find(what.substr(slash + 1));
  if (call == nullptr) return false;
  for (uint64_t i = 0; i < count; ++i) {
    call();
    // Keel reuses records of events that are over: counts would follow the machine's speed.
    calls.synchronize();
  }
  return true;
}

}  // namespace keel::bench
