// SPDX-License-Identifier: Apache-2.0
#version 460
// layer_norm, and rms_norm where |has_mean| is 0. One workgroup per row, which reads the row from
// memory once and from the caches again.
#extension GL_GOOGLE_include_directive : require
#include "stored.glsl"
#include "reduce.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats x;
  Floats gamma;
  Floats beta;
  Floats y;
  Floats means;
  Floats rstds;
  uint rows;
  uint columns;
  uint has_mean;
  uint has_beta;
  float eps;
};

const float kLargest = 3.402823466e38;

// An element less |mean|, and the square of that.
vec2 deviation(float value, float mean) {
  precise const float difference = value - mean;
  return vec2(difference, difference * difference);
}

// Moments of a row's scaled elements; |rest| is what |mean| lacks.
struct Moments {
  float mean;
  float rest;
  float variance;
};

// A sum in float32 is rounded in units of itself, which may be more than a row deviates from its
// mean by. The deviations say how far off it was, at the price of one more sum; where they are
// mostly that, they are taken again from a better one.
Moments moments(uint begin, float scale) {
  float mean = 0.0;
  if (has_mean != 0) {
    float sum = 0.0;
    ADD_COLUMNS(sum, c, columns, load(x, begin + c) * scale)
    mean = reduce_add(sum) / float(columns);
  }
  for (int again = 2;; --again) {
    vec2 sums = vec2(0.0);
    ADD_COLUMNS_AS(vec2, sums, c, columns, deviation(load(x, begin + c) * scale, mean))
    const float squares = reduce_add(sums.y);
    if (has_mean == 0) return Moments(0.0, 0.0, squares / float(columns));
    const float sum = reduce_add(sums.x);
    const float rest = sum / float(columns);
    const float excess = sum * rest;
    // A quarter left costs the variance two bits.
    if (again > 0 && excess > 0.75 * squares) {
      precise const float better = mean + rest;
      mean = better;
      continue;
    }
    const float exact = squares - excess;
    return Moments(mean, rest, (exact < 0.0 ? 0.0 : exact) / float(columns));  // NaN stays
  }
}

// The scale for a row of |spread|, the sum of its variance and eps, and of |mean|, both at a scale
// of 1. At the others the squares of all that float32 holds are in its range, and so are sums of
// 2^31 of them. Beside a mean of 2^-20 no deviation is too small to be squared.
float scale_for(float spread, float mean) {
  const float kSmallest = 8.077935669e-28;  // 2^-90
  if (spread >= kSmallest && spread <= kLargest) return 1.0;
  if (spread < kSmallest) return abs(mean) < 9.5367431640625e-7 ? 1.2089258196146292e24 : 1.0;
  return 8.271806125530277e-25;
}

void main() {
  const uint lane = gl_LocalInvocationID.x;
  for (uint row = gl_WorkGroupID.x; row < rows; row += gl_NumWorkGroups.x) {
    const uint begin = row * columns;
    // A power of two: 1, unless squares of the row leave the range of float32.
    float scale = 1.0;
    Moments of_row;
    while (true) {
      of_row = moments(begin, scale);
      if (scale != 1.0) break;
      scale = scale_for(of_row.variance + eps, of_row.mean);
      if (scale == 1.0) break;
    }
    const float mean = of_row.mean;
    // A scaled eps may be lost, which counts beside a variance of 0 alone.
    const float spread = of_row.variance + eps * scale * scale;
    const float rstd = 1.0 / (spread == 0.0 ? sqrt(eps) * scale : sqrt(spread));
    // The shift is of what the mean lacks; 0 where nothing is taken off.
    const float shift = has_mean != 0 ? -of_row.rest * rstd : 0.0;
    if (lane == 0) {
      if (has_mean != 0) {
        const bool is_finite = abs(of_row.rest) <= kLargest;
        means.at[row] = (is_finite ? mean + of_row.rest : mean) * (1.0 / scale);
      }
      rstds.at[row] = rstd * scale;
    }
    for (uint c = lane; c < columns; c += gl_WorkGroupSize.x) {
      // The difference first: x and the mean may be large and close.
      precise float value = (load(x, begin + c) * scale - mean) * rstd + shift;
      value = value * load(gamma, c);
      if (has_beta != 0) value += load(beta, c);
      store(y, begin + c, value);
    }
  }
}
