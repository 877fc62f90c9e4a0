// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/communicator.h"

#include <algorithm>
#include <cstring>
#include <keel/float_types.hpp>
#include <keel/plugin_kit.hpp>
#include <thread>
#include <utility>

#include "backends/gpu/result_codes.h"

namespace keel::gpu {
namespace {

using Clock = std::chrono::steady_clock;

// Time limit for finalizing a communicator whose operations have finished.
constexpr std::chrono::seconds kLeaveTimeout(5);

// NCCL's built-in reductions; a reduction with a factor is created for each group.
bool translate(keel_reduction reduction, ncclRedOp_t* out_reduction) {
  switch (reduction) {
    case KEEL_SUM:
      *out_reduction = ncclSum;
      return true;
    case KEEL_PROD:
      *out_reduction = ncclProd;
      return true;
    case KEEL_MIN:
      *out_reduction = ncclMin;
      return true;
    case KEEL_MAX:
      *out_reduction = ncclMax;
      return true;
    case KEEL_AVG:
      *out_reduction = ncclAvg;
      return true;
    default:
      return false;
  }
}

bool reduces(keel_collective collective) {
  return collective == KEEL_ALL_REDUCE || collective == KEEL_REDUCE ||
         collective == KEEL_REDUCE_SCATTER;
}

// Writes |factor| as |dtype|; for integers the factor is integral and in range.
void encode(keel_dtype dtype, double factor, void* out) {
  const auto put = [&](auto value) { std::memcpy(out, &value, sizeof(value)); };
  const auto real = static_cast<float>(factor);
  switch (dtype) {
    case KEEL_FLOAT16:
      return put(to_float16(real));
    case KEEL_BFLOAT16:
      return put(to_bfloat16(real));
    case KEEL_FLOAT8_E4M3FN:
      return put(to_float8_e4m3(real));
    case KEEL_FLOAT8_E5M2:
      return put(to_float8_e5m2(real));
    case KEEL_FLOAT32:
      return put(real);
    case KEEL_FLOAT64:
      return put(factor);
    default:
      // The low bytes come first.
      return factor < 0 ? put(static_cast<int64_t>(factor)) : put(static_cast<uint64_t>(factor));
  }
}

}  // namespace

class Communicator::FactorSums {
 public:
  explicit FactorSums(Communicator& owner) : owner_(owner) {}
  ~FactorSums() {
    for (const ncclRedOp_t sum : made_) {
      // A failure, as in a failed communicator, is ignored: the communicator frees the reduction.
      (void)owner_.nccl_.functions().RedOpDestroy(sum, owner_.native_);
    }
  }
  FactorSums(const FactorSums&) = delete;
  FactorSums& operator=(const FactorSums&) = delete;

  keel_status make(keel_dtype dtype, double factor, ncclRedOp_t* out_sum) {
    alignas(8) std::byte scalar[8] = {};
    encode(dtype, factor, scalar);
    ncclDataType_t type = ncclNumTypes;
    (void)translate(dtype, &type);
    made_.reserve(made_.size() + 1);
    const keel_status status =
        owner_.call("ncclRedOpCreatePreMulSum", [&](const NcclFunctions& nccl) {
          return nccl.RedOpCreatePreMulSum(out_sum, scalar, type, ncclScalarHostImmediate,
                                           owner_.native_);
        });
    if (status == KEEL_OK) made_.push_back(*out_sum);
    return status;
  }

 private:
  Communicator& owner_;
  std::vector<ncclRedOp_t> made_;
};

// ---- coming and going ------------------------------------------------------------

keel_status Communicator::create(Device& device, const Nccl& nccl, const ncclUniqueId& id, int rank,
                                 int world, int64_t timeout_ns,
                                 std::unique_ptr<Communicator>* out_communicator) {
  std::unique_ptr<Communicator> made(new Communicator(device, nccl, world, timeout_ns));
  {
    const std::lock_guard lock(made->mutex_);
    ncclConfig_t config;
    keel_status status = nccl.configure(device.ccl_settings(), &config);
    if (status != KEEL_OK) return status;
    constexpr const char* kName = "ncclCommInitRankConfig";
    status = made->call(kName, [&](const NcclFunctions& functions) {
      return functions.CommInitRankConfig(&made->native_, world, id, rank, &config);
    });
    if (status == KEEL_OK) status = made->settle(kName, made->deadline());
    if (status == KEEL_TIMED_OUT) {
      made->abort_native();
      return kit::fail(KEEL_TIMED_OUT, KEEL_GPU ": %s: not all %d ranks came in time", kName,
                       world);
    }
    if (status != KEEL_OK) {
      made->abort_native();
      return status;
    }
  }
  *out_communicator = std::move(made);
  return KEEL_OK;
}

keel_status Communicator::split(std::span<const uint32_t> ranks, uint32_t rank, int64_t timeout_ns,
                                std::unique_ptr<Communicator>* out_part) {
  const std::lock_guard lock(mutex_);
  if (native_ == nullptr) return say_aborted();
  if (nccl_.functions().CommSplit == nullptr) {
    return kit::fail(KEEL_UNSUPPORTED, KEEL_GPU ": %s splits no communicators",
                     nccl_.name().c_str());
  }
  const int world = static_cast<int>(ranks.size());
  std::unique_ptr<Communicator> part(new Communicator(device_, nccl_, world, timeout_ns));
  const std::lock_guard part_lock(part->mutex_);
  constexpr const char* kName = "ncclCommSplit";
  const int color = ranks.empty() ? NCCL_SPLIT_NOCOLOR : static_cast<int>(ranks[0]);
  // No configuration: the new communicator inherits this one's and shares no resources.
  keel_status status = call(kName, [&](const NcclFunctions& functions) {
    return functions.CommSplit(native_, color, static_cast<int>(rank), &part->native_, nullptr);
  });
  const Time deadline = part->deadline();
  if (status == KEEL_OK) status = settle(kName, deadline);
  if (status == KEEL_OK && part->native_ != nullptr) status = part->settle(kName, deadline);
  if (status != KEEL_OK) {
    // The progress of the other ranks is unknown. Aborts this communicator first: it may still be
    // creating the new one.
    abort_native();
    part->abort_native();
    if (status == KEEL_TIMED_OUT) {
      return kit::fail(KEEL_TIMED_OUT, KEEL_GPU ": %s: not all ranks came in time", kName);
    }
    return status;
  }
  // |part| is declared before its lock, so the lock is released first.
  if (part->native_ != nullptr) out_part->swap(part);
  return KEEL_OK;
}

Communicator::~Communicator() {
  const std::lock_guard lock(mutex_);
  if (native_ == nullptr) return;
  // A communicator that has failed, or does not finish in time, is aborted, because orderly
  // destruction waits for the other ranks.
  ncclResult_t state = ncclSuccess;
  keel_status status = call("ncclCommGetAsyncError", [&](const NcclFunctions& nccl) {
    return nccl.CommGetAsyncError(native_, &state);
  });
  if (status == KEEL_OK && state == ncclSuccess) {
    status = call("ncclCommFinalize",
                  [&](const NcclFunctions& nccl) { return nccl.CommFinalize(native_); });
    if (status == KEEL_OK) status = settle("ncclCommFinalize", Clock::now() + kLeaveTimeout);
    if (status == KEEL_OK) {
      status = call("ncclCommDestroy",
                    [&](const NcclFunctions& nccl) { return nccl.CommDestroy(native_); });
      native_ = nullptr;
      if (status == KEEL_OK) return;
    }
  }
  abort_native();
}

keel_status Communicator::abort() {
  aborting_.store(true, std::memory_order_release);
  const std::lock_guard lock(mutex_);
  abort_native();
  return KEEL_OK;
}

// Also aborts on a lost device: NCCL owns host threads and host memory.
void Communicator::abort_native() {
  if (native_ == nullptr) return;
  (void)device_.release("ncclCommAbort", [&](const Functions&) {
    const ncclResult_t result = nccl_.functions().CommAbort(native_);
    if (result != ncclSuccess && result != ncclInProgress) {
      kit::log(KEEL_LOG_WARNING, KEEL_GPU ": %s", nccl_.text_of("ncclCommAbort", result).c_str());
    }
    return kSuccess;
  });
  native_ = nullptr;
}

// ---- calls -----------------------------------------------------------------------

template <typename Body>
keel_status Communicator::call(const char* name, Body&& body) {
  ncclResult_t result = ncclSuccess;
  const keel_status entered = device_.call(name, [&](const Functions&) {
    result = body(nccl_.functions());
    return kSuccess;
  });
  return entered == KEEL_OK ? check(name, result) : entered;
}

keel_status Communicator::check(const char* name, ncclResult_t result) const {
  if (result == ncclSuccess || result == ncclInProgress) return KEEL_OK;
  // If the device is lost, any driver call reports the loss and its cause.
  uint64_t free = 0;
  uint64_t total = 0;
  if (result == ncclUnhandledCudaError && device_.memory_info(&free, &total) == KEEL_DEVICE_LOST) {
    return KEEL_DEVICE_LOST;
  }
  return kit::fail(status_of(result), KEEL_GPU ": %s", nccl_.text_of(name, result).c_str());
}

keel_status Communicator::say_aborted() const {
  return kit::fail(KEEL_ABORTED, KEEL_GPU ": the " KEEL_GPU_CCL_UPPER " communicator was aborted");
}

Communicator::Time Communicator::deadline() const {
  constexpr int64_t kForEver = int64_t{10'000} * 24 * 3600 * 1'000'000'000;  // within the clock
  return Clock::now() + std::chrono::nanoseconds(std::min(timeout_ns_, kForEver));
}

keel_status Communicator::settle(const char* name, Time deadline) {
  constexpr std::chrono::microseconds kLongestPause(1000);
  std::chrono::microseconds pause(0);
  while (true) {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = nccl_.functions().CommGetAsyncError(native_, &state);
    if (asked != ncclSuccess) return check("ncclCommGetAsyncError", asked);
    if (state != ncclInProgress) return check(name, state);
    if (aborting_.load(std::memory_order_acquire)) return say_aborted();
    if (Clock::now() >= deadline) {
      return kit::fail(KEEL_TIMED_OUT,
                       KEEL_GPU ": %s: " KEEL_GPU_CCL_UPPER " did not come to an end in time",
                       name);
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(kLongestPause, 2 * pause + std::chrono::microseconds(1));
  }
}

keel_status Communicator::run(const Stream& stream, std::span<const keel_ccl_call> calls) {
  // Checked before any call of NCCL.
  const keel_status may_run =
      stream.call("an " KEEL_GPU_CCL_UPPER " group", [](const Functions&) { return kSuccess; });
  if (may_run != KEEL_OK) return may_run;
  const std::lock_guard lock(mutex_);
  if (native_ == nullptr) return say_aborted();
  std::vector<const void*> sources;
  for (const keel_ccl_call& call : calls) {
    if (!nccl_.can(call.collective, call.dtype, call.reduction, device_.compute_capability())) {
      return kit::fail(KEEL_UNSUPPORTED, KEEL_GPU ": %s has no collective %u of %s, reduction %u",
                       nccl_.name().c_str(), call.collective, kit::dtype_name(call.dtype),
                       call.reduction);
    }
    sources.push_back(call.send);
  }
  bool copied = false;
  keel_status status = copy_in_place(stream, calls, &sources, &copied);
  if (status == KEEL_OK) status = enqueue(stream, calls, sources);
  if (status == KEEL_TIMED_OUT) abort_native();
  if (!copied) return status;
  const keel_status given_back = scratch_.give_back(stream);
  return status == KEEL_OK ? given_back : status;
}

keel_status Communicator::copy_in_place(const Stream& stream, std::span<const keel_ccl_call> calls,
                                        std::vector<const void*>* in_out_sources,
                                        bool* out_copied) {
  const auto bytes_of = [&](const keel_ccl_call& call) {
    const bool is_in_place = call.collective == KEEL_ALL_TO_ALL && call.send == call.receive;
    const uint64_t bytes = call.count * kit::dtype_size(call.dtype) * static_cast<uint64_t>(world_);
    return is_in_place ? bytes : 0;
  };
  // Aligns each copy for any dtype.
  const auto room_of = [&](const keel_ccl_call& call) {
    return (bytes_of(call) + 255) & ~uint64_t{255};
  };
  uint64_t size = 0;
  for (const keel_ccl_call& call : calls) size += room_of(call);
  if (size == 0) return KEEL_OK;
  DeviceAddress memory = 0;
  keel_status status = scratch_.take(stream, size, &memory);
  if (status != KEEL_OK) return status;
  *out_copied = true;
  for (size_t i = 0; status == KEEL_OK && i < calls.size(); ++i) {
    const uint64_t bytes = bytes_of(calls[i]);
    if (bytes == 0) continue;
    status = device_.call(Names::MemcpyDtoDAsync, [&](const Functions& api) {
      return api.MemcpyDtoDAsync(memory, reinterpret_cast<DeviceAddress>(calls[i].send), bytes,
                                 stream.native());
    });
    (*in_out_sources)[i] = reinterpret_cast<const void*>(memory);
    memory += room_of(calls[i]);
  }
  return status;
}

// A rank alone scales by a kernel of its own, whose at most 32 blocks, one per 16 KiB, take an even
// number of 8-byte elements each: NCCL 2.28 leaves out what that rounds off, up to 63 elements. Of
// whole pieces of 16 KiB none is left out, nor of less than one piece.
uint64_t Communicator::first_count(const keel_ccl_call& call) const {
  constexpr uint64_t kPieceBytes = 16 << 10;
  const uint64_t size = kit::dtype_size(call.dtype);
  if (world_ != 1 || size != 8 || !reduces(call.collective) || call.reduction != KEEL_PREMUL_SUM) {
    return call.count;
  }
  const uint64_t whole = call.count - call.count % (kPieceBytes / size);
  return whole == 0 ? call.count : whole;
}

keel_status Communicator::enqueue(const Stream& stream, std::span<const keel_ccl_call> calls,
                                  const std::vector<const void*>& sources) {
  FactorSums sums(*this);
  std::vector<ncclRedOp_t> reductions(calls.size(), ncclSum);
  for (size_t i = 0; i < calls.size(); ++i) {
    if (!reduces(calls[i].collective)) continue;
    // Alone, a rank is its own average; NCCL would scale by 1, of 8-bit floats without a kernel.
    if (world_ == 1 && calls[i].reduction == KEEL_AVG) continue;
    if (translate(calls[i].reduction, &reductions[i])) continue;
    const keel_status made = sums.make(calls[i].dtype, calls[i].factor, &reductions[i]);
    if (made != KEEL_OK) return made;
  }
  const keel_status status =
      call("an " KEEL_GPU_CCL_UPPER " group", [&](const NcclFunctions& nccl) {
        ncclResult_t result = nccl.GroupStart();
        if (result != ncclSuccess) return result;
        for (size_t i = 0; i < calls.size(); ++i) {
          keel_ccl_call rest = calls[i];
          const void* source = sources[i];
          const uint64_t first = first_count(rest);
          if (first != rest.count) {
            keel_ccl_call begin = rest;
            begin.count = first;
            result = enqueue_one(begin, source, reductions[i], stream.native());
            if (result != ncclSuccess && result != ncclInProgress) break;
            const uint64_t bytes = first * kit::dtype_size(rest.dtype);
            source = static_cast<const std::byte*>(source) + bytes;
            rest.receive = static_cast<std::byte*>(rest.receive) + bytes;
            rest.count -= first;
          }
          result = enqueue_one(rest, source, reductions[i], stream.native());
          if (result != ncclSuccess && result != ncclInProgress) break;
        }
        // GroupEnd is always called; after a failure it enqueues nothing.
        const ncclResult_t ended = nccl.GroupEnd();
        return result == ncclSuccess || result == ncclInProgress ? ended : result;
      });
  // The first operation may have to connect the ranks; its work is on the stream only afterwards.
  return status == KEEL_OK ? settle("ncclGroupEnd", deadline()) : status;
}

ncclResult_t Communicator::enqueue_one(const keel_ccl_call& call, const void* source,
                                       ncclRedOp_t reduction, NativeStream stream) const {
  const NcclFunctions& nccl = nccl_.functions();
  ncclDataType_t type = ncclNumTypes;
  if (!translate(call.dtype, &type)) return ncclInvalidArgument;
  switch (call.collective) {
    case KEEL_ALL_REDUCE:
      return nccl.AllReduce(source, call.receive, call.count, type, reduction, native_, stream);
    case KEEL_REDUCE:
      return nccl.Reduce(source, call.receive, call.count, type, reduction, call.root, native_,
                         stream);
    case KEEL_BROADCAST:
      // Ranks that only receive have no send buffer.
      return nccl.Broadcast(source == nullptr ? call.receive : source, call.receive, call.count,
                            type, call.root, native_, stream);
    case KEEL_ALL_GATHER:
      return nccl.AllGather(source, call.receive, call.count, type, native_, stream);
    case KEEL_REDUCE_SCATTER:
      return nccl.ReduceScatter(source, call.receive, call.count, type, reduction, native_, stream);
    case KEEL_ALL_TO_ALL:
      return nccl.AlltoAll(source, call.receive, call.count, type, native_, stream);
    case KEEL_SEND:
      return nccl.Send(source, call.count, type, call.root, native_, stream);
    case KEEL_RECV:
      return nccl.Recv(call.receive, call.count, type, call.root, native_, stream);
    default:
      return ncclInvalidUsage;
  }
}

// ---- the rest --------------------------------------------------------------------

keel_status Communicator::async_error() {
  const std::lock_guard lock(mutex_);
  if (native_ == nullptr) return say_aborted();
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = nccl_.functions().CommGetAsyncError(native_, &state);
  return check("ncclCommGetAsyncError", asked == ncclSuccess ? state : asked);
}

keel_status Communicator::register_buffer(void* pointer, uint64_t size, void** out_registration) {
  const std::lock_guard lock(mutex_);
  if (native_ == nullptr) return say_aborted();
  if (nccl_.functions().CommRegister == nullptr || nccl_.functions().CommDeregister == nullptr) {
    return kit::fail(KEEL_UNSUPPORTED, KEEL_GPU ": %s registers no buffers", nccl_.name().c_str());
  }
  return call("ncclCommRegister", [&](const NcclFunctions& nccl) {
    return nccl.CommRegister(native_, pointer, size, out_registration);
  });
}

keel_status Communicator::deregister_buffer(void* registration) {
  const std::lock_guard lock(mutex_);
  if (native_ == nullptr) return KEEL_OK;       // freed with the communicator
  if (registration == nullptr) return KEEL_OK;  // NCCL may have nothing to register
  return call("ncclCommDeregister", [&](const NcclFunctions& nccl) {
    return nccl.CommDeregister(native_, registration);
  });
}

}  // namespace keel::gpu
