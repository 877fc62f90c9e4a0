#include "emulator/ccl/communicator.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>
#include <vector>

#include "emulator/ccl/arithmetic.h"

namespace keel::emulator::ccl {
namespace {

using Parts = std::vector<Operation::Part>;

// Bytes of the rank's result, and where it goes.
Result result_of(const Call& call, uint32_t rank, uint32_t world) {
  const uint64_t piece = call.count * call.element();
  switch (call.collective) {
    case Collective::kReduce:
      return {call.receive, rank == call.root ? piece : 0};
    case Collective::kSend:
      return {0, 0};
    case Collective::kAllGather:
    case Collective::kAllToAll:
      return {call.receive, piece * world};
    default:
      return {call.receive, piece};
  }
}

// |piece| bytes from |offset| of the send buffer of |peer|, as the host finds them.
Status reach_peer(const Clique& clique, const Operation::Part& part, uint32_t rank, uint32_t peer,
                  uint64_t offset, uint64_t piece, std::vector<Access>& accesses,
                  const std::byte** out_data) {
  Device& device = clique.device(peer);
  // Not this device's loss, nor its bad address: its stream fails, and it goes on.
  const Status alive = device.alive();
  if (!alive.ok()) return {Code::kUnavailable, alive.text()};
  std::byte* data = nullptr;
  Status status =
      accesses.emplace_back(device.memory()).reach(part.call.send + offset, piece, &data);
  *out_data = data;
  if (status.ok()) return status;
  const Code code = peer == rank ? status.code() : Code::kUnavailable;
  return {code, fmt::format("rank {}: {}", peer, status.text())};
}

// Computes the rank's result from all ranks' buffers, which nobody writes meanwhile.
Status compute(const Clique& clique, const Membership& self, uint32_t rank) {
  const Parts& parts = self.operation->parts;
  const Call& own = self.part().call;
  const uint32_t world = clique.world();
  const uint64_t piece = own.count * own.element();
  std::vector<std::byte>& result = self.part().result;
  result.resize(result_of(own, rank, world).size);
  if (result.empty()) return {};
  std::vector<Access> accesses;
  accesses.reserve(world);
  if (own.collective == Collective::kReceive) {
    const std::byte* data = nullptr;
    Status status = reach_peer(clique, parts[0], rank, own.root, 0, piece, accesses, &data);
    if (status.ok()) std::memcpy(result.data(), data, piece);
    return status;
  }
  std::vector<const std::byte*> sources;
  std::vector<double> factors;
  const bool is_broadcast = own.collective == Collective::kBroadcast;
  const bool has_pieces =
      own.collective == Collective::kReduceScatter || own.collective == Collective::kAllToAll;
  for (uint32_t peer = 0; peer < world; ++peer) {
    if (is_broadcast && peer != own.root) continue;
    const std::byte* data = nullptr;
    Status status = reach_peer(clique, parts[peer], rank, peer, has_pieces ? rank * piece : 0,
                               piece, accesses, &data);
    if (!status.ok()) return status;
    sources.push_back(data);
    factors.push_back(parts[peer].call.factor);
  }
  if (reduces(own.collective)) {
    reduce(own.type, own.reduction, sources, factors, own.count, result.data());
    return {};
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    std::memcpy(result.data() + i * piece, sources[i], piece);
  }
  return {};
}

// What a stream ends with whose rank has aborted.
Status aborted(bool outlives) {
  return outlives ? Status() : Status(Code::kCancelled, "the communicator was aborted");
}

}  // namespace

Status Communicator::create(const UniqueId& id, std::shared_ptr<Device> device, uint32_t rank,
                            uint32_t world, Time deadline, const Traits& traits,
                            std::unique_ptr<Communicator>* out_communicator) {
  Status status = device->alive();
  if (!status.ok()) return status;
  std::shared_ptr<Clique> clique;
  status = Clique::meet(id, device, rank, world, deadline, &clique);
  if (!status.ok()) return status;
  out_communicator->reset(new Communicator(std::move(device), std::move(clique), rank, traits));
  return {};
}

Status Communicator::check(const Call& call) const {
  if ((traits_.types & bit(call.type)) == 0) {
    return {Code::kUnsupported,
            fmt::format("the chip has no {}", kTypeNames[static_cast<size_t>(call.type)])};
  }
  if (call.root >= clique_->world()) {
    return {Code::kInvalidArgument,
            fmt::format("root {} of {} ranks", call.root, clique_->world())};
  }
  if (call.count > UINT64_MAX / 16 / clique_->world()) {
    return {Code::kInvalidArgument, fmt::format("a count of {}", call.count)};
  }
  return {};
}

Status Communicator::run(Stream& stream, std::span<const Call> calls) {
  if (&stream.device() != device_.get()) {
    return {Code::kInvalidArgument, fmt::format("a stream of {}, the rank is on {}",
                                                stream.device().name(), device_->name())};
  }
  if (clique_->is_aborted(rank_)) return {Code::kUnavailable, "the communicator was aborted"};
  for (const Call& call : calls) {
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
    if (!status.ok()) return status;  // the device is lost, and with it all of the stream
  }
  return {};
}

// A call on its way.
struct Communicator::Step {
  Membership self;
  Result result;
  Injection injection;

  // Only an abort ends it.
  bool hangs() const {
    return injection.fail || (injection.stall && injection.stall_for.count() == 0);
  }
};

Status Communicator::enqueue_arrival(Stream& stream, const Step& step) {
  Injection before = step.injection;  // all but what the result will be like
  before.corrupt = false;
  if (step.hangs()) {
    before.fail = false;
    before.stall = false;
  }
  return stream.launch_part(
      {}, {},
      [=, clique = clique_, rank = rank_](Access&) {
        if (step.injection.fail) {
          clique->report(rank, {Code::kFailed,
                                fmt::format("{}: injected failure of {}",
                                            clique->device(rank).name(), step.injection.call())});
        }
        if (!step.hangs()) clique->arrive(*step.self.operation);
        return Status();
      },
      before);
}

Status Communicator::enqueue_reading(Stream& stream, const Step& step) {
  const Work work = {EngineKind::kPeer, static_cast<double>(step.result.size)};
  return stream.launch_part(work, {},
                            [self = step.self, clique = clique_, rank = rank_,
                             outlives = traits_.streams_outlive_failures](Access&) {
                              if (clique->is_aborted(rank)) return aborted(outlives);
                              Status done = clique->check(*self.operation);
                              if (done.ok()) done = compute(*clique, self, rank);
                              if (!done.ok()) {
                                clique->report(rank, done);
                                const bool is_hidden =
                                    outlives && done.code() != Code::kIllegalAddress;
                                return is_hidden ? Status() : done;
                              }
                              clique->finish_reading(*self.operation);
                              return done;
                            },
                            {});
}

Status Communicator::enqueue_result(Stream& stream, const Step& step) {
  Injection after;
  after.corrupt = step.injection.corrupt && step.result.size != 0;
  return stream.launch_part(
      {}, step.result,
      [self = step.self, result = step.result, clique = clique_, rank = rank_,
       outlives = traits_.streams_outlive_failures](Access& access) {
        if (clique->is_aborted(rank)) return aborted(outlives);
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
    steps.push_back({clique_->next(rank_, calls[i]), result_of(calls[i], rank_, clique_->world()),
                     injections[i]});
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
  // In place, what others have still to read must not be overwritten.
  for (const Step& step : steps) {
    if (status.ok()) status = stream.wait(step.self.part().read);
  }
  for (const Step& step : steps) {
    if (status.ok()) status = enqueue_result(stream, step);
  }
  return status;
}

}  // namespace keel::emulator::ccl
