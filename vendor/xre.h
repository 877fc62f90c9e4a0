// SPDX-License-Identifier: Apache-2.0
// The part of XRE, Kunlun's runtime (libxpurt.so), that is called here. Names, numbers and argument
// lists are those of xpu/runtime.h and xpu/defs.h of the XRE-4 and XRE-5 generation; functions
// marked "newer" are known from programs that call them. Everything has a name of its own, so that
// this header and the vendor's, which bkcl.h includes, can be in one source.
#ifndef KEEL_VENDOR_XRE_H_
#define KEEL_VENDOR_XRE_H_

#include <cstdint>

namespace keel::xre {

using Stream = void*;  // XPUStream; NULL: the default stream of the current device
using Event = void*;   // XPUEvent

// XPUMemcpyKind. No kind copies from host to host.
enum MemcpyKind : int { kDeviceToHost = 0, kHostToDevice = 1, kDeviceToDevice = 2 };

// XPUMemoryKind.
enum MemoryKind : int { kMainMemory = 0, kL3Memory = 1 };

// XPUDeviceAttr.
enum Attribute : int {
  kPciAddress = 0,  // [31:16] domain, [15:8] bus, [7:3] slot, [2:0] function
  kModel = 4,
  kMainMemoryBytes = 5,
  kClusters = 7
};

// Values of kModel: the first chips are below kModelKl2, and KL3, the P800's generation, begins at
// kModelKl3.
inline constexpr uint64_t kModelKl2 = 2;
inline constexpr uint64_t kModelKl3 = 300;
// Device numbers from here on belong to the vendor's simulator.
inline constexpr int kFirstSimulator = 64;

// XPUError_t, without the prefix XPUERR_. A function returns 0 or an error; by the manual the
// number is negative, so callers take its absolute value.
enum Error : int {
  kSuccess = 0,
  kInvalidDevice = 701,
  kUninit = 702,
  kNoDevice = 703,
  kVersion = 704,
  kNoMemory = 705,
  kNoCpuMemory = 706,
  kInvalidParameter = 707,
  kNoFunction = 708,
  kNoLibrary = 709,
  kNoSymbol = 710,
  kSimulator = 711,
  kNoSupport = 712,
  kAbnormal = 713,
  kKernelException = 714,
  kTimeout = 715,
  kBusy = 716,
  kUseAfterClose = 717,
  kUncorrectableEcc = 718,
  kOverheat = 719,
  kUnexpected = 800,
  kDeviceReset = 801,
  kHardwareException = 802,
  kMemoryInit = 803,
  kDeviceInit = 804,
  kPeerReset = 805,
  kTooManyDevices = 806,
  kNoIoContext = 807,
  kDmaTimeout = 808,
  kDmaAbort = 809,
  kControllerInit = 810,
  kOldFirmware = 811,
  kPcie = 812,
  kFault = 813,
  kInterrupted = 814,
  kAesTimeout = 815,
  kHostMemoryRegistered = 816,
  kTracer = 817
};

// X(name, arguments): `int xpu_<name>(arguments)`. The current device is the calling thread's.
// NOLINTBEGIN(bugprone-macro-parentheses): argument lists
#define KEEL_XRE_FUNCTIONS(X)                                                 \
  X(current_device, (int* out_device))                                        \
  X(device_count, (int* out_count))                                           \
  X(device_get_attr, (uint64_t * out_value, int attribute, int device))       \
  X(event_create, (void** out_event))                                         \
  X(event_destroy, (void* event))                                             \
  X(event_record, (void* event, void* stream))                                \
  X(event_wait, (void* event))                                                \
  X(free, (void* pointer))                                                    \
  X(malloc, (void** out_pointer, uint64_t size, int kind))                    \
  X(memcpy, (void* destination, const void* source, uint64_t size, int kind)) \
  X(set_device, (int device))                                                 \
  X(stream_create, (void** out_stream))                                       \
  X(stream_destroy, (void* stream))                                           \
  X(stream_wait_event, (void* stream, void* event))                           \
  X(wait, (void* stream))

// Functions that a release may lack. memcpy_async is newer.
#define KEEL_XRE_OPTIONAL_FUNCTIONS(X)                                   \
  X(device_list, (int* out_devices))                                     \
  X(get_runtime_version, (uint32_t * out_major, uint32_t * out_minor))   \
  X(host_alloc, (void** out_pointer, uint64_t size, unsigned int flags)) \
  X(host_free, (void* pointer))                                          \
  X(host_register, (void* pointer, uint64_t size, unsigned int flags))   \
  X(host_unregister, (void* pointer))                                    \
  X(memcpy_async, (void* destination, const void* source, uint64_t size, int kind, void* stream))
// NOLINTEND(bugprone-macro-parentheses)

struct Functions {
#define KEEL_XRE_MEMBER(name, arguments) int(*name) arguments = nullptr;
  KEEL_XRE_FUNCTIONS(KEEL_XRE_MEMBER)
  KEEL_XRE_OPTIONAL_FUNCTIONS(KEEL_XRE_MEMBER)
#undef KEEL_XRE_MEMBER
};

}  // namespace keel::xre

#endif  // KEEL_VENDOR_XRE_H_
