// SPDX-License-Identifier: Apache-2.0
#include "collectives/split.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "collectives/all_gather_control.h"
#include "collectives/bootstrap/mem_handle_server.h"
#include "collectives/outcome.h"

namespace keel {

namespace {

struct Choice {
  int32_t color;
  int32_t key;
  uint32_t flags;  // bits of PeerInfo::flags in Team::kOfACommunicator
};
// Message from the first rank of each part to the rest of the part.
struct Invitation {
  ObjectId segment;
  int32_t status;
};
static_assert(sizeof(Invitation) <= sizeof(OperationDescriptor::small));

std::vector<Part> parts_of(const std::vector<Choice>& choices) {
  std::vector<uint32_t> order(choices.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(choices[a].color, choices[a].key) <
           std::pair(choices[b].color, choices[b].key);
  });
  std::vector<Part> parts;
  int32_t last = KEEL_NO_COLOR;
  for (const uint32_t rank : order) {
    if (choices[rank].color == KEEL_NO_COLOR) continue;
    if (choices[rank].color != last) parts.emplace_back();
    last = choices[rank].color;
    parts.back().ranks.push_back(rank);
    parts.back().flags.push_back(choices[rank].flags);
  }
  return parts;
}

}  // namespace

Status split_team(RankContext& context, int32_t color, int32_t key, uint32_t flags,
                  WaitContext& wait_context, std::shared_ptr<Team>* out_team, uint32_t* out_rank,
                  std::vector<Part>* out_parts) {
  std::vector<Choice> choices;
  const Choice choice = {color, key, flags};
  KEEL_RETURN_IF_ERROR(exchange(context, kSplitCollective, choice, wait_context, &choices));
  std::vector<uint32_t> members;  // their ranks in the parent
  for (uint32_t rank = 0; rank < context.world(); ++rank) {
    if (choices[rank].color == color) members.push_back(rank);
  }
  std::stable_sort(members.begin(), members.end(),
                   [&](uint32_t a, uint32_t b) { return choices[a].key < choices[b].key; });
  Team& team = context.team();
  Rendezvous rendezvous;
  for (uint32_t rank = 0; rank < members.size(); ++rank) {
    PeerInfo& peer_info = rendezvous.peer_infos.emplace_back(team.peer_info(members[rank]));
    peer_info.rank = rank;
    peer_info.flags = (peer_info.flags & ~Team::kOfACommunicator) | choices[members[rank]].flags;
    if (members[rank] == context.rank()) *out_rank = rank;
  }
  const bool takes_part = color != KEEL_NO_COLOR;
  const uint32_t first = members.front();
  Invitation own = {};
  // A failure here occurs on all ranks of the part; the ranks of all parts still meet below.
  Status made = takes_part ? Team::check_priorities(rendezvous.peer_infos) : Status();
  if (made.ok() && takes_part && first == context.rank()) {
    FileDescriptor file;
    made = Team::make_segment(rendezvous.peer_infos, &file);
    if (made.ok()) made = MemHandleServer::get().publish(std::move(file), &own.segment);
    own.status = static_cast<int32_t>(made.code());
  }
  const bool is_published = takes_part && first == context.rank() && made.ok();
  std::vector<Invitation> invitations;
  Status status = exchange(context, kSplitCollective, own, wait_context, &invitations);
  if (status.ok() && takes_part) {
    const Invitation& invitation = invitations[first];
    if (!made.ok()) {
      status = made;
    } else if (invitation.status != KEEL_OK) {
      status =
          failure(KEEL_RANK_FAILED, "{} could not make the new communicator", team.name(first));
    } else {
      const auto is_given_up = [&] {
        return wait_context.cancelled() || context.failures().failed();
      };
      status = team.is_here(first)
                   ? MemHandleServer::get().open(invitation.segment, &rendezvous.segment)
                   : fetch_object(team.peer_info(first).process, invitation.segment,
                                  wait_context.deadline(), is_given_up, &rendezvous.segment);
      // The first rank's process has ended; this rank may see the end before the process watcher.
      const bool has_ended = status.code() == KEEL_RANK_FAILED;
      const std::string name = team.name(first);
      status = status.with_prefix(has_ended ? name + ": " : "the memory that " + name + " made: ");
      // The first rank withdraws the segment if the ranks have no way left to meet.
      if (!status.ok() && context.failures().failed()) status = context.failures().status();
    }
  }
  // The peers need not wait for a rank without the segment mapped.
  if (status.ok() && takes_part) status = Team::join(rendezvous, *out_rank, out_team);
  // The segment stays published until all ranks have fetched it.
  std::vector<Outcome> fetched;
  const Status met = exchange(context, kSplitCollective, Outcome(status), wait_context, &fetched);
  if (is_published) MemHandleServer::get().withdraw(own.segment);
  const auto has_fetched = [](const Outcome& outcome) { return outcome.ok(); };
  if (out_parts != nullptr && met.ok() &&
      std::all_of(fetched.begin(), fetched.end(), has_fetched)) {
    *out_parts = parts_of(choices);
  }
  // The outcome of the first rank holds the reason.
  const bool is_made = !takes_part || invitations.empty() || invitations[first].status == KEEL_OK;
  if (met.ok() && !is_made && first != context.rank()) {
    return failure(KEEL_RANK_FAILED, "{}: {}", status.text(), fetched[first].text());
  }
  KEEL_RETURN_IF_ERROR(status);
  KEEL_RETURN_IF_ERROR(met);
  for (uint32_t member : members) {
    if (!takes_part || fetched[member].ok()) continue;
    if (context.failures().failed()) return context.failures().status();
    // The member saw the end of the first rank's process, whose outcome may have been published
    // before.
    if (fetched[member].code() == KEEL_RANK_FAILED) {
      return failure(KEEL_RANK_FAILED, "{} failed before {} could enter the new communicator",
                     team.name(first), team.name(member));
    }
    return failure(KEEL_RANK_FAILED, "{} could not enter the new communicator: {}",
                   team.name(member), fetched[member].text());
  }
  return {};
}

}  // namespace keel
