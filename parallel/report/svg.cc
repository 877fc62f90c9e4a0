// SPDX-License-Identifier: Apache-2.0
// The picture of a step: who computes, waits and sends.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <keel/parallel/report.hpp>
#include <set>
#include <string_view>

#include "base/xml_text.h"
#include "parallel/report/calls.h"

namespace keel::parallel {
inline namespace v0 {
namespace {

constexpr double kLeft = 110;    // names of the ranks
constexpr double kWidth = 1080;  // the step
constexpr double kLegend = 38;   // first line of the legend
constexpr double kLine = 18;     // from line to line of the legend
constexpr double kPasses = 30;   // height of a rank's passes
constexpr double kMessages = 9;  // of its messages, and of its other collectives
constexpr double kRank = 62;     // from rank to rank

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
    case SpanKind::kWait:
      return "#bdbdbd";
    case SpanKind::kTensorCollective:
      return "#8c2d4b";
    case SpanKind::kGradientBucket:
    case SpanKind::kGradientScatter:
      return "#1f8a8a";
    case SpanKind::kValueGather:
      return "#7ac7c7";
    case SpanKind::kCollective:
      return "#3d3d8f";
    default:
      return "#d9704a";
  }
}

struct Entry {
  SpanKind kind;  // whose colour it explains
  const char* name;
};
constexpr std::array<Entry, 14> kEntries = {{
    {SpanKind::kForward, "forward"},
    {SpanKind::kBackward, "backward"},
    {SpanKind::kBackwardData, "backward, input"},
    {SpanKind::kBackwardWeight, "backward, weights"},
    {SpanKind::kRecompute, "recompute"},
    {SpanKind::kOptimizer, "optimizer"},
    {SpanKind::kLoader, "loader"},
    {SpanKind::kWait, "wait for another stream"},
    {SpanKind::kSend, "message between stages"},
    {SpanKind::kTensorCollective, "tensor parallel"},
    {SpanKind::kGradientBucket, "gradients, all_reduce"},
    {SpanKind::kGradientScatter, "gradients, reduce_scatter"},
    {SpanKind::kValueGather, "values, all_gather"},
    {SpanKind::kCollective, "other collective"},
}};

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

// Draws the entries of the kinds that occur, and what pale means; sets |bottom| below the last
// line.
std::string legend(std::span<const RankSteps> ranks, double* bottom) {
  std::set<SpanKind> kinds;
  for (const RankSteps& rank : ranks) {
    for (const Span& span : rank.spans) {
      kinds.insert(is_message(span.kind) ? SpanKind::kSend : span.kind);
    }
  }
  std::string picture;
  double x = kLeft, y = kLegend;
  const auto add = [&](const std::string& box, const char* name) {
    const double width = 34 + 6.2 * static_cast<double>(std::string_view(name).size());
    if (x + width > kLeft + kWidth) {
      x = kLeft;
      y += kLine;
    }
    picture += format("<g transform=\"translate(%.1f %.1f)\">", x, y) + box + "</g>\n";
    picture += label(x + 17, y + 10, "start", 11, name);
    x += width;
  };
  for (const Entry& entry : kEntries) {
    if (!kinds.contains(entry.kind)) continue;
    add(rectangle(0, 0, 12, 12, color_of(entry.kind), entry.name), entry.name);
  }
  if (std::any_of(kinds.begin(), kinds.end(), is_communication)) {
    add("<g opacity=\"0.3\">" + rectangle(0, 0, 12, 12, color_of(SpanKind::kSend), "pale") + "</g>",
        "pale: until all of its ranks have called");
  }
  *bottom = y + kLine;
  return picture;
}

// A rank's rows, from |top| on.
class Rows {
 public:
  Rows(double top, double scale, const Calls& calls) : top_(top), scale_(scale), calls_(calls) {}

  // A pass, the optimizer, the loader.
  std::string work(const Span& span, bool is_later_chunk) const {
    const double begin = x(span.begin), width = x(span.end) - begin;
    std::string picture = rectangle(begin, top_, width, kPasses, color_of(span.kind), about(span));
    if (!is_pass(span.kind) || width < 12) return picture;
    if (is_later_chunk) picture += rectangle(begin, top_, width, 4, "#333333", about(span));
    return picture +
           label(begin + width / 2, top_ + 20, "middle", 12, std::to_string(span.micro_batch));
  }
  // What lies over a pass: recomputation below its number, waits and collectives of its stream.
  std::string inside(const Span& span) const {
    const double begin = x(span.begin), width = x(span.end) - begin;
    return rectangle(begin, top_ + kPasses - 8, width, 8, color_of(span.kind), about(span));
  }
  std::string communication(const Span& span) const {
    const double y = top_ + kPasses + 2 + (is_message(span.kind) ? 0 : kMessages + 1);
    const double begin = x(span.begin), called = x(calls_.begin_of(span)), end = x(span.end);
    return "<g opacity=\"0.3\">" +
           rectangle(begin, y, called - begin, kMessages, color_of(span.kind), about(span)) +
           "</g>\n" +
           rectangle(called, y, end - called, kMessages, color_of(span.kind), about(span));
  }

 private:
  double x(double seconds) const { return kLeft + std::max(seconds, 0.0) * scale_; }
  static std::string about(const Span& span) {
    return format("%s, stage %u, micro-batch %u: %.3f to %.3f ms", name_of(span.kind), span.stage,
                  span.micro_batch, 1e3 * span.begin, 1e3 * span.end);
  }

  double top_, scale_;
  const Calls& calls_;
};

}  // namespace

std::string svg(std::span<const RankSteps> ranks, const std::string& title) {
  double seconds = 0;
  uint32_t stages = 0;
  std::set<uint32_t> first_stages;  // of the ranks
  for (const RankSteps& rank : ranks) {
    uint32_t first = UINT32_MAX;
    for (const Span& span : rank.spans) {
      seconds = std::max(seconds, span.end);
      stages = std::max(stages, span.stage + 1);
      if (is_pass(span.kind)) first = std::min(first, span.stage);
    }
    if (first != UINT32_MAX) first_stages.insert(first);
  }
  if (seconds == 0) seconds = 1e-6;
  const double scale = kWidth / seconds;
  const Calls calls(ranks);
  double top = 0;
  const std::string explained = legend(ranks, &top);
  top += 12;
  const double bottom = top + kRank * static_cast<double>(ranks.size());
  std::string picture = format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
      "height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
      "font-family=\"sans-serif\">\n",
      kLeft + kWidth + 20, bottom + 40, kLeft + kWidth + 20, bottom + 40);
  picture += format("<rect width=\"%.0f\" height=\"%.0f\" fill=\"#ffffff\"/>\n",
                    kLeft + kWidth + 20, bottom + 40);
  picture += label(kLeft, 24, "start", 16, xml_text(title)) + explained;
  const double tick = tick_of(1e3 * seconds);
  for (int i = 0; i * tick <= 1e3 * seconds; ++i) {
    const double at = i * tick;
    const double place = kLeft + at * 1e-3 * scale;
    picture +=
        format("<line x1=\"%.2f\" y1=\"%.0f\" x2=\"%.2f\" y2=\"%.0f\" stroke=\"#dddddd\"/>\n",
               place, top - 6, place, bottom);
    picture += label(place, bottom + 16, "middle", 11, format("%g", at));
  }
  picture += label(kLeft + kWidth, bottom + 32, "end", 11, "ms");
  for (size_t number = 0; number < ranks.size(); ++number) {
    const double place = top + kRank * static_cast<double>(number);
    const Rows rows(place, scale, calls);
    picture += label(kLeft - 8, place + 19, "end", 12,
                     format("%zu ", number) + xml_text(ranks[number].device));
    picture += rectangle(kLeft, place, kWidth, kPasses, "#f1f1f1", "idle");
    const std::vector<Span>& spans = ranks[number].spans;
    for (const Span& span : spans) {
      if (is_communication(span.kind)) picture += rows.communication(span);
      const bool is_work =
          is_pass(span.kind) || span.kind == SpanKind::kOptimizer || span.kind == SpanKind::kLoader;
      // A bar marks a rank's later chunks.
      if (is_work)
        picture +=
            rows.work(span, stages > first_stages.size() && !first_stages.contains(span.stage));
    }
    for (const Span& span : spans) {
      if (span.kind == SpanKind::kRecompute) picture += rows.inside(span);
    }
    for (const Span& span : spans) {
      if (span.blocks && !is_message(span.kind)) picture += rows.inside(span);
    }
  }
  return picture + "</svg>\n";
}

}  // namespace v0
}  // namespace keel::parallel
