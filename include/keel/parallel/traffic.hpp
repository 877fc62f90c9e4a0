// SPDX-License-Identifier: Apache-2.0
// Bytes that a rank sends along the axes of its mesh.
#ifndef KEEL_PARALLEL_TRAFFIC_HPP_
#define KEEL_PARALLEL_TRAFFIC_HPP_

#include <cstdint>
#include <keel/keel.hpp>
#include <keel/parallel/timeline.hpp>

namespace keel::parallel {
inline namespace v0 {

// Bytes that one rank sends by algorithms that are optimal in bytes: for B bytes on n ranks an
// all_reduce sends 2 (n-1)/n B, an all_gather (n-1)/n of the result, a reduce_scatter (n-1)/n of
// the input, a send B. The formulas of a strategy count in the same way (Thakur, Rabenseifner,
// Gropp: "Optimization of Collective Communication Operations in MPICH", 2005).
struct Traffic {
  double all_reduce = 0, all_gather = 0, reduce_scatter = 0, point_to_point = 0;
  uint64_t calls = 0;  // of collectives, sends and receives: what keel_comm_stats counts too
  double total() const { return all_reduce + all_gather + reduce_scatter + point_to_point; }
};

// How a channel's operations appear in a recorded step.
struct ChannelSpans {
  StepRecorder* const* recorder = nullptr;  // borrowed; points to NULL while no step is recorded
  uint32_t group = 0;                       // see Span
  SpanKind all_reduce = SpanKind::kCollective;
  SpanKind all_gather = SpanKind::kCollective;
  SpanKind reduce_scatter = SpanKind::kCollective;
};

// A communicator of float32 collectives that counts, and records while a recorder is there. Borrows
// the communicator. Not thread-safe.
class Channel {
 public:
  Channel() = default;  // of one rank: nothing may be called but wait()
  explicit Channel(Communicator& comm, Traffic* traffic = nullptr, const ChannelSpans& spans = {})
      : comm_(&comm), traffic_(traffic), spans_(spans), ranks_(comm.world()), rank_(comm.rank()) {}

  int64_t ranks() const { return ranks_; }
  int64_t rank() const { return rank_; }
  Communicator& communicator() const { return *comm_; }

  void all_reduce(void* data, int64_t count, const Stream& stream,
                  keel_reduction reduction = KEEL_SUM) const {
    record(spans_.all_reduce, stream, [&] {
      comm_->all_reduce(data, data, static_cast<uint64_t>(count), KEEL_FLOAT32, reduction, stream);
    });
    if (traffic_ != nullptr) add(traffic_->all_reduce, 2 * share(count * ranks_));
  }
  // |count| elements of each rank.
  void all_gather(const void* part, void* whole, int64_t count, const Stream& stream) const {
    record(spans_.all_gather, stream, [&] {
      comm_->all_gather(part, whole, static_cast<uint64_t>(count), KEEL_FLOAT32, stream);
    });
    if (traffic_ != nullptr) add(traffic_->all_gather, share(count * ranks_ * ranks_));
  }
  void reduce_scatter(const void* whole, void* part, int64_t count, const Stream& stream) const {
    record(spans_.reduce_scatter, stream, [&] {
      comm_->reduce_scatter(whole, part, static_cast<uint64_t>(count), KEEL_FLOAT32, KEEL_SUM,
                            stream);
    });
    if (traffic_ != nullptr) add(traffic_->reduce_scatter, share(count * ranks_ * ranks_));
  }
  // |counts| are equal; piece i of the whole begins at |offsets|[i].
  void all_gather_v(const void* part, void* whole, Communicator::Entries counts,
                    Communicator::Entries offsets, const Stream& stream) const {
    record(spans_.all_gather, stream,
           [&] { comm_->all_gather_v(part, whole, counts, offsets, KEEL_FLOAT32, stream); });
    if (traffic_ != nullptr) {
      add(traffic_->all_gather, share(static_cast<int64_t>(counts[0]) * ranks_ * ranks_));
    }
  }
  void reduce_scatter_v(const void* whole, void* part, Communicator::Entries counts,
                        Communicator::Entries offsets, const Stream& stream) const {
    record(spans_.reduce_scatter, stream, [&] {
      comm_->reduce_scatter_v(whole, part, counts, offsets, KEEL_FLOAT32, KEEL_SUM, stream);
    });
    if (traffic_ != nullptr) {
      add(traffic_->reduce_scatter, share(static_cast<int64_t>(counts[0]) * ranks_ * ranks_));
    }
  }
  void send(const void* data, int64_t count, int64_t peer, const Stream& stream) const {
    comm_->send(data, static_cast<uint64_t>(count), KEEL_FLOAT32, static_cast<uint32_t>(peer),
                stream);
    if (traffic_ != nullptr) add(traffic_->point_to_point, 4.0 * static_cast<double>(count));
  }
  void recv(void* data, int64_t count, int64_t peer, const Stream& stream) const {
    comm_->recv(data, static_cast<uint64_t>(count), KEEL_FLOAT32, static_cast<uint32_t>(peer),
                stream);
    if (traffic_ != nullptr) add(traffic_->point_to_point, 0);
  }

  // For messages that the caller sends and receives over communicators of its own.
  void count_sent(uint64_t bytes) const {
    if (traffic_ != nullptr) add(traffic_->point_to_point, static_cast<double>(bytes));
  }
  void count_received() const { count_sent(0); }

  // |stream| waits for |event|, which the channel's lane has recorded.
  void wait(Stream& stream, const Event& event) const {
    record(SpanKind::kWait, stream, [&] { stream.wait(event); });
  }

 private:
  template <typename Call>
  void record(SpanKind kind, const Stream& stream, const Call& call) const {
    // All ranks of a group have made the same calls before.
    const auto sequence = traffic_ == nullptr ? 0 : static_cast<uint32_t>(traffic_->calls);
    record_within(spans_.recorder == nullptr ? nullptr : *spans_.recorder, stream,
                  {.kind = kind, .group = spans_.group, .sequence = sequence}, call);
  }
  void add(double& bytes, double more) const {
    bytes += more;
    ++traffic_->calls;
  }
  // (n-1)/n of |elements| / n.
  double share(int64_t elements) const {
    const auto n = static_cast<double>(ranks_);
    return 4.0 * static_cast<double>(elements) / n * (n - 1) / n;
  }

  Communicator* comm_ = nullptr;
  Traffic* traffic_ = nullptr;
  ChannelSpans spans_;
  int64_t ranks_ = 1, rank_ = 0;
};

}  // namespace v0
}  // namespace keel::parallel

#endif  // KEEL_PARALLEL_TRAFFIC_HPP_
