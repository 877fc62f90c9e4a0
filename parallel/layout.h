// SPDX-License-Identifier: Apache-2.0
// The parameters of a stage: which this rank holds, in which unit, where.
#ifndef KEEL_PARALLEL_LAYOUT_H_
#define KEEL_PARALLEL_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <keel/parallel/model.hpp>
#include <string>
#include <vector>

namespace keel::parallel {

inline constexpr size_t kNone = SIZE_MAX;  // parameter absent in this architecture or stage

// Indexes into Layout::parameters.
struct LinearIds {
  size_t weight = kNone, bias = kNone;
};
struct NormIds {
  size_t gain = kNone, bias = kNone;
};
struct BlockIds {
  size_t unit = 0;
  NormIds attention_norm;
  LinearIds query, key, value, projection;
  NormIds mlp_norm;
  LinearIds gate, up;  // |gate| only in Llama; its rows precede those of |up| in memory
  LinearIds down;
};

// Where a stage lies in the model, and this rank in axis tp.
struct StagePlace {
  int64_t first_layer = 0;
  int64_t layers = 0;
  bool first = true, last = true;  // embeds; computes the loss
  int64_t tensor_rank = 0, tensor_parts = 1;
  bool sequence = false;  // sequence parallelism
};

// Interval of |size| equal things that rank |rank| of |parts| holds; intervals differ by one thing
// at most.
struct PartOf {
  int64_t begin, end;
  int64_t count() const { return end - begin; }
};
constexpr PartOf part_of(int64_t size, int64_t rank, int64_t parts) {
  return {size * rank / parts, size * (rank + 1) / parts};
}

struct Layout {
  Layout(const ModelShape& shape, const StagePlace& place);

  std::vector<Unit> units;
  std::vector<Parameter> parameters;
  size_t tokens = kNone;  // [vocabulary, width], on the first stage, and GPT-2's last
  size_t positions = kNone;
  std::vector<BlockIds> blocks;
  NormIds norm;
  size_t head = kNone;  // == tokens in GPT-2

 private:
  // |grain|: indexes of |axis| that no boundary between ranks divides, such as those of a head.
  size_t add(const std::string& name, std::vector<int64_t> shape, int axis, float deviation,
             float mean = 0, int64_t grain = 1);
  LinearIds add_linear(const std::string& name, int64_t outputs, int64_t inputs, int axis,
                       float deviation, int64_t grain = 1);
  NormIds add_norm(const std::string& name);
  void begin_unit(const std::string& name) { units.emplace_back().name = name; }
  // Gives the last unit's parameters their offsets: partial ones, other vectors, then matrices.
  void end_unit();

  const ModelShape shape_;
  const StagePlace place_;
};

// Initial values of the whole tensor; a function of the name and |seed| alone, so that every mesh
// begins with the same model.
std::vector<float> initial_values(const Parameter& parameter, uint64_t seed);
// The shard's part of a whole tensor, and back.
std::vector<float> shard_of(const Parameter& parameter, const std::vector<float>& whole);
void put_shard(const Parameter& parameter, const std::vector<float>& shard,
               std::vector<float>& whole);

}  // namespace keel::parallel

#endif  // KEEL_PARALLEL_LAYOUT_H_
