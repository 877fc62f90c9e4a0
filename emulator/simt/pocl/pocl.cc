// SPDX-License-Identifier: Apache-2.0
#include "emulator/simt/pocl/pocl.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <string_view>
#include <vector>

#include "emulator/simt/machine.h"
#include "emulator/simt/pocl/shuffles.h"
#include "kernels/gpu/level_zero/spirv_image.h"

namespace keel::emulator::simt {

namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Replaces each aligned word of |arguments| that is a device address by that of its byte. Counts
// and strides are far below the addresses of any process.
void translate(std::span<uint64_t> arguments, AddressSpace& memory) {
  constexpr uint64_t kLeast = uint64_t{1} << 32;
  for (uint64_t& word : arguments) {
    Extent extent;
    std::string ignored;
    if (word < kLeast || !memory.find(word, &extent, &ignored)) continue;
    word = reinterpret_cast<uint64_t>(extent.host + (word - extent.begin));
  }
}

}  // namespace

Pocl& Pocl::get() {
  static Pocl& pocl = *new Pocl;
  return pocl;
}

Pocl::Pocl() : failure_(open()) {}

std::string Pocl::open() {
  // With threads, PoCL 3.1 lets groups that run at once share one copy of the memory of a group,
  // which the kernels declare in functions: sums of such kernels are wrong at random.
  setenv("POCL_DEVICES", "basic", /*overwrite=*/1);
  void* const library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return dlerror();
  const auto find = [&](auto* out_function, const char* name) {
    void* const symbol = dlsym(library, name);
    std::memcpy(out_function, &symbol, sizeof(symbol));
    return symbol != nullptr;
  };
  const bool has_all =
      find(&cl_.GetPlatformIDs, "clGetPlatformIDs") &&
      find(&cl_.GetPlatformInfo, "clGetPlatformInfo") &&
      find(&cl_.GetDeviceIDs, "clGetDeviceIDs") && find(&cl_.CreateContext, "clCreateContext") &&
      find(&cl_.CreateCommandQueue, "clCreateCommandQueue") &&
      find(&cl_.CreateProgramWithBinary, "clCreateProgramWithBinary") &&
      find(&cl_.BuildProgram, "clBuildProgram") &&
      find(&cl_.GetProgramBuildInfo, "clGetProgramBuildInfo") &&
      find(&cl_.CreateKernel, "clCreateKernel") && find(&cl_.SetKernelArg, "clSetKernelArg") &&
      find(&cl_.EnqueueNDRangeKernel, "clEnqueueNDRangeKernel") && find(&cl_.Finish, "clFinish");
  if (!has_all) return "libOpenCL.so.1 lacks a function";
  std::array<opencl::Object, 16> platforms = {};
  opencl::Uint count = 0;
  if (cl_.GetPlatformIDs(platforms.size(), platforms.data(), &count) != opencl::kSuccess) {
    return "OpenCL has no platform";
  }
  for (opencl::Uint i = 0; i < count && i < platforms.size(); ++i) {
    std::array<char, 256> name = {};
    cl_.GetPlatformInfo(platforms[i], opencl::kPlatformName, name.size() - 1, name.data(), nullptr);
    if (std::string_view(name.data()) != "Portable Computing Language") continue;
    if (cl_.GetDeviceIDs(platforms[i], opencl::kDeviceTypeCpu, 1, &device_, nullptr) !=
        opencl::kSuccess) {
      continue;
    }
    opencl::Int error = opencl::kSuccess;
    context_ = cl_.CreateContext(nullptr, 1, &device_, nullptr, nullptr, &error);
    if (error == opencl::kSuccess) {
      queue_ = cl_.CreateCommandQueue(context_, device_, /*properties=*/0, &error);
    }
    return error == opencl::kSuccess ? "" : "PoCL does not start: error " + std::to_string(error);
  }
  return "OpenCL has no PoCL";
}

void Pocl::build(const std::string& name, Family* out_family) const {
  for (const keel::simt::SpirvImage& image : keel::simt::spirv_images()) {
    if (image.family != name) continue;
    const auto* const words = reinterpret_cast<const uint32_t*>(image.bytes.data());
    out_family->shuffling = kernels_that_shuffle({words, image.bytes.size() / sizeof(uint32_t)});
  }
  const std::string binary = read_file(std::string(KEEL_POCL_FOLDER) + "/" + name + ".bc");
  const auto* bytes = reinterpret_cast<const unsigned char*>(binary.data());
  const size_t size = binary.size();
  opencl::Int status = opencl::kSuccess;
  opencl::Int error = opencl::kSuccess;
  out_family->program =
      cl_.CreateProgramWithBinary(context_, 1, &device_, &size, &bytes, &status, &error);
  if (error == opencl::kSuccess) {
    error = cl_.BuildProgram(out_family->program, 1, &device_, "", nullptr, nullptr);
  }
  if (error == opencl::kSuccess) return;
  std::array<char, 1024> log = {};
  if (out_family->program != nullptr) {
    cl_.GetProgramBuildInfo(out_family->program, device_, opencl::kProgramBuildLog, log.size() - 1,
                            log.data(), nullptr);
  }
  out_family->failure =
      "PoCL does not build " + name + ": error " + std::to_string(error) + ": " + log.data();
}

Pocl::Family& Pocl::family(const std::string& name) {
  const auto [found, is_new] = families_.try_emplace(name);
  if (is_new) build(name, &found->second);
  return found->second;
}

Outcome Pocl::run(const Kernel& kernel, const Grid& grid, const void* arguments,
                  AddressSpace& memory, std::string* out_error) {
  const std::lock_guard lock(mutex_);
  *out_error = failure_;
  if (!failure_.empty()) return Outcome::kFailed;
  Family& family = this->family(kernel.family);
  *out_error = family.failure;
  if (!family.failure.empty()) return Outcome::kFailed;
  const std::string name = kernel.name;
  if (family.shuffling.contains(name))
    return Machine(kernel, grid, arguments, memory).run(out_error);
  opencl::Object& made = family.kernels[name];
  opencl::Int error = opencl::kSuccess;
  if (made == nullptr) made = cl_.CreateKernel(family.program, name.c_str(), &error);
  std::vector<uint64_t> own((kernel.argument_bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t));
  std::memcpy(own.data(), arguments, kernel.argument_bytes);
  translate(own, memory);
  if (error == opencl::kSuccess) {
    error = cl_.SetKernelArg(made, 0, kernel.argument_bytes, own.data());
  }
  const size_t local[] = {kernel.threads, 1, 1};
  const size_t global[] = {size_t{grid.x} * kernel.threads, grid.y, grid.z};
  if (error == opencl::kSuccess) {
    error = cl_.EnqueueNDRangeKernel(queue_, made, 3, nullptr, global, local, 0, nullptr, nullptr);
  }
  if (error == opencl::kSuccess) error = cl_.Finish(queue_);
  if (error == opencl::kSuccess) return Outcome::kDone;
  *out_error = name + ": PoCL: error " + std::to_string(error);
  return Outcome::kFailed;
}

}  // namespace keel::emulator::simt
