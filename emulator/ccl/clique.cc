// SPDX-License-Identifier: Apache-2.0
#include "emulator/ccl/clique.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

namespace keel::emulator::ccl {
namespace {

// The cliques whose ids were made here and that not all ranks have joined yet.
struct Registry {
  std::mutex mutex;
  std::map<UniqueId, std::shared_ptr<Clique>> cliques;
  uint64_t made = 0;
};

Registry& registry() {
  static Registry& created = *new Registry;
  return created;
}

// A random token per process, which identifies ids of other processes.
const std::array<uint32_t, 4>& process_token() {
  static const std::array<uint32_t, 4> token = [] {
    std::random_device random;
    return std::array<uint32_t, 4>{random(), random(), random(), random()};
  }();
  return token;
}

void forget(const UniqueId& id) {
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  known.cliques.erase(id);
}

}  // namespace

UniqueId Clique::make_id() {
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  UniqueId id = {};
  const uint64_t number = ++known.made;
  std::memcpy(id.data(), process_token().data(), sizeof(process_token()));
  std::memcpy(id.data() + sizeof(process_token()), &number, sizeof(number));
  known.cliques.emplace(id, std::make_shared<Clique>());
  return id;
}

std::string address_of_root(const UniqueId& id) {
  std::string name = "keel-emulated-ccl-";
  for (size_t i = 0; i < sizeof(process_token()); ++i) {
    name += fmt::format("{:02x}", std::to_integer<unsigned>(id[i]));
  }
  return name;
}

std::string own_root_address() {
  UniqueId id = {};
  std::memcpy(id.data(), process_token().data(), sizeof(process_token()));
  return address_of_root(id);
}

bool Clique::is_ours(const UniqueId& id) {
  return std::memcmp(id.data(), process_token().data(), sizeof(process_token())) == 0;
}

// ---- rendezvous -------------------------------------------------------------------

Status Clique::find(const UniqueId& id, std::shared_ptr<Clique>* out_clique) {
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  const auto found = known.cliques.find(id);
  if (found == known.cliques.end()) {
    return {Code::kInvalidArgument, is_ours(id) ? "the unique id was used already"
                                                : "the unique id is none of this process"};
  }
  *out_clique = found->second;
  return {};
}

std::string Clique::missing() const {
  std::string ranks;
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    if (!members_[rank].has_come) ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", rank);
  }
  return ranks;
}

Status Clique::enter_locked(uint32_t rank, uint32_t world, std::shared_ptr<Device> device) {
  if (world == 0 || rank >= world) {
    return {Code::kInvalidArgument, fmt::format("rank {} of {}", rank, world)};
  }
  if (given_up_) return {Code::kUnavailable, "a rank has given up waiting"};
  if (come_ == 0) members_.resize(world);
  if (this->world() != world) {
    return {Code::kInvalidArgument,
            fmt::format("a world of {} ranks, where others said {}", world, this->world())};
  }
  if (members_[rank].has_come) {
    return {Code::kInvalidArgument, fmt::format("rank {} is there already", rank)};
  }
  for (uint32_t other = 0; other < world && device != nullptr; ++other) {
    if (members_[other].device != device) continue;
    return {Code::kInvalidArgument,
            fmt::format("rank {} is on {}, as rank {}", rank, device->name(), other)};
  }
  members_[rank].has_come = true;
  members_[rank].device = std::move(device);
  ++come_;
  came_.notify_all();
  return {};
}

std::vector<RemotePeer> Clique::remote_peers_locked() const {
  std::vector<RemotePeer> remote_peers;
  for (const Member& member : members_) {
    if (member.remote_peer.met) remote_peers.push_back(member.remote_peer);
  }
  return remote_peers;
}

// Called with no lock held.
static void tell(const std::vector<RemotePeer>& remote_peers, const Status& status) {
  for (const RemotePeer& remote_peer : remote_peers) remote_peer.met(status);
}

Status Clique::meet(const UniqueId& id, std::shared_ptr<Device> device, uint32_t rank,
                    uint32_t world, Time deadline, std::shared_ptr<Clique>* out_clique) {
  std::shared_ptr<Clique> clique;
  Status status = find(id, &clique);
  if (!status.ok()) return status;
  std::unique_lock lock(clique->mutex_);
  status = clique->enter_locked(rank, world, std::move(device));
  if (!status.ok()) return status;
  if (clique->come_ == world) {
    const std::vector<RemotePeer> remote_peers = clique->remote_peers_locked();
    lock.unlock();
    forget(id);
    tell(remote_peers, {});
    *out_clique = std::move(clique);
    return {};
  }
  const auto is_over = [&] { return clique->come_ == world || clique->given_up_; };
  const bool in_time = deadline == Time::max() ? (clique->came_.wait(lock, is_over), true)
                                               : clique->came_.wait_until(lock, deadline, is_over);
  if (!in_time) {
    const std::string who = clique->missing();
    lock.unlock();
    give_up(id);
    return {Code::kTimedOut, fmt::format("ranks {} did not come in time", who)};
  }
  if (clique->given_up_) return {Code::kUnavailable, "a rank has given up waiting"};
  lock.unlock();
  *out_clique = std::move(clique);
  return {};
}

Status Clique::admit(const UniqueId& id, uint32_t rank, uint32_t world, RemotePeer remote_peer,
                     std::shared_ptr<Clique>* out_clique) {
  std::shared_ptr<Clique> clique;
  Status status = find(id, &clique);
  if (!status.ok()) return status;
  std::vector<RemotePeer> remote_peers;
  {
    const std::lock_guard lock(clique->mutex_);
    status = clique->enter_locked(rank, world, nullptr);
    if (!status.ok()) return status;
    clique->members_[rank].remote_peer = std::move(remote_peer);
    if (clique->come_ == world) remote_peers = clique->remote_peers_locked();
  }
  if (!remote_peers.empty()) {
    forget(id);
    tell(remote_peers, {});
  }
  *out_clique = std::move(clique);
  return {};
}

void Clique::give_up(const UniqueId& id) {
  std::shared_ptr<Clique> clique;
  if (!find(id, &clique).ok()) return;
  std::vector<RemotePeer> remote_peers;
  {
    const std::lock_guard lock(clique->mutex_);
    if (clique->given_up_ || (clique->come_ != 0 && clique->come_ == clique->world())) return;
    clique->given_up_ = true;
    clique->came_.notify_all();
    remote_peers = clique->remote_peers_locked();
  }
  forget(id);
  tell(remote_peers, {Code::kUnavailable, "a rank has given up waiting"});
}

// ---- operations ----------------------------------------------------------------

Clique::Key Clique::key_of_next(uint32_t rank, const Call& call) {
  constexpr uint64_t kAll = UINT64_MAX;
  Member& member = members_[rank];
  if (call.collective == Collective::kSend) return {rank, call.root, member.sent[call.root]++};
  if (call.collective == Collective::kReceive) {
    return {call.root, rank, member.received[call.root]++};
  }
  return {kAll, kAll, member.called++};
}

Membership Clique::next(uint32_t rank, const Call& call) {
  const std::lock_guard lock(mutex_);
  const Key key = key_of_next(rank, call);
  std::shared_ptr<Operation>& entry = open_[key];
  if (entry == nullptr) {
    entry = std::make_shared<Operation>(is_message(call.collective) ? 2 : world());
  }
  Membership self = {entry, rank};
  if (is_message(call.collective)) self.index = call.collective == Collective::kSend ? 0 : 1;
  if (++self.operation->taken == self.operation->parts.size()) open_.erase(key);
  Operation::Part& part = self.part();
  part.call = call;
  Member& member = members_[rank];
  // Drops finished operations here, so the list stays short.
  std::erase_if(member.under_way,
                [](const Membership& each) { return each.part().read->is_done(); });
  if (member.aborted) {
    // No later abort would complete it.
    for (const auto& each : {part.met, part.read, part.hung}) {
      (void)each->complete({}, Clock::now());
    }
    return self;
  }
  member.under_way.push_back(self);
  return self;
}

// Called with no lock held, because completions run callbacks.
static void complete_all(const std::vector<std::shared_ptr<Completion>>& completions) {
  const Time now = Clock::now();
  for (const auto& completion : completions) completion->complete_and_notify({}, now);
}

void Clique::arrive(Operation& operation) {
  std::vector<std::shared_ptr<Completion>> met;
  {
    const std::lock_guard lock(mutex_);
    if (++operation.arrived < operation.parts.size()) return;
    for (const Operation::Part& part : operation.parts) met.push_back(part.met);
  }
  complete_all(met);
}

void Clique::finish_reading(Operation& operation) {
  std::vector<std::shared_ptr<Completion>> read;
  {
    const std::lock_guard lock(mutex_);
    if (++operation.have_read < operation.parts.size()) return;
    for (const Operation::Part& part : operation.parts) read.push_back(part.read);
  }
  complete_all(read);
}

Status Clique::check(const Operation& operation) const {
  const std::lock_guard lock(mutex_);
  const std::vector<Operation::Part>& parts = operation.parts;
  for (uint32_t rank = 1; rank < parts.size(); ++rank) {
    if (parts[rank].call.matches(parts[0].call)) continue;
    if (!is_message(parts[0].call.collective)) {
      return {Code::kInvalidArgument,
              fmt::format("the calls of ranks 0 and {} do not fit together", rank)};
    }
    return {Code::kInvalidArgument,
            fmt::format("rank {} receives something else than rank {} sends", parts[0].call.root,
                        parts[1].call.root)};
  }
  return {};
}

SplitResult Clique::place_of(Operation& operation, uint32_t rank) {
  const std::lock_guard lock(mutex_);
  const auto order = [&](uint32_t each) { return std::pair(operation.parts[each].call.key, each); };
  const int32_t color = operation.parts[rank].call.color;
  SplitResult place;
  if (color < 0) return place;
  for (uint32_t other = 0; other < world(); ++other) {
    if (operation.parts[other].call.color != color) continue;
    ++place.world;
    if (order(other) < order(rank)) ++place.rank;
  }
  const auto [entry, is_new] = operation.part_ids.try_emplace(color);
  if (is_new) entry->second = make_id();
  place.id = entry->second;
  return place;
}

void Clique::abort(uint32_t rank) {
  const Status why = {Code::kUnavailable, fmt::format("rank {} has aborted", rank)};
  std::vector<std::shared_ptr<Completion>> ended;
  std::vector<RemotePeer> remote_peers;
  {
    const std::lock_guard lock(mutex_);
    Member& member = members_[rank];
    if (member.aborted) return;
    member.aborted = true;
    for (const Membership& each : member.under_way) {
      const Operation::Part& part = each.part();
      ended.insert(ended.end(), {part.met, part.read, part.hung});
    }
    member.under_way.clear();
    for (uint32_t other = 0; other < world(); ++other) {
      if (other == rank || !members_[other].error.ok()) continue;
      members_[other].error = why;
      if (members_[other].remote_peer.failed) remote_peers.push_back(members_[other].remote_peer);
    }
  }
  complete_all(ended);
  for (const RemotePeer& remote_peer : remote_peers) remote_peer.failed(why);
}

bool Clique::is_aborted(uint32_t rank) const {
  const std::lock_guard lock(mutex_);
  return members_[rank].aborted;
}

void Clique::report(uint32_t rank, const Status& status) {
  const std::lock_guard lock(mutex_);
  if (members_[rank].error.ok()) members_[rank].error = status;
}

Status Clique::error(uint32_t rank) const {
  const std::lock_guard lock(mutex_);
  return members_[rank].error;
}

}  // namespace keel::emulator::ccl
