#include "fuzz/random_calls.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace keel::fuzz {
namespace {

constexpr uint64_t kLargestBlock = 64 << 10;
constexpr size_t kBlocksPerLane = 6;
constexpr int64_t kMillisecond = 1'000'000;

keel_status refuse_call(void*, keel_stream, const keel_op_call*) {
  return KEEL_ABORTED;
}
int accepts_some(void* user, const keel_op_call* call) {
  return call->op == *static_cast<const keel_op_id*>(user) ? 1 : 0;
}

}  // namespace

// ---- the world ------------------------------------------------------------------

World::World(std::vector<keel_device> devices) : devices_(std::move(devices)) {
  for (size_t i = 0; i < kLanes; ++i) lanes_[i].device = devices_[i % devices_.size()];
}

World::~World() {
  finish();
}

void World::check(const char* call, keel_status status) {
  calls_.fetch_add(1, std::memory_order_relaxed);
  if (status == KEEL_OK) successes_.fetch_add(1, std::memory_order_relaxed);
  if (status == KEEL_OK || status == KEEL_NOT_READY) return;
  const char* why = nullptr;
  if (status != KEEL_UNKNOWN && std::strcmp(keel_status_name(status), "KEEL_UNKNOWN") == 0) {
    why = "a status that is none";
  } else if (status == KEEL_INTERNAL) {
    why = keel_last_error();  // no call of a user may find Keel out of order
  } else if (*keel_last_error() == '\0') {
    why = "a failure without a text";
  }
  if (why != nullptr) report(call, status, why);
}

void World::report(const char* call, keel_status status, const char* why) {
  std::lock_guard lock(problem_mutex_);
  if (!problem_.empty()) return;
  problem_ = std::string(call) + ": " + keel_status_name(status) + ": " + why;
}

std::string World::problem() {
  std::lock_guard lock(problem_mutex_);
  return problem_;
}

void World::finish() {
  const auto ended = [&](const char* call, keel_status status) {
    check(call, status);
    if (status == KEEL_INVALID_HANDLE) report(call, status, "at the end");
  };
  for (auto& rank : comm_) {
    if (rank != 0) ended("keel_comm_destroy", keel_comm_destroy({rank.exchange(0)}));
  }
  for (auto& gate : gates_) {
    if (gate != 0) ended("keel_gate_destroy", keel_gate_destroy({gate.exchange(0)}));
  }
  for (auto& event : events_) {
    if (event != 0) ended("keel_event_destroy", keel_event_destroy({event.exchange(0)}));
  }
  for (Lane& lane : lanes_) {
    if (lane.stream != 0) ended("keel_stream_destroy", keel_stream_destroy({lane.stream}));
    lane.stream = 0;
    for (const Lane::Block& block : lane.blocks) {
      ended("keel_free", keel_free(block.device, block.base));
    }
    lane.blocks.clear();
  }
}

// ---- arguments --------------------------------------------------------------------

uint64_t RandomCalls::handle(uint64_t usual) {
  switch (bytes_->below(64)) {
    case 63:
      return bytes_->word();
    case 62:  // another generation of the slot
      return usual + 1;
    case 61:
      return world_.devices_.front().id;
    case 60:
      return world_.events_[0];
    default:
      return usual;
  }
}

keel_device RandomCalls::device() {
  const auto count = static_cast<uint32_t>(world_.devices_.size());
  return {handle(world_.devices_[bytes_->below(count)].id)};
}

int64_t RandomCalls::timeout() {
  switch (bytes_->below(32)) {
    case 31:
      return -static_cast<int64_t>(bytes_->below(4)) - 2;
    case 30:
      return kMillisecond;
    default:
      return 0;
  }
}

keel_header RandomCalls::header(uint32_t size, uint32_t type) {
  if (bytes_->one_in(32)) return {bytes_->below(size + 1), bytes_->byte(), nullptr};
  return {size, type, nullptr};
}

Lane::Block RandomCalls::block(Lane& lane) {
  if (lane.blocks.empty() || bytes_->one_in(32)) {
    return {lane.device, reinterpret_cast<char*>(bytes_->word()), bytes_->below(4096),
            KEEL_MEMORY_DEVICE};
  }
  return lane.blocks[bytes_->below(static_cast<uint32_t>(lane.blocks.size()))];
}

uint64_t RandomCalls::offset(const Lane::Block& block) {
  if (bytes_->one_in(2)) return 0;
  return bytes_->below(65536) % (block.size + 2);
}

uint64_t RandomCalls::size(uint64_t usual) {
  switch (bytes_->below(32)) {
    case 31:
      return bytes_->word();
    case 30:
      return usual + 1;
    case 29:
      return 0;
    default:
      return usual;
  }
}

keel_tensor RandomCalls::tensor(const Lane::Block& block) {
  keel_tensor tensor = {};
  tensor.size = sizeof(keel_tensor);
  tensor.dtype = bytes_->usually(KEEL_FLOAT32, 4, KEEL_DTYPE_COUNT + 1);
  tensor.rank = bytes_->one_in(4) ? bytes_->below(KEEL_MAX_RANK + 2) : 2;
  tensor.data = block.base;
  tensor.byte_offset = bytes_->one_in(8) ? bytes_->below(256) : 0;
  int64_t stride = 1;
  for (uint32_t i = std::min<uint32_t>(tensor.rank, KEEL_MAX_RANK); i-- > 0;) {
    tensor.shape[i] = bytes_->one_in(4) ? bytes_->below(9) : 4;
    if (bytes_->one_in(64)) tensor.shape[i] = static_cast<int64_t>(bytes_->word());
    tensor.strides[i] = bytes_->one_in(16) ? bytes_->below(64) : stride;
    if (bytes_->one_in(64)) tensor.strides[i] = static_cast<int64_t>(bytes_->word());
    if (tensor.shape[i] > 0 && tensor.shape[i] < 64 && stride < 1 << 20) stride *= tensor.shape[i];
  }
  return tensor;
}

// ---- streams ----------------------------------------------------------------------

void RandomCalls::create_stream() {
  Lane& target = lane();
  std::unique_lock lock(target.mutex, std::try_to_lock);
  if (!lock || target.stream != 0) return;
  keel_stream created = {};
  const auto priority = static_cast<int32_t>(bytes_->below(5)) - 2;
  check("keel_stream_create", keel_stream_create(target.device, priority, &created));
  target.stream = created.id;
}

void RandomCalls::destroy_stream() {
  Lane& target = lane();
  std::unique_lock lock(target.mutex, std::try_to_lock);
  if (!lock) return;
  const keel_status status = keel_stream_destroy({target.stream.exchange(0)});
  check("keel_stream_destroy", status);
  // What it held was cancelled, the rest is short: only a hang gets there.
  if (status == KEEL_TIMED_OUT) world_.report("keel_stream_destroy", status, keel_last_error());
}

void RandomCalls::query_stream() {
  check("keel_stream_query", keel_stream_query(stream()));
}

void RandomCalls::synchronize_stream() {
  const keel_stream target = stream();
  check("keel_stream_synchronize", keel_stream_synchronize(target, timeout()));
}

void RandomCalls::recover_stream() {
  const keel_stream target = stream();
  check("keel_stream_recover", keel_stream_recover(target, timeout()));
}

// ---- events -----------------------------------------------------------------------

void RandomCalls::create_event() {
  keel_event created = {};
  const uint32_t flags = bytes_->one_in(32) ? bytes_->byte() : bytes_->below(2);
  const keel_status status = keel_event_create(flags, &created);
  check("keel_event_create", status);
  if (status != KEEL_OK) return;
  const uint64_t former = world_.events_[bytes_->below(World::kEvents)].exchange(created.id);
  if (former != 0) check("keel_event_destroy", keel_event_destroy({former}));
}

void RandomCalls::destroy_event() {
  auto& slot = world_.events_[bytes_->below(World::kEvents)];
  check("keel_event_destroy", keel_event_destroy({slot.exchange(0)}));
}

void RandomCalls::record_event() {
  const keel_event recorded = event();
  check("keel_event_record", keel_event_record(recorded, stream()));
}

void RandomCalls::query_event() {
  check("keel_event_query", keel_event_query(event()));
}

void RandomCalls::wait_event() {
  const keel_event waited = event();
  check("keel_event_wait", keel_event_wait(waited, timeout()));
}

void RandomCalls::stream_waits_for_event() {
  const keel_stream waiter = stream();
  check("keel_stream_wait_event", keel_stream_wait_event(waiter, event()));
}

void RandomCalls::elapsed() {
  uint64_t nanoseconds = 0;
  const keel_event start = event();
  check("keel_event_elapsed", keel_event_elapsed(start, event(), &nanoseconds));
}

// ---- gates ------------------------------------------------------------------------

void RandomCalls::create_gate() {
  keel_gate created = {};
  const keel_status status = keel_gate_create(&created);
  check("keel_gate_create", status);
  if (status != KEEL_OK) return;
  const uint64_t former = world_.gates_[bytes_->below(World::kGates)].exchange(created.id);
  if (former != 0) check("keel_gate_destroy", keel_gate_destroy({former}));
}

void RandomCalls::destroy_gate() {
  auto& slot = world_.gates_[bytes_->below(World::kGates)];
  check("keel_gate_destroy", keel_gate_destroy({slot.exchange(0)}));
}

void RandomCalls::open_gate() {
  const keel_gate opened = gate();
  auto with = static_cast<keel_status>(bytes_->usually(KEEL_OK, 4, 40));
  if (with == KEEL_INTERNAL) with = KEEL_CANCELLED;  // that one means a fault of Keel's here
  const std::string why = text(16);
  check("keel_gate_open", keel_gate_open(opened, with, bytes_->one_in(4) ? nullptr : why.c_str()));
}

void RandomCalls::stream_waits_for_gate() {
  const keel_stream waiter = stream();
  check("keel_stream_wait_gate", keel_stream_wait_gate(waiter, gate()));
}

// ---- memory -----------------------------------------------------------------------

void RandomCalls::allocate() {
  Lane& target = lane();
  std::unique_lock lock(target.mutex, std::try_to_lock);
  if (!lock || target.blocks.size() == kBlocksPerLane) return;
  Lane::Block made = {target.device, nullptr, bytes_->below(kLargestBlock - 1) + 1u,
                      KEEL_MEMORY_DEVICE};
  if (bytes_->one_in(4))
    made.device = world_.devices_[bytes_->below(static_cast<uint32_t>(world_.devices_.size()))];
  if (bytes_->one_in(8)) made.kind = bytes_->below(4);
  const uint64_t asked = bytes_->one_in(64) ? bytes_->word() | 1ull << 50 : made.size;
  void* pointer = nullptr;
  keel_status status = KEEL_OK;
  if (bytes_->one_in(2) && made.kind == KEEL_MEMORY_DEVICE) {
    made.device = target.device;
    status = keel_alloc_on_stream({target.stream}, asked, &pointer);
    check("keel_alloc_on_stream", status);
  } else {
    status = keel_alloc(made.device, made.kind, asked, &pointer);
    check("keel_alloc", status);
  }
  if (status != KEEL_OK) return;
  made.base = static_cast<char*>(pointer);
  target.blocks.push_back(made);
}

void RandomCalls::free_block() {
  Lane& target = lane();
  std::unique_lock lock(target.mutex, std::try_to_lock);
  if (!lock) return;
  if (bytes_->one_in(16)) {  // inside a block, or nowhere: refused
    const Lane::Block wrong = block(target);
    check("keel_free", keel_free(wrong.device, wrong.base + 1));
    return;
  }
  if (target.blocks.empty()) return;
  const size_t index = bytes_->below(static_cast<uint32_t>(target.blocks.size()));
  const Lane::Block freed = target.blocks[index];
  keel_status status = KEEL_INVALID_HANDLE;
  // All work on it was enqueued on the lane's own stream.
  if (bytes_->one_in(2) && freed.device.id == target.device.id && target.stream != 0 &&
      freed.kind == KEEL_MEMORY_DEVICE) {
    status = keel_free_on_stream({target.stream}, freed.base);
    check("keel_free_on_stream", status);
  } else {
    status = keel_free(freed.device, freed.base);
    check("keel_free", status);
  }
  if (status == KEEL_OK) target.blocks.erase(target.blocks.begin() + static_cast<long>(index));
}

void RandomCalls::trim() {
  check("keel_memory_trim", keel_memory_trim(device()));
}

void RandomCalls::find_memory() {
  keel_memory_info info = {};
  info.header = header(sizeof(info), KEEL_STRUCT_MEMORY_INFO);
  Lane& target = lane();
  std::unique_lock lock(target.mutex, std::try_to_lock);
  if (!lock) return;
  const Lane::Block looked_up = block(target);
  check("keel_memory_find",
        keel_memory_find(looked_up.device, looked_up.base + offset(looked_up), &info));
}

void RandomCalls::register_host() {
  Lane& target = lane();
  std::unique_lock lock(target.mutex, std::try_to_lock);
  if (!lock) return;
  const keel_status status =
      keel_host_register(target.device, target.host.data(), target.host.size());
  check("keel_host_register", status);
  if (status != KEEL_OK) return;
  check("keel_host_unregister", keel_host_unregister(target.device, target.host.data()));
}

void RandomCalls::memory_statistics() {
  const keel_device asked = device();
  keel_memory_stats stats = {};
  stats.header = header(sizeof(stats), KEEL_STRUCT_MEMORY_STATS);
  check("keel_memory_stats_get", keel_memory_stats_get(asked, &stats));
  if (bytes_->one_in(4)) {
    check("keel_memory_stats_reset_peaks", keel_memory_stats_reset_peaks(asked));
  }
  std::array<char, 512> snapshot;
  uint64_t room = bytes_->below(static_cast<uint32_t>(snapshot.size()) + 1);
  check("keel_memory_snapshot", keel_memory_snapshot(asked, snapshot.data(), &room));
}

// ---- copies -----------------------------------------------------------------------

void RandomCalls::copy_host() {
  Lane& target = lane();
  std::unique_lock lock(target.mutex, std::try_to_lock);
  if (!lock) return;
  const Lane::Block side = block(target);
  const uint64_t at = offset(side);
  // No longer than the host's buffer: that is the caller's to know.
  uint64_t bytes = std::min<uint64_t>(side.size > at ? side.size - at : 0, target.host.size());
  if (bytes_->one_in(16)) bytes = std::min<uint64_t>(bytes + 1, target.host.size());
  const keel_stream stream = {handle(target.stream)};
  keel_device to = side.device;
  keel_device from = KEEL_HOST;
  void* destination = side.base + at;
  void* source = target.source.data();
  if (bytes_->one_in(2)) {
    std::swap(to, from);
    source = destination;
    destination = target.host.data();
  }
  check("keel_copy", keel_copy(stream, to, destination, from, source, bytes));
}

void RandomCalls::copy_blocks() {
  Lane& target = lane();
  std::unique_lock lock(target.mutex, std::try_to_lock);
  if (!lock) return;
  const Lane::Block to = block(target);
  const Lane::Block from = block(target);
  // Pinned for another device is pageable for this one, which may read it at once while
  // the lane's stream still writes it.
  if (from.kind != KEEL_MEMORY_DEVICE && from.device.id != target.device.id) return;
  const uint64_t bytes = size(bytes_->below(4096));
  check("keel_copy", keel_copy({target.stream}, to.device, to.base + offset(to), from.device,
                               from.base + offset(from), bytes));
}

void RandomCalls::fill() {
  Lane& target = lane();
  std::unique_lock lock(target.mutex, std::try_to_lock);
  if (!lock) return;
  const Lane::Block filled = block(target);
  const uint64_t pattern = bytes_->word();
  const uint32_t width = bytes_->one_in(8) ? bytes_->byte() : 1u << bytes_->below(4);
  const uint64_t at = bytes_->one_in(8) ? offset(filled) : 0;
  const uint64_t bytes = size(width == 0 ? 8 : bytes_->below(512) * uint64_t{width});
  check("keel_fill", keel_fill({target.stream}, filled.base + at, &pattern, width, bytes));
}

void RandomCalls::ask_path() {
  keel_copy_path path = {};
  path.header = header(sizeof(path), KEEL_STRUCT_COPY_PATH);
  const keel_device to = bytes_->one_in(8) ? KEEL_HOST : device();
  check("keel_copy_path_get",
        keel_copy_path_get(to, bytes_->one_in(8) ? KEEL_HOST : device(), &path));
}

// ---- operators --------------------------------------------------------------------

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

// ---- collectives ------------------------------------------------------------------

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

// ---- devices ----------------------------------------------------------------------

void RandomCalls::ask_device() {
  const keel_device asked = device();
  keel_device_info info = {};
  info.header = header(sizeof(info), KEEL_STRUCT_DEVICE_INFO);
  check("keel_device_info_get", keel_device_info_get(asked, &info));
  keel_device_health health = {};
  health.header = header(sizeof(health), KEEL_STRUCT_DEVICE_HEALTH);
  check("keel_device_health_get", keel_device_health_get(asked, &health));
  uint64_t free = 0;
  uint64_t total = 0;
  check("keel_device_memory_info", keel_device_memory_info(asked, &free, &total));
  std::array<char, 80> name;
  check("keel_device_name", keel_device_name(asked, name.data(), bytes_->below(81)));
  const std::string wanted = text(8);
  keel_device found = {};
  check("keel_device_find", keel_device_find(wanted.c_str(), &found));
  check("keel_device_get", keel_device_get(bytes_->byte(), &found));
}

void RandomCalls::ask_backend() {
  keel_backend_info info = {};
  info.header = header(sizeof(info), KEEL_STRUCT_BACKEND_INFO);
  check("keel_backend_get", keel_backend_get(bytes_->below(8), &info));
  uint32_t count = 0;
  check("keel_backend_count", keel_backend_count(&count));
  uint64_t fallbacks = 0;
  check("keel_op_fallback_count", keel_op_fallback_count(&fallbacks));
}

void RandomCalls::load_plugin() {
  const std::string path = "/nonexistent/" + text(16);
  const std::string digest = text(70);
  uint32_t backend = 0;
  check("keel_plugin_load",
        keel_plugin_load(path.c_str(), nullptr, bytes_->one_in(2) ? nullptr : digest.c_str(),
                         &backend));
}

void RandomCalls::load_module() {
  // What the host would run as its own code is not made of random bytes.
  keel_binary_format format = bytes_->below(8);
  if (format == KEEL_BINARY_SHARED_OBJECT) format = KEEL_BINARY_SPIRV;
  const std::string binary = text(64);
  keel_module module = {};
  check("keel_module_load",
        keel_module_load(device(), format, binary.data(), binary.size(), &module));
  keel_kernel kernel = {};
  check("keel_kernel_find", keel_kernel_find(module, binary.c_str(), &kernel));
  keel_launch launch = {};
  launch.header = header(sizeof(launch), KEEL_STRUCT_LAUNCH);
  for (uint32_t& extent : launch.grid) extent = bytes_->below(3);
  for (uint32_t& extent : launch.block) extent = bytes_->below(3);
  const keel_kernel wrong = {handle(kernel.id)};
  check("keel_kernel_launch", keel_kernel_launch(stream(), wrong, &launch));
  check("keel_module_unload", keel_module_unload(module));
}

void RandomCalls::synchronize_device() {
  const keel_device target = device();
  check("keel_device_synchronize", keel_device_synchronize(target, timeout()));
}

// ---- the draw ---------------------------------------------------------------------

const std::vector<RandomCalls::Weighted>& RandomCalls::table() {
  static const std::vector<Weighted> weighted = {
      {&RandomCalls::create_stream, 10},
      {&RandomCalls::destroy_stream, 1},
      {&RandomCalls::query_stream, 6},
      {&RandomCalls::synchronize_stream, 6},
      {&RandomCalls::recover_stream, 12},
      {&RandomCalls::create_event, 4},
      {&RandomCalls::destroy_event, 1},
      {&RandomCalls::record_event, 20},
      {&RandomCalls::query_event, 8},
      {&RandomCalls::wait_event, 6},
      {&RandomCalls::stream_waits_for_event, 16},
      {&RandomCalls::elapsed, 2},
      {&RandomCalls::create_gate, 3},
      {&RandomCalls::destroy_gate, 1},
      {&RandomCalls::open_gate, 6},
      {&RandomCalls::stream_waits_for_gate, 3},
      {&RandomCalls::allocate, 16},
      {&RandomCalls::free_block, 14},
      {&RandomCalls::trim, 1},
      {&RandomCalls::find_memory, 4},
      {&RandomCalls::register_host, 1},
      {&RandomCalls::memory_statistics, 2},
      {&RandomCalls::copy_host, 20},
      {&RandomCalls::copy_blocks, 20},
      {&RandomCalls::fill, 16},
      {&RandomCalls::ask_path, 1},
      {&RandomCalls::run_op, 24},
      {&RandomCalls::plan_op, 2},
      {&RandomCalls::explain_op, 1},
      {&RandomCalls::register_kernel, 1},
      {&RandomCalls::create_comm, 1},
      {&RandomCalls::end_comm, 1},
      {&RandomCalls::ask_comm, 1},
      {&RandomCalls::collective, 8},
      {&RandomCalls::ask_device, 1},
      {&RandomCalls::ask_backend, 1},
      {&RandomCalls::load_plugin, 1},
      {&RandomCalls::synchronize_device, 1},
      {&RandomCalls::load_module, 1},
  };
  return weighted;
}

void RandomCalls::run(Bytes bytes) {
  // A row of 256 entries, so that one byte draws a call by its weight.
  static const std::vector<Call> drawn = [] {
    std::vector<Call> row;
    for (const Weighted& each : table()) row.insert(row.end(), each.weight, each.call);
    return row;
  }();
  bytes_ = &bytes;
  while (!bytes.empty()) (this->*drawn[bytes.below(static_cast<uint32_t>(drawn.size()))])();
  bytes_ = nullptr;
}

}  // namespace keel::fuzz
