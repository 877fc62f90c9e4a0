// SPDX-License-Identifier: Apache-2.0
// Collectives, point-to-point messages and groups.
#include <nccl.h>

#include <algorithm>
#include <exception>

#include "emulator/shims/nccl/group.h"
#include "emulator/shims/nccl/library.h"
#include "emulator/shims/nccl/rank.h"
#include "emulator/shims/nccl/types.h"

namespace keel::emulator::nccl {
namespace {

using ccl::Collective;

// The arguments that all operations share.
struct Arguments {
  const void* send;
  void* receive;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t reduction = ncclSum;
  int root = 0;  // of a message: the peer rank
};

// As NCCL 2.28 was seen to scale on one rank: no kernel for 8-bit floats, and blocks of 16 KiB that
// leave out elements of 8 bytes. Sums are copies.
ncclResult_t scale_alone(ncclDataType_t type, ccl::Call* call) {
  const bool is_float = type == ncclFloat8e4m3 || type == ncclFloat8e5m2 || type == ncclFloat16 ||
                        type == ncclBfloat16 || type == ncclFloat32 || type == ncclFloat64;
  if (call->reduction != ccl::Reduction::kScaledSum &&
      !(call->reduction == ccl::Reduction::kAverage && is_float)) {
    return ncclSuccess;
  }
  if (type == ncclFloat8e4m3 || type == ncclFloat8e5m2) {
    return fail(ncclInvalidArgument, "no kernel scales 8-bit floats on one rank");
  }
  const uint64_t size = call->element();
  if (size != 8 || call->count == 0) return ncclSuccess;
  constexpr uint64_t kBlockBytes = 16 << 10;
  const uint64_t blocks =
      std::min<uint64_t>(32, (call->count * size + kBlockBytes - 1) / kBlockBytes);
  const uint64_t each = (call->count / blocks + 1) / 2 * 2;
  call->count = std::min(call->count, blocks * each);
  return ncclSuccess;
}

ncclResult_t take(Collective collective, const Arguments& arguments, ncclComm_t comm,
                  cudaStream_t handle) {
  if (comm == nullptr) return fail(ncclInvalidArgument, "the communicator is NULL");
  Rank& rank = *Rank::of(comm);
  const ncclResult_t is_ready = rank.ready();
  if (is_ready != ncclSuccess) return is_ready;
  Job job = {};
  ccl::Call& call = job.call;
  call.collective = collective;
  if (!translate(arguments.type, &call.type)) return fail(ncclInvalidArgument, "no such type");
  if (ccl::reduces(collective) && !translate(arguments.reduction, &call.reduction)) {
    if (!rank.find_sum(arguments.reduction, call.type, &call.factor)) {
      return fail(ncclInvalidArgument, "no such reduction");
    }
    call.reduction = ccl::Reduction::kScaledSum;
  }
  call.count = arguments.count;
  if (ccl::reduces(collective) && rank.world() == 1) {
    const ncclResult_t scaled = scale_alone(arguments.type, &call);
    if (scaled != ncclSuccess) return scaled;
  }
  if (arguments.root < 0 || static_cast<uint32_t>(arguments.root) >= rank.world()) {
    return fail(ncclInvalidArgument, ccl::is_message(collective) ? "no such peer" : "no such root");
  }
  // NCCL sends and receives concurrently: in place, received data would be sent on.
  if (collective == Collective::kAllToAll && arguments.send == arguments.receive) {
    return fail(ncclInvalidArgument, "all_to_all in place");
  }
  call.root = static_cast<uint32_t>(arguments.root);
  call.send = reinterpret_cast<Address>(arguments.send);
  call.receive = reinterpret_cast<Address>(arguments.receive);
  const Status found = Library::get().stream(handle, &job.stream);
  return found.ok() ? make_call(rank, job) : result_of(found);
}

ncclResult_t run(Collective collective, const Arguments& arguments, ncclComm_t comm,
                 cudaStream_t stream) noexcept {
  try {
    const ncclResult_t result = take(collective, arguments, comm, stream);
    return result == ncclSuccess || result == ncclInProgress ? result : refuse_call(result);
  } catch (const std::exception& error) {
    return refuse_call(fail(ncclSystemError, error.what()));
  }
}

}  // namespace
}  // namespace keel::emulator::nccl

using namespace keel::emulator::nccl;  // NOLINT: the functions below are C functions
using keel::emulator::ccl::Collective;

extern "C" {

ncclResult_t ncclGroupStart() {
  start_group();
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  try {
    return end_group();
  } catch (const std::exception& error) {
    return fail(ncclSystemError, error.what());
  }
}

ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream) {
  return run(Collective::kAllReduce, {sendbuff, recvbuff, count, datatype, op}, comm, stream);
}

ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return run(Collective::kReduce, {sendbuff, recvbuff, count, datatype, op, root}, comm, stream);
}

ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return run(Collective::kBroadcast, {sendbuff, recvbuff, count, datatype, ncclSum, root}, comm,
             stream);
}

ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  return run(Collective::kAllGather, {sendbuff, recvbuff, sendcount, datatype}, comm, stream);
}

ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  return run(Collective::kReduceScatter, {sendbuff, recvbuff, recvcount, datatype, op}, comm,
             stream);
}

ncclResult_t ncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                          ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  return run(Collective::kAllToAll, {sendbuff, recvbuff, count, datatype}, comm, stream);
}

ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return run(Collective::kSend, {sendbuff, nullptr, count, datatype, ncclSum, peer}, comm, stream);
}

ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return run(Collective::kReceive, {nullptr, recvbuff, count, datatype, ncclSum, peer}, comm,
             stream);
}

}  // extern "C"
