// SPDX-License-Identifier: Apache-2.0
#include "collectives/hosts/host_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "collectives/bootstrap/rendezvous.h"
#include "core/insiders.h"

namespace keel {

// ---- what rank 0 decides --------------------------------------------------------

std::string HostAgreement::write() const {
  return fmt::format("{} {} {} {}", chunk_bytes,
                     algorithm ? algorithm_name(*algorithm) : std::string_view("-"),
                     write_lane_shares(lane_shares), write_host_rules(rules));
}

Status HostAgreement::read(const std::string& text, HostAgreement* out_agreement) {
  *out_agreement = {};
  const char* const end = text.data() + text.size();
  const auto [behind, error] = std::from_chars(text.data(), end, out_agreement->chunk_bytes);
  if (error != std::errc() || behind == end || *behind != ' ') {
    return {KEEL_DATA_LOSS, "rank 0's properties of the communicator are malformed"};
  }
  std::string_view name(behind + 1, static_cast<size_t>(end - behind - 1));
  const size_t blank = name.find(' ');
  const size_t second = name.find(' ', blank == std::string_view::npos ? blank : blank + 1);
  if (second == std::string_view::npos ||
      !read_host_rules(name.substr(second + 1), &out_agreement->rules)) {
    return {KEEL_DATA_LOSS, "rank 0's rules for several hosts are malformed"};
  }
  if (!read_lane_shares(name.substr(blank + 1, second - blank - 1), &out_agreement->lane_shares)) {
    return {KEEL_DATA_LOSS, "rank 0's shares of the lanes are malformed"};
  }
  name = name.substr(0, blank);
  out_agreement->algorithm = find_algorithm(name);
  if (out_agreement->algorithm || name == "-") return {};
  return {KEEL_DATA_LOSS, "rank 0 names an unknown algorithm"};
}

// ---- forming --------------------------------------------------------------------

Status HostGroup::make(std::shared_ptr<HostJob> job, std::vector<uint32_t> members, uint32_t rank,
                       uint64_t context, const std::vector<PeerInfo>& peer_infos,
                       const HostAgreement& agreement, const Deadline& deadline,
                       std::unique_ptr<HostGroup>* out_group) {
  std::unique_ptr<HostGroup> group(new HostGroup);
  group->job_ = std::move(job);
  group->members_ = std::move(members);
  group->peer_infos_ = peer_infos;
  group->agreement_ = agreement;
  group->context_ = context;
  group->rank_ = rank;
  KEEL_RETURN_IF_ERROR(Team::check_priorities(peer_infos));
  const HostTable& table = group->job_->table();
  const std::vector<uint32_t> beside = table.on_machine_of(group->members_[0]);
  const auto is_beside = [&](uint32_t member) {
    return std::ranges::binary_search(beside, member);
  };
  group->shares_processors_ =
      std::ranges::all_of(group->members_, is_beside) && table.have_few_processors(beside);
  std::map<std::string_view, uint32_t> known;
  for (uint32_t other = 0; other < group->world(); ++other) {
    const std::string& key = table.ranks[group->members_[other]].host;
    const auto [found, is_new] = known.emplace(key, static_cast<uint32_t>(group->hosts_.size()));
    if (is_new) group->hosts_.emplace_back();
    std::vector<uint32_t>& host = group->hosts_[found->second];
    if (other == rank) {
      group->host_ = found->second;
      group->local_rank_ = static_cast<uint32_t>(host.size());
    }
    host.push_back(other);
  }
  KEEL_RETURN_IF_ERROR(group->job_->session().open_wires(context, &group->wires_));
  KEEL_RETURN_IF_ERROR(group->meet_inside(deadline));
  HostGroup* const made = group.get();
  group->watch_ = group->job_->watch([made](const Status& status) {
    made->team_->abort(status);
    made->wires_->wake();
  });
  *out_group = std::move(group);
  return {};
}

Status HostGroup::meet_inside(const Deadline& deadline) {
  const std::vector<uint32_t>& local = hosts_[host_];
  std::vector<PeerInfo> peer_infos;
  for (uint32_t index = 0; index < local.size(); ++index) {
    peer_infos.push_back(peer_infos_[local[index]]);
    peer_infos.back().rank = index;
  }
  const auto size = static_cast<uint32_t>(local.size());
  if (size == 1) {
    KEEL_RETURN_IF_ERROR(Team::create_local(std::move(peer_infos), &team_));
    team_->number_ranks(local, host_name(host_));
    return {};
  }
  const std::string name =
      fmt::format("{}-{:x}", job_->table().local_name(members_[rank_]), context_);
  keel_unique_id id = rendezvous_id(name);
  if (local_rank_ == 0) {
    KEEL_RETURN_IF_ERROR(serve_rendezvous_at(&Team::make_segment, name, &id));
  }
  Rendezvous rendezvous;
  std::vector<uint32_t> others;
  for (const uint32_t rank : local) {
    if (rank != rank_) others.push_back(members_[rank]);
  }
  // A rank of this host that ends before it attends fails the job, which ends the wait.
  constexpr int64_t kSliceNs = 500'000'000;
  Status attended;
  do {
    const int64_t slice = std::min(kSliceNs, deadline.remaining_ns());
    attended = attend_rendezvous(id, peer_infos[local_rank_], size, insiders::deadline(slice),
                                 &rendezvous);
    const Status verdict = job_->session().failure();
    if (attended.code() == KEEL_TIMED_OUT && !verdict.ok()) return verdict;
    if (job_->session().has_outlived_server()) job_->session().look_for(others);
  } while (attended.code() == KEEL_TIMED_OUT && !deadline.passed());
  KEEL_RETURN_IF_ERROR(attended);
  KEEL_RETURN_IF_ERROR(Team::join(rendezvous, local_rank_, &team_));
  team_->number_ranks(local, host_name(host_));
  return {};
}

HostGroup::~HostGroup() {
  if (job_) job_->unwatch(watch_);
}

// ---- facts ----------------------------------------------------------------------

std::optional<uint32_t> HostGroup::find_local(uint32_t rank) const {
  const std::vector<uint32_t>& local = hosts_[host_];
  const auto found = std::find(local.begin(), local.end(), rank);
  if (found == local.end()) return {};
  return static_cast<uint32_t>(found - local.begin());
}

uint32_t HostGroup::ranks_per_host() const {
  const size_t size = hosts_[0].size();
  const bool are_equal = std::all_of(hosts_.begin(), hosts_.end(),
                                     [&](const auto& host) { return host.size() == size; });
  return are_equal ? static_cast<uint32_t>(size) : 0;
}

std::string HostGroup::id() const {
  const std::string job = job_->table().job.hex();
  return fmt::format("{}-{:x}", job.substr(0, 12), context_);
}

std::string HostGroup::name(uint32_t rank) const {
  return fmt::format("rank {} ({}, process {} on host '{}')", rank, peer_infos_[rank].device,
                     peer_infos_[rank].pid, job_->table().ranks[members_[rank]].host_name);
}

const std::string& HostGroup::host_name(uint32_t host) const {
  return job_->table().ranks[members_[hosts_[host][0]]].host_name;
}

void HostGroup::abort(const Status& status) {
  team_->abort(status);
  job_->session().abort(status);
  wires_->wake();
}

}  // namespace keel
