// SPDX-License-Identifier: Apache-2.0
// Keel on Nvidia's GPUs, through the CUDA driver API, opened at run time.
//
// Mapping of the slots (docs/abi-coverage.md lists the calls):
//
// Devices are the driver's, in the driver's order (CUDA_VISIBLE_DEVICES applies). A device is
// opened as its primary context, so that the framework shares pointers and streams. Every call
// makes that context current and restores the previous context.
//
// Memory: cuMemAlloc, cuMemHostAlloc and cuMemAllocManaged. Keel's allocator caches memory, so the
// driver's stream-ordered allocator is not used. Host memory is registered once for all devices.
//
// Export: device memory, as the driver's handle of the whole allocation, for another process. All
// memory of alloc can be exported, even without KEEL_USAGE_EXPORT. An import whose memory the
// exporting process has freed meanwhile is undefined.
//
// Streams do not synchronise with stream 0. Waits with a deadline (synchronize, event_wait) and
// event_notify are absent: the driver's waits have no timeout, and the driver skips callbacks after
// a failure. Core polls events instead.
//
// A framework can capture graphs meanwhile: calls are made in the relaxed mode. A stream shared
// with a framework (wrap, unwrap) accepts no work of Keel while a capture is active.
//
// Failures. Failed work makes its context unusable, and the driver returns the error from every
// later call. Keel reports KEEL_DEVICE_LOST with the error as text. The state ends when the whole
// process has released the device.
//
// Health combines the driver's state and the data of NVML (libnvidia-ml.so.1 of the same folder):
// uncorrected ECC errors and Xids, memory that could not be repaired, throttled clocks. Without
// NVML the text says so. Xids are reported from the first query on.
//
// Kernels: cubins, fat binaries and PTX, launched by name. Arguments are checked if the driver
// reports a kernel's parameters (12.4 and later).
//
// Collectives: NCCL, opened at run time beside the driver. Without NCCL the capability is not
// reported, and the table returns the reason.
//
// Operators: matrix products of cuBLASLt, opened at run time beside the driver, if the library is
// present and has a kernel for the product; all other operators and products use kernels/gpu, see
// ops.h. Operators require compute capability 8.0 and a driver that loads the kernel image; a
// driver older than the compiler may refuse the image. A plugin built without nvcc has no
// operators, and core runs the CPU's on staged copies.
//
// Settings: "library_folder", the folder of libcuda.so.1; default KEEL_CUDA_LIBRARY_FOLDER.
// "driver_file", the name of the driver's file there; default libcuda.so.1.
// "nccl_folder", the folder of libnccl.so.2; default KEEL_NCCL_LIBRARY_FOLDER, else the driver's
// folder setting. "cublaslt_folder", the folder of libcublasLt.so; default
// KEEL_CUBLASLT_LIBRARY_FOLDER, else the driver's folder setting. "nccl_cga_cluster_size",
// "nccl_min_ctas", "nccl_max_ctas", "nccl_net_name": see nccl_settings.h.
//
// Not offered: export as a file or a dma-buf, native gates.
#include "backends/cuda/gpu_target.h"

#include <keel/plugin_kit.hpp>

#include "backends/cuda/image.h"
#include "backends/gpu/kernels.h"
#include "backends/gpu/result_codes.h"
#include "kernels/gpu/image.h"

namespace keel::gpu {
namespace {

// A few of the numbers on which the layer relies.
static_assert(kErrorDeviceUnavailable == CUDA_ERROR_DEVICE_UNAVAILABLE);
static_assert(kErrorMpsServerNotReady == CUDA_ERROR_MPS_SERVER_NOT_READY);
static_assert(kErrorMpsMaxClientsReached == CUDA_ERROR_MPS_MAX_CLIENTS_REACHED);
static_assert(kErrorMpsMaxConnectionsReached == CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED);
static_assert(kErrorMpsClientTerminated == CUDA_ERROR_MPS_CLIENT_TERMINATED);
static_assert(kErrorLaunchFailed == CUDA_ERROR_LAUNCH_FAILED);
static_assert(kErrorStreamCaptureUnsupported == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
static_assert(kErrorStreamCaptureWrongThread == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
static_assert(kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(kEventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(kHostPortable == CU_MEMHOSTALLOC_PORTABLE);
static_assert(kHostPortable == CU_MEMHOSTREGISTER_PORTABLE);
static_assert(kHostMapped == CU_MEMHOSTALLOC_DEVICEMAP);
static_assert(kHostMapped == CU_MEMHOSTREGISTER_DEVICEMAP);
static_assert(kAttachGlobal == CU_MEM_ATTACH_GLOBAL);

// The oldest major capability that the kernels are compiled for: Ampere.
constexpr int kOldestMajor = 8;

// Returns |otherwise| if the driver is too old for the attribute.
int attribute(const Functions& cu, NativeDevice device, CUdevice_attribute which, int otherwise) {
  int value = 0;
  return cu.DeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : otherwise;
}

}  // namespace

const char* result_name(const Functions& cu, Result result) {
  const char* name = nullptr;
  return cu.GetErrorName(result, &name) == CUDA_SUCCESS ? name : nullptr;
}

const char* result_text(const Functions& cu, Result result) {
  const char* text = nullptr;
  return cu.GetErrorString(result, &text) == CUDA_SUCCESS ? text : nullptr;
}

Result retain_context(const Functions& cu, NativeDevice device, NativeContext* out_context) {
  return cu.DevicePrimaryCtxRetain(out_context, device);
}

void release_context(const Functions& cu, NativeDevice device) {
  (void)cu.DevicePrimaryCtxRelease(device);
}

Result context_of(const Functions& cu, NativeStream stream, NativeContext /*expected*/,
                  NativeContext* out_context) {
  return cu.StreamGetCtx(stream, out_context);
}

keel_status native_handle(NativeContext context, NativeDevice device, uint32_t which,
                          void** out_handle) {
  switch (which) {
    case 0:
      *out_handle = context;
      return KEEL_OK;
    case 1:
      *out_handle = reinterpret_cast<void*>(static_cast<intptr_t>(device));
      return KEEL_OK;
    default:
      return kit::fail(KEEL_UNSUPPORTED,
                       "cuda: no native handle %u: 0, the context, or 1, the device", which);
  }
}

int capability_of(const Functions& cu, NativeDevice device) {
  return 10 * attribute(cu, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0) +
         attribute(cu, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0);
}

std::span<const simt::Image> images() {
  return simt::cuda_images();
}

int image_version() {
  return simt::cuda_image_version();
}

bool kernels_are_for(int capability) {
  const int major = capability / 10;
  return major == 0 || major >= kOldestMajor;
}

void describe_device(const Functions& cu, NativeDevice device, keel_device_info* out_info) {
  const std::string architecture = "sm_" + std::to_string(capability_of(cu, device) / 10) +
                                   std::to_string(capability_of(cu, device) % 10);
  kit::copy_text(out_info->architecture, architecture.c_str());
  out_info->numa_node = attribute(cu, device, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, -1);
  if (attribute(cu, device, CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 0) != 0) {
    out_info->capabilities |= KEEL_CAPABILITY_PRIORITY;
  }
  // Without this attribute the host may not access managed memory while the device works.
  if (attribute(cu, device, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 0) != 0) {
    out_info->capabilities |= KEEL_CAPABILITY_MANAGED;
  }
}

bool supports_ipc(const Functions& cu, NativeDevice device) {
  int value = 0;
  if (cu.DeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, device) ==
      CUDA_SUCCESS) {
    return value != 0;
  }
  // An older driver lacks the attribute: all its devices supported IPC except Tegra's.
  return attribute(cu, device, CU_DEVICE_ATTRIBUTE_INTEGRATED, 1) == 0;
}

unsigned int lazy_peer_access(int /*driver_version*/) {
  return CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS;
}

const char* image_defect(const void* data, uint64_t size) {
  return cuda::find_image_defect(data, size);
}

Result load_image(const Functions& cu, const void* image, NativeModule* out_module,
                  std::string* out_log) {
  char log[400] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof(log))};
  const Result result = cu.ModuleLoadDataEx(out_module, image, 2, options, values);
  *out_log = log;
  return result;
}

Result allow_shared_bytes(const Functions& cu, NativeFunction function, uint32_t bytes) {
  return cu.FuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                             static_cast<int>(bytes));
}

}  // namespace keel::gpu
