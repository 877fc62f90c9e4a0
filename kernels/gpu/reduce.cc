// SPDX-License-Identifier: Apache-2.0
// reduce: a kernel for each type of the computation; function, dtypes and strides are values. The
// order of summation is fixed by the launch: no atomics.
#include "kernels/gpu/functions.h"

namespace keel::simt {
namespace {

template <typename T>
struct Limits;
template <>
struct Limits<float> {
  KEEL_SIMT_FUNCTION static float highest() { return INFINITY; }
  KEEL_SIMT_FUNCTION static float lowest() { return -INFINITY; }
  KEEL_SIMT_FUNCTION static bool is_finite(float x) { return fabsf(x) <= 3.402823466e38F; }
};
template <>
struct Limits<double> {
  KEEL_SIMT_FUNCTION static double highest() { return INFINITY; }
  KEEL_SIMT_FUNCTION static double lowest() { return -INFINITY; }
  KEEL_SIMT_FUNCTION static bool is_finite(double x) { return fabs(x) < INFINITY; }
};
template <>
struct Limits<int64_t> {
  KEEL_SIMT_FUNCTION static int64_t highest() { return INT64_MAX; }
  KEEL_SIMT_FUNCTION static int64_t lowest() { return INT64_MIN; }
};

// ---- states ------------------------------------------------------------------------

template <typename T>
KEEL_SIMT_FUNCTION ReduceState<T> state_of_none(Reduction function) {
  switch (function) {
    case Reduction::prod:
    case Reduction::all:
      return {1, 0, kNoIndex};
    case Reduction::max:
    case Reduction::log_sum_exp:
      return {Limits<T>::lowest(), 0, kNoIndex};
    case Reduction::min:
      return {Limits<T>::highest(), 0, kNoIndex};
    default:
      return {0, 0, kNoIndex};
  }
}

// Adds |value| and keeps what the sum loses, by Knuth's two-sum: see Accumulator.
template <typename T>
KEEL_SIMT_FUNCTION void add_to(ReduceState<T>* state, T value) {
  if constexpr (IsInteger<T>::value) {
    state->value = wrapping_add(state->value, value);
  } else {
    const T sum = state->value + value;
    const T part = sum - state->value;
    state->extra += (state->value - (sum - part)) + (value - part);
    state->value = sum;
  }
}

// Takes |value| if it wins: against no element, a smaller or larger number, or an equal one with a
// higher index. NaN wins against numbers.
template <typename T>
KEEL_SIMT_FUNCTION void choose(ReduceState<T>* state, T value, uint64_t index, bool is_max) {
  bool wins;
  if (state->index == kNoIndex) {
    wins = true;
  } else if (!(state->value == state->value) || !(value == value)) {
    wins = !(value == value) && (state->value == state->value || index < state->index);
  } else if (value == state->value) {
    wins = index < state->index;
  } else {
    wins = is_max ? value > state->value : value < state->value;
  }
  if (wins && index != kNoIndex) *state = {value, 0, index};
}

// Adds exponentials of numbers up to |highest|: |sum| times that of |highest|.
template <typename T>
KEEL_SIMT_FUNCTION void add_exponentials(ReduceState<T>* state, T highest, T sum) {
  if constexpr (!IsInteger<T>::value) {
    const T top = greater_of(state->value, highest);
    if (Limits<T>::is_finite(top)) {
      T total = 0;
      if (state->value > Limits<T>::lowest()) total = state->extra * exp_of(state->value - top);
      if (highest > Limits<T>::lowest()) total += sum * exp_of(highest - top);
      state->extra = total;
    }
    state->value = top;
  }
}

// Combines two states of disjoint elements.
template <typename T>
KEEL_SIMT_FUNCTION void combine(Reduction function, ReduceState<T>* state,
                                const ReduceState<T>& other) {
  switch (function) {
    case Reduction::prod:
      state->value = wrapping_mul(state->value, other.value);
      return;
    case Reduction::max:
    case Reduction::abs_max:
      state->value = greater_of(state->value, other.value);
      return;
    case Reduction::min:
      state->value = less_of(state->value, other.value);
      return;
    case Reduction::argmax:
    case Reduction::argmin:
      choose(state, other.value, other.index, function == Reduction::argmax);
      return;
    case Reduction::any:
      state->value = state->value != 0 || other.value != 0 ? T{1} : T{0};
      return;
    case Reduction::all:
      state->value = state->value != 0 && other.value != 0 ? T{1} : T{0};
      return;
    case Reduction::log_sum_exp:
      add_exponentials(state, other.value, other.extra);
      return;
    default:
      add_to(state, other.value);
      state->extra = wrapping_add(state->extra, other.extra);
      return;
  }
}

// Takes in |n| elements, the first of which is |index|.
template <typename T, int n>
KEEL_SIMT_FUNCTION void take(Reduction function, ReduceState<T>* state, const T (&values)[n],
                             uint64_t index) {
  switch (function) {
    case Reduction::prod:
      for (int lane = 0; lane < n; ++lane) state->value = wrapping_mul(state->value, values[lane]);
      return;
    case Reduction::max:
      for (int lane = 0; lane < n; ++lane) state->value = greater_of(state->value, values[lane]);
      return;
    case Reduction::min:
      for (int lane = 0; lane < n; ++lane) state->value = less_of(state->value, values[lane]);
      return;
    case Reduction::abs_max:
      for (int lane = 0; lane < n; ++lane) {
        state->value = greater_of(state->value, magnitude_of(values[lane]));
      }
      return;
    case Reduction::argmax:
    case Reduction::argmin:
      for (int lane = 0; lane < n; ++lane) {
        choose(state, values[lane], index + lane, function == Reduction::argmax);
      }
      return;
    case Reduction::any:
      for (int lane = 0; lane < n; ++lane) {
        if (values[lane] != 0) state->value = 1;
      }
      return;
    case Reduction::all:
      for (int lane = 0; lane < n; ++lane) {
        if (values[lane] == 0) state->value = 0;
      }
      return;
    case Reduction::sum_of_squares:
    case Reduction::norm:
      for (int lane = 0; lane < n; ++lane) {
        add_to(state, wrapping_mul(values[lane], values[lane]));
      }
      return;
    case Reduction::abs_sum:
      for (int lane = 0; lane < n; ++lane) add_to(state, magnitude_of(values[lane]));
      return;
    case Reduction::log_sum_exp:
      if constexpr (!IsInteger<T>::value) {
        T highest = values[0];
        for (int lane = 1; lane < n; ++lane) highest = greater_of(highest, values[lane]);
        T sum = 0;
        if (Limits<T>::is_finite(highest)) {
          for (int lane = 0; lane < n; ++lane) sum += exp_of(values[lane] - highest);
        }
        add_exponentials(state, highest, sum);
      }
      return;
    default:
      for (int lane = 0; lane < n; ++lane) add_to(state, values[lane]);
      return;
  }
}

template <typename T>
KEEL_SIMT_FUNCTION T value_of(Reduction function, const ReduceState<T>& state, uint64_t count) {
  if constexpr (!IsInteger<T>::value) {
    switch (function) {
      case Reduction::sum:
      case Reduction::mean:
      case Reduction::sum_of_squares:
      case Reduction::norm:
      case Reduction::abs_sum: {
        // Infinities and NaN leave NaN in what is lost.
        const T sum = Limits<T>::is_finite(state.value) ? state.value + state.extra : state.value;
        if (function == Reduction::mean) return sum / static_cast<T>(count);
        return function == Reduction::norm ? sqrt_of(sum) : sum;
      }
      case Reduction::log_sum_exp:
        return Limits<T>::is_finite(state.value) ? state.value + log_of(state.extra) : state.value;
      default:
        break;
    }
  }
  return state.value;
}

// ---- teams -------------------------------------------------------------------------

// Returns the state of the thread whose number in the warp differs by |mask|.
template <typename T>
KEEL_SIMT_FUNCTION ReduceState<T> shuffle_state(const ReduceState<T>& state, uint32_t mask) {
  constexpr uint32_t kWords = sizeof(state) / sizeof(float);
  float words[kWords];
  memcpy(words, &state, sizeof(state));
  for (float& word : words) word = shuffle_xor(word, mask);
  ReduceState<T> other;
  memcpy(&other, words, sizeof(other));
  return other;
}

// Combines the states of each |team| threads of the warp, or of the whole block. All threads of the
// block must call; the first thread of a team gets the result.
template <typename T>
KEEL_SIMT_FUNCTION void combine_team(Reduction function, uint32_t team, ReduceState<T>* state) {
  KEEL_SIMT_SHARED(ReduceState<T>, partial, kWarps);
  const uint32_t width = team < kWarp ? team : kWarp;
  for (uint32_t mask = width / 2; mask != 0; mask /= 2) {
    combine(function, state, shuffle_state(*state, mask));
  }
  if (team <= kWarp) return;
  const uint32_t rank = thread_index().x;
  barrier();  // all threads have read the last call's states
  if (rank % kWarp == 0) partial[rank / kWarp] = *state;
  barrier();
  if (rank != 0) return;
  for (uint32_t i = 1; i < kWarps; ++i) {
    const ReduceState<T> other = partial[i];
    combine(function, state, other);
  }
}

// ---- the kernel --------------------------------------------------------------------

// Takes in one or two groups of |n| elements from |group| on, |args.team| apart, of x from |base|
// on.
template <typename T, int n, int groups>
KEEL_SIMT_FUNCTION void take_groups(const ReduceArguments<T>& args, uint64_t base, uint64_t group,
                                    ReduceState<T>* state) {
  uint64_t at[groups];
  for (int g = 0; g < groups; ++g) {
    uint64_t offset[1] = {base};
    add_offsets<1>(args.reduced, args.reduced_count, args.is_small != 0, group + g * args.team,
                   offset);
    at[g] = offset[0];
  }
  T values[groups][n];
  load_groups<T, n, groups>(args.x_type, args.x, at, args.access, args.step, values);
  take<T, n>(args.function, state, values[0], group * n);
  if constexpr (groups == 2) take<T, n>(args.function, state, values[1], (group + args.team) * n);
}

// The elements of one output from group |begin| up to group |end|, of which this thread takes those
// from |rank| on, |args.team| apart.
template <typename T>
KEEL_SIMT_FUNCTION ReduceState<T> reduce_slice(const ReduceArguments<T>& args, uint64_t base,
                                               uint64_t begin, uint64_t end, uint32_t rank) {
  ReduceState<T> state = state_of_none<T>(args.function);
  uint64_t group = begin + rank;
  if (args.lanes == kGroup) {
    // Two at a time: in flight together. The wider types have half of the elements to load.
    if constexpr (sizeof(T) == 4) {
      for (; group + args.team < end; group += 2 * args.team) {
        take_groups<T, kGroup, 2>(args, base, group, &state);
      }
    }
    for (; group < end; group += args.team) take_groups<T, kGroup, 1>(args, base, group, &state);
  } else {
    for (; group < end; group += args.team) take_groups<T, 1, 1>(args, base, group, &state);
  }
  if (end == args.groups) {  // the tail of one axis
    const uint64_t first = args.groups * args.lanes;
    for (uint64_t i = first + rank; i < first + args.tail; i += args.team) {
      const uint64_t at[1] = {base + i * args.step};
      T values[1][1];
      load_groups<T, 1, 1>(args.x_type, args.x, at, args.access, args.step, values);
      take<T, 1>(args.function, &state, values[0], i);
    }
  }
  return state;
}

template <typename T>
KEEL_SIMT_FUNCTION void reduce(const ReduceArguments<T>& args) {
  const Global<ReduceState<T>> states(args.states);
  const uint32_t team = args.team;
  const uint32_t teams = kThreads / team;
  const uint32_t rank = thread_index().x % team;
  const uint64_t items = args.outputs * args.slices;
  const uint64_t step = uint64_t{grid_size().x} * teams;
  // All threads of a block go on as long as one of its teams has an item: they combine together.
  for (uint64_t first = uint64_t{block_index().x} * teams; first < items; first += step) {
    const uint64_t item = first + thread_index().x / team;
    const uint64_t slice = args.slices == 1 ? 0 : item / args.outputs;
    const uint64_t output = item - slice * args.outputs;
    uint64_t offsets[2] = {};  // in x and y
    ReduceState<T> state = state_of_none<T>(args.function);
    if (item < items) {
      add_offsets<2>(args.kept, args.kept_count, args.is_small != 0, output, offsets);
      if (args.joins != 0) {
        for (uint64_t i = rank; i < args.groups; i += team) {
          const ReduceState<T> other = states[i * args.outputs + output];
          combine(args.function, &state, other);
        }
      } else {
        const uint64_t begin = slice * args.slice;
        const uint64_t end = args.groups - begin < args.slice ? args.groups : begin + args.slice;
        state = reduce_slice(args, offsets[0], begin, end, rank);
      }
    }
    combine_team(args.function, team, &state);
    if (item >= items || rank != 0) continue;
    if (args.slices != 1) {
      states[item] = state;
    } else if (args.function == Reduction::argmax || args.function == Reduction::argmin) {
      const int64_t index[1] = {static_cast<int64_t>(state.index)};
      store_group<int64_t, 1>(args.y_type, args.y, offsets[1], GroupAccess::strided, 0, index);
    } else {
      const T value[1] = {value_of(args.function, state, args.count)};
      store_group<T, 1>(args.y_type, args.y, offsets[1], GroupAccess::strided, 0, value);
    }
  }
}

}  // namespace
}  // namespace keel::simt

#ifdef KEEL_SIMT_DOUBLES
KEEL_SIMT_KERNEL(reduce_f64, keel::simt::ReduceArguments<double>) {
  keel::simt::reduce<double>(args);
}
#else
KEEL_SIMT_KERNEL(reduce_f32, keel::simt::ReduceArguments<float>) {
  keel::simt::reduce<float>(args);
}
KEEL_SIMT_KERNEL(reduce_i64, keel::simt::ReduceArguments<int64_t>) {
  keel::simt::reduce<int64_t>(args);
}
#endif
