// SPDX-License-Identifier: Apache-2.0
#include "samples/mixed_training/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numbers>

#include "base/xml_text.h"

namespace mixed_training {
namespace {

constexpr double kWidth = 960;
constexpr double kHeight = 360;
constexpr double kTop = 56;
constexpr double kBottom = 36;
constexpr double kPanel = 330;       // width of each panel
constexpr double kLossLeft = 56;     // of the panel with the loss
constexpr double kSharesLeft = 440;  // of the panel with the shares; names are to its right
constexpr size_t kMostPoints = 1000;
// Told apart by eyes that see no red, too (Okabe and Ito).
constexpr std::array<const char*, 8> kColors = {"#0072b2", "#e69f00", "#009e73", "#cc79a7",
                                                "#56b4e9", "#d55e00", "#f0e442", "#999999"};

double y_of(double part) {
  return kHeight - kBottom - part * (kHeight - kTop - kBottom);
}

template <typename... Arguments>
void add(std::string* svg, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  fmt::format_to(std::back_inserter(*svg), format, std::forward<Arguments>(arguments)...);
}

void add_frame(std::string* svg, double left, const char* title, int64_t steps) {
  add(svg,
      "<text x=\"{}\" y=\"{}\">{}</text>\n<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" "
      "fill=\"none\" stroke=\"#999\"/>\n",
      left, kTop - 8, title, left, kTop, kPanel, kHeight - kTop - kBottom);
  for (const int64_t step : {int64_t{0}, steps / 2, steps}) {
    add(svg, "<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
        left + kPanel * static_cast<double>(step) / static_cast<double>(steps),
        kHeight - kBottom + 16, step);
  }
  add(svg, "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">step</text>\n", left + kPanel / 2,
      kHeight - 4);
}

void add_loss(std::string* svg, const std::vector<double>& losses) {
  const double most = *std::max_element(losses.begin(), losses.end()) / std::numbers::ln2;
  const double top = std::ceil(most);
  for (double bits = 0; bits <= top; bits += std::max(1.0, std::floor(top / 4))) {
    add(svg,
        "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:g}</text>\n",
        kLossLeft, kLossLeft + kPanel, y_of(bits / top), kLossLeft - 6, y_of(bits / top) + 4, bits);
  }
  std::string points;
  const size_t stride = std::max<size_t>(1, losses.size() / kMostPoints);
  const double width = static_cast<double>(std::max<size_t>(losses.size(), 2) - 1);
  for (size_t i = 0; i < losses.size(); i += stride) {
    add(&points, "{:.1f},{:.1f} ", kLossLeft + kPanel * static_cast<double>(i) / width,
        y_of(losses[i] / std::numbers::ln2 / top));
  }
  add(svg, "<polyline fill=\"none\" stroke=\"#0072b2\" stroke-width=\"1.5\" points=\"{}\"/>\n",
      points);
}

// The shares from one change to the next are a rectangle for each device.
void add_shares(std::string* svg, const Report& report) {
  const auto steps = static_cast<double>(report.settings.steps);
  const auto batch = static_cast<double>(report.settings.batch);
  const std::vector<ShareChange>& changes = report.run.shares;
  for (size_t i = 0; i < changes.size(); ++i) {
    const auto begin = static_cast<double>(changes[i].step);
    const double end = i + 1 < changes.size() ? static_cast<double>(changes[i + 1].step) : steps;
    double below = 0;
    for (size_t rank = 0; rank < changes[i].rows.size(); ++rank) {
      const double part = static_cast<double>(changes[i].rows[rank]) / batch;
      add(svg, "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\"/>\n",
          kSharesLeft + kPanel * begin / steps, y_of(below + part), kPanel * (end - begin) / steps,
          y_of(below) - y_of(below + part), kColors[rank % kColors.size()]);
      below += part;
    }
  }
  const Interval& last = report.run.intervals.back();
  for (size_t rank = 0; rank < report.devices.size(); ++rank) {
    // From the bottom, as the rectangles are stacked.
    const double y = kHeight - kBottom - 16 - 40 * static_cast<double>(rank);
    const double x = kSharesLeft + kPanel + 14;
    const double percent = 100 * static_cast<double>(last.rows[rank]) / batch;
    add(svg,
        "<rect x=\"{}\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{}\"/>"
        "<text x=\"{}\" y=\"{}\">{}: {:.{}f} %</text>"
        "<text x=\"{}\" y=\"{}\" fill=\"#666\">{:.0f} bytes/s</text>\n",
        x, y - 10, kColors[rank % kColors.size()], x + 18, y,
        keel::xml_text(report.devices[rank].name), percent, percent < 10 ? 1 : 0, x + 18, y + 15,
        last.compute_speeds[rank]);
  }
}

}  // namespace

std::string picture(const Report& report, const std::string& title) {
  std::string svg;
  add(&svg,
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n"
      "<text x=\"{2}\" y=\"24\" font-size=\"15\">{3}</text>\n",
      kWidth, kHeight, kLossLeft, keel::xml_text(title));
  const auto steps = static_cast<int64_t>(report.run.losses.size());
  add_loss(&svg, report.run.losses);
  add_frame(&svg, kLossLeft, "loss, bits per byte", steps);
  add_shares(&svg, report);
  add_frame(&svg, kSharesLeft, "share of the batch", steps);
  return svg + "</svg>\n";
}

}  // namespace mixed_training
