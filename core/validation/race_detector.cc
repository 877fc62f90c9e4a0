// SPDX-License-Identifier: Apache-2.0
#include "core/validation/race_detector.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/device.h"
#include "core/log.h"
#include "core/stream.h"
#include "core/validation/validation.h"

namespace keel::validation {

namespace {

// Cell counts at which finished work is searched for, and at which everything is dropped: some 100
// MB.
constexpr size_t kCellsToDrop = 4096;
constexpr size_t kMostCells = 1 << 19;

void report_all(const std::vector<std::string>& problems) {
  for (const std::string& problem : problems) report_problem(problem);
}

// Returns the operation as named in messages.
std::string text_of(const Operation& operation) {
  if (operation.part_of == nullptr) return operation.name;
  return fmt::format("{} ({})", operation.part_of, operation.name);
}

}  // namespace

// The line of one of Keel's own threads; empty for a user thread.
struct RaceDetector::ThreadLine {
  uint64_t generation = 0;
  std::shared_ptr<Line> line;
  const char* outermost = nullptr;  // the thread's outermost span: "all_reduce"
  uint32_t depth = 0;

  ~ThreadLine() {
    if (line == nullptr) return;
    RaceDetector& detector = get();
    std::lock_guard lock(detector.mutex_);
    if (generation == detector.generation_) detector.end_line(*line);
  }
};

RaceDetector& RaceDetector::get() {
  static RaceDetector& instance = *new RaceDetector;
  return instance;
}

RaceDetector::ThreadLine& RaceDetector::this_thread_line() {
  thread_local ThreadLine line;
  return line;
}

void RaceDetector::start() {
  {
    std::lock_guard lock(mutex_);
    ++generation_;
    streams_.clear();
    threads_.clear();
    epochs_.clear();
    free_slots_.clear();
    host_ = std::make_shared<const VectorClock>();
    points_.clear();
    memory_.clear();
    cells_after_drop_ = 0;
  }
  set_observer(ObserverSlot::kValidation, this);
}

void RaceDetector::stop() {
  set_observer(ObserverSlot::kValidation, nullptr);
}

// ---- lines -----------------------------------------------------------------------

std::shared_ptr<RaceDetector::Line> RaceDetector::new_line(std::string name) {
  auto line = std::make_shared<Line>();
  line->name = std::move(name);
  if (free_slots_.empty()) {
    line->slot = static_cast<uint32_t>(epochs_.size());
    epochs_.push_back(0);
  } else {
    line->slot = free_slots_.back();  // epochs continue: old marks are not mistaken
    free_slots_.pop_back();
  }
  return line;
}

void RaceDetector::end_line(Line& line) {
  free_slots_.push_back(line.slot);
}

RaceDetector::Line& RaceDetector::line_of(Stream& stream) {
  std::shared_ptr<Line>& line = streams_[stream.number()];
  if (line == nullptr) {
    line = new_line(fmt::format("stream {} ({})", stream.number(), stream.device().name()));
  }
  return *line;
}

RaceDetector::Snapshot RaceDetector::known_here() const {
  const ThreadLine& thread = this_thread_line();
  if (thread.line == nullptr || thread.generation != generation_) return host_;
  return std::make_shared<const VectorClock>(thread.line->clock);
}

RaceDetector::Snapshot RaceDetector::clock_of(uint64_t serial) const {
  const auto found = points_.find(serial);
  if (found != points_.end()) return found->second;
  VectorClock all = *host_;
  for (const auto& [number, line] : streams_) all.join(line->clock);
  for (const auto& thread : threads_) {
    if (const auto line = thread.lock()) all.join(line->clock);
  }
  return std::make_shared<const VectorClock>(std::move(all));
}

void RaceDetector::learn(const VectorClock& clock) {
  const ThreadLine& thread = this_thread_line();
  if (thread.line != nullptr && thread.generation == generation_) {
    thread.line->clock.join(clock);
    return;
  }
  VectorClock joined = *host_;
  joined.join(clock);
  host_ = std::make_shared<const VectorClock>(std::move(joined));
}

// ---- what is told ------------------------------------------------------------------

void RaceDetector::enqueued(Stream& stream, const Step& step) {
  std::lock_guard lock(mutex_);
  if (step.kind == Step::Kind::kRecord && !streams_.contains(stream.number())) return;
  const ThreadLine& thread = this_thread_line();
  const bool own = thread.line != nullptr && thread.generation == generation_;
  line_of(stream).pending.push_back(
      {step.kind, step.serial, known_here(), own ? thread.outermost : nullptr, {}});
}

void RaceDetector::passed(Stream& stream, const Step& step, const Status& status) {
  std::vector<std::string> problems;
  {
    std::lock_guard lock(mutex_);
    const auto known = streams_.find(stream.number());
    if (known == streams_.end()) {
      // A record of a stream that did nothing yet, or is closed.
      if (step.kind == Step::Kind::kRecord && step.serial != 0) points_[step.serial] = host_;
      return;
    }
    Line& line = *known->second;
    const auto enqueued =
        std::find_if(line.pending.begin(), line.pending.end(), [&](const Pending& pending) {
          return pending.handed_out.bytes == 0 && pending.kind == step.kind &&
                 pending.serial == step.serial;
        });
    const char* part_of = nullptr;
    if (enqueued != line.pending.end()) {
      line.clock.join(*enqueued->host);
      part_of = enqueued->part_of;
      line.pending.erase(line.pending.begin(), std::next(enqueued));
    }
    if (!status.ok()) line.dropped = true;
    switch (step.kind) {
      case Step::Kind::kWork:
        if (status.ok()) run(line, step.name, part_of, step.accesses, &problems);
        break;
      case Step::Kind::kRecord:
        if (step.serial == 0) break;
        points_[step.serial] = std::make_shared<const VectorClock>(line.clock);
        break;
      default:
        line.clock.join(*clock_of(step.serial));
    }
    while (!line.pending.empty() && line.pending.front().handed_out.bytes != 0) {
      const Pending next = std::move(line.pending.front());
      line.pending.pop_front();
      if (line.dropped) continue;  // after a failure, users wait for the stream and learn from it
      line.clock.join(*next.host);
      hand_out(line, next.handed_out);
    }
  }
  report_all(problems);
}

void RaceDetector::closed(Stream& stream) {
  std::lock_guard lock(mutex_);
  const auto found = streams_.find(stream.number());
  if (found == streams_.end()) return;
  learn(found->second->clock);
  end_line(*found->second);
  streams_.erase(found);
}

void RaceDetector::host_saw_done(uint64_t serial) {
  std::lock_guard lock(mutex_);
  learn(*clock_of(serial));
}

void RaceDetector::host_saw_idle(Stream& stream) {
  std::lock_guard lock(mutex_);
  const auto found = streams_.find(stream.number());
  if (found == streams_.end()) return;
  found->second->dropped = false;
  learn(found->second->clock);
}

void RaceDetector::gate_opened(uint64_t serial) {
  std::lock_guard lock(mutex_);
  points_[serial] = known_here();
}

void RaceDetector::forgotten(uint64_t serial) {
  std::lock_guard lock(mutex_);
  points_.erase(serial);
}

void RaceDetector::host_begin(const char* name, std::span<const Access> accesses) {
  // Spans of user threads are named after the function; all others are Keel's own.
  if (std::strncmp(name, "keel_", 5) == 0) return;
  std::vector<std::string> problems;
  {
    std::lock_guard lock(mutex_);
    ThreadLine& thread = this_thread_line();
    if (thread.line == nullptr || thread.generation != generation_) {
      thread.line = new_line("a thread of Keel's");
      thread.generation = generation_;
      thread.depth = 0;
      threads_.push_back(thread.line);
    }
    if (thread.depth++ == 0) thread.outermost = name;
    const char* const part_of = thread.outermost == name ? nullptr : thread.outermost;
    if (!accesses.empty()) run(*thread.line, name, part_of, accesses, &problems);
  }
  report_all(problems);
}

void RaceDetector::host_end() {
  ThreadLine& thread = this_thread_line();
  if (thread.depth != 0 && --thread.depth == 0) thread.outermost = nullptr;
}

void RaceDetector::memory_handed_out(const Device* device, const void* pointer, uint64_t bytes,
                                     Stream* stream) {
  std::lock_guard lock(mutex_);
  const auto begin = reinterpret_cast<uintptr_t>(pointer);
  memory_[device].forget(begin, begin + bytes);
  if (stream == nullptr) return;
  // Others may use the memory only once they are ordered after the hand-out, and the hand-out comes
  // after the stream's held work, to which the memory may have belonged before.
  Line& line = line_of(*stream);
  const Access access{device, pointer, bytes, /*writes=*/true};
  if (!line.pending.empty()) {
    line.pending.push_back({Step::Kind::kWork, 0, known_here(), nullptr, access});
    return;
  }
  line.clock.join(*known_here());
  hand_out(line, access);
}

void RaceDetector::hand_out(Line& line, const Access& access) {
  const auto begin = reinterpret_cast<uintptr_t>(access.pointer);
  memory_[access.device].forget(begin, begin + access.bytes);
  std::vector<std::string> none;
  run(line, "allocation", nullptr, {&access, 1}, &none);
}

// ---- races ---------------------------------------------------------------------------

void RaceDetector::run(Line& line, const char* name, const char* part_of,
                       std::span<const Access> accesses, std::vector<std::string>* problems) {
  const uint64_t epoch = ++epochs_[line.slot];
  line.clock.set(line.slot, epoch);
  if (accesses.empty()) return;
  const Mark mark{line.slot, epoch,
                  std::make_shared<const Operation>(Operation{name, line.name, part_of})};
  for (const Access& access : accesses) touch(line, mark, access, problems);
  limit_memory();
}

void RaceDetector::touch(Line& line, const Mark& mark, const Access& access,
                         std::vector<std::string>* problems) {
  AccessMap& memory = memory_[access.device];
  const auto begin = reinterpret_cast<uintptr_t>(access.pointer);
  const auto enter = [&](uintptr_t from, uintptr_t to) {
    Conflict conflict;
    const bool first = problems->empty();  // one race per operation is enough
    if (!memory.access(from, to, access.writes, mark, line.clock, &conflict) || !first) return;
    const uintptr_t at = std::max(from, conflict.begin);
    problems->push_back(fmt::format(
        "race: {} on {} {} {:#x} + {} of {}, {} on {} {} it, with no event between them",
        text_of(*conflict.other.operation), conflict.other.operation->place,
        conflict.other_writes ? "writes" : "reads", at, std::min(to, conflict.end) - at,
        access.device == nullptr ? "the host" : access.device->name(), text_of(*mark.operation),
        mark.operation->place, access.writes ? "writes" : "reads"));
  };
  if (access.dense) {
    enter(begin, begin + access.bytes);
    return;
  }
  // Between the ends, the bytes touched are unknown: another access may run through the gaps. The
  // ends are known.
  enter(begin, begin + 1);
  enter(begin + access.bytes - 1, begin + access.bytes);
}

void RaceDetector::limit_memory() {
  size_t cells = 0;
  for (const auto& [device, memory] : memory_) cells += memory.size();
  if (cells < std::max(kCellsToDrop, 2 * cells_after_drop_)) return;
  cells_after_drop_ = 0;
  for (auto& [device, memory] : memory_) {
    // All work enqueued from here on comes after the work that the host has waited for.
    memory.drop_before(*host_);
    cells_after_drop_ += memory.size();
  }
  if (cells_after_drop_ < kMostCells) return;
  log(KEEL_LOG_WARNING,
      "validation: too many pieces of memory to watch: races with work before "
      "this point are missed");
  for (auto& [device, memory] : memory_) memory.clear();
  cells_after_drop_ = 0;
}

}  // namespace keel::validation
