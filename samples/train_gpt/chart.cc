// SPDX-License-Identifier: Apache-2.0
#include "samples/train_gpt/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "base/xml_text.h"

namespace train_gpt {
namespace {

constexpr double kWidth = 720;
constexpr double kHeight = 400;
constexpr double kLeft = 56;
constexpr double kRight = 16;
constexpr double kTop = 36;
constexpr double kBottom = 44;
constexpr size_t kMaxPoints = 2000;  // more points would not be visible

// Returns the step between ticks: 1, 2 or 5 times a power of ten, for about five ticks in |range|.
double tick_step(double range) {
  const double power = std::pow(10, std::floor(std::log10(range / 5)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (range / (factor * power) <= 6) return factor * power;
  }
  return 10 * power;
}

std::vector<double> running_mean(std::span<const double> values) {
  std::vector<double> means;
  double mean = values[0];
  for (const double value : values) means.push_back(mean += (value - mean) * 0.05);
  return means;
}

// Maps data to the picture.
struct Scale {
  double x0, x1, y1;  // y starts at 0

  double x(double value) const {
    return kLeft + (value - x0) / (x1 - x0) * (kWidth - kLeft - kRight);
  }
  double y(double value) const {
    return kHeight - kBottom - value / y1 * (kHeight - kTop - kBottom);
  }
};

std::string polyline(std::span<const double> values, const Scale& scale, const char* style) {
  std::string points;
  const size_t stride = std::max<size_t>(1, values.size() / kMaxPoints);
  for (size_t i = 0; i < values.size(); i += stride) {
    fmt::format_to(std::back_inserter(points), "{:.1f},{:.1f} ",
                   scale.x(scale.x0 + static_cast<double>(i)), scale.y(values[i]));
  }
  return fmt::format("<polyline fill=\"none\" {} points=\"{}\"/>\n", style, points);
}

}  // namespace

std::string loss_chart(std::span<const double> losses, int64_t first_step,
                       const std::string& title) {
  const double largest = losses.empty() ? 1 : *std::max_element(losses.begin(), losses.end());
  const auto first = static_cast<double>(first_step);
  const Scale scale = {first, first + std::max<double>(1, static_cast<double>(losses.size()) - 1),
                       largest > 0 ? largest * 1.05 : 1};
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n"
      "<text x=\"{2}\" y=\"22\" font-size=\"14\">{3}</text>\n",
      kWidth, kHeight, kLeft, keel::xml_text(title));
  const double y_step = tick_step(scale.y1);
  for (double value = 0; value <= scale.y1; value += y_step) {
    fmt::format_to(std::back_inserter(svg),
                   "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>"
                   "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:g}</text>\n",
                   kLeft, kWidth - kRight, scale.y(value), kLeft - 6, scale.y(value) + 4, value);
  }
  const double x_step = std::max(1.0, tick_step(scale.x1 - scale.x0));
  for (double step = std::ceil(scale.x0 / x_step) * x_step; step <= scale.x1; step += x_step) {
    fmt::format_to(std::back_inserter(svg),
                   "<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:g}</text>\n",
                   scale.x(step), kHeight - kBottom + 18, step);
  }
  fmt::format_to(std::back_inserter(svg),
                 "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">step</text>\n"
                 "<text transform=\"translate(14 {}) rotate(-90)\" text-anchor=\"middle\">bits per "
                 "byte</text>\n",
                 (kLeft + kWidth - kRight) / 2, kHeight - 8, kHeight / 2);
  if (!losses.empty()) {
    svg += polyline(losses, scale, "stroke=\"#1f6fb4\" stroke-opacity=\"0.3\"");
    svg += polyline(running_mean(losses), scale, "stroke=\"#1f6fb4\" stroke-width=\"2\"");
  }
  return svg + "</svg>\n";
}

}  // namespace train_gpt
