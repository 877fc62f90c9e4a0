// SPDX-License-Identifier: Apache-2.0
// The part of OpenCL 1.2 that a test calls, by Khronos' names and numbers.
#ifndef KEEL_VENDOR_OPENCL_H_
#define KEEL_VENDOR_OPENCL_H_

#include <cstddef>
#include <cstdint>

namespace keel::opencl {

using Object = void*;  // any handle
using Int = int32_t;
using Uint = uint32_t;

constexpr Int kSuccess = 0;
constexpr uint64_t kDeviceTypeCpu = 1 << 1;
constexpr Uint kPlatformName = 0x0902;
constexpr Uint kProgramBuildLog = 0x1183;

struct Functions {
  Int (*GetPlatformIDs)(Uint most, Object* platforms, Uint* out_count);
  Int (*GetPlatformInfo)(Object platform, Uint name, size_t size, void* value, size_t* out_size);
  Int (*GetDeviceIDs)(Object platform, uint64_t type, Uint most, Object* devices, Uint* out_count);
  Object (*CreateContext)(const intptr_t* properties, Uint count, const Object* devices,
                          void (*notify)(const char*, const void*, size_t, void*), void* user,
                          Int* out_error);
  Object (*CreateCommandQueue)(Object context, Object device, uint64_t properties, Int* out_error);
  Object (*CreateProgramWithBinary)(Object context, Uint count, const Object* devices,
                                    const size_t* sizes, const unsigned char** binaries,
                                    Int* out_status, Int* out_error);
  Int (*BuildProgram)(Object program, Uint count, const Object* devices, const char* options,
                      void (*notify)(Object, void*), void* user);
  Int (*GetProgramBuildInfo)(Object program, Object device, Uint name, size_t size, void* value,
                             size_t* out_size);
  Object (*CreateKernel)(Object program, const char* name, Int* out_error);
  Int (*SetKernelArg)(Object kernel, Uint index, size_t size, const void* value);
  Int (*EnqueueNDRangeKernel)(Object queue, Object kernel, Uint dimensions, const size_t* offsets,
                              const size_t* global, const size_t* local, Uint waits,
                              const Object* events, Object* out_event);
  Int (*Finish)(Object queue);
};

}  // namespace keel::opencl

#endif  // KEEL_VENDOR_OPENCL_H_
