// SPDX-License-Identifier: Apache-2.0
// Streams, copies, fills and events.
#include <cuda.h>

#include <algorithm>
#include <memory>

#include "emulator/shims/cuda/handles.h"
#include "emulator/shims/cuda/results.h"

namespace keel::emulator::cuda {
namespace {

// Runs |body|, which returns a Status, with the stream |handle| of the current context.
template <typename Body>
CUresult on_stream(CUstream handle, Body&& body) noexcept {
  return answer_here([&](const Here& here) {
    Stream* stream = nullptr;
    const CUresult found = find_stream(here, handle, &stream);
    return found == CUDA_SUCCESS ? result_of(body(*stream, here), *here.chip) : found;
  });
}

CUresult fill(CUdeviceptr destination, const void* pattern, uint32_t pattern_size, size_t count,
              CUstream handle) {
  return on_stream(handle, [&](Stream& stream, const Here&) {
    if (destination % pattern_size != 0) return Status(Code::kInvalidArgument);
    return count == 0 ? Status()
                      : stream.fill(destination, pattern, pattern_size, count * pattern_size);
  });
}

}  // namespace
}  // namespace keel::emulator::cuda

using namespace keel::emulator::cuda;  // NOLINT: the functions below are C functions
using keel::emulator::Code;
using keel::emulator::Event;
using keel::emulator::Status;
using keel::emulator::Stream;
using keel::emulator::Time;

extern "C" {

// Blocking streams, which synchronize with stream 0, are not emulated.
CUresult CUDAAPI cuStreamCreateWithPriority(CUstream* phStream, unsigned int flags, int priority) {
  return answer_here([&](const Here& here) {
    if (phStream == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_NOT_SUPPORTED;
    auto handle = std::make_unique<StreamHandle>();
    handle->context = here.context;
    const Status status = Stream::create(here.chip, std::clamp(priority, -5, 0), &handle->stream);
    if (status.ok()) *phStream = reinterpret_cast<CUstream>(handle.release());
    return result_of(status, *here.chip);
  });
}

// Cancels work that has not run; the real driver lets the work run.
CUresult CUDAAPI cuStreamDestroy(CUstream hStream) {
  return answer([&] {
    if (hStream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    forget_capture(hStream);
    delete object(hStream);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamGetCtx(CUstream hStream, CUcontext* pctx) {
  return answer_here([&](const Here& here) {
    if (pctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const bool is_default = hStream == nullptr || hStream == CU_STREAM_LEGACY;
    *pctx = (is_default ? here.context : object(hStream)->context)->handle();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamQuery(CUstream hStream) {
  const CUresult allowed = allow_unsafe_call();
  if (allowed != CUDA_SUCCESS) return allowed;
  return on_stream(hStream, [](Stream& stream, const Here&) { return stream.query(); });
}

CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount,
                                   CUstream hStream) {
  return on_stream(hStream, [&](Stream& stream, const Here&) {
    return ByteCount == 0 ? Status() : stream.copy_from_host(dstDevice, srcHost, ByteCount);
  });
}

// For pageable memory, returns after the copy is done, as the real driver does.
CUresult CUDAAPI cuMemcpyDtoHAsync(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                                   CUstream hStream) {
  return on_stream(hStream, [&](Stream& stream, const Here& here) {
    if (ByteCount == 0) return Status();
    Status status = stream.copy_to_host(dstHost, srcDevice, ByteCount);
    if (!status.ok() || here.chip->memory().is_pinned(dstHost, ByteCount)) return status;
    return stream.synchronize(Time::max());
  });
}

CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
                                   CUstream hStream) {
  return on_stream(hStream, [&](Stream& stream, const Here&) {
    return ByteCount == 0 ? Status() : stream.copy_within(dstDevice, srcDevice, ByteCount);
  });
}

CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext,
                                   CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount,
                                   CUstream hStream) {
  return answer_here([&](const Here& here) {
    if (dstContext == nullptr || srcContext == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    std::shared_ptr<keel::emulator::Device> to;
    std::shared_ptr<keel::emulator::Device> from;
    Stream* stream = nullptr;
    // The copy itself detects a lost peer when it runs.
    (void)Context::of(dstContext)->chip(&to);
    (void)Context::of(srcContext)->chip(&from);
    if (to == nullptr || from == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    const CUresult found = find_stream(here, hStream, &stream);
    if (found != CUDA_SUCCESS || ByteCount == 0) return found;
    return result_of(stream->copy_peer(*to, dstDevice, *from, srcDevice, ByteCount), *here.chip);
  });
}

CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N,
                                 CUstream hStream) {
  return fill(dstDevice, &uc, sizeof(uc), N, hStream);
}

CUresult CUDAAPI cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N,
                                  CUstream hStream) {
  return fill(dstDevice, &us, sizeof(us), N, hStream);
}

CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N,
                                  CUstream hStream) {
  return fill(dstDevice, &ui, sizeof(ui), N, hStream);
}

// ---- events --------------------------------------------------------------------

CUresult CUDAAPI cuEventCreate(CUevent* phEvent, unsigned int Flags) {
  constexpr unsigned int kKnown = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING;
  return answer_here([&](const Here& here) {
    if (phEvent == nullptr || (Flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
    *phEvent = reinterpret_cast<CUevent>(
        new EventHandle{here.chip, Event(here.chip), (Flags & CU_EVENT_DISABLE_TIMING) == 0});
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuEventDestroy(CUevent hEvent) {
  return answer([&] {
    if (hEvent == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    delete object(hEvent);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuEventRecord(CUevent hEvent, CUstream hStream) {
  if (hEvent == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return answer_here([&](const Here& here) {
    if (is_capturing(hStream)) {
      object(hEvent)->captured.store(true);
      return CUDA_SUCCESS;
    }
    Stream* stream = nullptr;
    const CUresult found = find_stream(here, hStream, &stream);
    if (found != CUDA_SUCCESS) return found;
    if (object(hEvent)->chip != here.chip) return CUDA_ERROR_INVALID_HANDLE;
    const Status status = object(hEvent)->event.record(*stream);
    if (status.ok()) {
      object(hEvent)->recorded.store(true);
      object(hEvent)->captured.store(false);
    }
    return result_of(status, *here.chip);
  });
}

CUresult CUDAAPI cuEventQuery(CUevent hEvent) {
  if (hEvent == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return answer([&] {
    const CUresult allowed = allow_unsafe_call();
    if (allowed != CUDA_SUCCESS) return allowed;
    if (object(hEvent)->captured.load()) return CUDA_ERROR_CAPTURED_EVENT;
    return result_of(object(hEvent)->event.query(), *object(hEvent)->chip);
  });
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags) {
  if (hEvent == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (Flags != CU_EVENT_WAIT_DEFAULT) return CUDA_ERROR_INVALID_VALUE;
  return on_stream(hStream, [&](Stream& stream, const Here&) {
    return object(hEvent)->event.hold_back(stream);
  });
}

CUresult CUDAAPI cuEventElapsedTime(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
  if (hStart == nullptr || hEnd == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return answer([&] {
    for (const EventHandle* event : {object(hStart), object(hEnd)}) {
      if (!event->timing || !event->recorded.load()) return CUDA_ERROR_INVALID_HANDLE;
      const Status done = event->event.query();
      if (!done.ok()) return result_of(done, *event->chip);
    }
    const uint64_t elapsed = Event::elapsed_ns(object(hStart)->event, object(hEnd)->event);
    *pMilliseconds = static_cast<float>(static_cast<double>(elapsed) / 1e6);
    return CUDA_SUCCESS;
  });
}

}  // extern "C"
