// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_CCL_LOCAL_RANK_H_
#define KEEL_EMULATOR_CCL_LOCAL_RANK_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "emulator/ccl/clique.h"
#include "emulator/ccl/rank_endpoint.h"

namespace keel::emulator::ccl {

// A rank's endpoint in a clique of this process, also on behalf of a remote rank: the bytes that
// remote ranks send are stored in their parts.
class LocalRank : public RankEndpoint {
 public:
  LocalRank(std::shared_ptr<Clique> clique, uint32_t rank)
      : clique_(std::move(clique)), rank_(rank) {}

  uint32_t world() const override { return clique_->world(); }
  Membership next(const Call& call) override { return clique_->next(rank_, call); }
  void arrive(const Membership& self) override { clique_->arrive(*self.operation); }
  Status compute(const Membership& self) override;
  void finish_reading(const Membership& self) override { clique_->finish_reading(*self.operation); }

  void abort() override { clique_->abort(rank_); }
  bool is_aborted() const override { return clique_->is_aborted(rank_); }
  void report(const Status& status) override { clique_->report(rank_, status); }
  Status error() const override { return clique_->error(rank_); }

 private:
  // Returns the host address of |piece| bytes from |offset| of rank |peer|'s send buffer.
  Status reach(const Operation::Part& part, uint32_t peer, uint64_t offset, uint64_t piece,
               std::vector<Access>& accesses, const std::byte** out_data) const;

  const std::shared_ptr<Clique> clique_;
  const uint32_t rank_;
};

}  // namespace keel::emulator::ccl

#endif  // KEEL_EMULATOR_CCL_LOCAL_RANK_H_
