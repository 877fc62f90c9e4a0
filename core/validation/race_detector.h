// SPDX-License-Identifier: Apache-2.0
// Finds work on two streams that accesses the same memory without an order between the accesses.
#ifndef KEEL_CORE_VALIDATION_RACE_DETECTOR_H_
#define KEEL_CORE_VALIDATION_RACE_DETECTOR_H_

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/observer.h"
#include "core/validation/access_map.h"
#include "core/validation/vector_clock.h"

namespace keel::validation {

// Each stream has a vector clock: how much of every other stream's work is certain to happen before
// the stream's next work. Records of events keep a copy of the clock; waits join it. Work that the
// host has waited for is joined to everything the host enqueues afterwards.
//
// All user threads count as one: whether they have told each other what they saw cannot be known,
// and is assumed. Each of Keel's own threads, which run collectives, counts for itself. Races may
// therefore be missed; a reported race is a race.
//
// Thread-safe, under one mutex; nothing is called or logged with the mutex held.
class RaceDetector final : public Observer {
 public:
  static RaceDetector& get();

  // start() observes from now on, without knowledge of earlier work; stop() ends the observation.
  void start();
  void stop();

  void enqueued(Stream& stream, const Step& step) override;
  void passed(Stream& stream, const Step& step, const Status& status) override;
  void closed(Stream& stream) override;
  void host_saw_done(uint64_t serial) override;
  void host_saw_idle(Stream& stream) override;
  void gate_opened(uint64_t serial) override;
  void forgotten(uint64_t serial) override;
  void host_begin(const char* name, std::span<const Access> accesses) override;
  void host_end() override;
  void memory_handed_out(const Device* device, const void* pointer, uint64_t bytes,
                         Stream* stream) override;

 private:
  using Snapshot = std::shared_ptr<const VectorClock>;
  // An item enqueued, but not passed yet, with the host's knowledge at that time. Memory handed out
  // in the order of the stream has a place in the queue too, though it is no step.
  struct Pending {
    Step::Kind kind;
    uint64_t serial;
    Snapshot host;
    const char* part_of;  // the thread's outermost span; NULL: none
    Access handed_out;    // no bytes: a step
  };
  // A stream, or one of Keel's own threads.
  struct Line {
    uint32_t slot = 0;
    std::string name;  // "stream 3 (cpu:0)"
    VectorClock clock;
    std::deque<Pending> pending;
    // Work was dropped since the stream was last known to be idle: a collective behind a dropped
    // gate may still use memory from before.
    bool dropped = false;
  };
  struct ThreadLine;

  RaceDetector() = default;
  static ThreadLine& this_thread_line();

  // With |mutex_| held:
  std::shared_ptr<Line> new_line(std::string name);
  void end_line(Line& line);
  Line& line_of(Stream& stream);
  // Returns the calling thread's knowledge.
  Snapshot known_here() const;
  // Returns the clock of a record or a gate. If unknown, returns the clock of all streams together,
  // so that missing knowledge causes no report.
  Snapshot clock_of(uint64_t serial) const;
  void learn(const VectorClock& clock);
  void run(Line& line, const char* name, const char* part_of, std::span<const Access> accesses,
           std::vector<std::string>* problems);
  void hand_out(Line& line, const Access& access);
  void touch(Line& line, const Mark& mark, const Access& access,
             std::vector<std::string>* problems);
  void limit_memory();

  mutable std::mutex mutex_;
  uint64_t generation_ = 0;  // counts start()
  std::unordered_map<uint64_t, std::shared_ptr<Line>> streams_;
  std::vector<std::weak_ptr<Line>> threads_;
  std::vector<uint64_t> epochs_;  // the latest of each slot
  std::vector<uint32_t> free_slots_;
  Snapshot host_ = std::make_shared<const VectorClock>();
  std::unordered_map<uint64_t, Snapshot> points_;  // records and gates by serial
  std::unordered_map<const Device*, AccessMap> memory_;
  size_t cells_after_drop_ = 0;
};

}  // namespace keel::validation

#endif  // KEEL_CORE_VALIDATION_RACE_DETECTOR_H_
