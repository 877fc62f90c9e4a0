// SPDX-License-Identifier: Apache-2.0
// One-way links between neighbouring ranks of a pipeline.
#ifndef KEEL_PARALLEL_PIPELINE_LINK_H_
#define KEEL_PARALLEL_PIPELINE_LINK_H_

#include <cstdint>
#include <keel/keel.hpp>
#include <optional>

namespace keel::parallel {
inline namespace v0 {

// One end of a link: a communicator of two ranks and a stream, both its own. A message waits for
// its receiver, and the operations of a communicator run in order: with one communicator for all
// messages, a send that waits would hold up the receive that its peer needs.
struct LinkEnd {
  LinkEnd(Communicator given, Device device, uint32_t peer_rank)
      : comm(std::move(given)), stream(device, /*priority=*/-1), peer(peer_rank) {}

  Communicator comm;
  Stream stream;
  uint32_t peer;  // in |comm|
};

// A rank's four link ends. Outputs of a stage go from each rank to the next, gradients back; the
// link between the last and the first rank is there for |wraps| alone.
struct Links {
  std::optional<LinkEnd> output_out, output_in, gradient_out, gradient_in;

  // Every rank of |axis| calls; waits.
  static Links make(Communicator& axis, Device device, bool wraps);
  // Waits for all messages of this rank; swallows their failures, which the stages' streams have.
  void drain();
  // Fails all messages in flight, on both sides.
  void abort();
};

}  // namespace v0
}  // namespace keel::parallel

#endif  // KEEL_PARALLEL_PIPELINE_LINK_H_
