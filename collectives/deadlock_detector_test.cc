// SPDX-License-Identifier: Apache-2.0
// Deadlock detection on random programs, legal and not, run in random order, with a search after
// every step and amid some: true deadlocks are found, and no others.
#include "collectives/deadlock_detector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

using keel::DeadlockDetector;
using keel::PeerInfo;
using keel::Team;
using keel::Transfer;

// One operation of a rank: a collective if there are no messages.
struct Step {
  std::vector<Transfer> messages;
  keel_collective collective = KEEL_BARRIER;
  bool is_buffered = false;  // the sends
};
using Program = std::vector<Step>;

std::shared_ptr<Team> make_team(uint32_t world) {
  std::vector<PeerInfo> peer_infos(world);
  for (uint32_t rank = 0; rank < world; ++rank) {
    peer_infos[rank].rank = rank;
    peer_infos[rank].device = "cpu:0";
    peer_infos[rank].process = {};
  }
  std::shared_ptr<Team> team;
  EXPECT_TRUE(Team::create_local(std::move(peer_infos), &team).ok());
  return team;
}

Transfer message(bool sends, uint32_t peer) {
  Transfer transfer;
  transfer.sends = sends;
  transfer.peer = peer;
  transfer.count = 8;
  transfer.dtype = KEEL_FLOAT32;
  return transfer;
}
Step send(uint32_t peer) {
  return {{message(true, peer)}, KEEL_BARRIER, false};
}
Step receive(uint32_t peer) {
  return {{message(false, peer)}, KEEL_BARRIER, false};
}

// Performs the ranks' updates of the segment, without moving data.
class Machine {
 public:
  explicit Machine(std::vector<Program> programs)
      : team_(make_team(static_cast<uint32_t>(programs.size()))) {
    for (Program& program : programs) {
      ranks_.emplace_back();
      ranks_.back().program = std::move(program);
      ranks_.back().sent.resize(programs.size());
      ranks_.back().received.resize(programs.size());
    }
  }

  // |rank| begins its next operation, or ends the current one; returns whether possible.
  bool step(uint32_t rank) {
    Rank& self = ranks_[rank];
    if (!self.is_at && self.next == self.program.size()) return false;
    if (!self.is_at) {
      begin(rank);
    } else if (can_end(rank)) {
      end(rank);
    } else {
      return false;
    }
    return true;
  }
  // Steps any rank that can proceed.
  bool step_any(std::mt19937& random) {
    std::vector<uint32_t> order;
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) order.push_back(rank);
    std::shuffle(order.begin(), order.end(), random);
    return std::any_of(order.begin(), order.end(), [&](uint32_t rank) { return step(rank); });
  }
  // Returns a cycle found by some rank now, or an empty list.
  std::vector<uint32_t> look() {
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      if (!is_at_messages(rank)) continue;
      std::vector<uint32_t> circle = deadlock(rank).find();
      if (!circle.empty()) return circle;
    }
    return {};
  }
  DeadlockDetector deadlock(uint32_t rank) { return {*team_, rank, ranks_[rank].sequence}; }
  std::string standings(uint32_t rank) {
    return keel::describe_progress_of_all(*team_, ranks_[rank].sequence);
  }
  // Covers all searches so far, also those amid the begin of an operation.
  bool has_found() const { return has_found_; }
  bool are_all_over() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) {
      return !rank.is_at && rank.next == rank.program.size();
    });
  }
  bool are_all_at_something() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.is_at; });
  }
  void note() { has_found_ = has_found_ || !look().empty(); }

 private:
  struct Rank {
    Program program;
    size_t next = 0;
    bool is_at = false;  // in operation |next|
    uint64_t sequence = 0;
    std::vector<uint64_t> sent;
    std::vector<uint64_t> received;
  };

  bool is_at_messages(uint32_t rank) const {
    return ranks_[rank].is_at && !ranks_[rank].program[ranks_[rank].next].messages.empty();
  }
  void begin(uint32_t rank) {
    Rank& self = ranks_[rank];
    const Step& step = self.program[self.next];
    if (step.messages.empty()) {
      team_->segment().board().descriptor(rank, self.sequence).fingerprint.collective =
          static_cast<uint8_t>(step.collective);
      team_->segment().board().publish(rank, self.sequence++);
    } else {
      for (const Transfer& transfer : step.messages) {
        ++(transfer.sends ? self.sent : self.received)[transfer.peer];
      }
      const auto look_meanwhile = [&](uint64_t number) {
        note();
        return number;
      };
      keel::begin_messages(
          team_->segment().messages(), rank, step.messages,
          [&](uint32_t peer) { return look_meanwhile(self.sent[peer]); },
          [&](uint32_t peer) { return look_meanwhile(self.received[peer]); });
      for (const Transfer& transfer : step.messages) {
        if (!transfer.sends || step.is_buffered) continue;
        note();
        team_->segment().messages().counters(rank, transfer.peer).awaited_sends =
            self.sent[transfer.peer];
      }
    }
    self.is_at = true;
  }
  bool can_end(uint32_t rank) {
    const Rank& self = ranks_[rank];
    const Step& step = self.program[self.next];
    if (step.messages.empty()) return team_->segment().board().all_published(self.sequence - 1);
    return std::all_of(step.messages.begin(), step.messages.end(), [&](const Transfer& transfer) {
      const Rank& peer = ranks_[transfer.peer];
      if (transfer.sends && step.is_buffered) return true;
      return transfer.sends ? peer.received[rank] >= self.sent[transfer.peer]
                            : peer.sent[rank] >= self.received[transfer.peer];
    });
  }
  void end(uint32_t rank) {
    Rank& self = ranks_[rank];
    if (self.program[self.next].messages.empty()) {
      team_->segment().board().publish_done(rank, self.sequence - 1, false);
    } else {
      keel::end_messages(team_->segment().messages(), rank);
    }
    self.is_at = false;
    ++self.next;
  }

  const std::shared_ptr<Team> team_;
  std::vector<Rank> ranks_;
  bool has_found_ = false;
};

// Draws the parts of all ranks in matching messages and collectives; in groups, in ordered pairs of
// send and receive, crosswise, or in one direction.
std::vector<Program> draw_programs(uint32_t world, std::mt19937& random) {
  const auto below = [&](uint32_t limit) { return static_cast<uint32_t>(random() % limit); };
  std::vector<Program> programs(world);
  const uint32_t steps = 1 + below(6);
  for (uint32_t i = 0; i < steps; ++i) {
    const uint32_t one = below(world);
    const uint32_t other = below(world);
    switch (below(5)) {
      case 4:  // both send, and then both receive
        if (one == other) break;
        for (const auto& [self, peer] : {std::pair(one, other), std::pair(other, one)}) {
          programs[self].push_back({{message(true, peer)}, KEEL_BARRIER, /*is_buffered=*/true});
          programs[self].push_back(receive(peer));
        }
        break;
      case 0:
        for (Program& program : programs) program.push_back({});
        break;
      case 1:  // around the ring, in a group
        for (uint32_t rank = 0; rank < world; ++rank) {
          programs[rank].push_back(
              {{message(true, (rank + 1) % world), message(false, (rank + world - 1) % world)}});
        }
        break;
      case 2:  // there and back
        if (one == other) break;
        programs[one].push_back(send(other));
        programs[one].push_back(receive(other));
        programs[other].push_back(receive(one));
        programs[other].push_back(send(one));
        break;
      default:  // several, also to the rank itself
        programs[one].push_back({{message(true, other), message(true, other)}});
        if (one == other) {
          programs[one].back().messages.push_back(message(false, one));
          programs[one].back().messages.push_back(message(false, one));
        } else {
          programs[other].push_back({{message(false, one), message(false, one)}});
        }
    }
  }
  return programs;
}

void run(Machine& machine, std::mt19937& random) {
  do {
    machine.note();
  } while (machine.step_any(random));
  machine.note();
}

constexpr uint32_t kPrograms = 3000;

TEST(DeadlockDetector, NeverOfALegalProgram) {
  std::mt19937 random(1);
  for (uint32_t i = 0; i < kPrograms; ++i) {
    Machine machine(draw_programs(1 + i % 5, random));
    run(machine, random);
    ASSERT_TRUE(machine.are_all_over()) << "program " << i;
    ASSERT_FALSE(machine.has_found()) << "program " << i;
  }
}

// A mistake may be harmless. A harmful mistake is found unless some rank has no operations left,
// since the rank might still call. A found deadlock never resolves.
TEST(DeadlockDetector, AlwaysOfRanksThatAllWait) {
  std::mt19937 random(2);
  uint32_t stuck = 0;
  uint32_t harmless = 0;
  for (uint32_t i = 0; i < kPrograms; ++i) {
    std::vector<Program> programs = draw_programs(2 + i % 4, random);
    Program& odd = programs[random() % programs.size()];
    if (odd.empty()) continue;
    const size_t at = random() % odd.size();
    switch (random() % 3) {
      case 0:
        std::swap(odd[at], odd[random() % odd.size()]);
        break;
      case 1:
        odd.erase(odd.begin() + static_cast<long>(at));
        break;
      default:
        odd[at] = random() % 2 == 0 ? send(random() % programs.size()) : Step();
    }
    Machine machine(programs);
    run(machine, random);
    if (machine.are_all_over()) {
      ++harmless;
      ASSERT_FALSE(machine.has_found()) << "program " << i;
    } else if (machine.are_all_at_something()) {
      ++stuck;
      ASSERT_TRUE(machine.has_found()) << "program " << i;
    }
  }
  EXPECT_GT(stuck, kPrograms / 10);
  EXPECT_GT(harmless, kPrograms / 10);
}

void step_all(Machine& machine, uint32_t world) {
  for (uint32_t rank = 0; rank < world; ++rank) EXPECT_TRUE(machine.step(rank));
}

TEST(DeadlockDetector, NamesTheOddRank) {
  Machine machine({{Step()}, {send(0)}, {Step()}});
  machine.step(0);
  machine.step(1);
  const DeadlockDetector deadlock = machine.deadlock(1);
  EXPECT_EQ(deadlock.find(), (std::vector<uint32_t>{1, 0}));
  EXPECT_FALSE(deadlock.are_all_there());
  EXPECT_STREQ(deadlock.failure_of({1, 0}).text(),
               "mismatch: rank 1 (cpu:0, process 0) called send(8 float32 to rank 0), rank 0 "
               "(cpu:0, process 0) called barrier(): each waits for the next, and the last for the "
               "first");
  machine.step(2);
  EXPECT_TRUE(deadlock.are_all_there());
  EXPECT_STREQ(deadlock.failure_of(deadlock.find()).text(),
               "mismatch: rank 1 (cpu:0, process 0) called send(8 float32 to rank 0), all others "
               "barrier()");
  EXPECT_EQ(machine.standings(1),
            "rank 0 is at barrier(), rank 1 at send(8 float32 to rank 0), rank 2 at barrier()");
}

TEST(DeadlockDetector, GoesAroundThroughAllRanks) {
  Machine machine({{receive(1)}, {receive(2)}, {receive(3)}, {receive(0)}});
  step_all(machine, 4);
  EXPECT_EQ(machine.deadlock(2).find(), (std::vector<uint32_t>{2, 3, 0, 1}));
  // To the rank itself, without a receive.
  Machine alone({{send(0)}});
  step_all(alone, 1);
  EXPECT_EQ(alone.deadlock(0).find(), std::vector<uint32_t>{0});
  EXPECT_STREQ(alone.deadlock(0).failure_of({0}).text(),
               "mismatch: rank 0 (cpu:0, process 0) called send(8 float32 to rank 0), and nothing "
               "that goes with it");
}

// A rank outside any operation may still call.
TEST(DeadlockDetector, WaitsForRanksThatMayStillCome) {
  Machine machine({{receive(1)}, {receive(2)}, {send(1)}, {Step()}});
  machine.step(0);
  machine.step(1);
  machine.step(3);
  EXPECT_TRUE(machine.look().empty());
  EXPECT_EQ(machine.standings(0),
            "rank 0 is at recv(8 float32 from rank 1), rank 1 at recv(8 float32 from rank 2), "
            "rank 2 at nothing, rank 3 at barrier()");
}

// With more ranks than one search visits, direct cycles are still found.
TEST(DeadlockDetector, AmongVeryManyRanks) {
  constexpr uint32_t kWorld = 1000;
  std::vector<Program> programs(kWorld, {Step()});
  programs[999] = {send(998)};
  Machine machine(programs);
  step_all(machine, kWorld);
  EXPECT_EQ(machine.deadlock(999).find(), (std::vector<uint32_t>{999, 998}));
}

}  // namespace
