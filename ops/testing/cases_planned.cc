// SPDX-License-Identifier: Apache-2.0
// Cases from the plans. For each operator:
//
//   pairwise/    dtypes, extents, attributes, optional inputs, in-place outputs and start
//                offsets: each pair of levels of two factors occurs in some case
//   strided/     the same with gaps between rows, axes in another order, or one row for all,
//                if kernels take such tensors
//   alone/       one tensor starts unaligned or has gaps, all others are usual: catches kernels
//                that do not check this tensor
//   content/     one input is not finite, faint or zero, all others are usual
//   lone/        one NaN, infinity or large number in a row: at the row's ends, and on both
//                sides of each power of two at which a kernel may split the row
#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "ops/schema.h"
#include "ops/testing/case_builder.h"
#include "ops/testing/case_generators.h"
#include "ops/testing/case_plans.h"
#include "ops/testing/pairwise.h"

namespace keel::ops {
namespace {

using D = Distribution;

// Pairs of an output and the input it replaces.
using Places = std::vector<std::pair<uint32_t, uint32_t>>;

enum class Layout : uint8_t {
  kDense,
  kOffset,      // each tensor starts further into its allocation than the previous one, aligned
  kUnaligned,   // likewise, aligned to elements only
  kPadded,      // a different gap between rows for each tensor, and an unaligned start
  kApart,       // gaps that keep rows aligned
  kTransposed,  // inputs stored with their axes in reverse order
  kRepeated     // all rows of the first input are the same row
};

struct NamedLayout {
  Layout layout;
  const char* text;
};
constexpr NamedLayout kWhole[] = {
    {Layout::kDense, ""}, {Layout::kOffset, "/offset"}, {Layout::kUnaligned, "/unaligned"}};
constexpr NamedLayout kStrided[] = {{Layout::kPadded, "/padded"},
                                    {Layout::kApart, "/apart"},
                                    {Layout::kTransposed, "/transposed"},
                                    {Layout::kRepeated, "/repeated"}};

// Returns tensor number |index| of a call in |layout|.
CaseTensor laid_out(CaseTensor tensor, Layout layout, uint32_t index, bool is_input) {
  const bool has_rows = tensor.shape.size() > 1;
  switch (layout) {
    case Layout::kDense:
      return tensor;
    case Layout::kOffset:
      return shifted(std::move(tensor), 64 * (index + 1));
    case Layout::kUnaligned:
      return shifted(std::move(tensor), index + 1);
    case Layout::kPadded:
      return has_rows ? shifted(padded(std::move(tensor), 3 + index), index + 1) : tensor;
    case Layout::kApart:
      return has_rows ? padded(std::move(tensor), 64 * (index + 1)) : tensor;
    case Layout::kTransposed:
      return is_input && has_rows ? transposed(std::move(tensor)) : tensor;
    case Layout::kRepeated:
      return is_input && index == 0 && has_rows ? broadcast(std::move(tensor)) : tensor;
  }
  return tensor;
}

bool is_float(keel_dtype dtype) {
  return dtype != KEEL_INT32 && dtype != KEEL_UINT8 && dtype != KEEL_INT64;
}

// One case's level of each factor.
struct Choice {
  uint32_t combination = 0;
  PlannedCall call;
  uint32_t left_out = 0;  // bit i: input i
  Places places;
  NamedLayout layout = kWhole[0];
};

class Planner {
 public:
  explicit Planner(const CasePlan& plan)
      : plan_(plan), schema_(*find_schema(plan.op)), combinations_(common_combinations(plan.op)) {
    add_optional_groups();
    add_places();
  }

  std::vector<Case> cases() {
    add_pairs("pairwise/", kWhole, std::size(kWhole), /*few_extents=*/false);
    if (plan_.is_strided) {
      add_pairs("strided/", kStrided, std::size(kStrided), /*few_extents=*/true);
    }
    add_unaligned_alone();
    add_strided_alone();
    add_contents();
    add_lone();
    return std::move(cases_);
  }

 private:
  void add_optional_groups() {
    uint32_t together = 0;
    for (const uint32_t input : plan_.together) together |= 1U << input;
    if (together != 0) optional_.push_back(together);
    for (uint32_t i = 0; i < schema_.inputs.size(); ++i) {
      if (schema_.inputs[i].optional && (together >> i & 1) == 0) optional_.push_back(1U << i);
    }
  }

  // No pair, each pair alone, and with several outputs the first pair of each.
  void add_places() {
    places_.emplace_back();
    Places all;
    for (uint32_t o = 0; o < schema_.outputs.size(); ++o) {
      bool is_first = true;
      for (uint32_t i = 0; i < schema_.inputs.size(); ++i) {
        if ((schema_.outputs[o].in_place >> i & 1) == 0) continue;
        places_.push_back({{o, i}});
        if (is_first) all.emplace_back(o, i);
        is_first = false;
      }
    }
    if (all.size() > 1) places_.push_back(all);
  }

  bool can_share(uint32_t combination, const Places& places) const {
    const DtypeCombination& dtypes = schema_.dtypes[combination];
    for (const auto& [output, input] : places) {
      if (dtypes.outputs[output] != dtypes.inputs[input]) return false;
    }
    return true;
  }

  Choice usual() const {
    Choice choice;
    for (const auto& part : plan_.extents) {
      choice.call.extents.insert(choice.call.extents.end(), part[0].begin(), part[0].end());
    }
    for (const auto& values : plan_.attributes) choice.call.attributes.push_back(values[0]);
    return choice;
  }

  // Makes a case with the plan's tensors, modified by |change|.
  template <typename Change>
  Case make(const Choice& choice, const std::string& prefix, const std::string& suffix,
            const Change& change) const {
    PlannedTensors tensors = planned_tensors(plan_, choice.combination, choice.call);
    uint32_t number = 0;
    const auto lay_out = [&](CaseTensor* tensor, bool is_input, bool is_packed) {
      const Layout layout = choice.layout.layout;
      const bool stays_dense = is_packed && layout >= Layout::kPadded;
      if (!stays_dense) *tensor = laid_out(std::move(*tensor), layout, number, is_input);
      ++number;
    };
    for (size_t i = 0; i < tensors.inputs.size(); ++i) {
      lay_out(&tensors.inputs[i], true, schema_.inputs[i].packed);
    }
    for (size_t o = 0; o < tensors.outputs.size(); ++o) {
      lay_out(&tensors.outputs[o], false, schema_.outputs[o].packed);
    }
    change(tensors);
    for (size_t i = 0; i < tensors.inputs.size(); ++i) {
      if ((choice.left_out >> i & 1) != 0) tensors.inputs[i] = absent();
    }
    Case made = planned_case(plan_, choice.combination, choice.call, std::move(tensors), prefix,
                             choice.layout.text + suffix);
    for (const auto& [output, input] : choice.places) {
      made = in_place(std::move(made), output, input);
    }
    return made;
  }

  Case make(const Choice& choice, const std::string& prefix) const {
    return make(choice, prefix, "", [](PlannedTensors&) {});
  }

  // |few_extents|: only the odd ones, and those just above a block.
  void add_pairs(const char* prefix, const NamedLayout* layouts, size_t layout_count,
                 bool few_extents) {
    std::vector<size_t> levels = {combinations_};
    for (const auto& part : plan_.extents) levels.push_back(few_extents ? 2 : part.size());
    for (const auto& values : plan_.attributes) levels.push_back(values.size());
    for (size_t i = 0; i < optional_.size(); ++i) levels.push_back(2);
    const size_t place_factor = levels.size();
    levels.push_back(places_.size());
    levels.push_back(layout_count);

    std::vector<Exclusion> exclusions;
    for (size_t p = 0; p < places_.size(); ++p) {
      for (uint32_t c = 0; c < combinations_; ++c) {
        if (!can_share(c, places_[p])) exclusions.push_back({place_factor, p, 0, c});
      }
      for (size_t group = 0; group < optional_.size(); ++group) {
        for (const auto& [output, input] : places_[p]) {
          if ((optional_[group] >> input & 1) == 0) continue;
          exclusions.push_back({place_factor, p, place_factor - optional_.size() + group, 1});
        }
      }
      for (size_t l = 0; l < layout_count; ++l) {
        if (p == 0 || layouts[l].layout != Layout::kRepeated) continue;
        exclusions.push_back({place_factor, p, place_factor + 1, l});
      }
    }

    for (const std::vector<size_t>& row : pairwise(levels, exclusions)) {
      size_t factor = 0;
      Choice choice;
      choice.combination = static_cast<uint32_t>(row[factor++]);
      for (const auto& part : plan_.extents) {
        const size_t level = row[factor++];
        const Extents& some = part[few_extents && level == 1 ? part.size() - 3 : level];
        choice.call.extents.insert(choice.call.extents.end(), some.begin(), some.end());
      }
      for (const auto& values : plan_.attributes) {
        choice.call.attributes.push_back(values[row[factor++]]);
      }
      for (const uint32_t group : optional_) {
        if (row[factor++] != 0) choice.left_out |= group;
      }
      choice.places = places_[row[factor++]];
      choice.layout = layouts[row[factor]];
      cases_.push_back(make(choice, prefix));
    }
  }

  uint32_t next_combination() { return static_cast<uint32_t>(turn_++ % combinations_); }

  // Adds one case for each tensor, with the layout from |change|. Tensors that |change| leaves
  // unmodified get no case.
  template <typename Change>
  void add_alone(Choice choice, const char* suffix, const Change& change) {
    const auto add = [&](bool is_input, uint32_t index, const char* name, bool is_packed) {
      choice.combination = next_combination();
      const auto tensor_of = [&](PlannedTensors& tensors) -> CaseTensor& {
        return is_input ? tensors.inputs[index] : tensors.outputs[index];
      };
      PlannedTensors dense_ones = planned_tensors(plan_, choice.combination, choice.call);
      const CaseTensor& dense_one = tensor_of(dense_ones);
      const CaseTensor changed = change(dense_one, is_packed);
      if (changed.strides == dense_one.strides && changed.offset == 0) return;
      cases_.push_back(make(choice, "alone/", std::string("/") + name + suffix,
                            [&](PlannedTensors& tensors) { tensor_of(tensors) = changed; }));
    };
    for (uint32_t i = 0; i < schema_.inputs.size(); ++i) {
      add(true, i, schema_.inputs[i].name, schema_.inputs[i].packed);
    }
    for (uint32_t o = 0; o < schema_.outputs.size(); ++o) {
      add(false, o, schema_.outputs[o].name, schema_.outputs[o].packed);
    }
  }

  void add_unaligned_alone() {
    Choice choice = usual();
    choice.call.extents.clear();
    for (const auto& part : plan_.extents) {
      const Extents& aligned = part[part.size() - 2];
      choice.call.extents.insert(choice.call.extents.end(), aligned.begin(), aligned.end());
    }
    add_alone(choice, "_unaligned",
              [](const CaseTensor& tensor, bool) { return shifted(tensor, 1); });
  }

  void add_strided_alone() {
    add_alone(usual(), "_strided", [](const CaseTensor& tensor, bool is_packed) {
      return is_packed ? tensor : padded(tensor, 3);
    });
  }

  // Returns whether input |index| of |tensors| takes any number.
  bool takes_any(const PlannedTensors& tensors, uint32_t index, uint32_t combination) const {
    const D distribution = tensors.inputs[index].distribution;
    return is_float(schema_.dtypes[combination].inputs[index]) && distribution != D::kPositive &&
           distribution != D::kPowerOfTwo && distribution != D::kLogSumExp;
  }

  void add_contents() {
    if (plan_.op == KEEL_OP_CAST) return;  // ops/testing/cases_rounding.cc covers all values
    constexpr std::pair<D, const char*> kContents[] = {
        {D::kNonFinite, "_not_finite"}, {D::kFaint, "_faint"}, {D::kZeroes, "_zeroes"}};
    Choice choice = usual();
    const PlannedTensors tensors = plan_.tensors(choice.call);
    for (uint32_t i = 0; i < schema_.inputs.size(); ++i) {
      for (const auto& [distribution, text] : kContents) {
        choice.combination = next_combination();
        if (!takes_any(tensors, i, choice.combination)) continue;
        // Packed weights are checked through a product, which turns infinities into NaN.
        if (schema_.outputs[0].packed && distribution == D::kNonFinite) continue;
        // The product of two faint numbers is out of float16's range.
        const bool is_too_faint = distribution == D::kFaint &&
                                  schema_.dtypes[choice.combination].inputs[i] == KEEL_FLOAT16;
        if (is_too_faint) choice.combination = 0;
        cases_.push_back(make(choice, "content/", std::string("/") + schema_.inputs[i].name + text,
                              [&, distribution = distribution](PlannedTensors& t) {
                                t.inputs[i].distribution = distribution;
                              }));
      }
    }
  }

  void add_lone() {
    if (plan_.rows == nullptr) return;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const std::pair<const char*, double> lone[] = {{"_nan", std::nan("")},
                                                   {"_inf", kInfinity},
                                                   {"_minus_inf", -kInfinity},
                                                   {"_large", 0x1p60}};
    const int64_t columns[] = {67, 515, 2050};
    for (const auto& row : pairwise({combinations_, std::size(columns), std::size(lone)})) {
      Choice choice = usual();
      choice.combination = static_cast<uint32_t>(row[0]);
      choice.call.extents = plan_.rows(columns[row[1]]);
      const auto& [text, value] = lone[row[2]];
      const PlannedTensors usual_tensors = plan_.tensors(choice.call);
      for (uint32_t i = 0; i < schema_.inputs.size(); ++i) {
        const bool has_rows = usual_tensors.inputs[i].shape == usual_tensors.inputs[0].shape;
        if (!has_rows || !takes_any(usual_tensors, i, choice.combination)) continue;
        cases_.push_back(make(choice, "lone/", std::string("/") + schema_.inputs[i].name + text,
                              [&, value = value](PlannedTensors& t) {
                                set_lone(&t.inputs[i], value, columns[row[1]]);
                              }));
      }
    }
  }

  static void set_lone(CaseTensor* tensor, double value, int64_t columns) {
    tensor->distribution = D::kLone;
    tensor->bound = columns;
    tensor->lone = std::isfinite(value) && tensor->dtype == KEEL_FLOAT16 ? 60000 : value;
    tensor->places.clear();
    for (const int64_t place : {0, 1, 31, 32, 63, 64, 255, 256, 511, 512, 1024, 2047, 2048}) {
      tensor->places.push_back(place < columns ? place : -1);
    }
    tensor->places.push_back(columns - 1);
  }

  const CasePlan& plan_;
  const Schema& schema_;
  const uint32_t combinations_;
  std::vector<uint32_t> optional_;  // bits of inputs that are omitted together
  std::vector<Places> places_;
  size_t turn_ = 0;
  std::vector<Case> cases_;
};

}  // namespace

std::vector<Case> planned_cases(keel_op_id op) {
  const CasePlan* const plan = find_plan(op);
  return plan == nullptr ? std::vector<Case>() : Planner(*plan).cases();
}

}  // namespace keel::ops
