// SPDX-License-Identifier: Apache-2.0
#include "emulator/ccl/communicator.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>
#include <vector>

#include "emulator/ccl/local_rank.h"
#include "emulator/ccl/remote_rank.h"

namespace keel::emulator::ccl {
namespace {

// Returns the memory that the rank's result is written to.
Result result_of(const Call& call, uint32_t rank, uint32_t world) {
  const uint64_t bytes = result_bytes(call, rank, world);
  return {bytes == 0 ? 0 : call.receive, bytes};
}

// Returns the stream's status after its rank has aborted.
Status aborted(bool outlives) {
  return outlives ? Status() : Status(Code::kCancelled, "the communicator was aborted");
}

}  // namespace

Status Communicator::create(const UniqueId& id, std::shared_ptr<Device> device, uint32_t rank,
                            uint32_t world, Time deadline, const Traits& traits,
                            std::unique_ptr<Communicator>* out_communicator) {
  Status status = device->alive();
  if (!status.ok()) return status;
  std::shared_ptr<RankEndpoint> endpoint;
  if (Clique::is_ours(id)) {
    std::shared_ptr<Clique> clique;
    status = Clique::meet(id, device, rank, world, deadline, &clique);
    if (status.ok()) endpoint = std::make_shared<LocalRank>(std::move(clique), rank);
  } else {
    status = RemoteRank::create(id, device, rank, world, deadline, &endpoint);
  }
  if (!status.ok()) return status;
  out_communicator->reset(new Communicator(std::move(device), std::move(endpoint), rank, traits));
  return {};
}

void Communicator::give_up(const UniqueId& id) {
  if (Clique::is_ours(id)) {
    Clique::give_up(id);
  } else {
    RemoteRank::give_up(id);
  }
}

void Communicator::abort() {
  endpoint_->abort();
  const std::lock_guard lock(mutex_);
  if (joining_) give_up(*joining_);
}

Status Communicator::split(int32_t color, int32_t key, Time deadline,
                           std::unique_ptr<Communicator>* out_part) {
  if (endpoint_->is_aborted()) return {Code::kUnavailable, "the communicator was aborted"};
  Call call;
  call.collective = Collective::kSplit;
  call.color = color;
  call.key = key;
  const Membership self = endpoint_->next(call);
  endpoint_->arrive(self);
  Status status = self.part().met->wait_until(deadline);
  if (endpoint_->is_aborted()) return {Code::kCancelled, "the communicator was aborted"};
  if (!status.ok()) return status;
  status = endpoint_->compute(self);
  endpoint_->finish_reading(self);
  if (!status.ok()) {
    endpoint_->report(status);
    return status;
  }
  SplitResult place;
  std::memcpy(&place, self.part().result.data(), sizeof(place));
  if (place.world == 0) {
    *out_part = nullptr;
    return {};
  }
  {
    const std::lock_guard lock(mutex_);
    joining_ = place.id;
  }
  // An abort() before joining_ was set could not give up the id.
  if (endpoint_->is_aborted()) give_up(place.id);
  status = create(place.id, device_, place.rank, place.world, deadline, traits_, out_part);
  const std::lock_guard lock(mutex_);
  joining_.reset();
  return status;
}

Status Communicator::check(const Call& call) const {
  if ((traits_.types & bit(call.type)) == 0) {
    return {Code::kUnsupported,
            fmt::format("the chip has no {}", kTypeNames[static_cast<size_t>(call.type)])};
  }
  if (call.root >= endpoint_->world()) {
    return {Code::kInvalidArgument,
            fmt::format("root {} of {} ranks", call.root, endpoint_->world())};
  }
  if (call.count > UINT64_MAX / 16 / endpoint_->world()) {
    return {Code::kInvalidArgument, fmt::format("a count of {}", call.count)};
  }
  return {};
}

Status Communicator::run(Stream& stream, std::span<const Call> calls) {
  if (&stream.device() != device_.get()) {
    return {Code::kInvalidArgument, fmt::format("a stream of {}, the rank is on {}",
                                                stream.device().name(), device_->name())};
  }
  if (endpoint_->is_aborted()) return {Code::kUnavailable, "the communicator was aborted"};
  for (const Call& call : calls) {
    if (call.collective == Collective::kSplit) return {Code::kInvalidArgument, "a split"};
    Status status = check(call);
    if (!status.ok()) return status;
  }
  std::vector<Injection> injections(calls.size());
  for (Injection& injection : injections) {
    Status status = device_->count_call(CallKind::kCcl, &injection);
    if (!status.ok()) return status;
  }
  for (size_t i = 0, end = 0; i < calls.size(); i = end) {
    end = i + 1;
    while (is_message(calls[i].collective) && end < calls.size() &&
           is_message(calls[end].collective)) {
      ++end;
    }
    const std::span<const Injection> own(injections);
    Status status = enqueue(stream, calls.subspan(i, end - i), own.subspan(i, end - i));
    if (!status.ok()) return status;  // device lost, so all work of the stream fails
  }
  return {};
}

// One call being enqueued.
struct Communicator::Step {
  Membership self;
  Result result;
  Injection injection;

  // Whether only an abort ends the call.
  bool hangs() const {
    return injection.fail || (injection.stall && injection.stall_for.count() == 0);
  }
};

// The ends of a collective: a library's kernels run beside others, so they do not wait until the
// compute units have finished a product.
static constexpr Work kBeside = {EngineKind::kPeer};

Status Communicator::enqueue_arrival(Stream& stream, const Step& step) {
  Injection before = step.injection;  // all faults except the corruption of the result
  before.corrupt = false;
  if (step.hangs()) {
    before.fail = false;
    before.stall = false;
  }
  return stream.launch_part(
      kBeside, {},
      [=, endpoint = endpoint_, name = device_->name()](Access&) {
        if (step.injection.fail) {
          endpoint->report({Code::kFailed, fmt::format("{}: injected failure of {}", name,
                                                       step.injection.call())});
        }
        if (!step.hangs()) endpoint->arrive(step.self);
        return Status();
      },
      before);
}

Status Communicator::enqueue_reading(Stream& stream, const Step& step) {
  const Work work = {EngineKind::kPeer, static_cast<double>(step.result.size)};
  return stream.launch_part(work, {},
                            [self = step.self, endpoint = endpoint_,
                             outlives = traits_.streams_outlive_failures](Access&) {
                              if (endpoint->is_aborted()) return aborted(outlives);
                              Status done = endpoint->compute(self);
                              if (!done.ok()) {
                                endpoint->report(done);
                                const bool is_hidden =
                                    outlives && done.code() != Code::kIllegalAddress;
                                return is_hidden ? Status() : done;
                              }
                              endpoint->finish_reading(self);
                              return done;
                            },
                            {});
}

Status Communicator::enqueue_result(Stream& stream, const Step& step) {
  Injection after;
  after.corrupt = step.injection.corrupt && step.result.size != 0;
  return stream.launch_part(
      kBeside, step.result,
      [self = step.self, result = step.result, endpoint = endpoint_,
       outlives = traits_.streams_outlive_failures](Access& access) {
        if (endpoint->is_aborted()) return aborted(outlives);
        if (result.size == 0) return Status();
        std::byte* to = nullptr;
        Status done = access.reach(result.address, result.size, &to);
        std::vector<std::byte>& from = self.part().result;
        if (done.ok()) std::memcpy(to, from.data(), result.size);
        from = {};
        return done;
      },
      after);
}

Status Communicator::enqueue(Stream& stream, std::span<const Call> calls,
                             std::span<const Injection> injections) {
  std::vector<Step> steps;
  for (size_t i = 0; i < calls.size(); ++i) {
    steps.push_back(
        {endpoint_->next(calls[i]), result_of(calls[i], rank_, endpoint_->world()), injections[i]});
  }
  Status status;
  for (const Step& step : steps) {
    if (status.ok()) status = enqueue_arrival(stream, step);
  }
  for (const Step& step : steps) {
    if (status.ok() && step.hangs()) status = stream.wait(step.self.part().hung);
    if (status.ok()) status = stream.wait(step.self.part().met);
  }
  for (const Step& step : steps) {
    if (status.ok()) status = enqueue_reading(stream, step);
  }
  // With in-place buffers, writing a result must not overwrite data that other ranks still read.
  for (const Step& step : steps) {
    if (status.ok()) status = stream.wait(step.self.part().read);
  }
  for (const Step& step : steps) {
    if (status.ok()) status = enqueue_result(stream, step);
  }
  return status;
}

}  // namespace keel::emulator::ccl
