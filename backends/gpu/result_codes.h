// SPDX-License-Identifier: Apache-2.0
// The results of a GPU driver's calls. CUDA's driver and HIP's runtime use equal numbers, so the
// layer compares numbers; each target asserts some of them.
#ifndef KEEL_BACKENDS_GPU_RESULT_CODES_H_
#define KEEL_BACKENDS_GPU_RESULT_CODES_H_

#include <gpu_target.h>

namespace keel::gpu {

#define KEEL_GPU_RESULTS(X)           \
  X(InvalidValue, 1)                  \
  X(OutOfMemory, 2)                   \
  X(DeviceUnavailable, 46)            \
  X(NoDevice, 100)                    \
  X(InvalidDevice, 101)               \
  X(InvalidImage, 200)                \
  X(InvalidContext, 201)              \
  X(MapFailed, 205)                   \
  X(AlreadyMapped, 208)               \
  X(NoBinaryForGpu, 209)              \
  X(EccUncorrectable, 214)            \
  X(PeerAccessUnsupported, 217)       \
  X(InvalidPtx, 218)                  \
  X(NvlinkUncorrectable, 220)         \
  X(JitCompilerNotFound, 221)         \
  X(UnsupportedPtxVersion, 222)       \
  X(Contained, 226)                   \
  X(InvalidSource, 300)               \
  X(SharedObjectSymbolNotFound, 302)  \
  X(InvalidHandle, 400)               \
  X(NotFound, 500)                    \
  X(NotReady, 600)                    \
  X(IllegalAddress, 700)              \
  X(LaunchOutOfResources, 701)        \
  X(LaunchTimeout, 702)               \
  X(PeerAccessAlreadyEnabled, 704)    \
  X(ContextIsDestroyed, 709)          \
  X(Assert, 710)                      \
  X(TooManyPeers, 711)                \
  X(HostMemoryAlreadyRegistered, 712) \
  X(HostMemoryNotRegistered, 713)     \
  X(HardwareStackError, 714)          \
  X(IllegalInstruction, 715)          \
  X(MisalignedAddress, 716)           \
  X(InvalidAddressSpace, 717)         \
  X(InvalidPc, 718)                   \
  X(LaunchFailed, 719)                \
  X(TensorMemoryLeak, 721)            \
  X(NotPermitted, 800)                \
  X(NotSupported, 801)                \
  X(SystemNotReady, 802)              \
  X(MpsServerNotReady, 807)           \
  X(MpsMaxClientsReached, 808)        \
  X(MpsMaxConnectionsReached, 809)    \
  X(MpsClientTerminated, 810)         \
  X(StreamCaptureUnsupported, 900)    \
  X(StreamCaptureWrongThread, 908)    \
  X(ExternalDevice, 911)

inline constexpr Result kSuccess = static_cast<Result>(0);
#define KEEL_GPU_RESULT(Name, number) \
  inline constexpr Result kError##Name = static_cast<Result>(number);
KEEL_GPU_RESULTS(KEEL_GPU_RESULT)
#undef KEEL_GPU_RESULT
#undef KEEL_GPU_RESULTS

// Flags, whose numbers are equal too.
inline constexpr unsigned int kStreamNonBlocking = 1;
inline constexpr unsigned int kEventDefault = 0;
inline constexpr unsigned int kEventDisableTiming = 2;
inline constexpr unsigned int kEventWaitDefault = 0;
inline constexpr unsigned int kHostPortable = 1;  // of allocations and registrations
inline constexpr unsigned int kHostMapped = 2;
inline constexpr unsigned int kAttachGlobal = 1;
// The handle of each thread's own default stream.
inline NativeStream per_thread_stream() {
  return reinterpret_cast<NativeStream>(uintptr_t{2});
}

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_GPU_RESULT_CODES_H_
