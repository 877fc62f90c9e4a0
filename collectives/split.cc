#include "collectives/split.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "collectives/bootstrap/share_server.h"

namespace keel {

namespace {

struct Choice {
  int32_t color;
  int32_t key;
  uint32_t flags;  // of Attendee: Team::kUrgent
};
// What the first rank of each part tells the others of it.
struct Invitation {
  ObjectId segment;
  int32_t status;
};
static_assert(sizeof(Invitation) <= sizeof(Post::small));

// All ranks' |own|, in their order: an operation among the others, with its own fingerprint.
template <typename Data>
Status exchange(RankContext& context, const Data& own, Patience& patience,
                std::vector<Data>* out_all) {
  ControlSegment& segment = context.segment();
  const uint64_t sequence = context.sequence++;
  Status status = segment.await_room(sequence, patience);
  if (status.ok()) {
    Post& post = segment.post(context.rank(), sequence);
    post.fingerprint = {};
    post.fingerprint.collective = kSplitCollective;
    post.status = KEEL_OK;
    post.flags = 0;
    context.write_leg(&post);
    std::memcpy(post.small, &own, sizeof(own));
    segment.publish_post(context.rank(), sequence);
    status = context.await_posts(sequence, patience);
  } else {
    segment.abort(status);
  }
  KEEL_RETURN_IF_ERROR(status);
  std::vector<Fingerprint> fingerprints;
  for (uint32_t rank = 0; rank < context.world(); ++rank) {
    const Post& post = segment.post(rank, sequence);
    fingerprints.push_back(post.fingerprint);
    Data data = own;  // what is in its own post, others may have written
    if (rank != context.rank()) std::memcpy(&data, post.small, sizeof(data));
    out_all->push_back(data);
  }
  segment.publish_done(context.rank(), sequence);
  return check_fingerprints(fingerprints);
}

}  // namespace

Status split_team(RankContext& context, int32_t color, int32_t key, bool urgent, Patience& patience,
                  std::shared_ptr<Team>* out_team, uint32_t* out_rank) {
  std::vector<Choice> choices;
  const Choice choice = {color, key, urgent ? Team::kUrgent : 0u};
  KEEL_RETURN_IF_ERROR(exchange(context, choice, patience, &choices));
  std::vector<uint32_t> members;  // their ranks here
  for (uint32_t rank = 0; rank < context.world(); ++rank) {
    if (choices[rank].color == color) members.push_back(rank);
  }
  std::stable_sort(members.begin(), members.end(),
                   [&](uint32_t a, uint32_t b) { return choices[a].key < choices[b].key; });
  Team& team = context.team();
  Meeting meeting;
  for (uint32_t rank = 0; rank < members.size(); ++rank) {
    Attendee& attendee = meeting.attendees.emplace_back(team.attendee(members[rank]));
    attendee.rank = rank;
    attendee.flags = (attendee.flags & ~Team::kUrgent) | choices[members[rank]].flags;
    if (members[rank] == context.rank()) *out_rank = rank;
  }
  const bool takes_part = color != KEEL_NO_COLOR;
  const uint32_t first = members.front();
  Invitation own = {};
  // Where it fails it does so on all ranks of the part; the others still meet this one.
  Status made = takes_part ? Team::check_priorities(meeting.attendees) : Status();
  if (made.ok() && takes_part && first == context.rank()) {
    FileDescriptor file;
    made = Team::make_segment(meeting.attendees, &file);
    if (made.ok()) made = ShareServer::get().publish(std::move(file), &own.segment);
    own.status = static_cast<int32_t>(made.code());
  }
  const bool is_published = takes_part && first == context.rank() && made.ok();
  std::vector<Invitation> invitations;
  Status status = exchange(context, own, patience, &invitations);
  if (status.ok() && takes_part) {
    const Invitation& invitation = invitations[first];
    if (!made.ok()) {
      status = made;
    } else if (invitation.status != KEEL_OK) {
      status =
          failure(KEEL_RANK_FAILED, "{} could not make the new communicator", team.name(first));
    } else {
      const auto is_given_up = [&] { return patience.cancelled() || context.segment().failed(); };
      status = fetch_object(team.attendee(first).process, invitation.segment, patience.deadline(),
                            is_given_up, &meeting.segment);
      // It has ended, and this rank sees it before whoever watches its process.
      if (status.code() == KEEL_UNAVAILABLE) {
        status = failure(KEEL_RANK_FAILED, "{}: {}", team.name(first), status.text());
      }
      // Whoever made it takes it back where the ranks have no other way left to meet.
      if (!status.ok() && context.segment().failed()) status = context.segment().failure_status();
    }
  }
  // Until all have fetched it, it has to be there.
  std::vector<int32_t> fetched;
  const Status met = exchange(context, static_cast<int32_t>(status.code()), patience, &fetched);
  if (is_published) ShareServer::get().withdraw(own.segment);
  KEEL_RETURN_IF_ERROR(status);
  KEEL_RETURN_IF_ERROR(met);
  for (uint32_t member : members) {
    if (!takes_part || fetched[member] == KEEL_OK) continue;
    return failure(KEEL_RANK_FAILED, "{} could not enter the new communicator", team.name(member));
  }
  return takes_part ? Team::join(std::move(meeting), out_team) : Status();
}

}  // namespace keel
