// SPDX-License-Identifier: Apache-2.0
// Modules and launches.
#include <cuda.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emulator/shims/cuda/handles.h"
#include "emulator/shims/cuda/host_image.h"
#include "emulator/shims/cuda/results.h"
#include "emulator/shims/cuda/simt_kernels.h"

namespace keel::emulator::cuda {
namespace {

// A kernel of a host image, or of the host library that replaces a real chip's image.
struct Function {
  std::shared_ptr<const HostImage> image;
  keel_cpu_kernel kernel = nullptr;
  const simt::Library* simt_library = nullptr;
  const simt::Kernel* simt_kernel = nullptr;
  std::vector<uint32_t> parameters;  // the image's table without its terminator
  std::atomic<uint32_t> max_shared{48 << 10};
};

struct Module {
  std::shared_ptr<const HostImage> image;
  const simt::Library* simt_library = nullptr;
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Function>> functions;
};

Module* object(CUmodule handle) {
  return reinterpret_cast<Module*>(handle);
}
Function* object(CUfunction handle) {
  return reinterpret_cast<Function*>(handle);
}

uint32_t size_of(uint32_t parameter) {
  return parameter & ~KEEL_CPU_POINTER_FLAG;
}

// Storage for up to 16 bytes of an argument, aligned for any type.
struct alignas(16) Cell {
  std::byte bytes[16];
};

// One launch, with copied arguments.
class Launch {
 public:
  Launch(const Function& function, const keel_cpu_block& block, void* const* arguments)
      : image_(function.image),
        kernel_(function.kernel),
        simt_library_(function.simt_library),
        simt_kernel_(function.simt_kernel),
        parameters_(function.parameters),
        block_(block) {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const uint32_t size = size_of(parameters_[i]);
      first_.push_back(cells_.size());
      cells_.resize(cells_.size() + (size + sizeof(Cell) - 1) / sizeof(Cell));
      std::memcpy(&cells_[first_.back()], arguments[i], size);
    }
  }

  // Runs once, on the queue's thread.
  Status run(Access& access) {
    if (simt_kernel_ != nullptr) {
      const simt::Grid grid = {block_.grid[0], block_.grid[1], block_.grid[2]};
      return run_simt_kernel(*simt_library_, *simt_kernel_, grid, cells_.data(), access);
    }
    std::vector<const void*> arguments;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      Cell& cell = cells_[first_[i]];
      if ((parameters_[i] & KEEL_CPU_POINTER_FLAG) != 0) {
        Address address = 0;
        std::memcpy(&address, &cell, sizeof(address));
        std::byte* reached = nullptr;
        const Status status = address == 0 ? Status() : access.reach(address, 1, &reached);
        if (!status.ok()) return status;
        std::memcpy(&cell, &reached, sizeof(reached));
      }
      arguments.push_back(&cell);
    }
    const std::unique_ptr<void, decltype(&std::free)> shared(
        block_.shared_bytes == 0 ? nullptr
                                 : std::aligned_alloc(64, (block_.shared_bytes + 63) / 64 * 64),
        std::free);
    if (block_.shared_bytes != 0 && !shared) return Status(Code::kOutOfMemory);
    for (uint32_t z = 0; z < block_.grid[2]; ++z) {
      for (uint32_t y = 0; y < block_.grid[1]; ++y) {
        for (uint32_t x = 0; x < block_.grid[0]; ++x) {
          keel_cpu_block given = block_;  // a copy that the kernel may modify
          given.index[0] = x;
          given.index[1] = y;
          given.index[2] = z;
          given.shared = shared.get();
          kernel_(&given, arguments.data());
        }
      }
    }
    Status bounds = access.check_margins();
    if (!bounds.ok()) {
      std::fprintf(stderr, "keel: emulated %s: by a kernel of the caller's, %s\n", kVendor.name,
                   bounds.text().c_str());
    }
    return bounds;
  }

 private:
  const std::shared_ptr<const HostImage> image_;
  const keel_cpu_kernel kernel_;
  const simt::Library* const simt_library_;
  const simt::Kernel* const simt_kernel_;
  const std::vector<uint32_t> parameters_;
  const keel_cpu_block block_;
  std::vector<size_t> first_;  // index of each argument's first cell
  std::vector<Cell> cells_;
};

// Returns whether a GPU accepts the launch.
bool fits(const keel_cpu_block& block, uint32_t max_shared) {
  constexpr std::array<uint32_t, 3> kMaxGrid = {0x7fffffff, 65535, 65535};
  constexpr std::array<uint32_t, 3> kMaxBlock = {1024, 1024, 64};
  uint64_t threads = 1;
  for (size_t axis = 0; axis < 3; ++axis) {
    if (block.grid[axis] == 0 || block.grid[axis] > kMaxGrid[axis]) return false;
    if (block.block[axis] == 0 || block.block[axis] > kMaxBlock[axis]) return false;
    threads *= block.block[axis];
  }
  return threads <= 1024 && block.shared_bytes <= max_shared;
}

// Returns whether the block size is the compiled size; kernels of kernels/gpu have one size each.
bool fits_simt(const Function& function, const keel_cpu_block& block) {
  return function.simt_kernel == nullptr ||
         (block.block[0] == function.simt_kernel->threads && block.block[1] == 1 &&
          block.block[2] == 1 && block.shared_bytes == 0);
}

// Fills in |out_function| if |module| has the kernel; else returns false.
bool find_function(const Module& module, const char* name, Function* out_function) {
  if (module.simt_library != nullptr) {
    const simt::Kernel* const kernel = module.simt_library->find(module.simt_library->family, name);
    if (kernel == nullptr) return false;
    out_function->simt_library = module.simt_library;
    out_function->simt_kernel = kernel;
    out_function->parameters = {kernel->argument_bytes};
    return true;
  }
  const uint32_t* parameter = nullptr;
  if (!module.image->find(name, &out_function->kernel, &parameter)) return false;
  for (; *parameter != 0; ++parameter) out_function->parameters.push_back(*parameter);
  out_function->image = module.image;
  return true;
}

// Copies |text| to the caller's JIT error log buffer, if any.
void tell(const std::string& text, unsigned int count, const CUjit_option* options, void** values) {
  char* buffer = nullptr;
  size_t room = 0;
  for (unsigned int i = 0; i < count; ++i) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) buffer = static_cast<char*>(values[i]);
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
      room = reinterpret_cast<size_t>(values[i]);
    }
  }
  if (buffer != nullptr && room != 0) std::snprintf(buffer, room, "%s", text.c_str());
}

}  // namespace
}  // namespace keel::emulator::cuda

using namespace keel::emulator::cuda;  // NOLINT: the functions below are C functions

extern "C" {

CUresult CUDAAPI cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int numOptions,
                                    CUjit_option* options, void** optionValues) {
  return answer_here([&](const Here&) {
    if (module == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUresult refusal = Driver::get().settings().image;
    if (refusal != CUDA_SUCCESS && is_fat_binary(image)) return refusal;
    auto loaded = std::make_unique<Module>();
    std::string why;
    CUresult result = HostImage::open(image, &loaded->image, &why);
    if (result == CUDA_ERROR_NO_BINARY_FOR_GPU && is_fat_binary(image)) {
      std::string why_not;
      loaded->simt_library = find_simt_kernels(image, &why_not);
      if (loaded->simt_library != nullptr) result = CUDA_SUCCESS;
      why += "; " + why_not;
    }
    if (result == CUDA_SUCCESS) {
      *module = reinterpret_cast<CUmodule>(loaded.release());
    } else {
      tell(why, numOptions, options, optionValues);
    }
    return result;
  });
}

CUresult CUDAAPI cuModuleUnload(CUmodule hmod) {
  return answer([&] {
    delete object(hmod);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction* hfunc, CUmodule hmod, const char* name) {
  return answer_here([&](const Here&) {
    Module& module = *object(hmod);
    const std::lock_guard lock(module.mutex);
    std::unique_ptr<Function>& function = module.functions[name];
    if (function == nullptr) {
      auto found = std::make_unique<Function>();
      if (!find_function(module, name, found.get())) return CUDA_ERROR_NOT_FOUND;
      function = std::move(found);
    }
    *hfunc = reinterpret_cast<CUfunction>(function.get());
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t* paramOffset,
                                    size_t* paramSize) {
  return answer([&] {
    const std::vector<uint32_t>& parameters = object(func)->parameters;
    if (paramIndex >= parameters.size()) return CUDA_ERROR_INVALID_VALUE;
    size_t offset = 0;
    for (size_t i = 0; i <= paramIndex; ++i) {
      const size_t size = size_of(parameters[i]);
      const size_t alignment = std::min<size_t>(size, 16);
      offset = (offset + alignment - 1) / alignment * alignment;
      if (i < paramIndex) offset += size;
    }
    *paramOffset = offset;
    if (paramSize != nullptr) *paramSize = size_of(parameters[paramIndex]);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value) {
  return answer_here([&](const Here&) {
    if (attrib != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_ERROR_NOT_SUPPORTED;
    if (value < 0 || value > 227 << 10) return CUDA_ERROR_INVALID_VALUE;
    object(hfunc)->max_shared.store(static_cast<uint32_t>(value));
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                unsigned int gridDimZ, unsigned int blockDimX,
                                unsigned int blockDimY, unsigned int blockDimZ,
                                unsigned int sharedMemBytes, CUstream hStream, void** kernelParams,
                                void** extra) {
  return answer_here([&](const Here& here) {
    const Function& function = *object(f);
    keel_cpu_block block = {};
    block.size = sizeof(block);
    block.grid[0] = gridDimX;
    block.grid[1] = gridDimY;
    block.grid[2] = gridDimZ;
    block.block[0] = blockDimX;
    block.block[1] = blockDimY;
    block.block[2] = blockDimZ;
    block.shared_bytes = sharedMemBytes;
    if (extra != nullptr || !fits(block, function.max_shared.load()) ||
        !fits_simt(function, block) || (kernelParams == nullptr && !function.parameters.empty())) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    keel::emulator::Stream* stream = nullptr;
    const CUresult found = find_stream(here, hStream, &stream);
    if (found != CUDA_SUCCESS) return found;
    const auto launch = std::make_shared<Launch>(function, block, kernelParams);
    return result_of(
        stream->launch({.takes_host_time = true}, /*result=*/{},
                       [launch](keel::emulator::Access& access) { return launch->run(access); }),
        *here.chip);
  });
}

}  // extern "C"
