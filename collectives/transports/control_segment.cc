// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/control_segment.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstring>
#include <ctime>

#include "collectives/bootstrap/shared_file.h"
#include "collectives/transports/pause.h"

namespace keel {

namespace {

constexpr uint64_t kMagic = 0x33676573'6c65656b;  // "keelseg3"
constexpr uint32_t kSteps = 4;                    // a rank is at most two steps ahead: see arrive()

// Spin budget before a wait parks. Dedicated: as long as parking and being woken may cost, 5 us on
// bare metal and 50 us in a virtual machine, whose idle cores must be called back. Oversubscribed:
// number of sched_yield() calls, some 40 us when no thread takes the core; a call whose core
// another thread takes lasts as long as that thread's turn.
constexpr int64_t kSpinNs = 50'000;
constexpr uint32_t kYields = 200;

// Most bytes prefetched for the next operation: so many cache lines are in flight at once.
constexpr uint64_t kMostAhead = 4 << 10;

struct alignas(64) Counter {
  std::atomic<uint32_t> value;
};

constexpr uint64_t align_page(uint64_t bytes) {
  return (bytes + 4095) & ~uint64_t{4095};
}

}  // namespace

struct ControlSegment::Header {
  uint64_t magic;
  uint64_t bytes;
  uint32_t world;
  uint32_t oversubscribed;
  std::atomic<uint64_t> chunk_bytes;
  alignas(64) std::atomic<uint32_t> failure_state;  // 0 none, 1 being written, 2 readable
  int32_t failure_code;
  char failure_text[440];
  alignas(64) std::atomic<uint32_t> sleepers;
  std::atomic<uint32_t> room_sleepers;
  std::atomic<uint32_t> absent;  // ranks that left or died
  Counter changes;               // changes of any flag, on which waiters sleep
  Counter room_changes;
  Counter posts[kDescriptors];
  Counter steps[kSteps];
  alignas(64) std::atomic<uint64_t> matched;  // urgent communicator: number of matched operations
  alignas(64) Selection selection;
  alignas(64) std::atomic<uint64_t> shrink_stage;
};

struct alignas(64) ControlSegment::Cell {
  std::atomic<uint64_t> step;
  alignas(64) std::atomic<uint64_t> done;
  std::atomic<Absence> absence;
  std::atomic<uint32_t> busy;
  std::atomic<uint32_t> slot_changes;
  std::atomic<uint32_t> held;
  std::atomic<uint64_t> held_count;  // fingerprint of the held call
  std::atomic<uint64_t> held_kind;
  PointToPointProgress progress;
};

namespace {

// Offsets of the parts, computed from the world size alone.
struct Layout {
  uint64_t cells;
  uint64_t posts;
  uint64_t eager;
  uint64_t message_buffers;
  uint64_t slots;
  uint64_t counters;
  uint64_t layouts;
  uint64_t shrinks;
  uint64_t end;
};

}  // namespace

// The parts follow the header, each page-aligned. Unused pages take no memory: 1,024 ranks have 256
// MiB of point-to-point slots, of which only the pages of communicating pairs exist.
static Layout layout_of(uint64_t header, uint64_t cell, uint64_t world) {
  Layout layout = {};
  layout.cells = align_page(header);
  layout.posts = layout.cells + align_page(cell * world);
  layout.eager =
      layout.posts + align_page(sizeof(OperationDescriptor) * ControlSegment::kDescriptors * world);
  layout.message_buffers =
      layout.eager + ControlSegment::kEagerBytes * ControlSegment::kEagerPlaces * world;
  layout.slots = layout.message_buffers +
                 ControlSegment::kEagerBytes * ControlSegment::kMessageBuffers * world;
  layout.counters =
      layout.slots + align_page(sizeof(PointToPointSlot) * ControlSegment::kSlots * world * world);
  layout.layouts = layout.counters + align_page(sizeof(ProgressCounters) * world * world);
  layout.shrinks = layout.layouts + align_page(2 * sizeof(uint64_t) * world * world);
  layout.end = layout.shrinks + align_page(sizeof(ShrinkSlot) * world);
  return layout;
}

Status ControlSegment::create(uint32_t world, bool oversubscribed, FileDescriptor* out_file) {
  const Layout layout = layout_of(sizeof(Header), sizeof(Cell), world);
  FileDescriptor file;
  KEEL_RETURN_IF_ERROR(
      create_shared_file("keel-communicator", layout.end, &file).with_prefix("a communicator: "));
  void* memory = mmap(nullptr, sizeof(Header), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) {
    return failure(KEEL_OUT_OF_MEMORY, "no address space for a communicator: {}",
                   std::strerror(errno));
  }
  auto* header = static_cast<Header*>(memory);
  header->world = world;
  header->oversubscribed = oversubscribed ? 1 : 0;
  header->bytes = layout.end;
  header->magic = kMagic;
  munmap(memory, sizeof(Header));
  *out_file = std::move(file);
  return {};
}

Status ControlSegment::map(const FileDescriptor& file,
                           std::unique_ptr<ControlSegment>* out_segment) {
  struct stat status = {};
  const int seals = fcntl(file.get(), F_GET_SEALS);
  if (fstat(file.get(), &status) != 0 || seals < 0 || (seals & F_SEAL_SHRINK) == 0 ||
      static_cast<uint64_t>(status.st_size) < sizeof(Header)) {
    return failure(KEEL_INVALID_ARGUMENT, "what came as a communicator's memory is none");
  }
  const auto bytes = static_cast<uint64_t>(status.st_size);
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file.get(), 0);
  if (memory == MAP_FAILED) {
    return failure(KEEL_OUT_OF_MEMORY, "no address space for a communicator: {}",
                   std::strerror(errno));
  }
  std::unique_ptr<ControlSegment> segment(new ControlSegment);
  segment->memory_ = memory;
  segment->bytes_ = bytes;
  segment->header_ = static_cast<Header*>(memory);
  const Header& header = *segment->header_;
  const uint32_t world = header.world;
  const Layout layout = layout_of(sizeof(Header), sizeof(Cell), world);
  if (header.magic != kMagic || world == 0 || world > kMostRanks || layout.end != bytes) {
    return failure(KEEL_INVALID_ARGUMENT, "what came as a communicator's memory is none");
  }
  char* const base = static_cast<char*>(memory);
  segment->world_ = world;
  segment->oversubscribed_ = header.oversubscribed != 0;
  segment->spins_ = segment->oversubscribed_ ? kYields : pauses_in(kSpinNs);
  segment->cells_ = reinterpret_cast<Cell*>(base + layout.cells);
  segment->posts_ = reinterpret_cast<OperationDescriptor*>(base + layout.posts);
  segment->eager_ = reinterpret_cast<uint8_t*>(base + layout.eager);
  segment->message_buffers_ = reinterpret_cast<uint8_t*>(base + layout.message_buffers);
  segment->slots_ = reinterpret_cast<PointToPointSlot*>(base + layout.slots);
  segment->counters_ = reinterpret_cast<ProgressCounters*>(base + layout.counters);
  segment->layouts_ = reinterpret_cast<uint64_t*>(base + layout.layouts);
  segment->shrinks_ = reinterpret_cast<ShrinkSlot*>(base + layout.shrinks);
  *out_segment = std::move(segment);
  return {};
}

ControlSegment::~ControlSegment() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

uint64_t ControlSegment::chunk_bytes() const {
  return header_->chunk_bytes.load(std::memory_order_relaxed);
}

void ControlSegment::set_chunk_bytes(uint64_t bytes) {
  header_->chunk_bytes.store(bytes, std::memory_order_relaxed);
}

Selection ControlSegment::selection() const {
  return header_->selection;
}

void ControlSegment::set_selection(const Selection& selection) {
  header_->selection = selection;
}

std::atomic<uint64_t>& ControlSegment::shrink_stage() {
  return header_->shrink_stage;
}

ControlSegment::Cell& ControlSegment::cell(uint32_t rank) const {
  return cells_[rank];
}

// ---- sleeping and waking --------------------------------------------------------

void ControlSegment::relax(uint32_t turn) const {
  if (oversubscribed_) {
    sched_yield();
    return;
  }
  pause_core();
  // Even with a core per rank, this thread may share its core with the thread it waits for.
  if (turn % 256 == 255) sched_yield();
}

void ControlSegment::wake_sleepers() {
  if (header_->sleepers.load(std::memory_order_seq_cst) == 0) return;
  header_->changes.value.fetch_add(1, std::memory_order_seq_cst);
  wake(header_->changes.value);
}

void ControlSegment::begin_sleep() {
  header_->sleepers.fetch_add(1, std::memory_order_seq_cst);
}

void ControlSegment::end_sleep() {
  header_->sleepers.fetch_sub(1, std::memory_order_relaxed);
}

Status ControlSegment::check_waiting(WaitContext& wait_context) const {
  if (failed()) return failure_status();
  if (wait_context.cancelled()) return wait_context.given_up();
  if (wait_context.deadline().passed()) return failure(KEEL_TIMED_OUT, "the deadline has passed");
  return {};
}

void ControlSegment::park(std::atomic<uint32_t>& word, uint32_t seen, const Deadline& deadline) {
  const int64_t slice = std::min(WaitContext::kSliceNs, deadline.remaining_ns());
  const timespec timeout = {slice / 1'000'000'000, slice % 1'000'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

void ControlSegment::wake(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// ---- operations -----------------------------------------------------------------

std::atomic<uint32_t>& ControlSegment::post_count(uint64_t sequence) {
  return oversubscribed_ ? header_->posts[sequence % kDescriptors].value : header_->changes.value;
}

bool ControlSegment::has_published(uint32_t rank, uint64_t sequence) {
  // A later sequence also counts: a rank reuses the slot only after all ranks are done with
  // |sequence|.
  return post(rank, sequence).sequence.load(std::memory_order_seq_cst) > sequence;
}

bool ControlSegment::is_done(uint32_t rank, uint64_t sequence) {
  return cell(rank).done.load(std::memory_order_seq_cst) > sequence;
}

bool ControlSegment::all_published(uint64_t sequence) {
  if (oversubscribed_) {
    // The 32-bit counts wrap; the difference to the target does not.
    const auto target = static_cast<uint32_t>((sequence / kDescriptors + 1) * world_);
    return static_cast<int32_t>(
               header_->posts[sequence % kDescriptors].value.load(std::memory_order_seq_cst) -
               target) >= 0;
  }
  for (uint32_t rank = 0; rank < world_; ++rank) {
    if (!has_published(rank, sequence)) return false;
  }
  return true;
}

bool ControlSegment::poll_descriptors(uint64_t sequence, uint32_t turns) {
  for (uint32_t turn = 0; turn < turns; ++turn) {
    if (all_published(sequence)) return true;
    if (ends_spin()) break;
    relax(turn);
  }
  return all_published(sequence);
}

void ControlSegment::publish_descriptor(uint32_t rank, uint64_t sequence) {
  post(rank, sequence).sequence.store(sequence + 1, std::memory_order_seq_cst);
  if (oversubscribed_) {
    std::atomic<uint32_t>& count = header_->posts[sequence % kDescriptors].value;
    const auto target = static_cast<uint32_t>((sequence / kDescriptors + 1) * world_);
    const bool is_last = count.fetch_add(1, std::memory_order_seq_cst) + 1 == target;
    if (is_last && header_->sleepers.load(std::memory_order_seq_cst) != 0) wake(count);
    return;
  }
  wake_sleepers();
}

// A sleeper waits for all ranks, so looking for sleepers can wait until all have published. The
// look needs a fence, which stalls until other cores release the descriptor's cache line; a later
// fence stalls while the peers' descriptors are in transit anyway.
#if defined(__SANITIZE_THREAD__)  // does not model fences
static constexpr bool kCanWakeLater = false;
#else
static constexpr bool kCanWakeLater = true;
#endif

void ControlSegment::publish_ahead(uint32_t rank, uint64_t sequence) {
  if (kCanWakeLater && !oversubscribed_) {
    post(rank, sequence).sequence.store(sequence + 1, std::memory_order_release);
  } else {
    publish_descriptor(rank, sequence);
  }
}

bool ControlSegment::poll_published(uint32_t rank, uint64_t sequence, uint32_t turns,
                                    uint64_t eager_bytes) {
  const bool are_there = poll_descriptors(sequence, turns);
  if constexpr (kCanWakeLater) {
    if (oversubscribed_) return are_there;
    if (are_there && eager_bytes > sizeof(OperationDescriptor::small)) {
      // All ranks are done with the operation before, whose eager buffer the next operation reuses,
      // most likely for as many bytes. Prefetching for write moves the lines out of the readers'
      // caches while this operation is computed. 4 KiB of two ranks take 1.20 us instead of 1.40;
      // at 1 KiB the gain is within the noise.
      const uint8_t* const next = eager(rank, sequence + 1);
      const uint64_t bytes = std::min(eager_bytes, kMostAhead);
      for (uint64_t at = 0; at < bytes; at += 64) __builtin_prefetch(next + at, /*rw=*/1);
    }
    std::atomic_thread_fence(std::memory_order_seq_cst);
    wake_sleepers();
  }
  return are_there;
}

void ControlSegment::publish_done(uint32_t rank, uint64_t sequence, bool urgent) {
  cell(rank).done.store(sequence + 1,
                        urgent ? std::memory_order_seq_cst : std::memory_order_release);
  if (header_->room_sleepers.load(std::memory_order_seq_cst) == 0) return;
  // The waiters' condition changes only when the last rank is done.
  if (!all_done(sequence + 1)) return;
  header_->room_changes.value.fetch_add(1, std::memory_order_seq_cst);
  wake(header_->room_changes.value);
}

bool ControlSegment::all_done(uint64_t operations) {
  // Acquired, since the ranks of one process share the count: who finds it here has not read the
  // cells, and overwrites descriptors that a peer has read before it stored its cell.
  if (over_.load(std::memory_order_acquire) >= operations) return true;
  uint64_t least = UINT64_MAX;
  for (uint32_t rank = 0; rank < world_; ++rank) {
    least = std::min(least, cell(rank).done.load(std::memory_order_seq_cst));
  }
  over_.store(least, std::memory_order_release);
  return least >= operations;
}

bool ControlSegment::has_room(uint64_t sequence) {
  return sequence < kDescriptors || all_done(sequence - kDescriptors + 1);
}

Status ControlSegment::await_room(uint64_t sequence, WaitContext& wait_context) {
  if (has_room(sequence)) return {};
  header_->room_sleepers.fetch_add(1, std::memory_order_seq_cst);
  const uint64_t needed = sequence - kDescriptors + 1;
  const auto missing = [&](uint32_t rank) {
    return cell(rank).done.load(std::memory_order_seq_cst) < needed;
  };
  Status status = await(
      header_->room_changes.value, [&] { return has_room(sequence); }, missing, wait_context);
  header_->room_sleepers.fetch_sub(1, std::memory_order_relaxed);
  return status;
}

Status ControlSegment::await_descriptors(uint64_t sequence, WaitContext& wait_context) {
  if (all_published(sequence)) return {};
  return await(
      post_count(sequence), [&] { return all_published(sequence); },
      [&](uint32_t rank) { return !has_published(rank, sequence); }, wait_context);
}

// ---- urgent communicators -------------------------------------------------------

void ControlSegment::publish_matched(uint64_t sequence) {
  uint64_t known = header_->matched.load(std::memory_order_relaxed);
  while (known <= sequence &&
         !header_->matched.compare_exchange_weak(known, sequence + 1, std::memory_order_release,
                                                 std::memory_order_relaxed)) {
  }
}

bool ControlSegment::is_under_way() {
  return !all_done(header_->matched.load(std::memory_order_acquire)) && !failed();
}

void ControlSegment::await_over(const Deadline& deadline) {
  header_->room_sleepers.fetch_add(1, std::memory_order_seq_cst);
  while (true) {
    const uint32_t seen = header_->room_changes.value.load(std::memory_order_acquire);
    if (!is_under_way() || deadline.passed()) break;
    park(header_->room_changes.value, seen, deadline);
  }
  header_->room_sleepers.fetch_sub(1, std::memory_order_relaxed);
}

// ---- barriers -------------------------------------------------------------------

std::atomic<uint32_t>& ControlSegment::step_count(uint64_t step) {
  return oversubscribed_ ? header_->steps[step % kSteps].value : header_->changes.value;
}

bool ControlSegment::has_arrived(uint32_t rank, uint64_t step) {
  return cell(rank).step.load(std::memory_order_seq_cst) >= step;
}

void ControlSegment::arrive(uint32_t rank, uint64_t step) {
  cell(rank).step.store(step, std::memory_order_seq_cst);
  if (oversubscribed_) {
    std::atomic<uint32_t>& count = header_->steps[step % kSteps].value;
    const auto target = static_cast<uint32_t>((step / kSteps + 1) * world_);
    // Steps count from 1, so slot 0 starts with its second turn.
    const uint32_t now =
        count.fetch_add(1, std::memory_order_seq_cst) + 1 + (step % kSteps == 0 ? world_ : 0);
    if (now == target && header_->sleepers.load(std::memory_order_seq_cst) != 0) wake(count);
    return;
  }
  wake_sleepers();
}

bool ControlSegment::all_arrived(uint64_t step) {
  if (oversubscribed_) {
    const auto target = static_cast<uint32_t>((step / kSteps + 1) * world_);
    const uint32_t now = header_->steps[step % kSteps].value.load(std::memory_order_seq_cst) +
                         (step % kSteps == 0 ? world_ : 0);
    return static_cast<int32_t>(now - target) >= 0;
  }
  for (uint32_t rank = 0; rank < world_; ++rank) {
    if (!has_arrived(rank, step)) return false;
  }
  return true;
}

Status ControlSegment::await_step(uint64_t step, WaitContext& wait_context) {
  if (all_arrived(step)) return {};
  return await(
      step_count(step), [&] { return all_arrived(step); },
      [&](uint32_t rank) { return !has_arrived(rank, step); }, wait_context);
}

// ---- messages -------------------------------------------------------------------

std::atomic<uint32_t>& ControlSegment::slot_word(uint32_t rank) {
  return cell(rank).slot_changes;
}

void ControlSegment::notify_slot(uint32_t rank) {
  std::atomic<uint32_t>& word = slot_word(rank);
  word.fetch_add(1, std::memory_order_seq_cst);
  if (header_->sleepers.load(std::memory_order_seq_cst) != 0) wake(word);
}

PointToPointProgress& ControlSegment::progress(uint32_t rank) {
  return cell(rank).progress;
}

void ControlSegment::set_held(uint32_t rank, const Fingerprint& print) {
  Cell& own = cell(rank);
  own.held_count.store(print.count, std::memory_order_relaxed);
  own.held_kind.store(print.kind(), std::memory_order_relaxed);
  own.held.store(1, std::memory_order_release);
}

void ControlSegment::clear_held(uint32_t rank) {
  cell(rank).held.store(0, std::memory_order_release);
}

bool ControlSegment::is_held(uint32_t rank, Fingerprint* out_print) const {
  const Cell& other = cell(rank);
  if (other.held.load(std::memory_order_acquire) == 0) return false;
  *out_print = Fingerprint::of(other.held_count.load(std::memory_order_relaxed),
                               other.held_kind.load(std::memory_order_relaxed));
  return true;
}

// ---- failures -------------------------------------------------------------------

bool ControlSegment::failed() const {
  return header_->failure_state.load(std::memory_order_seq_cst) != 0;
}

// Copies as much of the text as fits, NUL-terminated.
template <size_t kSize>
static void copy_text(const Status& status, char (&out)[kSize]) {
  const size_t size = std::min(std::strlen(status.text()), kSize - 1);
  std::memcpy(out, status.text(), size);
  out[size] = '\0';
}

void ControlSegment::abort(const Status& status) {
  uint32_t none = 0;
  if (header_->failure_state.compare_exchange_strong(none, 1, std::memory_order_acq_rel)) {
    header_->failure_code = static_cast<int32_t>(status.code());
    copy_text(status, header_->failure_text);
    header_->failure_state.store(2, std::memory_order_seq_cst);
  }
  const auto wake_all = [this](std::atomic<uint32_t>& word, bool is_count) {
    // A count must keep its value: a waiter about to sleep checks for a failure first.
    if (!is_count) word.fetch_add(1, std::memory_order_seq_cst);
    wake(word);
  };
  wake_all(header_->changes.value, false);
  wake_all(header_->room_changes.value, false);
  for (Counter& count : header_->posts) wake_all(count.value, true);
  for (Counter& count : header_->steps) wake_all(count.value, true);
  for (uint32_t rank = 0; rank < world_; ++rank) wake_all(slot_word(rank), false);
}

void ControlSegment::abort_unmapped(const FileDescriptor& file, const Status& status) {
  const auto put = [&](const auto& value, size_t offset) {
    return pwrite(file.get(), &value, sizeof(value), static_cast<off_t>(offset)) ==
           static_cast<ssize_t>(sizeof(value));
  };
  const auto get = [&](auto* value, size_t offset) {
    return pread(file.get(), value, sizeof(*value), static_cast<off_t>(offset)) ==
           static_cast<ssize_t>(sizeof(*value));
  };
  // If the file is no control segment, or already records a failure, leave it untouched.
  uint64_t magic = 0;
  uint32_t state = 0;
  if (!get(&magic, offsetof(Header, magic)) || magic != kMagic ||
      !get(&state, offsetof(Header, failure_state)) || state != 0) {
    return;
  }
  // Two processes may write concurrently. Their texts may interleave, but the result is always
  // NUL-terminated.
  const auto code = static_cast<int32_t>(status.code());
  char text[sizeof(Header::failure_text)] = {};
  copy_text(status, text);
  state = 2;
  (void)(put(code, offsetof(Header, failure_code)) && put(text, offsetof(Header, failure_text)) &&
         put(state, offsetof(Header, failure_state)));
}

Status ControlSegment::failure_status() const {
  uint32_t state = header_->failure_state.load(std::memory_order_acquire);
  if (state == 0) return {};
  // The writer of the text takes less than a microsecond, unless it was preempted or killed.
  const Deadline wait_context = Deadline::after(WaitContext::kSliceNs);
  while (state == 1 && !wait_context.passed()) {
    sched_yield();
    state = header_->failure_state.load(std::memory_order_acquire);
  }
  if (state != 2) return failure(KEEL_ABORTED, "the communicator was aborted");
  char text[sizeof(header_->failure_text)];
  std::memcpy(text, header_->failure_text, sizeof(text));
  text[sizeof(text) - 1] = '\0';
  if (text[0] == '\0') return failure(KEEL_ABORTED, "the communicator was aborted");
  const auto code = static_cast<keel_status>(header_->failure_code);
  return {is_status(code) && code != KEEL_OK && code != KEEL_NOT_READY ? code : KEEL_ABORTED, text};
}

// ---- ranks that call no more ----------------------------------------------------

void ControlSegment::leave(uint32_t rank, Absence how) {
  // Several processes may see a rank die; only the first records the absence.
  Absence none = Absence::kNone;
  if (!cell(rank).absence.compare_exchange_strong(none, how, std::memory_order_seq_cst)) return;
  header_->absent.fetch_add(1, std::memory_order_seq_cst);
  header_->changes.value.fetch_add(1, std::memory_order_seq_cst);
  wake(header_->changes.value);
  header_->room_changes.value.fetch_add(1, std::memory_order_seq_cst);
  wake(header_->room_changes.value);
  for (Counter& count : header_->posts) wake(count.value);
  for (Counter& count : header_->steps) wake(count.value);
  for (uint32_t other = 0; other < world_; ++other) notify_slot(other);
}

bool ControlSegment::any_absent() const {
  return header_->absent.load(std::memory_order_acquire) != 0;
}

ControlSegment::Absence ControlSegment::absence(uint32_t rank) const {
  return cell(rank).absence.load(std::memory_order_acquire);
}

Status ControlSegment::absence_status(uint32_t rank) const {
  const Absence how = absence(rank);
  if (how == Absence::kNone) return {};
  return absence_status(how, name_ ? name_(rank) : fmt::format("rank {}", rank));
}

Status ControlSegment::absence_status(Absence how, const std::string& name) {
  if (how == Absence::kLeft) return failure(KEEL_ABORTED, "{} left the communicator", name);
  return failure(KEEL_RANK_FAILED, "{} {}", name,
                 how == Absence::kDied ? "died" : "replaced its program (exec)");
}

Status ControlSegment::first_death() const {
  for (uint32_t rank = 0; any_absent() && rank < world_; ++rank) {
    if (absence(rank) > Absence::kLeft) return absence_status(rank);
  }
  return {};
}

void ControlSegment::set_busy(uint32_t rank, bool is_busy) {
  cell(rank).busy.store(is_busy ? 1 : 0, std::memory_order_release);
}

bool ControlSegment::is_at_rest(uint32_t rank) {
  const Cell& own = cell(rank);
  if (own.busy.load(std::memory_order_acquire) != 0) return false;
  if (own.progress.messages.load(std::memory_order_acquire) != 0) return false;
  uint64_t posted = 0;
  for (uint64_t place = 0; place < kDescriptors; ++place) {
    posted = std::max(posted, post(rank, place).sequence.load(std::memory_order_acquire));
  }
  return own.done.load(std::memory_order_acquire) == posted;
}

}  // namespace keel
