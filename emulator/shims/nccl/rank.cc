// SPDX-License-Identifier: Apache-2.0
#include "emulator/shims/nccl/rank.h"

#include <keel/thread_start.hpp>
#include <utility>

#include "emulator/shims/nccl/library.h"

namespace keel::emulator::nccl {
namespace {

// All types of the library except the 8-bit floats, which need compute capability 9.0; the emulated
// chip has 0.0.
constexpr ccl::TypeSet kTypes =
    ccl::kAllTypes & ~(ccl::bit(ccl::Type::kInt16) | ccl::bit(ccl::Type::kUint16) |
                       ccl::bit(ccl::Type::kFloat8E4m3) | ccl::bit(ccl::Type::kFloat8E5m2));

ccl::Traits traits() {
  ccl::Traits traits(kTypes);
  traits.streams_outlive_failures = true;
  return traits;
}

}  // namespace

ncclResult_t Rank::create(const ccl::UniqueId& id, std::shared_ptr<Device> chip, uint32_t rank,
                          uint32_t world, bool blocks, ncclComm_t* out_handle) {
  std::unique_ptr<Rank> made(new Rank(id, std::move(chip), blocks));
  Rank& self = *made;
  const ncclResult_t result = self.begin([&self, rank, world] {
    return ccl::Communicator::create(self.id_, self.chip_, rank, world, Time::max(), traits(),
                                     &self.member_);
  });
  if (result == ncclSuccess || result == ncclInProgress) *out_handle = made.release()->handle();
  return result;
}

ncclResult_t Rank::split(int color, int key, ncclComm_t* out_handle) {
  const ncclResult_t is_ready = ready();
  if (is_ready != ncclSuccess) return is_ready;
  std::unique_ptr<Rank> made;
  if (color >= 0) {
    made.reset(new Rank({}, chip_, blocks_));
    made->is_busy_ = true;
  }
  const auto part_it = [this, color, key, part = made.get()] {
    std::unique_ptr<ccl::Communicator> unused;
    Status status;
    try {
      status = member_->split(color, key, Time::max(), part == nullptr ? &unused : &part->member_);
    } catch (const std::bad_alloc&) {
      status = Status(Code::kOutOfMemory);
    }
    if (part != nullptr) part->finish(status);
    return status;
  };
  ncclResult_t result = ncclSystemError;
  try {
    result = begin(part_it);
  } catch (const std::exception&) {  // no worker thread: finish here
    if (made != nullptr) made->finish(Status(Code::kOutOfMemory));
  }
  const bool is_begun = result == ncclSuccess || result == ncclInProgress;
  if (is_begun && made != nullptr) *out_handle = made.release()->handle();
  return result;
}

Rank::~Rank() {
  ccl::Communicator* member = nullptr;
  {
    std::unique_lock lock(mutex_);
    is_ending_ = true;
    changed_.notify_all();
    if (is_made_) member = member_.get();
  }
  // Both calls end waits for other ranks.
  ccl::Communicator::give_up(id_);
  if (member != nullptr) member->abort();
  if (worker_.joinable()) worker_.join();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !is_busy_; });
}

ncclResult_t Rank::begin(std::function<Status()> work) {
  if (blocks_) {
    const Status status = work();
    const std::lock_guard lock(mutex_);
    is_made_ = is_made_ || member_ != nullptr;
    return result_of(status);
  }
  const std::lock_guard lock(mutex_);
  if (worker_.joinable()) worker_.join();  // has ended
  worker_ = kit::start_thread<std::thread>("keel-emu-nccl", [this, work = std::move(work)] {
    Status status;
    try {
      status = work();
    } catch (const std::bad_alloc&) {
      status = Status(Code::kOutOfMemory);
    }
    finish(std::move(status));  // blocks until begin() unlocks
  });
  is_busy_ = true;
  return ncclInProgress;
}

void Rank::finish(Status status) {
  const std::lock_guard lock(mutex_);
  failure_ = std::move(status);
  is_made_ = member_ != nullptr;
  is_busy_ = false;
  changed_.notify_all();
}

ncclResult_t Rank::state() {
  const std::lock_guard lock(mutex_);
  if (is_busy_) return ncclInProgress;
  if (!failure_.ok()) return result_of(failure_);
  return result_of(member_->async_error());
}

ncclResult_t Rank::ready() {
  const std::lock_guard lock(mutex_);
  if (is_busy_) return fail(ncclInvalidUsage, "the communicator is still at the call before");
  if (!failure_.ok()) return fail(ncclInvalidUsage, "the communicator has failed before");
  return ncclSuccess;
}

ncclResult_t Rank::submit(std::vector<Job> jobs) {
  const ncclResult_t is_ready = ready();
  if (is_ready != ncclSuccess) return is_ready;
  return begin([this, jobs = std::move(jobs), is_stuck = Library::get().is_stuck()] {
    if (is_stuck) {
      await_abort();
      return Status(Code::kCancelled, "the communicator was aborted");
    }
    return enqueue(jobs);
  });
}

void Rank::await_abort() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return is_ending_; });
}

Status Rank::enqueue(std::span<const Job> jobs) {
  // Consecutive calls on one stream run together, so that all of them are enqueued, or none.
  std::vector<ccl::Call> calls;
  for (size_t i = 0; i < jobs.size(); ++i) {
    calls.push_back(jobs[i].call);
    if (i + 1 < jobs.size() && jobs[i + 1].stream == jobs[i].stream) continue;
    Status status = member_->run(*jobs[i].stream, calls);
    if (!status.ok()) return status;
    calls.clear();
  }
  return {};
}

ncclRedOp_t Rank::add_sum(ccl::Type type, double factor) {
  const std::lock_guard lock(mutex_);
  sums_[next_sum_] = {type, factor};
  return static_cast<ncclRedOp_t>(next_sum_++);
}

ncclResult_t Rank::remove_sum(ncclRedOp_t sum) {
  const std::lock_guard lock(mutex_);
  if (sums_.erase(sum) != 0) return ncclSuccess;
  return fail(ncclInvalidArgument, "the communicator has no such reduction");
}

bool Rank::find_sum(ncclRedOp_t sum, ccl::Type type, double* out_factor) {
  const std::lock_guard lock(mutex_);
  const auto found = sums_.find(sum);
  if (found == sums_.end() || found->second.type != type) return false;
  *out_factor = found->second.factor;
  return true;
}

// Only checks and numbers the buffer.
ncclResult_t Rank::add_buffer(Address address, uint64_t size, void** out_handle) {
  Access access(chip_->memory());
  std::byte* data = nullptr;
  const Status reached = access.reach(address, size, &data);
  if (!reached.ok()) return fail(ncclInvalidArgument, reached.text());
  const std::lock_guard lock(mutex_);
  buffers_.insert(next_buffer_);
  *out_handle = reinterpret_cast<void*>(next_buffer_++);
  return ncclSuccess;
}

ncclResult_t Rank::remove_buffer(void* handle) {
  const std::lock_guard lock(mutex_);
  if (buffers_.erase(reinterpret_cast<uintptr_t>(handle)) != 0) return ncclSuccess;
  return fail(ncclInvalidArgument, "no such registration");
}

}  // namespace keel::emulator::nccl
