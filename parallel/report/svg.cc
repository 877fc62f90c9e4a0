// SPDX-License-Identifier: Apache-2.0
// The picture of a step: who computes, waits and sends.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <keel/parallel/report.hpp>

#include "base/xml_text.h"

namespace keel::parallel {
inline namespace v0 {
namespace {

constexpr double kLeft = 110;     // names of the ranks
constexpr double kWidth = 1080;   // the step
constexpr double kTop = 70;       // title and legend
constexpr double kPasses = 30;    // height of a rank's passes
constexpr double kMessages = 12;  // and of its messages
constexpr double kRank = 56;      // from rank to rank

const char* color_of(SpanKind kind) {
  switch (kind) {
    case SpanKind::kForward:
      return "#5b8fd6";
    case SpanKind::kBackward:
    case SpanKind::kBackwardData:
      return "#69b578";
    case SpanKind::kBackwardWeight:
      return "#c8a64b";
    case SpanKind::kRecompute:
      return "#9d7fc7";
    case SpanKind::kOptimizer:
      return "#666666";
    case SpanKind::kLoader:
      return "#d98bb0";
    default:
      return "#d9704a";
  }
}

template <typename... Values>
std::string format(const char* pattern, Values... values) {
  std::array<char, 512> line{};
  std::snprintf(line.data(), line.size(), pattern, values...);
  return line.data();
}

std::string rectangle(double x, double y, double width, double height, const char* color,
                      const std::string& title) {
  return format(
             "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" fill=\"%s\" "
             "stroke=\"#ffffff\" stroke-width=\"0.5\"><title>",
             x, y, width, height, color) +
         title + "</title></rect>\n";
}

std::string label(double x, double y, const char* anchor, int size, const std::string& text) {
  return format("<text x=\"%.2f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"%d\">", x, y, anchor,
                size) +
         text + "</text>\n";
}

// 1, 2 or 5 times a power of ten, so that the axis has 5 to 12 ticks.
double tick_of(double milliseconds) {
  double tick = std::pow(10, std::floor(std::log10(std::max(milliseconds, 1e-6) / 5)));
  for (const double factor : {2.0, 2.5, 2.0}) {
    if (milliseconds / tick > 12) tick *= factor;
  }
  return tick;
}

}  // namespace

std::string svg(std::span<const RankSteps> ranks, const std::string& title) {
  double seconds = 0;
  uint32_t stages = 0;
  for (const RankSteps& rank : ranks) {
    for (const Span& span : rank.spans) {
      seconds = std::max(seconds, span.end);
      stages = std::max(stages, span.stage + 1);
    }
  }
  if (seconds == 0) seconds = 1e-6;
  const double scale = kWidth / seconds;
  const double bottom = kTop + kRank * static_cast<double>(ranks.size());
  std::string picture = format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
      "height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
      "font-family=\"sans-serif\">\n",
      kLeft + kWidth + 20, bottom + 40, kLeft + kWidth + 20, bottom + 40);
  picture += format("<rect width=\"%.0f\" height=\"%.0f\" fill=\"#ffffff\"/>\n",
                    kLeft + kWidth + 20, bottom + 40);
  picture += label(kLeft, 24, "start", 16, xml_text(title));
  struct Entry {
    SpanKind kind;
    const char* name;
  };
  constexpr std::array<Entry, 7> kLegend = {{{SpanKind::kForward, "forward"},
                                             {SpanKind::kBackwardData, "backward, input"},
                                             {SpanKind::kBackwardWeight, "backward, weights"},
                                             {SpanKind::kRecompute, "recompute"},
                                             {SpanKind::kOptimizer, "optimizer"},
                                             {SpanKind::kLoader, "loader"},
                                             {SpanKind::kSend, "message"}}};
  double x = kLeft;
  for (const Entry& entry : kLegend) {
    picture += rectangle(x, 38, 12, 12, color_of(entry.kind), entry.name);
    picture += label(x + 17, 48, "start", 11, entry.name);
    x += 130;
  }
  const double tick = tick_of(1e3 * seconds);
  for (double at = 0; at <= 1e3 * seconds; at += tick) {
    const double place = kLeft + at * 1e-3 * scale;
    picture +=
        format("<line x1=\"%.2f\" y1=\"%.0f\" x2=\"%.2f\" y2=\"%.0f\" stroke=\"#dddddd\"/>\n",
               place, kTop - 6, place, bottom);
    picture += label(place, bottom + 16, "middle", 11, format("%g", at));
  }
  picture += label(kLeft + kWidth, bottom + 32, "end", 11, "ms");
  for (size_t number = 0; number < ranks.size(); ++number) {
    const double top = kTop + kRank * static_cast<double>(number);
    picture += label(kLeft - 8, top + 19, "end", 12,
                     format("%zu ", number) + xml_text(ranks[number].device));
    picture += rectangle(kLeft, top, kWidth, kPasses, "#f1f1f1", "idle");
    for (const Span& span : ranks[number].spans) {
      const double begin = kLeft + span.begin * scale;
      const double width = std::max((span.end - span.begin) * scale, 0.0);
      const std::string about =
          format("%s, stage %u, micro-batch %u: %.3f to %.3f ms", name_of(span.kind), span.stage,
                 span.micro_batch, 1e3 * span.begin, 1e3 * span.end);
      if (is_communication(span.kind)) {
        // A call waits for its peer: only the end of the bar is the data's.
        picture +=
            format("<g opacity=\"0.35\">") +
            rectangle(begin, top + kPasses + 2, width, kMessages, color_of(span.kind), about) +
            "</g>\n";
        continue;
      }
      picture += rectangle(begin, top, width, kPasses, color_of(span.kind), about);
      if (!is_compute(span.kind) || width < 12) continue;
      // A rank's later chunks are marked by a bar.
      if (stages > ranks.size() && span.stage >= ranks.size()) {
        picture += rectangle(begin, top, width, 4, "#333333", about);
      }
      picture += label(begin + width / 2, top + 20, "middle", 12, std::to_string(span.micro_batch));
    }
  }
  return picture + "</svg>\n";
}

}  // namespace v0
}  // namespace keel::parallel
