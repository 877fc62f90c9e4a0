// SPDX-License-Identifier: Apache-2.0
// Communicators and their resources.
#include <nccl.h>

#include <cstring>
#include <keel/float_types.hpp>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "emulator/ccl/bootstrap_root.h"
#include "emulator/shims/nccl/config.h"
#include "emulator/shims/nccl/group.h"
#include "emulator/shims/nccl/library.h"
#include "emulator/shims/nccl/rank.h"
#include "emulator/shims/nccl/types.h"

namespace keel::emulator::nccl {
namespace {

// Runs |body| with the rank of |handle|; lets no exception escape.
template <typename Body>
ncclResult_t with_rank(ncclComm_t handle, Body&& body) noexcept {
  try {
    if (handle == nullptr) return fail(ncclInvalidArgument, "the communicator is NULL");
    return std::forward<Body>(body)(*Rank::of(handle));
  } catch (const std::bad_alloc&) {
    return ncclSystemError;
  } catch (...) {
    return ncclInternalError;
  }
}

// Keeps |rank|, whose operations go on, reachable: the caller has given up its handle.
void keep_forever(Rank& rank) {
  static std::mutex& mutex = *new std::mutex;
  static auto& kept = *new std::vector<Rank*>;
  const std::lock_guard lock(mutex);
  kept.push_back(&rank);
}

// Reads the number at |scalar|.
double read_scalar(ncclDataType_t type, const void* scalar) {
  const auto as = [&]<typename Value>(Value value) {
    std::memcpy(&value, scalar, sizeof(value));
    return value;
  };
  switch (type) {
    case ncclInt8:
      return as(int8_t());
    case ncclUint8:
      return as(uint8_t());
    case ncclInt32:
      return as(int32_t());
    case ncclUint32:
      return as(uint32_t());
    // Products wrap, so the upper half of uint64 is read as negative numbers, which keeps the bits.
    case ncclInt64:
    case ncclUint64:
      return static_cast<double>(as(int64_t()));
    case ncclFloat16:
      return to_float(as(float16_t()));
    case ncclBfloat16:
      return to_float(as(bfloat16_t()));
    case ncclFloat32:
      return as(float());
    default:
      return as(double());
  }
}

}  // namespace
}  // namespace keel::emulator::nccl

using namespace keel::emulator::nccl;  // NOLINT: the functions below are C functions
namespace ccl = keel::emulator::ccl;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return fail(ncclInvalidArgument, "version is NULL");
  *version = Library::get().settings().version;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t /*comm*/) {
  return last_error();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId) {
  static_assert(sizeof(ncclUniqueId) == sizeof(ccl::UniqueId));
  if (uniqueId == nullptr) return fail(ncclInvalidArgument, "uniqueId is NULL");
  if (!Library::get().trouble().ok()) return result_of(Library::get().trouble());
  if (Library::get().is_out_of_ids()) return fail(ncclSystemError, "no unique id: ids is reached");
  try {
    const keel::emulator::Status opened = ccl::open_bootstrap_root();
    if (!opened.ok()) return result_of(opened);
    const ccl::UniqueId id = ccl::Clique::make_id();
    std::memcpy(uniqueId, id.data(), id.size());
    return ncclSuccess;
  } catch (const std::bad_alloc&) {
    return ncclSystemError;
  }
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                    ncclConfig_t* config) {
  if (comm == nullptr || config == nullptr) {
    return fail(ncclInvalidArgument, "no communicator, or no config");
  }
  *comm = nullptr;
  ncclConfig_t read;
  const ncclResult_t configured = read_config(*config, Library::get().settings().version, &read);
  if (configured != ncclSuccess) return configured;
  if (nranks <= 0 || rank < 0 || rank >= nranks) {
    return fail(ncclInvalidArgument,
                "rank " + std::to_string(rank) + " of " + std::to_string(nranks));
  }
  if (is_in_group()) return fail(ncclInvalidUsage, "the emulated library makes none in a group");
  try {
    std::shared_ptr<keel::emulator::Device> chip;
    const keel::emulator::Status found = Library::get().chip(&chip);
    if (!found.ok()) return result_of(found);
    ccl::UniqueId id = {};
    std::memcpy(id.data(), &commId, id.size());
    return Rank::create(id, std::move(chip), static_cast<uint32_t>(rank),
                        static_cast<uint32_t>(nranks), /*blocks=*/read.blocking != 0, comm);
  } catch (const std::exception& error) {
    return fail(ncclSystemError, error.what());
  }
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                           ncclConfig_t* config) {
  if (newcomm == nullptr) return fail(ncclInvalidArgument, "newcomm is NULL");
  *newcomm = nullptr;
  if (config != nullptr) {
    return fail(ncclInvalidArgument, "the emulated library's parts are configured as the whole is");
  }
  if (color < 0 && color != NCCL_SPLIT_NOCOLOR) {
    return fail(ncclInvalidArgument, "color is " + std::to_string(color));
  }
  if (is_in_group()) return fail(ncclInvalidUsage, "the emulated library splits none in a group");
  return with_rank(comm, [&](Rank& rank) { return rank.split(color, key, newcomm); });
}

// Returns at once: enqueued operations end on their streams.
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return with_rank(comm, [](Rank& rank) { return rank.ready(); });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return with_rank(comm, [](Rank& rank) {
    delete &rank;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (Library::get().settings().aborts) return ncclCommDestroy(comm);
  return with_rank(comm, [](Rank& rank) {
    keep_forever(rank);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  return with_rank(comm, [&](Rank& rank) {
    if (asyncError == nullptr) return fail(ncclInvalidArgument, "asyncError is NULL");
    *asyncError = rank.state();
    return ncclSuccess;
  });
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle) {
  return with_rank(comm, [&](Rank& rank) {
    if (handle == nullptr) return fail(ncclInvalidArgument, "handle is NULL");
    return rank.add_buffer(reinterpret_cast<keel::emulator::Address>(buff), size, handle);
  });
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  return with_rank(comm, [&](Rank& rank) { return rank.remove_buffer(handle); });
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  return with_rank(comm, [&](Rank& rank) {
    ccl::Type type = {};
    if (op == nullptr || scalar == nullptr || !translate(datatype, &type)) {
      return fail(ncclInvalidArgument, "no operator, no scalar or no such type");
    }
    if (residence != ncclScalarHostImmediate) {
      return fail(ncclInvalidUsage, "the emulated library reads scalars on the host alone");
    }
    const ncclResult_t is_ready = rank.ready();
    if (is_ready == ncclSuccess) *op = rank.add_sum(type, read_scalar(datatype, scalar));
    return is_ready;
  });
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return with_rank(comm, [&](Rank& rank) { return rank.remove_sum(op); });
}

}  // extern "C"
