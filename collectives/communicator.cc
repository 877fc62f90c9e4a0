#include "collectives/communicator.h"

#include <algorithm>
#include <keel/plugin_kit.hpp>

#include "collectives/reduce.h"
#include "core/observer.h"

namespace keel {

namespace {

// |size| bytes at |pointer| must be device memory of |device|.
Status check_buffer(Device& device, const void* pointer, uint64_t size, const char* name) {
  if (size == 0) return {};
  Allocation allocation;
  KEEL_RETURN_IF_ERROR(device.memory().check_range(pointer, size, name, &allocation));
  if (allocation.kind != KEEL_MEMORY_DEVICE) {
    return failure(KEEL_INVALID_ARGUMENT, "{} is pinned memory, not device memory", name);
  }
  return {};
}

// The buffers may overlap in one way only: as the collective's in-place form has it.
Status check_overlap(const Request& request, uint32_t rank, uint32_t world) {
  const uint64_t send_bytes = request.send_bytes(rank, world);
  const uint64_t receive_bytes = request.receive_bytes(world);
  const auto send = reinterpret_cast<uintptr_t>(request.send);
  const auto receive = reinterpret_cast<uintptr_t>(request.receive);
  if (send_bytes == 0 || receive_bytes == 0) return {};
  if (send + send_bytes <= receive || receive + receive_bytes <= send) return {};
  const uint64_t piece = request.count * kit::dtype_size(request.dtype) * rank;
  uintptr_t expected = receive;
  if (request.collective == KEEL_ALL_GATHER) expected = receive + piece;
  if (request.collective == KEEL_REDUCE_SCATTER) expected = receive - piece;
  if (send == expected) return {};
  return failure(KEEL_INVALID_ARGUMENT, "send and receive overlap, and not as in place");
}

}  // namespace

Communicator::Communicator(std::vector<Ref<Device>> devices, const CommunicatorOptions& options)
    : devices_(std::move(devices)),
      timeout_ns_(options.timeout_ns),
      bridge_(devices_, options.bridge),
      next_(devices_.size(), 0),
      thread_([this] { serve(); }) {}

Communicator::~Communicator() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    cancelled_.store(true, std::memory_order_relaxed);
  }
  changed_.notify_all();
  thread_.join();
}

Communicator::Operation& Communicator::operation_for(uint64_t sequence) {
  if (operations_.empty() || operations_.back().sequence < sequence) {
    operations_.push_back({sequence, Deadline::after(timeout_ns_), 0, {}, {}});
    operations_.back().arrivals.resize(world());
  }
  return *std::find_if(operations_.begin(), operations_.end(),
                       [&](const Operation& operation) { return operation.sequence == sequence; });
}

Status Communicator::enqueue(uint32_t rank, const Request& request, const Ref<Stream>& stream) {
  Device& device = *devices_[rank];
  if (&stream->device() != &device) {
    return failure(KEEL_INVALID_ARGUMENT, "stream is of {}, rank {} is on {}",
                   stream->device().name(), rank, device.name());
  }
  const uint32_t element = kit::dtype_size(request.dtype);
  if (element == 0) {
    return failure(KEEL_INVALID_ARGUMENT, "dtype {} is no dtype", request.dtype);
  }
  if (request.count > INT64_MAX / element / world()) {
    return failure(KEEL_INVALID_ARGUMENT, "count {} is too large", request.count);
  }
  if ((request.collective == KEEL_ALL_REDUCE || request.collective == KEEL_REDUCE_SCATTER) &&
      !can_reduce(request.dtype, request.reduction)) {
    return failure(
        request.reduction < KEEL_REDUCTION_COUNT ? KEEL_UNSUPPORTED : KEEL_INVALID_ARGUMENT,
        "reduction {} ({})", request.reduction, reduction_name(request.reduction));
  }
  if (request.root >= world()) {
    return failure(KEEL_INVALID_ARGUMENT, "root is {}, there are {} ranks", request.root, world());
  }
  KEEL_RETURN_IF_ERROR(
      check_buffer(device, request.send, request.send_bytes(rank, world()), "send"));
  KEEL_RETURN_IF_ERROR(
      check_buffer(device, request.receive, request.receive_bytes(world()), "receive"));
  KEEL_RETURN_IF_ERROR(check_overlap(request, rank, world()));
  KEEL_RETURN_IF_ERROR(async_error());
  KEEL_RETURN_IF_ERROR(stream->status());

  Arrival arrival{request, {}, make_ref<Gate>(collective_name(request.collective))};
  KEEL_RETURN_IF_ERROR(stream->fence(&arrival.ready));
  KEEL_RETURN_IF_ERROR(stream->wait(arrival.gate));
  Ref<Gate> gate = arrival.gate;
  Status known;
  {
    std::lock_guard lock(mutex_);
    Operation& operation = operation_for(next_[rank]++);
    operation.arrivals[rank] = std::move(arrival);
    ++operation.arrived;
    known = failure_.ok() ? operation.status : failure_;
    // An operation that failed early is remembered until its last rank has come.
    if (!operation.status.ok() && operation.arrived == world()) {
      std::erase_if(operations_, [&](const Operation& other) { return &other == &operation; });
    }
  }
  if (known.ok()) {
    changed_.notify_all();
  } else {
    open_gates({gate}, known);
  }
  return {};
}

void Communicator::open_gates(const std::vector<Ref<Gate>>& gates, const Status& status) {
  WakeList wake;
  for (const Ref<Gate>& gate : gates) {
    if (gate) gate->open(status, wake);
  }
  advance_all(wake);
}

std::string Communicator::absent_ranks(const Operation& operation) const {
  std::string text;
  for (uint32_t rank = 0; rank < world(); ++rank) {
    if (operation.arrivals[rank].gate) continue;
    text +=
        fmt::format("{}{} ({})", text.empty() ? "rank " : ", rank ", rank, devices_[rank]->name());
  }
  return text;
}

void Communicator::expire_locked(std::vector<Ref<Gate>>* out_gates, Status* out_status) {
  for (Operation& operation : operations_) {
    if (operation.arrived == world() || !operation.status.ok()) continue;
    if (!operation.deadline.passed()) continue;
    const auto first =
        std::find_if(operation.arrivals.begin(), operation.arrivals.end(),
                     [](const Arrival& arrival) { return static_cast<bool>(arrival.gate); });
    operation.status =
        failure(KEEL_TIMED_OUT, "{}, operation {}: {} did not call in time",
                first->request.describe(), operation.sequence, absent_ranks(operation));
    *out_status = operation.status;
    for (const Arrival& arrival : operation.arrivals) out_gates->push_back(arrival.gate);
    return;
  }
}

void Communicator::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto runnable =
        std::find_if(operations_.begin(), operations_.end(),
                     [](const Operation& operation) { return operation.status.ok(); });
    if (stopping_) return;
    if (runnable == operations_.end()) {
      changed_.wait(lock);
      continue;
    }
    // Every rank calls in the same order, so the oldest is always the first complete.
    if (runnable->arrived == world()) {
      Operation operation = std::move(*runnable);
      operations_.erase(runnable);
      running_ = true;
      lock.unlock();
      run(std::move(operation));
      lock.lock();
      running_ = false;
      changed_.notify_all();
      continue;
    }
    std::vector<Ref<Gate>> gates;
    Status status;
    expire_locked(&gates, &status);
    if (!gates.empty()) {
      lock.unlock();
      open_gates(gates, status);
      lock.lock();
      continue;
    }
    changed_.wait_until(lock, runnable->deadline.time());
  }
}

void Communicator::run(Operation operation) {
  std::vector<Ref<Gate>> gates;
  std::vector<Request> requests;
  std::vector<Bridge::Side> sides;
  for (Arrival& arrival : operation.arrivals) {
    gates.push_back(std::move(arrival.gate));
    requests.push_back(arrival.request);
    sides.push_back({arrival.request, std::move(arrival.ready)});
  }
  Status status = async_error();
  if (status.ok()) status = check_requests(requests);
  if (status.ok()) {
    const HostSpan span(collective_name(requests[0].collective));
    status = bridge_.run(sides, {operation.deadline, cancelled_});
  }
  if (!status.ok()) {
    status = status.with_prefix(fmt::format(
        "{}, operation {}: ", collective_name(requests[0].collective), operation.sequence));
  }
  {
    std::lock_guard lock(mutex_);
    ++stats_.operations;
    stats_.bytes = bridge_.stats();
  }
  open_gates(gates, status);
}

void Communicator::abort(const Status& status) {
  std::vector<Ref<Gate>> gates;
  {
    std::lock_guard lock(mutex_);
    if (!failure_.ok()) return;
    failure_ = status;
    cancelled_.store(true, std::memory_order_relaxed);
    for (Operation& operation : operations_) {
      for (Arrival& arrival : operation.arrivals) gates.push_back(std::move(arrival.gate));
    }
    operations_.clear();
  }
  changed_.notify_all();
  open_gates(gates, status);
}

Status Communicator::finish(const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  const bool finished = changed_.wait_until(lock, deadline.time(), [&] {
    return !running_ &&
           std::none_of(operations_.begin(), operations_.end(), [&](const Operation& operation) {
             return operation.status.ok() && operation.arrived == world();
           });
  });
  if (finished) return {};
  return failure(KEEL_TIMED_OUT, "the communicator's operations did not end in time");
}

Status Communicator::async_error() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

Communicator::Stats Communicator::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

std::string Communicator::explain() const {
  std::string ranks;
  for (uint32_t rank = 0; rank < world(); ++rank) {
    ranks +=
        fmt::format("{}{{\"rank\": {}, \"device\": \"{}\", \"reach\": \"{}\"}}",
                    rank == 0 ? "" : ", ", rank, devices_[rank]->name(), bridge_.reach_name(rank));
  }
  return fmt::format(
      "{{\"world\": {}, \"path\": \"bridge\", \"chunk_bytes\": {}, \"chunks_in_flight\": {}, "
      "\"timeout_ns\": {}, \"ranks\": [{}]}}",
      world(), bridge_.options().chunk_bytes, bridge_.options().slots, timeout_ns_, ranks);
}

}  // namespace keel
