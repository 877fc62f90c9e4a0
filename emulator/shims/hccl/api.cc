// SPDX-License-Identifier: Apache-2.0
// libhccl.so over the emulated chip's own collectives: communicators, collectives, batched
// messages.
#include <cstring>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <utility>
#include <vector>

#include "emulator/ccl/bootstrap_root.h"
#include "emulator/ccl/communicator.h"
#include "emulator/shims/acl/runtime.h"
#include "emulator/shims/beside.h"
#include "vendor/ascend/hccl.h"

namespace keel::emulator::hccl {
namespace {

// Reductions exist for fewer types than moves of data, and products for fewer than sums.
constexpr ccl::TypeSet kMultipliedTypes = ccl::bit(ccl::Type::kInt8) | ccl::bit(ccl::Type::kInt32) |
                                          ccl::bit(ccl::Type::kFloat16) |
                                          ccl::bit(ccl::Type::kFloat32);
constexpr ccl::TypeSet kReducedTypes =
    kMultipliedTypes | ccl::bit(ccl::Type::kInt16) | ccl::bit(ccl::Type::kBfloat16);

// The runtime shim, owner of the chips and streams.
struct Runtime {
  decltype(&keel_emulated_acl_chip) chip = nullptr;
  decltype(&keel_emulated_acl_stream) stream = nullptr;

  Runtime() {
    void* const library = open_beside(reinterpret_cast<void*>(&HcclGetRootInfo), "libascendcl.so");
    find_beside(library, "keel_emulated_acl_chip", &chip);
    find_beside(library, "keel_emulated_acl_stream", &stream);
  }
  static const Runtime& get() {
    static const Runtime& runtime = *new Runtime;
    return runtime;
  }
  bool is_there() const { return chip != nullptr && stream != nullptr; }
};

struct Rank {
  uint32_t world;
  std::shared_ptr<Device> chip;
  std::unique_ptr<ccl::Communicator> member;
  std::shared_ptr<Completion> last;  // behind the latest operation, if there is one
};

// Communicators that exist.
struct Ranks {
  std::mutex mutex;
  std::set<const void*> handles;

  static Ranks& get() {
    static Ranks& ranks = *new Ranks;
    return ranks;
  }
};

Rank& rank_of(const char* call, HcclComm comm) {
  Ranks& ranks = Ranks::get();
  const std::lock_guard lock(ranks.mutex);
  if (ranks.handles.count(comm) == 0) undefined(call, "the communicator does not exist");
  return *static_cast<Rank*>(comm);
}

HcclResult result_of(const Status& status) {
  switch (status.code()) {
    case Code::kOk:
      return HCCL_SUCCESS;
    case Code::kInvalidArgument:
      return HCCL_E_PARA;
    case Code::kUnsupported:
      return HCCL_E_NOT_SUPPORT;
    case Code::kOutOfMemory:
      return HCCL_E_OOM;
    case Code::kTimedOut:
      return HCCL_E_TIMEOUT;
    case Code::kUnavailable:
      return HCCL_E_REMOTE;
    case Code::kIllegalAddress:
    case Code::kDeviceLost:
      return HCCL_E_RUNTIME;
    default:
      return HCCL_E_INTERNAL;
  }
}

// Runs |body|; lets no exception escape.
template <typename Body>
HcclResult answer(Body&& body) noexcept {
  try {
    return Runtime::get().is_there() ? std::forward<Body>(body)() : HCCL_E_UNAVAIL;
  } catch (const std::bad_alloc&) {
    return HCCL_E_OOM;
  } catch (...) {
    return HCCL_E_INTERNAL;
  }
}

// Fills a root info behind the id with bytes that depend on the id, so that an info cut short, or
// mixed of two, is found.
void seal(const ccl::UniqueId& id, HcclRootInfo* out_info) {
  std::memcpy(out_info->internal, id.data(), id.size());
  for (size_t i = id.size(); i < HCCL_ROOT_INFO_BYTES; ++i) {
    out_info->internal[i] =
        static_cast<char>(std::to_integer<unsigned>(id[i % id.size()]) * 7 + i + 1);
  }
}

bool translate(HcclDataType type, ccl::Type* out_type) {
  constexpr ccl::Type kTypes[] = {ccl::Type::kInt8,    ccl::Type::kInt16,   ccl::Type::kInt32,
                                  ccl::Type::kFloat16, ccl::Type::kFloat32, ccl::Type::kInt64,
                                  ccl::Type::kUint64,  ccl::Type::kUint8,   ccl::Type::kUint16,
                                  ccl::Type::kUint32,  ccl::Type::kFloat64, ccl::Type::kBfloat16};
  static_assert(std::size(kTypes) == HCCL_DATA_TYPE_BFP16 + 1);
  const auto number = static_cast<uint32_t>(type);
  if (number >= std::size(kTypes)) return false;
  *out_type = kTypes[number];
  return true;
}

bool translate(HcclReduceOp op, ccl::Reduction* out_reduction) {
  constexpr ccl::Reduction kReductions[] = {ccl::Reduction::kSum, ccl::Reduction::kProduct,
                                            ccl::Reduction::kMax, ccl::Reduction::kMin};
  const auto number = static_cast<uint32_t>(op);
  if (number >= std::size(kReductions)) return false;
  *out_reduction = kReductions[number];
  return true;
}

// The arguments that the operations share.
struct Arguments {
  const void* send;
  void* receive;
  uint64_t count;
  HcclDataType type;
  HcclReduceOp op = HCCL_REDUCE_SUM;
  uint32_t root = 0;  // of a message: the peer rank
};

HcclResult make_call(ccl::Collective collective, const Arguments& arguments, uint32_t world,
                     ccl::Call* out_call) {
  ccl::Call& call = *out_call;
  call.collective = collective;
  if (!translate(arguments.type, &call.type)) return HCCL_E_NOT_SUPPORT;
  if (ccl::reduces(collective)) {
    if (!translate(arguments.op, &call.reduction)) return HCCL_E_NOT_SUPPORT;
    const bool multiplies = call.reduction == ccl::Reduction::kProduct;
    const ccl::TypeSet types = multiplies ? kMultipliedTypes : kReducedTypes;
    if ((types & ccl::bit(call.type)) == 0) return HCCL_E_NOT_SUPPORT;
  }
  if (arguments.root >= world) return HCCL_E_PARA;
  if (arguments.count != 0 && arguments.send == nullptr && arguments.receive == nullptr) {
    return HCCL_E_PTR;
  }
  call.root = arguments.root;
  call.send = address_of(arguments.send);
  call.receive = address_of(arguments.receive);
  call.count = arguments.count;
  return HCCL_SUCCESS;
}

HcclResult enqueue(const char* name, Rank& rank, const std::vector<ccl::Call>& calls,
                   aclrtStream handle) {
  Stream* stream = nullptr;
  if (Runtime::get().stream(name, handle, &stream) != ACL_SUCCESS) return HCCL_E_RUNTIME;
  Status status = rank.member->run(*stream, calls);
  if (!status.ok()) return result_of(status);
  auto last = std::make_shared<Completion>();
  status = stream->record(last);
  if (status.ok()) rank.last = std::move(last);
  return result_of(status);
}

HcclResult run(const char* name, ccl::Collective collective, const Arguments& arguments,
               HcclComm comm, aclrtStream handle) noexcept {
  return answer([&] {
    Rank& rank = rank_of(name, comm);
    std::vector<ccl::Call> calls(1);
    const HcclResult made = make_call(collective, arguments, rank.world, calls.data());
    return made == HCCL_SUCCESS ? enqueue(name, rank, calls, handle) : made;
  });
}

}  // namespace
}  // namespace keel::emulator::hccl

using namespace keel::emulator::hccl;  // NOLINT: the functions below are C functions
using keel::emulator::Device;
using keel::emulator::Status;
using keel::emulator::Time;
using keel::emulator::undefined;
using keel::emulator::ccl::Collective;
namespace ccl = keel::emulator::ccl;

extern "C" {

const char* HcclGetErrorString(HcclResult code) {
  switch (code) {
    case HCCL_SUCCESS:
      return "no error";
    case HCCL_E_PARA:
      return "parameter error";
    case HCCL_E_PTR:
      return "empty pointer";
    case HCCL_E_NOT_SUPPORT:
      return "not support feature";
    case HCCL_E_UNAVAIL:
      return "resource unavailable";
    case HCCL_E_TIMEOUT:
      return "timeout";
    case HCCL_E_RUNTIME:
      return "call runtime api fail";
    case HCCL_E_REMOTE:
      return "error cqe";
    case HCCL_E_OOM:
      return "out of memory";
    default:
      return "internal error";
  }
}

HcclResult HcclGetRootInfo(HcclRootInfo* rootInfo) {
  return answer([&] {
    if (rootInfo == nullptr) return HCCL_E_PTR;
    const Status opened = ccl::open_bootstrap_root();
    if (!opened.ok()) return result_of(opened);
    seal(ccl::Clique::make_id(), rootInfo);
    return HCCL_SUCCESS;
  });
}

// Blocks until all ranks have come: the library has no deadline for it.
HcclResult HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank,
                                HcclComm* comm) {
  return answer([&] {
    if (rootInfo == nullptr || comm == nullptr) return HCCL_E_PTR;
    if (nRanks == 0 || rank >= nRanks) return HCCL_E_PARA;
    ccl::UniqueId id = {};
    std::memcpy(id.data(), rootInfo->internal, id.size());
    HcclRootInfo whole;
    seal(id, &whole);
    if (std::memcmp(&whole, rootInfo, sizeof(whole)) != 0) return HCCL_E_PARA;
    std::shared_ptr<Device> chip;
    if (Runtime::get().chip(&chip) != ACL_SUCCESS) return HCCL_E_RUNTIME;
    ccl::Traits traits(ccl::kAllTypes);
    traits.streams_outlive_failures = true;
    auto made = std::make_unique<Rank>(Rank{nRanks, chip, nullptr, nullptr});
    const Status status = ccl::Communicator::create(id, std::move(chip), rank, nRanks, Time::max(),
                                                    traits, &made->member);
    if (!status.ok()) return result_of(status);
    Ranks& ranks = Ranks::get();
    const std::lock_guard lock(ranks.mutex);
    ranks.handles.insert(made.get());
    *comm = made.release();
    return HCCL_SUCCESS;
  });
}

HcclResult HcclCommDestroy(HcclComm comm) {
  return answer([&] {
    const std::unique_ptr<Rank> rank(&rank_of("HcclCommDestroy", comm));
    // The events of a lost chip say that its work is over before its queues have dropped it.
    if (rank->chip->alive().ok() && rank->last != nullptr && !rank->last->is_done()) {
      undefined("HcclCommDestroy", "an operation of the communicator is still running");
    }
    Ranks& ranks = Ranks::get();
    const std::lock_guard lock(ranks.mutex);
    ranks.handles.erase(comm);
    return HCCL_SUCCESS;
  });
}

HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult* asyncError) {
  return answer([&] {
    *asyncError = result_of(rank_of("HcclGetCommAsyncError", comm).member->async_error());
    return HCCL_SUCCESS;
  });
}

HcclResult HcclAllReduce(void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType,
                         HcclReduceOp op, HcclComm comm, aclrtStream stream) {
  return run("HcclAllReduce", Collective::kAllReduce, {sendBuf, recvBuf, count, dataType, op}, comm,
             stream);
}

HcclResult HcclBroadcast(void* buf, uint64_t count, HcclDataType dataType, uint32_t root,
                         HcclComm comm, aclrtStream stream) {
  return run("HcclBroadcast", Collective::kBroadcast,
             {buf, buf, count, dataType, HCCL_REDUCE_SUM, root}, comm, stream);
}

HcclResult HcclReduceScatter(void* sendBuf, void* recvBuf, uint64_t recvCount,
                             HcclDataType dataType, HcclReduceOp op, HcclComm comm,
                             aclrtStream stream) {
  return run("HcclReduceScatter", Collective::kReduceScatter,
             {sendBuf, recvBuf, recvCount, dataType, op}, comm, stream);
}

HcclResult HcclAllGather(void* sendBuf, void* recvBuf, uint64_t sendCount, HcclDataType dataType,
                         HcclComm comm, aclrtStream stream) {
  return run("HcclAllGather", Collective::kAllGather, {sendBuf, recvBuf, sendCount, dataType}, comm,
             stream);
}

HcclResult HcclReduce(void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType,
                      HcclReduceOp op, uint32_t root, HcclComm comm, aclrtStream stream) {
  return run("HcclReduce", Collective::kReduce, {sendBuf, recvBuf, count, dataType, op, root}, comm,
             stream);
}

// All items or none; they proceed together.
HcclResult HcclBatchSendRecv(HcclSendRecvItem* sendRecvInfo, uint32_t itemNum, HcclComm comm,
                             aclrtStream stream) {
  return answer([&] {
    if (sendRecvInfo == nullptr || itemNum == 0) return HCCL_E_PTR;
    Rank& rank = rank_of("HcclBatchSendRecv", comm);
    std::vector<ccl::Call> calls(itemNum);
    for (uint32_t i = 0; i < itemNum; ++i) {
      const HcclSendRecvItem& item = sendRecvInfo[i];
      const bool sends = item.sendRecvType == HCCL_SEND;
      if (!sends && item.sendRecvType != HCCL_RECV) return HCCL_E_PARA;
      const Arguments arguments = {sends ? item.buf : nullptr,
                                   sends ? nullptr : item.buf,
                                   item.count,
                                   item.dataType,
                                   HCCL_REDUCE_SUM,
                                   item.remoteRank};
      const HcclResult made = make_call(sends ? Collective::kSend : Collective::kReceive, arguments,
                                        rank.world, &calls[i]);
      if (made != HCCL_SUCCESS) return made;
    }
    return enqueue("HcclBatchSendRecv", rank, calls, stream);
  });
}

}  // extern "C"
