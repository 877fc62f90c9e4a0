// SPDX-License-Identifier: Apache-2.0
// Splits of communicators, within a host and across hosts.
#include <algorithm>
#include <new>
#include <numeric>

#include "collectives/communicator.h"
#include "collectives/hosts/host_split.h"
#include "collectives/split.h"

namespace keel {

namespace {

// Prefix for a failure with rank numbers of |rank|'s part: names the ranks in the parent.
std::string name_part(const std::vector<Part>& parts, uint32_t rank) {
  for (const Part& part : parts) {
    if (std::find(part.ranks.begin(), part.ranks.end(), rank) == part.ranks.end()) continue;
    std::vector<uint32_t> own(part.ranks.size());
    std::iota(own.begin(), own.end(), 0u);
    if (part.ranks == own) return "the new communicator: ";
    constexpr size_t kMostListed = 16;
    const size_t listed = std::min(part.ranks.size(), kMostListed);
    return fmt::format("the new communicator, whose ranks from 0 on are {}{} of the one split: ",
                       fmt::join(part.ranks.data(), part.ranks.data() + listed, ", "),
                       listed < part.ranks.size() ? ", ..." : "");
  }
  return {};
}

}  // namespace

Status Communicator::enter_hosts(std::unique_ptr<HostGroup> hosts, const Ref<Device>& device,
                                 const CommunicatorOptions& options, const Deadline& deadline,
                                 Ref<Communicator>* out_communicator) {
  const std::shared_ptr<Team> team = hosts->team();
  const uint32_t rank = hosts->local_rank();
  CommunicatorOptions agreed = options;
  agreed.chunk_bytes = hosts->agreement().chunk_bytes;
  // Ranks that are all on one host need no wires.
  if (hosts->hosts().size() == 1) hosts = nullptr;
  return enter(team, rank, device, agreed, deadline, out_communicator, nullptr, std::move(hosts));
}

Status Communicator::split(int32_t color, int32_t key, const CommunicatorOptions& options,
                           Ref<Communicator>* out_part) {
  return hosts_ ? split_hosts(color, key, options, out_part)
                : split_inside(color, key, options, out_part);
}

Status Communicator::split_hosts(int32_t color, int32_t key, const CommunicatorOptions& options,
                                 Ref<Communicator>* out_part) {
  std::unique_ptr<HostGroup> part;
  const auto work = [&](RankContext&, WaitContext& wait_context) {
    return keel::split_hosts(*hosts_, color, key, options.flags(*device_), options.agreement(),
                             wait_context, &part);
  };
  Task task;
  try {
    KEEL_RETURN_IF_ERROR(begin_task(work, &task));
  } catch (const std::bad_alloc& error) {  // or no thread; nothing was called yet
    return refuse_split(Status::no_memory(error));
  }
  KEEL_RETURN_IF_ERROR(await(task));
  if (!part) return {};
  return enter_hosts(std::move(part), device_, options, insiders::deadline(options.timeout_ns),
                     out_part)
      .with_prefix("the new communicator: ");
}

Status Communicator::split_inside(int32_t color, int32_t key, const CommunicatorOptions& options,
                                  Ref<Communicator>* out_part) {
  std::shared_ptr<Team> part;
  uint32_t part_rank = 0;
  std::unique_ptr<NativeGroup> island;
  std::vector<Part> parts;
  const auto work = [&](RankContext& context, WaitContext& wait_context) {
    Status status = split_team(context, color, key, options.flags(*device_), wait_context, &part,
                               &part_rank, &parts);
    if (parts.empty() || !islands_) return status;
    return islands_->split(device_, parts, status, options.timeout_ns, wait_context, &island);
  };
  Task task;
  try {
    KEEL_RETURN_IF_ERROR(begin_task(work, &task));
  } catch (const std::bad_alloc& error) {  // or no thread; nothing was called yet
    return refuse_split(Status::no_memory(error));
  }
  KEEL_RETURN_IF_ERROR(await(task));
  if (!part) return {};
  const Status entered = enter(std::move(part), part_rank, device_, options,
                               insiders::deadline(options.timeout_ns), out_part, std::move(island));
  return entered.ok() ? entered : entered.with_prefix(name_part(parts, rank()));
}

}  // namespace keel
