// SPDX-License-Identifier: Apache-2.0
#include "bench/collectives_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace keel::bench {

namespace {

using Ratio = std::optional<Estimate> Comparison::*;

constexpr double kPanelWidth = 180;
constexpr double kPanelHeight = 190;
constexpr double kLeft = 56;
constexpr double kTop = 64;
constexpr double kGap = 14;
constexpr double kRowGap = 66;
constexpr double kTitleWidth = 320;
constexpr double kRanksWidth = 90;

// Medium tones, visible on white and on near-black; their brightness differs too.
constexpr const char* kColors[] = {"#2f81f7", "#d2771e", "#3aa655", "#b0509f", "#8a8f98"};

constexpr const char* kStyle =
    "<style>"
    "text{font:11px system-ui,sans-serif;fill:#24292f}"
    ".title{font-size:14px;font-weight:600}.panel{font-weight:600}"
    ".grid{stroke:#d0d7de;stroke-width:1}.one{stroke:#57606a;stroke-width:1.5}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.grid{stroke:#30363d}"
    ".one{stroke:#9198a1}}"
    "</style>\n";

struct Axis {
  std::vector<uint64_t> sizes;
  std::vector<uint32_t> ranks;
  std::vector<peers::Operation> operations;
  double lowest = 0;  // exponents of two
  double highest = 0;

  double x(uint64_t size) const {
    const auto found = std::find(sizes.begin(), sizes.end(), size) - sizes.begin();
    return kPanelWidth * (static_cast<double>(found) + 0.5) / static_cast<double>(sizes.size());
  }
  // All medians fit the range. Intervals are clipped: one launch on a busy machine would otherwise
  // compress everything else.
  double y(double ratio) const {
    const double exponent = std::clamp(std::log2(ratio), lowest, highest);
    return kPanelHeight * (highest - exponent) / (highest - lowest);
  }
};

Axis make_axis(const CollectivesReport& report, Ratio ratio) {
  std::set<uint64_t> sizes;
  std::set<uint32_t> ranks;
  std::set<peers::Operation> operations;
  double low = 1;
  double high = 1;
  for (const CollectivesReport::PerSetting& part : report.settings) {
    for (const Comparison& comparison : part.comparisons) {
      sizes.insert(comparison.cell.bytes);
      ranks.insert(comparison.cell.ranks);
      operations.insert(comparison.cell.operation);
      if (!(comparison.*ratio)) continue;
      low = std::min(low, (comparison.*ratio)->median);
      high = std::max(high, (comparison.*ratio)->median);
    }
  }
  return {{sizes.begin(), sizes.end()},
          {ranks.begin(), ranks.end()},
          {operations.begin(), operations.end()},
          std::floor(std::log2(low)),
          std::max(std::ceil(std::log2(high)), std::floor(std::log2(low)) + 1)};
}

std::string ratio_label(double exponent) {
  return exponent >= 0 ? fmt::format("{:g}", std::exp2(exponent))
                       : fmt::format("1/{:g}", std::exp2(-exponent));
}

std::string short_size(uint64_t bytes) {
  std::string text = size_text(bytes);
  const size_t blank = text.find(' ');
  return text.substr(0, blank) + text[blank + 1];
}

// Draws lines at powers of two, at most nine, so that they do not look like a grey area.
void add_grid(const Axis& axis, bool labelled, std::string& svg) {
  const double step = std::ceil((axis.highest - axis.lowest) / 9);
  for (double exponent = axis.lowest; exponent <= axis.highest; exponent += step) {
    const double y = axis.y(std::exp2(exponent));
    svg += fmt::format("<line class=\"grid\" x1=\"0\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>\n",
                       kPanelWidth, y, y);
    if (!labelled) continue;
    svg += fmt::format("<text x=\"-6\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", y + 4,
                       ratio_label(exponent));
  }
  const double one = axis.y(1);
  svg += fmt::format("<line class=\"one\" x1=\"0\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>\n",
                     kPanelWidth, one, one);
  for (const uint64_t size : axis.sizes) {
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                       axis.x(size), kPanelHeight + 16, short_size(size));
  }
}

void add_cell(const Axis& axis, const Comparison& comparison, const Estimate& ratio, double shift,
              const char* color, std::string& svg) {
  const double x = axis.x(comparison.cell.bytes) + shift;
  svg += fmt::format(
      "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\" stroke=\"{3}\" "
      "stroke-opacity=\"0.6\"/>"
      "<circle cx=\"{0:.1f}\" cy=\"{4:.1f}\" r=\"3\" fill=\"{3}\"><title>{5}, {6} ranks, {7}: "
      "{8:.2f} ({9})</title></circle>\n",
      x, axis.y(ratio.low), axis.y(ratio.high), color, axis.y(ratio.median),
      peers::name_of(comparison.cell.operation), comparison.cell.ranks,
      size_text(comparison.cell.bytes), ratio.median, comparison.peer);
}

void add_panel(const Axis& axis, const std::vector<Comparison>& comparisons, Ratio ratio,
               peers::Operation operation, bool labelled, std::string& svg) {
  svg += fmt::format("<text class=\"panel\" x=\"{}\" y=\"-8\" text-anchor=\"middle\">{}</text>\n",
                     kPanelWidth / 2, peers::name_of(operation));
  add_grid(axis, labelled, svg);
  for (size_t line = 0; line < axis.ranks.size(); ++line) {
    const char* color = kColors[line % std::size(kColors)];
    // Shifted sideways, so that intervals do not hide one another.
    const double shift = 4 * (static_cast<double>(line) - (axis.ranks.size() - 1) / 2.0);
    std::string points;
    std::string dots;
    for (const Comparison& comparison : comparisons) {
      const bool is_here = comparison.cell.operation == operation &&
                           comparison.cell.ranks == axis.ranks[line] && comparison.*ratio;
      if (!is_here) continue;
      const Estimate& estimate = *(comparison.*ratio);
      points += fmt::format("{:.1f},{:.1f} ", axis.x(comparison.cell.bytes) + shift,
                            axis.y(estimate.median));
      add_cell(axis, comparison, estimate, shift, color, dots);
    }
    svg +=
        fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>\n",
                    points, color);
    svg += dots;
  }
}

void add_legend(const Axis& axis, double right, std::string& svg) {
  double x = right - kRanksWidth * static_cast<double>(axis.ranks.size());
  for (size_t line = 0; line < axis.ranks.size(); ++line, x += kRanksWidth) {
    svg += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"20\" r=\"4\" fill=\"{}\"/>"
        "<text x=\"{:.1f}\" y=\"24\">{} ranks</text>\n",
        x, kColors[line % std::size(kColors)], x + 10, axis.ranks[line]);
  }
}

bool has_any(const CollectivesReport::PerSetting& part, Ratio ratio) {
  return std::any_of(part.comparisons.begin(), part.comparisons.end(),
                     [&](const Comparison& comparison) { return (comparison.*ratio).has_value(); });
}

}  // namespace

std::string to_svg(const CollectivesReport& report) {
  const bool has_keel =
      std::any_of(report.settings.begin(), report.settings.end(),
                  [](const auto& part) { return has_any(part, &Comparison::peer_ratio); });
  const Ratio ratio = has_keel ? &Comparison::peer_ratio : &Comparison::peer_over_bound;
  std::vector<const CollectivesReport::PerSetting*> rows;
  for (const CollectivesReport::PerSetting& part : report.settings) {
    // Foreign buffers change only Keel's results.
    if (!has_keel && part.setting == Setting::kForeign) continue;
    if (has_any(part, ratio)) rows.push_back(&part);
  }
  const Axis axis = make_axis(report, ratio);
  // Title and legend need room side by side, even over a single operation.
  const double width =
      std::max(kLeft + (kPanelWidth + kGap) * static_cast<double>(axis.operations.size()) + 8,
               kTitleWidth + kRanksWidth * static_cast<double>(axis.ranks.size()) + 8);
  const double height = kTop + (kPanelHeight + kRowGap) * static_cast<double>(rows.size());
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\">\n",
      width, height);
  svg += kStyle;
  svg += fmt::format(
      "<text class=\"title\" x=\"12\" y=\"24\">Time of the best peer / time of {}</text>\n",
      has_keel ? "Keel" : "the bound");
  add_legend(axis, width - 8, svg);
  for (size_t row = 0; row < rows.size(); ++row) {
    const double y = kTop + (kPanelHeight + kRowGap) * static_cast<double>(row) + 12;
    svg +=
        fmt::format("<text x=\"12\" y=\"{:.1f}\">{}</text>\n", y - 24, name_of(rows[row]->setting));
    for (size_t column = 0; column < axis.operations.size(); ++column) {
      svg += fmt::format("<g transform=\"translate({:.1f} {:.1f})\">\n",
                         kLeft + (kPanelWidth + kGap) * static_cast<double>(column), y);
      add_panel(axis, rows[row]->comparisons, ratio, axis.operations[column], column == 0, svg);
      svg += "</g>\n";
    }
  }
  return svg + "</svg>\n";
}

}  // namespace keel::bench
