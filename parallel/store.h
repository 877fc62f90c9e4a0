// SPDX-License-Identifier: Apache-2.0
// Where a stage's values and gradients are while layers use them, and how the ranks of axis dp add
// their gradients. Data parallelism and ZeRO are one class with a level, since they differ only in
// what a rank keeps whole:
//
//   level  values  gradients  moments   sent for B bytes of parameters on n ranks, a step
//   0      whole   whole      whole     all_reduce: 2 (n-1)/n B
//   1      whole   whole      shard     reduce_scatter + all_gather: 2 (n-1)/n B
//   2      whole   shard      shard     the same; the reduce_scatter for each micro-batch
//   3      shard   shard      shard     each micro-batch: all_gather forward and backward,
//                                       reduce_scatter: 3 (n-1)/n B
//
//   backward, level 0:  compute: [block 3][block 2][block 1][block 0]
//                       lane:             [bucket b: 3, 2]  [bucket a: 1, 0, urgent]
//   forward, level 3:   lane:    [gather 0][gather 1][gather 2]
//                       compute:           [block 0 ][block 1 ][block 2 ]
//
// Level 0's last bucket holds the layers that the next forward pass begins with, so it goes on the
// urgent lane, past the buckets before.
// Sources: Li et al., "PyTorch Distributed", VLDB 2020 (buckets); Rajbhandari et al., "ZeRO", SC
// 2020; Zhao et al., "PyTorch FSDP", VLDB 2023 (units, prefetch).
#ifndef KEEL_PARALLEL_STORE_H_
#define KEEL_PARALLEL_STORE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <keel/keel.hpp>
#include <keel/parallel/model.hpp>
#include <keel/parallel/traffic.hpp>
#include <optional>
#include <vector>

#include "parallel/layout.h"
#include "parallel/tensors.h"

namespace keel::parallel {

struct StoreSettings {
  int64_t level = 0;  // of ZeRO
  int64_t bucket_bytes = 25 << 20;
  bool check_gradients = true;  // remember which units got a gradient that is not finite
  bool rounded = false;         // products read bfloat16 copies
};

// The channels of a stage's parameters; of one rank where an axis has one.
struct StoreChannels {
  Channel data, urgent_data;                // two lanes of axis dp
  Channel tensor;                           // axis tp, for partial gradients
  StepRecorder* const* recorder = nullptr;  // as ChannelSpans::recorder, for the layers
};

// Not thread-safe. All members only enqueue; layers call from one thread, on the memory's stream.
class Store {
 public:
  // |layout| outlives the store.
  Store(Memory& memory, const Layout& layout, const StoreSettings& settings,
        const StoreChannels& channels);
  ~Store();

  const Layout& layout() const { return layout_; }
  int64_t level() const { return settings_.level; }

  // Before the first micro-batch of a step: gradients become 0; each unit's are complete after
  // |micro_batches| releases.
  void begin_step(int64_t micro_batches);
  // After the last: the stream waits for all sums.
  void end_step();

  // The stream may read the unit's values between acquire and release; calls nest. |next|: a unit
  // to prefetch, or kNone.
  void acquire_values(size_t unit, size_t next = kNone);
  void release_values(size_t unit);
  // The stream may add to the unit's gradients from acquire_gradients(), which may be repeated,
  // until release_gradients(), once a micro-batch.
  void acquire_gradients(size_t unit);
  void release_gradients(size_t unit);

  keel_tensor value(size_t parameter) const;  // in the shape of the rank's tensor-parallel shard
  keel_tensor gradient(size_t parameter) const;
  // [rows of first + rows of second, columns], of two parameters that adjoin.
  keel_tensor value_pair(size_t first, size_t second) const;
  // The same as products read them: with StoreSettings::rounded in bfloat16, from a copy of the
  // unit that the first use in a step makes.
  keel_tensor product_value(size_t parameter);
  keel_tensor product_value_pair(size_t first, size_t second);
  keel_tensor gradient_pair(size_t first, size_t second) const;

  // The part that this rank's optimizer updates: elements [begin, end) of the unit, and after
  // end_step() their gradients. The tensors are flat and have owned_size() elements; those from
  // |end - begin| on are padding.
  struct Owned {
    int64_t begin = 0, end = 0;
    keel_tensor values, gradients;
  };
  Owned owned(size_t unit) const;
  int64_t owned_size(size_t unit) const;  // elements, padding included
  // Distributes what the optimizer has written.
  void publish_values();

  // Copies a unit's values from or to the host: all elements of the rank's tensor-parallel shard.
  // Every rank of axis dp calls; waits.
  void upload(size_t unit, const std::vector<float>& values);
  std::vector<float> download_values(size_t unit);
  std::vector<float> download_gradients(size_t unit);  // after end_step()

  // True for each unit whose gradient in the last step was not finite on this rank, before any sum.
  // Waits.
  std::vector<bool> not_finite();

  // For tests of the proof: called in the stead of the sum over axis dp for a unit; null for none.
  std::function<void(size_t unit, const std::function<void()>& reduce)> intercept;

 private:
  struct State {
    Tensor values, gradients;            // whole; empty while not held
    Tensor rounded;                      // bfloat16 copy of |values|; empty while out of date
    Tensor value_shard, gradient_shard;  // levels 3 and 2
    int uses = 0;                        // of the values
    int64_t releases = 0;                // of the gradients, this step
    bool gathering = false;
    std::optional<Event> gathered;  // level 3: |values| are complete
  };
  // Gradients that the lane still reads.
  struct Draining {
    Tensor gradients;
    Event done;
  };

  int64_t padded(size_t unit) const;
  int64_t shard(size_t unit) const { return padded(unit) / channels_.data.ranks(); }
  keel_tensor view(const keel_tensor& flat, size_t parameter) const;
  keel_tensor whole_values(size_t unit) const;
  void gather(size_t unit);
  void lane_waits();
  void complete(size_t unit);       // the last micro-batch's release
  void reduce_bucket(bool urgent);  // level 0
  void reduce_unit(size_t unit);    // levels 1 to 3
  void drain(size_t keep);
  std::vector<float> download(const keel_tensor& flat, size_t unit);

  Memory& memory_;
  Stream& stream_;
  const Layout& layout_;
  StoreSettings settings_;
  StoreChannels channels_;
  Stream lane_, urgent_lane_;
  Event ready_, lane_done_;
  std::vector<State> states_;
  // Levels 0 and 1: all units' gradients, one after the other, so that a bucket is one range.
  Tensor all_values_, all_gradients_;
  std::vector<int64_t> starts_;
  std::vector<size_t> bucket_;  // complete units that wait for the bucket's others
  std::deque<Draining> draining_;
  int64_t micro_batches_ = 1;
  size_t completed_ = 0;
  Tensor squares_, found_;  // [units]
};

}  // namespace keel::parallel

#endif  // KEEL_PARALLEL_STORE_H_
