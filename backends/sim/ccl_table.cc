// SPDX-License-Identifier: Apache-2.0
#include "backends/sim/ccl_table.h"

#include <cstring>
#include <keel/plugin_kit.hpp>
#include <memory>
#include <vector>

#include "backends/sim/handles.h"
#include "emulator/ccl/communicator.h"

namespace keel::sim {
namespace {

namespace ccl = emulator::ccl;

// The ABI's dtypes begin with 1, and follow the order of the chip's types.
static_assert(KEEL_INT8 == 1 && KEEL_DTYPE_COUNT == ccl::kTypes + 1);
static_assert(KEEL_UINT8 == 1 + static_cast<uint32_t>(ccl::Type::kUint8));
static_assert(KEEL_FLOAT16 == 1 + static_cast<uint32_t>(ccl::Type::kFloat16));
static_assert(KEEL_FLOAT8_E5M2 == 1 + static_cast<uint32_t>(ccl::Type::kFloat8E5m2));
static_assert(KEEL_PREMUL_SUM == static_cast<uint32_t>(ccl::Reduction::kScaledSum));

bool translate(keel_collective collective, ccl::Collective* out_collective) {
  switch (collective) {
    case KEEL_ALL_REDUCE:
      *out_collective = ccl::Collective::kAllReduce;
      return true;
    case KEEL_REDUCE:
      *out_collective = ccl::Collective::kReduce;
      return true;
    case KEEL_BROADCAST:
      *out_collective = ccl::Collective::kBroadcast;
      return true;
    case KEEL_ALL_GATHER:
      *out_collective = ccl::Collective::kAllGather;
      return true;
    case KEEL_REDUCE_SCATTER:
      *out_collective = ccl::Collective::kReduceScatter;
      return true;
    case KEEL_ALL_TO_ALL:
      *out_collective = ccl::Collective::kAllToAll;
      return true;
    case KEEL_SEND:
      *out_collective = ccl::Collective::kSend;
      return true;
    case KEEL_RECV:
      *out_collective = ccl::Collective::kReceive;
      return true;
    default:
      return false;
  }
}

bool has_type(ccl::TypeSet types, keel_dtype dtype) {
  return dtype > KEEL_DTYPE_INVALID && dtype < KEEL_DTYPE_COUNT && (types >> (dtype - 1) & 1) != 0;
}

keel_status capability(keel_plugin_instance* instance, keel_collective collective, keel_dtype dtype,
                       keel_reduction reduction) {
  ccl::Collective known = {};
  const bool has = translate(collective, &known) && has_type(object(instance).ccl_types(), dtype) &&
                   (!ccl::reduces(known) || reduction < KEEL_REDUCTION_COUNT);
  return has ? KEEL_OK : KEEL_UNSUPPORTED;
}

keel_status unique_id(keel_plugin_device*, void* out_id, uint64_t* in_out_size) {
  return kit::guard([&] {
    const uint64_t room = *in_out_size;
    *in_out_size = sizeof(ccl::UniqueId);
    if (room < sizeof(ccl::UniqueId)) {
      return kit::fail(KEEL_INVALID_ARGUMENT, "sim: an id has %zu bytes, there is room for %llu",
                       sizeof(ccl::UniqueId), static_cast<unsigned long long>(room));
    }
    const ccl::UniqueId id = ccl::Clique::make_id();
    std::memcpy(out_id, id.data(), id.size());
    return keel_status{KEEL_OK};
  });
}

keel_status init_rank(keel_plugin_device* device, const void* id, uint64_t id_size, int32_t rank,
                      int32_t world, int64_t timeout_ns, keel_plugin_comm** out_comm) {
  return kit::guard([&] {
    ccl::UniqueId read = {};
    if (id_size != read.size()) {
      return kit::fail(KEEL_INVALID_ARGUMENT, "sim: the id has %llu bytes, not %zu",
                       static_cast<unsigned long long>(id_size), read.size());
    }
    if (rank < 0 || world <= 0) {
      return kit::fail(KEEL_INVALID_ARGUMENT, "sim: rank %d of %d", rank, world);
    }
    std::memcpy(read.data(), id, read.size());
    const OpenDevice& open = opened(device);
    std::unique_ptr<ccl::Communicator> made;
    const emulator::Status status = ccl::Communicator::create(
        read, open.device, static_cast<uint32_t>(rank), static_cast<uint32_t>(world),
        deadline_after(timeout_ns), open.ccl_types, &made);
    if (status.ok()) *out_comm = reinterpret_cast<keel_plugin_comm*>(made.release());
    return answer(status);
  });
}

void destroy(keel_plugin_comm* comm) {
  delete &object(comm);
}

keel_status abort(keel_plugin_comm* comm) {
  return kit::guard([&] {
    object(comm).abort();
    return keel_status{KEEL_OK};
  });
}

keel_status async_error(keel_plugin_comm* comm) {
  return answer(object(comm).async_error());
}

keel_status run(keel_plugin_comm* comm, keel_plugin_stream* stream, const keel_ccl_call* calls,
                uint32_t count) {
  return kit::guard([&] {
    std::vector<ccl::Call> translated(count);
    for (uint32_t i = 0; i < count; ++i) {
      const keel_ccl_call& from = calls[i];
      ccl::Call& to = translated[i];
      if (!translate(from.collective, &to.collective)) {
        return kit::fail(KEEL_UNSUPPORTED, "sim: collective %u", from.collective);
      }
      if (from.dtype <= KEEL_DTYPE_INVALID || from.dtype >= KEEL_DTYPE_COUNT ||
          (ccl::reduces(to.collective) && from.reduction >= KEEL_REDUCTION_COUNT)) {
        return kit::fail(KEEL_INVALID_ARGUMENT, "sim: dtype %u, reduction %u", from.dtype,
                         from.reduction);
      }
      to.type = static_cast<ccl::Type>(from.dtype - 1);
      to.reduction = static_cast<ccl::Reduction>(from.reduction);
      to.root = static_cast<uint32_t>(from.root);
      to.send = address(from.send);
      to.receive = address(from.receive);
      to.count = from.count;
      to.factor = from.factor;
    }
    return answer(object(comm).run(object(stream), translated));
  });
}

keel_status info(keel_plugin_instance*, keel_ccl_info* out_info) {
  kit::copy_text(out_info->library, "emulated ccl " KEEL_SIM_VERSION);
  out_info->reach = KEEL_CCL_PROCESS;
  return KEEL_OK;
}

keel_status split(keel_plugin_comm* comm, const uint32_t* ranks, uint32_t world, uint32_t rank,
                  int64_t timeout_ns, keel_plugin_comm** out_comm) {
  return kit::guard([&] {
    std::unique_ptr<ccl::Communicator> made;
    const int32_t color = world == 0 ? -1 : static_cast<int32_t>(ranks[0]);
    const emulator::Status status =
        object(comm).split(color, static_cast<int32_t>(rank), deadline_after(timeout_ns), &made);
    if (status.ok()) *out_comm = reinterpret_cast<keel_plugin_comm*>(made.release());
    return answer(status);
  });
}

}  // namespace

constinit const keel_ccl_table kCclTable = {
    .header = kit::header<keel_ccl_table>(KEEL_STRUCT_CCL_TABLE),
    .capability = capability,
    .unique_id = unique_id,
    .init_rank = init_rank,
    .destroy = destroy,
    .abort = abort,
    .async_error = async_error,
    .run = run,
    .register_buffer = nullptr,
    .deregister_buffer = nullptr,
    .info = info,
    .split = split,
};

}  // namespace keel::sim
