// SPDX-License-Identifier: Apache-2.0
// The shared memory through which the ranks of one host tell each other where their
// buffers are and how far they have come.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_CONTROL_SEGMENT_H_
#define KEEL_COLLECTIVES_TRANSPORTS_CONTROL_SEGMENT_H_

#include <keel/keel.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>

#include "collectives/bootstrap/file_descriptor.h"
#include "collectives/fingerprint.h"
#include "collectives/selection/selection.h"
#include "collectives/transports/patience.h"
#include "core/deadline.h"
#include "core/status.h"

namespace keel {

// Where a buffer is. In the process of its owner, |address|; elsewhere |offset| bytes into
// the shared memory object (device, inode), which the owner hands out.
struct Place {
  uint64_t address = 0;
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t offset = 0;
};

// One rank's call of one operation, written by the rank and read by all others.
struct alignas(64) Post {
  static constexpr uint32_t kSendStaged = 1;  // flags
  static constexpr uint32_t kReceiveStaged = 2;
  static constexpr uint32_t kInPlace = 4;
  static constexpr uint32_t kSendAttached = 8;   // |send| is an address, also elsewhere
  static constexpr uint32_t kWantsAttach = 16;   // |send| could be one: see transports/attach.h
  static constexpr uint32_t kAttaches = 32;      // the rank reads all others' processes
  static constexpr uint32_t kSumsOnDevice = 64;  // its side of it: see bridge/device_sum.h
  // Above it: the number of the rank's call, of which 16 bits are enough to see one that is
  // missing.
  static constexpr uint32_t kCallShift = 16;

  // Number of the operation plus one, once all else here is written. It shares its cache
  // line with small messages, which therefore cost one transfer between two cores.
  std::atomic<uint64_t> sequence;
  Fingerprint fingerprint;
  double factor;  // of KEEL_PREMUL_SUM
  int32_t status;
  uint32_t flags;
  uint8_t small[24];
  Place send;
  Place receive;
  Place work;             // scratch that the others read, of algorithms in steps
  uint64_t largest;       // elements of the largest piece this rank sends or receives
  uint64_t token;         // where the rank's process has its token: see transports/attach.h
  uint32_t memory_epoch;  // changes when objects of earlier places may be gone
  // How fast the rank's device copies to the host and back, in GB/s; 0 is not known. What all
  // ranks have posted with one operation is what they go by in the next.
  float leg_out;
  float leg_in;
  char text[132];  // with a status that is not KEEL_OK
};
static_assert(sizeof(Post) == 320);

// One message from one rank to another, outside of collectives.
struct alignas(64) Mail {
  std::atomic<uint64_t> sequence;   // as in Post, counted for each ordered pair of ranks
  std::atomic<uint64_t> available;  // windows that the sender has staged so far
  std::atomic<uint64_t> taken;      // and that the receiver has read
  std::atomic<uint64_t> answered;   // sequence, once the receiver is done with it
  uint64_t count;
  uint32_t dtype;
  uint32_t flags;
  int32_t status;         // of the sender, with |sequence|: why its call was refused
  int32_t answer;         // of the receiver, with |answered|
  int32_t refusal;        // why the receiver's call was, where the answer is KEEL_RANK_FAILED
  uint64_t wanted_count;  // what the receiver had expected, if that is why it refuses
  uint32_t wanted_dtype;
  uint32_t memory_epoch;
  Place send;
};
static_assert(sizeof(Mail) == 128);

// The messages that a rank is at, for those who ask why nothing goes on: see standstill.h.
struct alignas(64) Standing {
  std::atomic<uint64_t> version;   // odd while the rank writes here, or its tallies
  std::atomic<uint32_t> messages;  // 0: it is at none
  // The first of them.
  std::atomic<uint32_t> sends;
  std::atomic<uint32_t> peer;
  std::atomic<uint32_t> dtype;
  std::atomic<uint64_t> count;
};

// Messages that a rank has begun with one peer, in all.
struct Tally {
  std::atomic<uint64_t> sends;
  std::atomic<uint64_t> receives;
};

// A segment lives as long as somebody has it mapped, and has no name: nothing is left
// behind by a process that is killed. All its ranks are one user's, but what is read from
// it is checked as if it came from a stranger before anything is touched through it.
//
// Two ways to wait for all ranks, chosen when the segment is made. With a core for each
// rank everyone has a flag that the others watch: one transfer of a cache line. With more
// ranks than cores they count up one number, and only the last to come wakes those who
// sleep: a wake-up costs 2 to 5 us, and with flags there would be one for each pair.
//
// Thread-safe as far as a rank's own entries are used by one thread.
class ControlSegment {
 public:
  static constexpr uint32_t kPosts = 16;  // operations a rank may be ahead
  // Of data that travels with a post, and places for it a rank: whoever posts an operation
  // has seen all posts of the one before, and so all ranks are done with the one before that.
  static constexpr uint64_t kEagerBytes = 64 << 10;
  static constexpr uint32_t kEagerPlaces = 2;
  static constexpr uint32_t kMails = 2;  // messages on their way per pair
  static constexpr uint32_t kMostRanks = 4096;

  // Makes one for |world| ranks. |crowded|: more of them than cores.
  static Status create(uint32_t world, bool crowded, FileDescriptor* out_file);
  // Maps one that some process has made; refuses what is none.
  static Status map(const FileDescriptor& file, std::unique_ptr<ControlSegment>* out_segment);
  ~ControlSegment();
  ControlSegment(const ControlSegment&) = delete;
  ControlSegment& operator=(const ControlSegment&) = delete;

  uint32_t world() const { return world_; }
  bool crowded() const { return crowded_; }
  // Bytes of a staging window; what rank 0 has said, before the first barrier.
  uint64_t chunk_bytes() const;
  void set_chunk_bytes(uint64_t bytes);
  // Which algorithm an operation goes by; rank 0's, as the chunk size.
  Selection selection() const;
  void set_selection(const Selection& selection);

  // ---- operations ----
  Post& post(uint32_t rank, uint64_t sequence) {
    return posts_[uint64_t{rank} * kPosts + sequence % kPosts];
  }
  // The data that goes with it: up to kEagerBytes.
  uint8_t* eager(uint32_t rank, uint64_t sequence) {
    return eager_ + (uint64_t{rank} * kEagerPlaces + sequence % kEagerPlaces) * kEagerBytes;
  }
  // Whether all ranks are done with operation |sequence| - kPosts, whose place it takes.
  bool has_room(uint64_t sequence);
  void publish_post(uint32_t rank, uint64_t sequence);
  // Publishes it too, in two steps, between which there is as much time as posts take from core to
  // core. The second says whether all have posted after up to |turns| looks, between which it waits
  // as await_posts does before it parks. |eager_bytes|: of data that went with the post.
  void publish_ahead(uint32_t rank, uint64_t sequence);
  bool poll_published(uint32_t rank, uint64_t sequence, uint32_t turns, uint64_t eager_bytes);
  bool all_posted(uint64_t sequence);
  // |rank| reads nothing more of the posts up to |sequence|. |urgent|: as the communicator is,
  // for whose operations to be over others wait. Of another one nobody does, but for room, of which
  // there is always enough: whoever has posted one operation is done with the one before.
  void publish_done(uint32_t rank, uint64_t sequence, bool urgent);

  // ---- urgent communicators: what others give way to ----
  // Some rank has seen that all have posted operation |sequence|.
  void publish_matched(uint64_t sequence);
  // Whether there is such an operation that not all are done with; never after a failure.
  bool is_under_way();
  // Waits until there is none, or for the deadline. Parks at once: whoever gives way leaves
  // its core to somebody.
  void await_over(const Deadline& deadline);

  // ---- barriers ----
  // Every rank goes through the same steps, numbered from 1 on. A rank may be at most two
  // steps ahead of the slowest: it awaits every step but those nobody reads its data in.
  void arrive(uint32_t rank, uint64_t step);
  bool all_arrived(uint64_t step);

  // ---- messages ----
  Mail& mail(uint32_t from, uint32_t to, uint64_t sequence) {
    return mails_[(uint64_t{from} * world_ + to) * kMails + sequence % kMails];
  }
  // Something in |rank|'s mail has changed.
  void notify_mail(uint32_t rank);
  Standing& standing(uint32_t rank);
  // The call that |rank| would post next, were its stream there: |print|, or none. For those who
  // say what it is at.
  void set_held(uint32_t rank, const Fingerprint& print);
  void clear_held(uint32_t rank);
  bool is_held(uint32_t rank, Fingerprint* out_print) const;
  Tally& tally(uint32_t rank, uint32_t peer) { return tallies_[uint64_t{rank} * world_ + peer]; }

  // ---- arrays of the forms with counts and offsets: |world| pairs a rank ----
  uint64_t* layout(uint32_t rank) { return layouts_ + uint64_t{rank} * world_ * 2; }

  // ---- waiting ----
  // Each waits until the condition holds, the communicator fails, a rank that it waits for is
  // absent or the deadline passes. The failure at the deadline names no rank.
  Status await_room(uint64_t sequence, Patience& patience);
  Status await_posts(uint64_t sequence, Patience& patience);
  Status await_step(uint64_t step, Patience& patience);
  // Until |ready|() says so; asked again whenever notify_mail(|rank|) was called.
  // |missing|(other): whether it waits for that rank. |look|() is called now and then while it
  // is parked, and may abort.
  template <typename Ready, typename Missing, typename Look>
  Status await_mail(uint32_t rank, const Ready& ready, const Missing& missing, const Look& look,
                    Patience& patience);
  // Whether |rank| has posted operation |sequence|, is done with it, or arrived at |step|.
  bool has_posted(uint32_t rank, uint64_t sequence);
  bool is_done(uint32_t rank, uint64_t sequence);
  bool has_arrived(uint32_t rank, uint64_t step);

  // ---- failures ----
  // The first one sticks; wakes all who wait.
  void abort(const Status& status);
  // The same by one who could not map |file|. Whoever is parked sees it within Patience::kSliceNs.
  static void abort_unmapped(const FileDescriptor& file, const Status& status);
  // KEEL_OK, or what it was aborted with.
  Status failure_status() const;
  bool failed() const;

  // ---- ranks that call no more ----
  enum class Absence : uint32_t {
    kNone,
    kLeft,  // in good order
    // With all that it had posted done:
    kDied,      // with its process
    kReplaced,  // with its program, by exec
  };
  // Whoever waits for |rank| fails from now on, and nobody else: what it was done with others still
  // may be at.
  void leave(uint32_t rank, Absence how = Absence::kLeft);
  Absence absence(uint32_t rank) const;
  bool has_left(uint32_t rank) const { return absence(rank) != Absence::kNone; }
  // The failure of those who wait for |rank|, which is absent; KEEL_OK where it is not.
  Status absence_status(uint32_t rank) const;
  static Status absence_status(Absence how, const std::string& name);
  // The first that has died so; KEEL_OK where none has.
  Status first_death() const;
  // How absent ranks are called in failures: "rank 3" unless this says so. Before anybody waits.
  void name_ranks_by(std::function<std::string(uint32_t)> name) { name_ = std::move(name); }
  // |rank| works with the others outside of what it posts, or no longer: it makes parts, or joins a
  // library.
  void set_busy(uint32_t rank, bool is_busy);
  // Whether |rank|, which does nothing any more, was done with all that it had begun.
  bool is_at_rest(uint32_t rank);

 private:
  struct Header;
  struct Cell;

  ControlSegment() = default;

  // |missing|(rank): whether it is that rank that |ready| waits for.
  template <typename Ready, typename Missing, typename Look>
  Status await(std::atomic<uint32_t>& word, const Ready& ready, const Missing& missing,
               const Look& look, Patience& patience);
  template <typename Ready, typename Missing>
  Status await(std::atomic<uint32_t>& word, const Ready& ready, const Missing& missing,
               Patience& patience) {
    return await(
        word, ready, missing, [] {}, patience);
  }
  // Why not to wait any longer.
  Status check_waiting(Patience& patience) const;
  // Sleeps until |word| is no longer |seen| and somebody says so, or for a slice.
  void park(std::atomic<uint32_t>& word, uint32_t seen, const Deadline& deadline);
  void wake(std::atomic<uint32_t>& word);
  Cell& cell(uint32_t rank) const;
  // Whether all ranks are done with the first |operations|.
  bool all_done(uint64_t operations);
  std::atomic<uint32_t>& post_count(uint64_t sequence);
  std::atomic<uint32_t>& step_count(uint64_t step);
  std::atomic<uint32_t>& mail_word(uint32_t rank);
  void begin_sleep();
  void end_sleep();
  void relax(uint32_t turn) const;
  bool poll_posts(uint64_t sequence, uint32_t turns);
  // Of those who wait for any change.
  void wake_sleepers();
  // Whether somebody is absent whom |missing| says so of.
  template <typename Missing>
  bool waits_for_absent(const Missing& missing) const;
  bool any_absent() const;

  void* memory_ = nullptr;
  uint64_t bytes_ = 0;
  Header* header_ = nullptr;
  Cell* cells_ = nullptr;
  Post* posts_ = nullptr;
  uint8_t* eager_ = nullptr;
  Mail* mails_ = nullptr;
  Tally* tallies_ = nullptr;
  uint64_t* layouts_ = nullptr;
  uint32_t world_ = 0;
  bool crowded_ = false;
  uint32_t spins_ = 0;             // turns of waiting before parking
  std::atomic<uint64_t> over_{0};  // operations known to be over on all ranks
  std::function<std::string(uint32_t)> name_;
};

template <typename Missing>
bool ControlSegment::waits_for_absent(const Missing& missing) const {
  for (uint32_t rank = 0; any_absent() && rank < world_; ++rank) {
    if (has_left(rank) && missing(rank)) return true;
  }
  return false;
}

template <typename Ready, typename Missing, typename Look>
Status ControlSegment::await(std::atomic<uint32_t>& word, const Ready& ready,
                             const Missing& missing, const Look& look, Patience& patience) {
  const uint32_t spins = patience.spins(spins_);
  for (uint32_t turn = 0; turn < spins; ++turn) {
    if (ready()) {
      patience.note_spins(true);
      return {};
    }
    relax(turn);
  }
  patience.note_spins(ready());
  while (true) {
    const uint32_t seen = word.load(std::memory_order_acquire);
    begin_sleep();
    const bool is_ready = ready();
    if (!is_ready && !failed() && !waits_for_absent(missing)) park(word, seen, patience.deadline());
    end_sleep();
    if (is_ready) return {};
    // What a rank did before it left, or died, counts.
    for (uint32_t rank = 0; any_absent() && rank < world_; ++rank) {
      if (!has_left(rank) || !missing(rank)) continue;
      // |missing| may go by what |ready| saw last, which was before the rank left.
      if (ready()) return {};
      if (missing(rank)) abort(absence_status(rank));
    }
    look();
    const Status status = check_waiting(patience);
    if (ready()) return {};
    if (!status.ok()) return status;
  }
}

template <typename Ready, typename Missing, typename Look>
Status ControlSegment::await_mail(uint32_t rank, const Ready& ready, const Missing& missing,
                                  const Look& look, Patience& patience) {
  return await(mail_word(rank), ready, missing, look, patience);
}

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_CONTROL_SEGMENT_H_
