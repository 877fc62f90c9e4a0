#include "collectives/algorithms/one_shot.h"

#include <algorithm>

#include "collectives/reduce.h"
#include "core/observer.h"

namespace keel {

bool can_one_shot(RankContext& context, const Request& request, uint64_t sequence, const Side& send,
                  const Side& receive) {
  constexpr uint32_t kForeign = Post::kSendStaged | Post::kReceiveStaged | Post::kInPlace;
  const uint32_t world = context.world();
  if (request.algorithm != Algorithm::kOneShot) return false;
  // Others may have written over what this rank has posted.
  if (send.staged || receive.staged) return false;
  for (uint32_t rank = 0; rank < world; ++rank) {
    if ((context.segment().post(rank, sequence).flags & kForeign) != 0) return false;
  }
  return true;
}

Status run_one_shot(RankContext& context, const Request& request, uint64_t sequence,
                    const Side& send, const Side& receive, Patience& patience) {
  const uint64_t bytes = request.count * request.element();
  for (uint32_t peer = 0; peer < context.world(); ++peer) {
    const Post& post = context.segment().post(peer, sequence);
    const char* data = send.buffer.host;
    if (peer != context.rank()) {
      KEEL_RETURN_IF_ERROR(
          context.resolve(peer, post.send, post.memory_epoch, 0, bytes, patience, &data));
    }
    context.sources[peer] = data;
    context.factors[peer] = context.posted_factor(peer, request, sequence);
  }
  {
    const HostSpan span("host reduce", [&](AccessList& accesses) {
      accesses.writes(&context.device(), receive.buffer.device, bytes);
    });
    // A table may have large ones go this way.
    KEEL_RETURN_IF_ERROR(
        context.reduce_in_steps(request, receive.buffer.host, request.count, Store::kCached));
  }
  // Until all have read from it, a buffer has to stay as it is.
  KEEL_RETURN_IF_ERROR(context.meet(patience));
  context.count_in_place(2 * bytes);
  return {};
}

}  // namespace keel
