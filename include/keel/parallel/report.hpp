// SPDX-License-Identifier: Apache-2.0
// Where the time of a training step went, by rank and by stage, and a picture of the step.
//
//   StepReport report = analyse(ranks, schedule.bubble());
//   std::puts(text(report).c_str());
//   write svg(ranks) to a file
#ifndef KEEL_PARALLEL_REPORT_HPP_
#define KEEL_PARALLEL_REPORT_HPP_

#include <cstdint>
#include <keel/keel.hpp>
#include <keel/parallel/timeline.hpp>
#include <span>
#include <string>
#include <vector>

namespace keel::parallel {
inline namespace v0 {

// One rank's step. The times of all ranks begin together.
struct RankSteps {
  std::string device;           // "cuda:0"
  std::vector<Span> spans;      // StepRecorder::finish
  double model_flops = 0;       // of the model's own passes, without recomputation; 0: not known
  double peak_flops_per_s = 0;  // the chip's measured roof; 0: not known
};

// Shares of a step's time; they add up to 1.
//
// A pass computes but where its stream runs a collective or waits for another stream: there, as
// between passes, the chip is idle.
struct TimeShares {
  double compute = 0;        // passes, without recomputation
  double recompute = 0;      // passes repeated for the backward pass
  double optimizer = 0;      // norm and update
  double loader = 0;         // idle while the host waits for data
  double communication = 0;  // exposed: idle while a message or collective of the rank is on its
                             // way, for which all its ranks have called
  double bubble = 0;         // idle otherwise, up to the share that the schedule's formula gives
  double imbalance = 0;      // idle beyond: uneven stages, late ranks, a host that comes late

  double sum() const {
    return compute + recompute + optimizer + loader + communication + bubble + imbalance;
  }
};

struct RankReport {
  std::string device;
  TimeShares shares;
  double mfu = 0;  // model FLOPs over the step's time and the roof; 0: not known
};
struct StageReport {
  uint32_t stage = 0;
  uint32_t rank = 0;
  double busy_seconds = 0;       // its passes compute
  double recompute_seconds = 0;  // of them
  double blocked_seconds = 0;    // its passes run collectives or wait for another stream
};
// All spans of a kind of communication, of all ranks.
struct CommunicationReport {
  SpanKind kind = SpanKind::kCollective;
  uint64_t spans = 0;
  double seconds = 0;          // on the way: all ranks of a span have called
  double exposed_seconds = 0;  // of them, the rank computes nothing
};
struct StepReport {
  double seconds = 0;  // until the last rank has ended
  std::vector<RankReport> ranks;
  std::vector<StageReport> stages;
  std::vector<CommunicationReport> communication;  // of the kinds that occur
  TimeShares mean;                                 // of all ranks
  double mfu = 0;  // of all ranks together, against the sum of their roofs
};

// |bubble|: Engine::bubble or PipelineSchedule::bubble of the step, 0 without a pipeline.
StepReport analyse(std::span<const RankSteps> ranks, double bubble);
// A table, a line a rank.
std::string text(const StepReport& report);
std::string json(const StepReport& report);
// Time in which the passes of |spans| compute, recomputation included: what a rank's speed shows
// in.
double computing_seconds(std::span<const Span> spans);
// The step as a picture, with a legend: for each rank a row of passes, numbered by micro-batch,
// with the collectives and waits on their stream, a row of messages, and one of other collectives.
// A bar of communication is pale until all of its ranks have called.
std::string svg(std::span<const RankSteps> ranks, const std::string& title);

// Gathers all ranks' steps on every rank of |world|, by rank. Every rank calls; waits.
std::vector<RankSteps> gather_steps(Communicator& world, const Stream& stream,
                                    const RankSteps& own);

}  // namespace v0
}  // namespace keel::parallel

#endif  // KEEL_PARALLEL_REPORT_HPP_
