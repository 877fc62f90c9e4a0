// SPDX-License-Identifier: Apache-2.0
#include "collectives/team.h"

#include <sched.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <keel/cpu_limit.hpp>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "collectives/bootstrap/lifelines.h"
#include "collectives/bootstrap/mem_handle_server.h"
#include "collectives/bootstrap/process_watch.h"
#include "collectives/bootstrap/rank_list.h"
#include "collectives/priority_arbiter.h"

namespace keel {

namespace {

// Teams of this process by segment, for further local ranks to join.
struct Registry {
  std::mutex mutex;
  std::map<std::pair<uint64_t, uint64_t>, std::weak_ptr<Team>> teams;
};

Registry& registry() {
  static auto& created = *new Registry;
  return created;
}

// Number of cores that any rank's process may use: launchers bind each process to separate
// cores, and control groups limit the processor time of some. Nested groups add up to too much.
uint32_t core_count(const std::vector<PeerInfo>& peer_infos) {
  cpu_set_t all;
  CPU_ZERO(&all);
  const PeerInfo* last = nullptr;
  std::map<std::string, double> limits;  // cores of each group
  bool is_limited = true;
  for (const PeerInfo& peer_info : peer_infos) {
    if (last != nullptr && peer_info.process == last->process) continue;
    last = &peer_info;
    const bool is_here = peer_info.process == MemHandleServer::get().token();
    cpu_set_t set;
    CPU_ZERO(&set);
    const auto pid = is_here ? 0 : static_cast<pid_t>(peer_info.pid);
    // A process already ended, or with an id of a foreign namespace, adds no cores.
    if (sched_getaffinity(pid, sizeof(set), &set) != 0) continue;
    CPU_OR(&all, &all, &set);
    const CpuLimit limit = CpuLimit::of(pid);
    is_limited = is_limited && limit.is_limited();
    if (limit.is_limited()) limits[limit.group()] = limit.cores();
  }
  const auto cores = static_cast<uint32_t>(CPU_COUNT(&all));
  if (!is_limited) return cores;
  double time = 0;
  for (const auto& [group, limit] : limits) time += limit;
  return time >= cores ? cores : std::max(1u, static_cast<uint32_t>(time));
}

// Name of a rank in the texts of remote processes, and of remote hosts unless |host| is empty.
std::string name_elsewhere(uint32_t number, const PeerInfo& peer_info,
                           const std::string& host = {}) {
  return fmt::format("rank {} ({}, process {}{})", number, peer_info.device, peer_info.pid,
                     host.empty() ? host : fmt::format(" on host '{}'", host));
}

}  // namespace

Team::Team(std::vector<PeerInfo> peer_infos, std::unique_ptr<ControlSegment> segment,
           const ObjectId& object)
    : peer_infos_(std::move(peer_infos)),
      segment_(std::move(segment)),
      object_(object),
      devices_(peer_infos_.size()),
      ended_(peer_infos_.size()) {
  segment_->failures().name_ranks_by([this](uint32_t rank) { return name(rank); });
  const ProcessToken& self = MemHandleServer::get().token();
  for (const PeerInfo& peer_info : peer_infos_) {
    here_.push_back(peer_info.process == self);
    is_local_ = is_local_ && here_.back();
  }
}

Team::~Team() {
  if (is_urgent()) PriorityArbiter::get().remove(segment_->board());
  for (uint64_t watch : watches_) ProcessWatch::get().unwatch(watch);
  for (uint64_t lifeline : lifelines_) Lifelines::get().unwatch(lifeline);
}

Status Team::make_segment(const std::vector<PeerInfo>& peer_infos, FileDescriptor* out_segment) {
  const auto world = static_cast<uint32_t>(peer_infos.size());
  return ControlSegment::create(world, world > core_count(peer_infos), out_segment);
}

Status Team::check_priorities(const std::vector<PeerInfo>& peer_infos) {
  std::vector<uint32_t> urgent;
  std::vector<uint32_t> normal;
  for (const PeerInfo& peer_info : peer_infos) {
    ((peer_info.flags & kUrgent) != 0 ? urgent : normal).push_back(peer_info.rank);
  }
  if (urgent.empty() || normal.empty()) return {};
  return failure(KEEL_INVALID_ARGUMENT, "options.priority differs: urgent at {}, normal at {}",
                 rank_list(urgent), rank_list(normal));
}

Status Team::map(std::vector<PeerInfo> peer_infos, const FileDescriptor& file,
                 std::shared_ptr<Team>* out_team) {
  KEEL_RETURN_IF_ERROR(check_priorities(peer_infos));
  std::unique_ptr<ControlSegment> segment;
  KEEL_RETURN_IF_ERROR(ControlSegment::map(file, &segment));
  if (segment->world() != peer_infos.size()) {
    return failure(KEEL_INVALID_ARGUMENT, "the communicator's memory is for {} ranks, not {}",
                   segment->world(), peer_infos.size());
  }
  struct stat status = {};
  if (fstat(file.get(), &status) != 0) {
    return failure(KEEL_INVALID_ARGUMENT, "what came as a communicator's memory is none");
  }
  out_team->reset(
      new Team(std::move(peer_infos), std::move(segment), {status.st_dev, status.st_ino}));
  if ((*out_team)->is_urgent()) {
    const std::shared_ptr<ControlSegment>& shared = (*out_team)->segment_;
    PriorityArbiter::get().add({shared, &shared->board()});
  }
  return {};
}

Status Team::create_local(std::vector<PeerInfo> peer_infos, std::shared_ptr<Team>* out_team) {
  FileDescriptor file;
  KEEL_RETURN_IF_ERROR(make_segment(peer_infos, &file));
  return map(std::move(peer_infos), file, out_team);
}

Status Team::join(const Rendezvous& rendezvous, uint32_t rank, std::shared_ptr<Team>* out_team) {
  struct stat status = {};
  if (fstat(rendezvous.segment.get(), &status) != 0) {
    return failure(KEEL_INVALID_ARGUMENT, "what came as a communicator's memory is none");
  }
  Registry& known = registry();
  std::lock_guard lock(known.mutex);
  std::erase_if(known.teams, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Team>& entry = known.teams[{status.st_dev, status.st_ino}];
  *out_team = entry.lock();
  if (*out_team) {
    if ((*out_team)->peer_infos_ == rendezvous.peer_infos) return {};
    out_team->reset();
    return failure(KEEL_RANK_FAILED, "what came as a new communicator's memory is another's");
  }
  std::shared_ptr<Team> team;
  Status made = map(rendezvous.peer_infos, rendezvous.segment, &team);
  if (made.ok()) made = team->watch_processes();
  if (!made.ok()) {
    // The peers have met this rank, and would wait for it.
    ControlSegment::abort_unmapped(
        rendezvous.segment,
        failure(KEEL_RANK_FAILED, "{}: {}", name_elsewhere(rank, rendezvous.peer_infos[rank]),
                made.text()));
    return made;
  }
  entry = team;
  *out_team = std::move(team);
  return {};
}

Status Team::watch_processes() {
  std::set<ProcessToken> watched;
  for (uint32_t rank = 0; rank < world(); ++rank) {
    const PeerInfo& peer_info = peer_infos_[rank];
    if (here_[rank] || !watched.insert(peer_info.process).second) continue;
    const auto on_loss = [weak = weak_from_this(),
                          process = peer_info.process](AbortRecord::Absence how) {
      if (const std::shared_ptr<Team> team = weak.lock()) team->end_process(process, how);
    };
    uint64_t watch = 0;
    KEEL_RETURN_IF_ERROR(ProcessWatch::get().watch(
        peer_info.pid, peer_info.start_time, [on_loss] { on_loss(AbortRecord::Absence::kDied); },
        &watch));
    watches_.push_back(watch);
    KEEL_RETURN_IF_ERROR(Lifelines::get().watch(
        peer_info.process, [on_loss] { on_loss(AbortRecord::Absence::kReplaced); }, &watch));
    lifelines_.push_back(watch);
  }
  return {};
}

void Team::end_process(const ProcessToken& process, AbortRecord::Absence how) {
  for (uint32_t rank = 0; rank < world(); ++rank) {
    if (peer_infos_[rank].process == process) ended_[rank].store(true, std::memory_order_release);
  }
  const auto is_missed = [&](uint32_t rank) {
    return peer_infos_[rank].process == process && !segment_->failures().has_left(rank);
  };
  for (uint32_t rank = 0; rank < world(); ++rank) {
    if (!is_missed(rank) || segment_->is_at_rest(rank)) continue;
    return abort(AbortRecord::absence_status(how, name(rank)));
  }
  // The process has completed all its calls. Peers may still be completing the same operations, and
  // succeed: the end of a process after its last operation fails no operation.
  for (uint32_t rank = 0; rank < world(); ++rank) {
    if (is_missed(rank)) segment_->failures().leave(rank, how);
  }
}

Team::Act::Act(Team& team) : team_(team) {
  // Either this rank sees the failure, or the failing rank sees the Act: all accesses here are
  // sequentially consistent.
  team_.acting_.fetch_add(1, std::memory_order_seq_cst);
  may_ = !team_.segment_->failures().failed();
}

void Team::await_acts() const {
  // Takes at most one copy of a round, a few milliseconds, or the 10 ms of a yield.
  while (acting_.load(std::memory_order_seq_cst) != 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

std::string Team::id() const {
  return fmt::format("{:x}", object_.inode);
}

std::string Team::name(uint32_t rank) const {
  const PeerInfo& peer_info = peer_infos_[rank];
  if (is_numbered_.load(std::memory_order_acquire) && !host_.empty()) {
    return name_elsewhere(number(rank), peer_info, host_);
  }
  if (here_[rank]) return fmt::format("rank {} ({})", number(rank), peer_info.device);
  return name_elsewhere(number(rank), peer_info);
}

uint32_t Team::number(uint32_t rank) const {
  return is_numbered_.load(std::memory_order_acquire) ? numbers_[rank] : rank;
}

void Team::number_ranks(const std::vector<uint32_t>& numbers, const std::string& host) {
  // The first call in the process counts; a concurrent thread may already read the numbers.
  std::lock_guard lock(numbers_mutex_);
  if (is_numbered_.load(std::memory_order_relaxed)) return;
  numbers_ = numbers;
  host_ = host;
  is_numbered_.store(true, std::memory_order_release);
}

}  // namespace keel
