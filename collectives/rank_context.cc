// SPDX-License-Identifier: Apache-2.0
#include "collectives/rank_context.h"

#include <algorithm>
#include <cstring>

#include "collectives/deadlock_detector.h"
#include "collectives/selection/selection.h"

namespace keel {

void* registered_address(Device& device, void* pointer, uint64_t size, const void* sent,
                         const void* sent_host, uint64_t sent_size) {
  if (size == 0) return nullptr;
  if (pointer == sent && sent == sent_host && size <= sent_size) return pointer;
  return device.host_registrations().has_same_address(pointer, size) ? pointer : nullptr;
}

RankContext::RankContext(std::shared_ptr<Team> team, uint32_t rank, Ref<Device> device,
                         bool forbid_alias)
    : team_(std::move(team)),
      rank_(rank),
      device_(std::move(device)),
      has_alias_(device_->has(KEEL_CAPABILITY_HOST_ALIAS) && !forbid_alias),
      book_(*device_),
      views_(team_->world()) {
  if (!team_->is_local()) attach_ = Attach(team_->peer_infos(), rank_);
  sources.resize(team_->world());
  factors.resize(team_->world());
  any_staged_ = !has_alias_;
  for (uint32_t other = 0; other < team_->world(); ++other) {
    any_staged_ = any_staged_ || has_link(other);
  }
  team_->set_device(rank_, *device_);
  may_sum_on_device_ = team_->world() == 2 && team_->is_local() && has_link(0) != has_link(1);
}

DeviceReduction& RankContext::device_reduction() {
  if (!device_reduction_) {
    device_reduction_ =
        std::make_unique<DeviceReduction>(*device_, chunk_bytes_, team_->is_urgent());
    told_sum_.store(device_reduction_.get(), std::memory_order_release);
  }
  return *device_reduction_;
}

StagingPipeline::Traffic RankContext::traffic() const {
  const DeviceReduction* const sum = told_sum_.load(std::memory_order_acquire);
  const uint64_t summed = sum == nullptr ? 0 : sum->summed_bytes();
  return {to_host.load(std::memory_order_relaxed) +
              messages_to_host.load(std::memory_order_relaxed) + summed,
          to_device.load(std::memory_order_relaxed) +
              messages_to_device.load(std::memory_order_relaxed) + summed};
}

void RankContext::tell_exchange(const Request& request, const Side& send, const Side& receive,
                                const OperationPath& way,
                                std::chrono::steady_clock::time_point begin) {
  const auto link_bytes = [](const Side& side) {
    return side.staged && side.buffer.host == nullptr ? side.bytes : 0;
  };
  exchange.collective = request.collective;
  exchange.bytes =
      std::max(request.send_bytes(rank_, world()), request.receive_bytes(rank_, world()));
  exchange.way = way;
  exchange.link_out_bytes = link_bytes(send);
  exchange.link_in_bytes = link_bytes(receive);
  exchange.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  last_operation.write(exchange);
}

void RankContext::make_staging() {
  chunk_bytes_ = segment().chunk_bytes();
  // A chunk holds every rank's small result: world pieces of eager data.
  window_bytes_ = std::max(chunk_bytes_, uint64_t{world()} * kStagedEagerBytes);
  stage_ = std::make_unique<StagingPipeline>(*device_, window_bytes_, !team_->is_local(),
                                             team_->is_urgent());
}

void RankContext::read_links(uint64_t sequence, std::vector<HostLink>* out_legs) {
  out_legs->assign(world(), {});
  for (uint32_t other = 0; other < world(); ++other) {
    HostLink& link = (*out_legs)[other];
    link.is_free = !has_link(other);
    if (link.is_free || sequence == 0) continue;
    // All ranks have published the operation, and no rank overwrites the descriptor before this
    // rank publishes again.
    const OperationDescriptor& descriptor = board().descriptor(other, sequence - 1);
    link.out = sane_rate(descriptor.link_out);
    link.in = sane_rate(descriptor.link_in);
  }
}

Status RankContext::prepare_staging(const Side& side) {
  return stage_->prepare(/*device_copies=*/side.buffer.host == nullptr);
}

Status RankContext::locate_side(const void* pointer, uint64_t bytes, bool published,
                                bool attachable, Side* out_side) {
  *out_side = {};
  out_side->bytes = bytes;
  if (bytes == 0) return {};
  out_side->buffer.device = static_cast<char*>(const_cast<void*>(pointer));
  out_side->staged = true;
  Allocation allocation;
  bool is_allocated = device_->memory().find(pointer, &allocation);
  // Freed by the caller after the call.
  if (!is_allocated && kept != nullptr) is_allocated = kept->find(pointer, &allocation);
  const HostRegistrations& registrations = device_->host_registrations();
  const bool is_registered = !is_allocated && registrations.has_same_address(pointer, bytes);
  if (is_registered) {
    // The caller's own memory: reachable by the ranks of this process, and perhaps by remote
    // processes.
    out_side->buffer.host = out_side->buffer.device;
    out_side->place.address = reinterpret_cast<uint64_t>(pointer);
    const bool is_foreign = published && !team_->is_local();
    if (is_foreign && attachable && has_alias_) {
      attach_.want();
      out_side->attached =
          attach_.is_agreed() &&
          attach_.lets_read(pointer, bytes, registrations.state_of(pointer, bytes));
    }
    out_side->staged = is_foreign && !out_side->attached;
    return {};
  }
  if (!is_allocated && registrations.has_all()) {
    return failure(KEEL_INVALID_ARGUMENT, "{}: {} was unmapped while a collective used it",
                   device_->name(), pointer);
  }
  // The host reaches pinned memory of every device.
  const bool is_pinned = is_allocated && allocation.kind == KEEL_MEMORY_PINNED;
  if (!has_alias_ && !is_pinned) return {};
  if (!is_allocated || allocation.host_alias == nullptr) {
    return failure(KEEL_INVALID_ARGUMENT, "{}: {} was freed while a collective used it",
                   device_->name(), pointer);
  }
  out_side->buffer.host =
      static_cast<char*>(allocation.host_alias) +
      (static_cast<const char*>(pointer) - static_cast<const char*>(allocation.base));
  out_side->place.address = reinterpret_cast<uint64_t>(out_side->buffer.host);
  out_side->staged =
      published && !team_->is_local() && !book_.locate(pointer, bytes, &out_side->place);
  return {};
}

Status RankContext::make_side(const void* pointer, uint64_t bytes, bool published, Side* out_side,
                              bool attachable) {
  KEEL_RETURN_IF_ERROR(locate_side(pointer, bytes, published, attachable, out_side));
  if (!out_side->staged) return {};
  KEEL_RETURN_IF_ERROR(prepare_staging(*out_side));
  out_side->place = stage_->place();
  return {};
}

Status RankContext::make_message_side(const void* pointer, uint64_t bytes, bool published,
                                      Side* out_side) {
  return locate_side(pointer, bytes, published, /*attachable=*/false, out_side);
}

Status RankContext::make_scratch(Side* out_side) {
  KEEL_RETURN_IF_ERROR(stage_->prepare(/*device_copies=*/false));
  *out_side = {};
  out_side->staged = true;
  out_side->place = stage_->place();
  return {};
}

Status RankContext::make_work(MemHandle* out_place) {
  KEEL_RETURN_IF_ERROR(stage_->prepare(/*device_copies=*/false));
  *out_place = stage_->place();
  return {};
}

Status RankContext::resolve(uint32_t peer, const MemHandle& place, uint32_t epoch, uint64_t offset,
                            uint64_t size, WaitContext& wait_context, const char** out_data) {
  Status status =
      views_[peer].resolve(team_->memory(), team_->peer_info(peer).process, team_->is_here(peer),
                           place, epoch, offset, size, failures(), wait_context, out_data);
  if (status.ok()) return status;
  if (failures().failed()) return failures().status();
  // The peer's process does not answer: its death may be visible here before the process watcher
  // acts.
  if (status.code() == KEEL_RANK_FAILED) return status.with_prefix(team_->name(peer) + ": ");
  // This rank may be the cause: it may have no file descriptor or address space left.
  return status.with_prefix(fmt::format("the memory of {}: ", team_->name(peer)));
}

Status RankContext::read_attached(uint32_t peer, uint64_t address, uint64_t size, void* out) {
  auto* to = static_cast<char*>(out);
  for (uint64_t done = 0; done < size; done += kStepBytes) {
    if (done != 0) KEEL_RETURN_IF_ERROR(between_steps());
    const Status status = read_process(team_->peer_info(peer).pid, address + done, to + done,
                                       std::min(kStepBytes, size - done));
    // Checked after each part: if some rank has failed, |peer| may have returned the buffer to its
    // caller during the read.
    if (failures().failed()) return failures().status();
    if (status.ok()) continue;
    return failure(KEEL_RANK_FAILED, "{}: {}; KEEL_ATTACH=0 does without", team_->name(peer),
                   status.text());
  }
  return {};
}

Status RankContext::reduce_in_steps(const Request& request, char* result, uint64_t count,
                                    Store store) {
  const uint64_t step = kStepBytes / request.element();
  for (uint64_t done = 0; done < count; done += step) {
    if (done != 0) {
      KEEL_RETURN_IF_ERROR(between_steps());
      for (const void*& source : sources) source = static_cast<const char*>(source) + kStepBytes;
    }
    void* const destinations[] = {result + done * request.element()};
    reduce(request.dtype, request.reduction, sources, destinations, std::min(step, count - done),
           {factors_of(request), store});
  }
  return {};
}

Status RankContext::check_calls(uint64_t sequence) {
  const auto calls_of = [&](uint32_t rank) {
    return board().descriptor(rank, sequence).flags >> OperationDescriptor::kCallShift;
  };
  const auto agreeing = [&](uint32_t calls) {
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < world(); ++rank) count += calls_of(rank) == calls ? 1 : 0;
    return count;
  };
  if (agreeing(calls_of(rank_)) == world()) return {};
  // After a failure of the communicator, ranks skip operations without a descriptor.
  if (failures().failed()) return failures().status();
  uint32_t usual = rank_;
  for (uint32_t rank = 0; rank < world(); ++rank) {
    if (agreeing(calls_of(rank)) > agreeing(calls_of(usual))) usual = rank;
  }
  const auto is_odd = [&](uint32_t rank) { return calls_of(rank) != calls_of(usual); };
  const Status status =
      failure(KEEL_RANK_FAILED,
              "operation {}: {} made another number of calls than the others, so that what the "
              "ranks call no longer belongs together",
              sequence, name_ranks(is_odd));
  team_->abort(status);
  return status;
}

Status RankContext::published_status(uint32_t peer, uint64_t sequence) {
  const OperationDescriptor& descriptor = board().descriptor(peer, sequence);
  if (descriptor.status == KEEL_OK) return {};
  char text[sizeof(OperationDescriptor::text)];
  std::memcpy(text, descriptor.text, sizeof(text));
  text[sizeof(text) - 1] = '\0';
  return failure(KEEL_RANK_FAILED, "{}: {}", team_->name(peer), text);
}

Status RankContext::await_descriptors(uint64_t sequence, WaitContext& wait_context) {
  Status status = board().await_descriptors(sequence, wait_context);
  // The caller knows the cause, and ends the communicator.
  if (wait_context.has_work_failed()) return status;
  if (status.code() == KEEL_TIMED_OUT) {
    status =
        failure(KEEL_TIMED_OUT, "{}, operation {}: {} did not call in time: {}",
                describe(board().descriptor(rank_, sequence).fingerprint), sequence,
                name_ranks([&](uint32_t other) { return !board().has_published(other, sequence); }),
                describe_progress_of_all(*team_, sequence));
  }
  if (!status.ok()) team_->abort(status);
  return status;
}

Status RankContext::await(WaitContext& wait_context) {
  Status status = board().await_step(step, wait_context);
  if (status.code() != KEEL_TIMED_OUT || wait_context.has_work_failed()) return status;
  return failure(KEEL_TIMED_OUT, "{} did not go on in time",
                 name_ranks([&](uint32_t other) { return !board().has_arrived(other, step); }));
}

Status RankContext::meet(WaitContext& wait_context) {
  arrive();
  return await(wait_context);
}

}  // namespace keel
