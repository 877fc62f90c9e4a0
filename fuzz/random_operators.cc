#include "fuzz/random_calls.h"

namespace keel::fuzz {
namespace {

keel_status refuse_call(void*, keel_stream, const keel_op_call*) {
  return KEEL_ABORTED;
}
int accepts_some(void* user, const keel_op_call* call) {
  return call->op == *static_cast<const keel_op_id*>(user) ? 1 : 0;
}

}  // namespace

// ---- operators ------------------------------------------------------------------

// A call with its own tensors; every pointer in it is valid, whatever it points to.
struct RandomCalls::OpCall {
  std::array<keel_tensor, 8> tensors = {};
  std::array<const keel_tensor*, 4> inputs = {};
  std::array<const keel_tensor*, 4> outputs = {};
  std::array<keel_attribute, 8> attributes = {};
  keel_op_call call = {};
};

void RandomCalls::make_call(Lane& target, OpCall* out) {
  keel_op_call& call = out->call;
  call.header = header(sizeof(call), KEEL_STRUCT_OP_CALL);
  call.op = bytes_->one_in(16) ? bytes_->byte() : 1 + bytes_->below(KEEL_OP_COUNT - 1);
  // Most operators take one to three tensors of one shape.
  call.input_count = bytes_->one_in(8) ? bytes_->below(5) : 1 + bytes_->below(2);
  call.output_count = bytes_->one_in(8) ? bytes_->below(3) : 1;
  call.attribute_count = bytes_->below(bytes_->one_in(8) ? 9 : 3);
  const keel_tensor common = tensor(block(target));
  for (size_t i = 0; i < out->tensors.size(); ++i) {
    out->tensors[i] = common;
    if (bytes_->one_in(8)) {
      out->tensors[i] = tensor(block(target));
    } else if (bytes_->one_in(2)) {
      out->tensors[i].data = block(target).base;
    }
  }
  for (size_t i = 0; i < out->inputs.size(); ++i) {
    out->inputs[i] = bytes_->one_in(32) ? nullptr : &out->tensors[i];
    out->outputs[i] = bytes_->one_in(32) ? nullptr : &out->tensors[4 + i];
  }
  for (auto& attribute : out->attributes) {
    if (bytes_->one_in(2)) {
      attribute.i = static_cast<int64_t>(bytes_->below(3));
    } else {
      attribute.f = static_cast<double>(bytes_->byte()) / 16;
    }
  }
  call.inputs = bytes_->one_in(64) ? nullptr : out->inputs.data();
  call.outputs = bytes_->one_in(64) ? nullptr : out->outputs.data();
  call.attributes = bytes_->one_in(64) ? nullptr : out->attributes.data();
}

void RandomCalls::run_op() {
  Lane& target = lane();
  std::unique_lock lock(target.mutex, std::try_to_lock);
  if (!lock) return;
  OpCall call;
  make_call(target, &call);
  check("keel_op_run", keel_op_run({target.stream}, bytes_->one_in(64) ? nullptr : &call.call));
}

void RandomCalls::plan_op() {
  Lane& target = lane();
  std::unique_lock lock(target.mutex, std::try_to_lock);
  if (!lock) return;
  OpCall call;
  make_call(target, &call);
  keel_op_plan plan = {};
  plan.header = header(sizeof(plan), KEEL_STRUCT_OP_PLAN);
  check("keel_op_plan_get", keel_op_plan_get(device(), &call.call, &plan));
}

void RandomCalls::explain_op() {
  Lane& target = lane();
  std::unique_lock lock(target.mutex, std::try_to_lock);
  if (!lock) return;
  OpCall call;
  make_call(target, &call);
  std::array<char, 256> answer;
  uint64_t room = bytes_->below(static_cast<uint32_t>(answer.size()) + 1);
  check("keel_op_explain", keel_op_explain(device(), &call.call, answer.data(), &room));
  const std::string name = text(8);
  keel_op_id op = KEEL_OP_INVALID;
  check("keel_op_find", keel_op_find(bytes_->one_in(2) ? "matmul" : name.c_str(), &op));
  keel_op_name(bytes_->byte());
}

void RandomCalls::register_kernel() {
  static const std::array<keel_op_id, 2> kOps = {KEEL_OP_AXPY, KEEL_OP_GELU};
  const int index = world_.kernels_.fetch_add(1);
  if (index >= static_cast<int>(kOps.size())) return;
  keel_custom_kernel kernel = {};
  kernel.header = header(sizeof(kernel), KEEL_STRUCT_CUSTOM_KERNEL);
  kernel.op = kOps[static_cast<size_t>(index)];
  kernel.score = 1000;
  kernel.backend = "cpu";
  kernel.name = "refuses everything";
  kernel.user = const_cast<keel_op_id*>(&kOps[static_cast<size_t>(index)]);
  kernel.accepts = accepts_some;
  kernel.run = bytes_->one_in(8) ? nullptr : refuse_call;
  check("keel_op_register", keel_op_register(&kernel));
}

// ---- collectives ----------------------------------------------------------------

void RandomCalls::create_comm() {
  std::unique_lock lock(world_.comm_mutex_, std::try_to_lock);
  if (!lock) return;
  for (const auto& rank : world_.comm_) {
    if (rank != 0) return;
  }
  std::array<keel_device, World::kRanks> devices;
  for (uint32_t rank = 0; rank < World::kRanks; ++rank) devices[rank] = world_.lanes_[rank].device;
  if (bytes_->one_in(8)) devices[0] = device();
  keel_comm_options options = {};
  options.header = header(sizeof(options), KEEL_STRUCT_COMM_OPTIONS);
  options.timeout_ns = 5 * kMillisecond;  // ranks will be missing
  options.chunk_bytes = bytes_->one_in(4) ? bytes_->below(4096) : 0;
  options.forbid_alias = bytes_->below(2);
  std::array<keel_comm, World::kRanks> made = {};
  const keel_status status =
      keel_comm_init_all(devices.data(), World::kRanks, &options, made.data());
  check("keel_comm_init_all", status);
  if (status != KEEL_OK) return;
  for (uint32_t rank = 0; rank < World::kRanks; ++rank) world_.comm_[rank] = made[rank].id;
}

void RandomCalls::end_comm() {
  std::unique_lock lock(world_.comm_mutex_, std::try_to_lock);
  if (!lock) return;
  if (bytes_->one_in(2)) {
    check("keel_comm_abort", keel_comm_abort(comm()));
    return;
  }
  for (auto& rank : world_.comm_) {
    if (rank != 0) check("keel_comm_destroy", keel_comm_destroy({rank.exchange(0)}));
  }
}

void RandomCalls::ask_comm() {
  const keel_comm asked = comm();
  uint32_t rank = 0;
  uint32_t ranks = 0;
  check("keel_comm_rank", keel_comm_rank(asked, &rank, &ranks));
  check("keel_comm_async_error", keel_comm_async_error(asked));
  keel_comm_stats stats = {};
  stats.header = header(sizeof(stats), KEEL_STRUCT_COMM_STATS);
  check("keel_comm_stats_get", keel_comm_stats_get(asked, &stats));
  std::array<char, 256> answer;
  uint64_t room = bytes_->below(static_cast<uint32_t>(answer.size()) + 1);
  check("keel_comm_explain", keel_comm_explain(asked, answer.data(), &room));
}

void RandomCalls::collective() {
  const uint32_t rank = bytes_->below(World::kRanks);
  Lane& target = world_.lanes_[rank];
  std::unique_lock lock(target.mutex, std::try_to_lock);
  if (!lock) return;
  const keel_comm comm = {handle(world_.comm_[rank])};
  // A rank that is another lane's would use this lane's memory on that one's stream.
  for (uint32_t other = 0; other < World::kRanks; ++other) {
    if (other != rank && comm.id == world_.comm_[other]) return;
  }
  const keel_stream stream = {target.stream};
  const Lane::Block from = block(target);
  const Lane::Block to = block(target);
  const keel_dtype dtype = bytes_->usually(KEEL_FLOAT32, 8, 256);
  const keel_reduction reduction = bytes_->usually(KEEL_SUM, 8, 256);
  const uint64_t count = size(bytes_->one_in(4) ? bytes_->below(2048) : 16);
  switch (bytes_->below(5)) {
    case 0:
      check("keel_all_reduce",
            keel_all_reduce(comm, from.base, to.base, count, dtype, reduction, stream));
      return;
    case 1:
      check("keel_broadcast", keel_broadcast(comm, from.base, to.base, count, dtype,
                                             bytes_->one_in(8) ? bytes_->byte() : 0, stream));
      return;
    case 2:
      check("keel_all_gather", keel_all_gather(comm, from.base, to.base, count, dtype, stream));
      return;
    case 3:
      check("keel_reduce_scatter",
            keel_reduce_scatter(comm, from.base, to.base, count, dtype, reduction, stream));
      return;
    default:
      check("keel_barrier", keel_barrier(comm, stream));
  }
}

}  // namespace keel::fuzz
