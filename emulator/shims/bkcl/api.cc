// SPDX-License-Identifier: Apache-2.0
// BKCL's functions.
#include <bkcl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include "emulator/ccl/bootstrap_root.h"
#include "emulator/shims/bkcl/group.h"
#include "emulator/shims/bkcl/library.h"

namespace keel::emulator::bkcl {
namespace {

using ccl::Collective;

// The library has seven types; all others are not even named.
constexpr ccl::TypeSet kTypes = ccl::bit(ccl::Type::kUint8) | ccl::bit(ccl::Type::kInt32) |
                                ccl::bit(ccl::Type::kInt64) | ccl::bit(ccl::Type::kFloat16) |
                                ccl::bit(ccl::Type::kBfloat16) | ccl::bit(ccl::Type::kFloat32) |
                                ccl::bit(ccl::Type::kFloat64);

bool translate(BKCLDataType type, ccl::Type* out_type) {
  switch (type) {
    case BKCL_UINT8:
      *out_type = ccl::Type::kUint8;
      return true;
    case BKCL_INT32:
      *out_type = ccl::Type::kInt32;
      return true;
    case BKCL_INT64:
      *out_type = ccl::Type::kInt64;
      return true;
    case BKCL_FLOAT16:
      *out_type = ccl::Type::kFloat16;
      return true;
    case BKCL_BFLOAT16:
      *out_type = ccl::Type::kBfloat16;
      return true;
    case BKCL_FLOAT:
      *out_type = ccl::Type::kFloat32;
      return true;
    case BKCL_FLOAT64:
      *out_type = ccl::Type::kFloat64;
      return true;
    default:
      return false;
  }
}

bool translate(BKCLOp op, ccl::Reduction* out_reduction) {
  switch (op) {
    case BKCL_ADD:
      *out_reduction = ccl::Reduction::kSum;
      return true;
    case BKCL_PRODUCT:
      *out_reduction = ccl::Reduction::kProduct;
      return true;
    case BKCL_MAX:
      *out_reduction = ccl::Reduction::kMax;
      return true;
    case BKCL_MIN:
      *out_reduction = ccl::Reduction::kMin;
      return true;
    case BKCL_AVG:
      *out_reduction = ccl::Reduction::kAverage;
      return true;
    default:
      return false;
  }
}

template <typename Body>
BKCLResult_t guard(const char* function, Body&& body) noexcept {
  try {
    return std::forward<Body>(body)();
  } catch (const std::exception& error) {
    (void)refuse(function, error.what());
    return BKCL_SYSTEM_ERROR;
  }
}

// The arguments that all operations share.
struct Arguments {
  const void* send;
  void* receive;
  size_t count;
  BKCLDataType type;
  BKCLOp op = BKCL_ADD;
  int root = 0;  // of a message: the peer rank
};

// Finds the rank and the stream, which must be of the rank's device.
BKCLResult_t begin(const char* function, BKCLContext_t context, XPUStream stream, Job* out_job) {
  out_job->rank = Library::get().find(function, context);
  const Status status = Library::get().stream(stream, &out_job->stream);
  if (!status.ok()) return result_of(function, status);
  if (&out_job->stream->device() != out_job->rank->chip.get()) {
    end_process(function, "the stream is of another device than the context");
  }
  return BKCL_SUCCESS;
}

BKCLResult_t take(const char* function, Collective collective, const Arguments& arguments,
                  BKCLContext_t context, XPUStream stream) {
  Job job;
  const BKCLResult_t begun = begin(function, context, stream, &job);
  if (begun != BKCL_SUCCESS) return begun;
  ccl::Call call;
  call.collective = collective;
  if (!translate(arguments.type, &call.type)) return refuse(function, "no such type");
  if (ccl::reduces(collective) && !translate(arguments.op, &call.reduction)) {
    return refuse(function, "no such operation");
  }
  const auto world = static_cast<int>(job.rank->member->world());
  if (arguments.root < 0 || arguments.root >= world) return refuse(function, "no such rank");
  if (collective == Collective::kAllToAll && arguments.send == arguments.receive) {
    end_process(function, "in place, which no document allows");
  }
  call.root = static_cast<uint32_t>(arguments.root);
  call.send = address_of(arguments.send);
  call.receive = address_of(arguments.receive);
  call.count = arguments.count;
  job.calls.push_back(call);
  return make_calls(function, std::move(job));
}

BKCLResult_t run(const char* function, Collective collective, const Arguments& arguments,
                 BKCLContext_t context, XPUStream stream) {
  return guard(function, [&] {
    const BKCLResult_t result = take(function, collective, arguments, context, stream);
    return result == BKCL_SUCCESS ? result : refuse_call(result);
  });
}

// Reads one of the four arrays of an all-to-all with counts, which lie in device memory.
std::vector<uint64_t> read_array(const char* function, const Job& job, const size_t* array) {
  const uint32_t world = job.rank->member->world();
  Access access(job.rank->chip->memory());
  std::byte* data = nullptr;
  if (!job.rank->chip->memory().is_device_address(array, world * sizeof(size_t)) ||
      !access.reach(address_of(array), world * sizeof(size_t), &data).ok()) {
    end_process(function, fmt::format("the array {} is not memory of the context's device",
                                      static_cast<const void*>(array)));
  }
  std::vector<uint64_t> read(world);
  std::memcpy(read.data(), data, world * sizeof(uint64_t));
  return read;
}

// Reads the arrays once the stream's earlier work, which may write them, is done: the calling
// thread waits for it.
BKCLResult_t take_counts(BKCLContext_t context, const void* send, const size_t* send_counts,
                         const size_t* send_offsets, void* receive, const size_t* receive_counts,
                         const size_t* receive_offsets, BKCLDataType type, XPUStream stream) {
  constexpr const char* kName = "bkcl_all_to_all_v";
  static_assert(sizeof(size_t) == sizeof(uint64_t));
  Job job;
  const BKCLResult_t begun = begin(kName, context, stream, &job);
  if (begun != BKCL_SUCCESS) return begun;
  ccl::Call call;
  if (!translate(type, &call.type)) return refuse(kName, "no such type");
  const Status drained = job.stream->synchronize(Time::max());
  if (!drained.ok()) return result_of(kName, drained);
  const std::vector<uint64_t> arrays[4] = {
      read_array(kName, job, send_counts), read_array(kName, job, send_offsets),
      read_array(kName, job, receive_counts), read_array(kName, job, receive_offsets)};
  for (uint32_t peer = 0; peer < job.rank->member->world(); ++peer) {
    call.root = peer;
    const auto add = [&](Collective collective, uint64_t count, Address* in_out_address) {
      call.collective = collective;
      call.count = count;
      if (count != 0) job.calls.push_back(call);
      *in_out_address = 0;
    };
    call.send = address_of(send) + arrays[1][peer] * call.element();
    add(Collective::kSend, arrays[0][peer], &call.send);
    call.receive = address_of(receive) + arrays[3][peer] * call.element();
    add(Collective::kReceive, arrays[2][peer], &call.receive);
  }
  return job.calls.empty() ? BKCL_SUCCESS : make_calls(kName, std::move(job));
}

}  // namespace
}  // namespace keel::emulator::bkcl

using namespace keel::emulator::bkcl;  // NOLINT: the functions below are C functions
namespace ccl = keel::emulator::ccl;
using ccl::Collective;
using keel::emulator::Status;

extern "C" {

const char* bkcl_header_kind() {
  return BKCL_HEADER_KIND;
}

BKCLResult_t bkcl_get_unique_id(BKCLUniqueId* id) {
  static_assert(sizeof(BKCLUniqueId) >= sizeof(ccl::UniqueId));
  constexpr const char* kName = "bkcl_get_unique_id";
  return guard(kName, [&] {
    if (id == nullptr) return refuse(kName, "id is NULL");
    if (!Library::get().trouble().ok()) return result_of(kName, Library::get().trouble());
    const Status opened = ccl::open_bootstrap_root();
    if (!opened.ok()) return result_of(kName, opened);
    const ccl::UniqueId made = ccl::Clique::make_id();
    *id = {};
    std::memcpy(id->bytes, made.data(), made.size());
    return BKCL_SUCCESS;
  });
}

BKCLResult_t bkcl_init_rank(BKCLContext_t* ctx, int rank, int nranks, BKCLUniqueId* id) {
  constexpr const char* kName = "bkcl_init_rank";
  return guard(kName, [&] {
    if (ctx == nullptr || id == nullptr) return refuse(kName, "ctx or id is NULL");
    if (nranks <= 0 || rank < 0 || rank >= nranks) {
      return refuse(kName, fmt::format("rank {} of {}", rank, nranks));
    }
    if (is_in_group()) return refuse(kName, "the emulated library makes none in a group");
    auto made = std::make_shared<Rank>();
    made->rank = rank;
    Status status = Library::get().chip(&made->chip);
    if (!status.ok()) return result_of(kName, status);
    ccl::UniqueId read = {};
    std::memcpy(read.data(), id->bytes, read.size());
    ccl::Traits traits(kTypes);
    traits.streams_outlive_failures = true;
    status = ccl::Communicator::create(read, made->chip, static_cast<uint32_t>(rank),
                                       static_cast<uint32_t>(nranks), keel::emulator::Time::max(),
                                       traits, &made->member);
    if (status.ok()) *ctx = Library::get().add(std::move(made));
    return result_of(kName, status);
  });
}

BKCLResult_t bkcl_destroy_context(BKCLContext_t ctx) {
  constexpr const char* kName = "bkcl_destroy_context";
  return guard(kName, [&] {
    (void)Library::get().take(kName, ctx);
    return BKCL_SUCCESS;
  });
}

// No document says whether the context is usable, or to be destroyed, afterwards: any later use
// ends the process.
BKCLResult_t bkcl_comm_abort(BKCLContext_t ctx) {
  constexpr const char* kName = "bkcl_comm_abort";
  return guard(kName, [&] {
    const std::shared_ptr<Rank> rank = Library::get().take(kName, ctx);
    while (Library::get().settings().abort_hangs) pause();
    rank->member->abort();
    return BKCL_SUCCESS;
  });
}

BKCLResult_t bkcl_comm_count(BKCLContext_t ctx, int* count) {
  constexpr const char* kName = "bkcl_comm_count";
  return guard(kName, [&] {
    const auto rank = Library::get().find(kName, ctx);
    if (count == nullptr) return refuse(kName, "count is NULL");
    *count = static_cast<int>(rank->member->world());
    return BKCL_SUCCESS;
  });
}

BKCLResult_t bkcl_comm_user_rank(BKCLContext_t ctx, int* rank) {
  constexpr const char* kName = "bkcl_comm_user_rank";
  return guard(kName, [&] {
    const auto self = Library::get().find(kName, ctx);
    if (rank == nullptr) return refuse(kName, "rank is NULL");
    *rank = self->rank;
    return BKCL_SUCCESS;
  });
}

BKCLResult_t bkcl_all_gather(const BKCLContext_t ctx, const void* sendbuf, size_t sendcnt,
                             void* recvbuf, BKCLDataType datatype, XPUStream stream) {
  return run("bkcl_all_gather", Collective::kAllGather, {sendbuf, recvbuf, sendcnt, datatype}, ctx,
             stream);
}

BKCLResult_t bkcl_all_reduce(const BKCLContext_t ctx, const void* sendbuf, void* recvbuf,
                             size_t count, BKCLDataType datatype, BKCLOp op, XPUStream stream) {
  return run("bkcl_all_reduce", Collective::kAllReduce, {sendbuf, recvbuf, count, datatype, op},
             ctx, stream);
}

BKCLResult_t bkcl_broadcast(const BKCLContext_t ctx, const void* sendbuf, void* recvbuf,
                            size_t count, BKCLDataType datatype, int root, XPUStream stream) {
  return run("bkcl_broadcast", Collective::kBroadcast,
             {sendbuf, recvbuf, count, datatype, BKCL_ADD, root}, ctx, stream);
}

BKCLResult_t bkcl_reduce(const BKCLContext_t ctx, const void* sendbuf, void* recvbuf, size_t count,
                         BKCLDataType datatype, BKCLOp op, int root, XPUStream stream) {
  return run("bkcl_reduce", Collective::kReduce, {sendbuf, recvbuf, count, datatype, op, root}, ctx,
             stream);
}

BKCLResult_t bkcl_reduce_scatter(const BKCLContext_t ctx, const void* sendbuf, void* recvbuf,
                                 size_t recvcount, BKCLDataType datatype, BKCLOp op,
                                 XPUStream stream) {
  return run("bkcl_reduce_scatter", Collective::kReduceScatter,
             {sendbuf, recvbuf, recvcount, datatype, op}, ctx, stream);
}

BKCLResult_t bkcl_all_to_all(const BKCLContext_t ctx, const void* sendbuf, size_t count,
                             void* recvbuf, BKCLDataType datatype, XPUStream stream) {
  return run("bkcl_all_to_all", Collective::kAllToAll, {sendbuf, recvbuf, count, datatype}, ctx,
             stream);
}

BKCLResult_t bkcl_all_to_all_v(const BKCLContext_t ctx, const void* sendbuf,
                               const size_t* sendcounts, const size_t* sdispls,
                               BKCLDataType sendtype, void* recvbuf, const size_t* recvcounts,
                               const size_t* rdispls, BKCLDataType recvtype, XPUStream stream) {
  constexpr const char* kName = "bkcl_all_to_all_v";
  return guard(kName, [&] {
    const BKCLResult_t result = sendtype == recvtype
                                    ? take_counts(ctx, sendbuf, sendcounts, sdispls, recvbuf,
                                                  recvcounts, rdispls, sendtype, stream)
                                    : refuse(kName, "the types of both directions differ");
    return result == BKCL_SUCCESS ? result : refuse_call(result);
  });
}

BKCLResult_t bkcl_send(const BKCLContext_t ctx, const void* sendbuf, size_t count, int peer,
                       BKCLDataType datatype, XPUStream stream) {
  return run("bkcl_send", Collective::kSend, {sendbuf, nullptr, count, datatype, BKCL_ADD, peer},
             ctx, stream);
}

BKCLResult_t bkcl_recv(const BKCLContext_t ctx, void* recvbuf, size_t count, int peer,
                       BKCLDataType datatype, XPUStream stream) {
  return run("bkcl_recv", Collective::kReceive, {nullptr, recvbuf, count, datatype, BKCL_ADD, peer},
             ctx, stream);
}

BKCLResult_t bkcl_group_start() {
  start_group();
  return BKCL_SUCCESS;
}

BKCLResult_t bkcl_group_end() {
  return guard("bkcl_group_end", [] { return end_group(); });
}

}  // extern "C"
