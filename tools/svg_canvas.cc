// SPDX-License-Identifier: Apache-2.0
#include "tools/svg_canvas.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/xml_text.h"

namespace keel::cli {
namespace {

constexpr int kMargin = 12;
constexpr int kCharacter = 7;  // width, at most

constexpr const char* kStyle =
    R"(<style>
text { font-family: "DejaVu Sans", Verdana, sans-serif; font-size: 11px; fill: #1d2733; }
.head { font-size: 14px; font-weight: bold; }
.bold { font-weight: bold; }
.small { font-size: 10px; fill: #51606f; }
.page { fill: #ffffff; }
.package { fill: #eef2f6; stroke: #8da2b5; }
.node { fill: #ffffff; stroke: #8da2b5; }
.core { fill: #c9d6e2; }
.device { fill: #d9ecd9; stroke: #5b9a5b; }
.nic { fill: #fdeccc; stroke: #c9973f; }
.chip { fill: #a6d8a6; }
.switch { fill: #cfe9c4; }
.bridge { fill: #eef3bd; }
.same { fill: #fbe6b4; }
.across { fill: #f5c1b0; }
.unknown { fill: #e3e3e3; }
.island { fill: #eef2f6; stroke: #8da2b5; }
.lane { fill: #fdeccc; stroke: #c9973f; }
.link { stroke: #c9973f; stroke-width: 3; }
.bound { fill: #8da2b5; }
.measured { fill: #5b9a5b; }
</style>
)";

}  // namespace

std::string shorten_text(const std::string& text, size_t limit) {
  if (text.size() <= limit) return text;
  size_t end = limit - 1;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

void SvgCanvas::box(int x, int y, int width, int height, const char* style) {
  reach(x + width, y + height);
  body_ +=
      fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"4\" class=\"{}\"/>\n", x,
                  y, width, height, style);
}

void SvgCanvas::line(int x, int y, int to_x, int to_y, const char* style) {
  reach(std::max(x, to_x), std::max(y, to_y));
  body_ += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" class=\"{}\"/>\n", x, y, to_x,
                       to_y, style);
}

void SvgCanvas::text(int x, int y, const std::string& words, const char* style) {
  reach(x + static_cast<int>(words.size()) * kCharacter, y);
  body_ +=
      fmt::format("<text x=\"{}\" y=\"{}\" class=\"{}\">{}</text>\n", x, y, style, xml_text(words));
}

std::string SvgCanvas::document() const {
  const int width = right_ + kMargin;
  const int height = bottom_ + kMargin;
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
             "viewBox=\"0 0 {0} {1}\">\n",
             width, height) +
         kStyle +
         fmt::format("<rect width=\"{}\" height=\"{}\" class=\"page\"/>\n", width, height) + body_ +
         "</svg>\n";
}

void SvgCanvas::reach(int x, int y) {
  right_ = std::max(right_, x);
  bottom_ = std::max(bottom_, y);
}

}  // namespace keel::cli
