// SPDX-License-Identifier: Apache-2.0
// Draws islands as boxes above a bar, the way between them, with their links; below it the shares
// and the times.
#include <fmt/format.h>

#include <algorithm>

#include "tools/perf/perf_ring.h"
#include "tools/svg_canvas.h"

namespace keel::cli {
namespace {

// Pixels.
constexpr int kMargin = 16;
constexpr int kIsland = 176;  // width
constexpr int kTile = 22;     // height of a rank
constexpr int kHead = 26;     // an island's name
constexpr int kLink = 64;     // between an island and the bar
constexpr int kBar = 26;
constexpr int kName = 84;     // column of names before bars
constexpr size_t kTiles = 8;  // of an island, at most; the rest is counted

int height_of(const PerfRing::Island& island) {
  const size_t tiles = std::min(island.ranks.size(), kTiles + 1);
  return kHead + static_cast<int>(tiles) * kTile + 6;
}

void draw_island(const PerfRing::Island& island, int x, int bottom, SvgCanvas* canvas) {
  int y = bottom - height_of(island);
  canvas->box(x, y, kIsland, height_of(island), "island");
  canvas->text(x + 8, y + 17, shorten_text(island.name, 24), "bold");
  y += kHead;
  for (size_t i = 0; i < island.ranks.size(); ++i, y += kTile) {
    if (i == kTiles) {
      canvas->text(x + 14, y + 14, fmt::format("and {} more", island.ranks.size() - i), "small");
      return;
    }
    const PerfRing::Rank& rank = island.ranks[i];
    canvas->box(x + 8, y, kIsland - 16, kTile - 4, "device");
    canvas->text(x + 14, y + 13,
                 fmt::format("rank {}, {}", rank.number, shorten_text(rank.device, 16)), "small");
  }
}

void draw_link(const PerfRing::Island& island, int x, int y, SvgCanvas* canvas) {
  canvas->line(x + 16, y, x + 16, y + kLink, "link");
  const auto rate = [&](const char* name, std::optional<double> value, int line) {
    if (value) {
      canvas->text(x + 26, y + line, fmt::format("{} {:.3g} GB/s", name, *value), "small");
    }
  };
  rate("out", island.out_gb_per_s, 26);
  rate("in", island.in_gb_per_s, 42);
}

// A bar of |value| out of |most| over |width| pixels, with its name and a figure.
void draw_bar(const std::string& name, double value, double most, const std::string& figure,
              const char* style, int y, int width, SvgCanvas* canvas) {
  canvas->text(kMargin, y + 12, shorten_text(name, 14), "small");
  const int length = std::max(2, static_cast<int>(value / most * width));
  canvas->box(kMargin + kName, y, length, 16, style);
  canvas->text(kMargin + kName + length + 6, y + 12, figure, "small");
}

}  // namespace

std::string draw_perf_ring(const PerfRing& ring) {
  SvgCanvas canvas;
  canvas.text(kMargin, kMargin + 8, ring.operation.empty() ? "no operation yet" : ring.operation,
              "head");
  int tallest = 0;
  for (const PerfRing::Island& island : ring.islands) {
    tallest = std::max(tallest, height_of(island));
  }
  const int bottom = kMargin + 24 + tallest;
  const int width = std::max(1, static_cast<int>(ring.islands.size())) * (kIsland + kMargin);
  int x = kMargin;
  for (const PerfRing::Island& island : ring.islands) {
    draw_island(island, x, bottom, &canvas);
    if (ring.islands.size() > 1) draw_link(island, x, bottom, &canvas);
    x += kIsland + kMargin;
  }
  int y = bottom + 20;
  if (ring.islands.size() > 1) {
    y = bottom + kLink;
    canvas.box(kMargin, y, width - kMargin, kBar, "lane");
    canvas.text(kMargin + 8, y + 17, ring.between, "bold");
    y += kBar + 20;
  }
  const int longest = std::max(200, std::min(width, 900) - kName - 200);
  bool has_shares = false;
  for (const PerfRing::Island& island : ring.islands) has_shares |= island.share.has_value();
  if (has_shares) {
    canvas.text(kMargin, y + 8, "share of the reduction", "bold");
    y += 16;
    for (const PerfRing::Island& island : ring.islands) {
      const double share = island.share.value_or(0);
      const PerfRing::Rank& first = island.ranks.front();
      const size_t others = island.ranks.size() - 1;
      draw_bar(others == 0 ? first.device : fmt::format("{} +{}", first.device, others), share, 1,
               fmt::format("{:.0f}%", share * 100), "measured", y, longest, &canvas);
      y += 20;
    }
    y += 14;
  }
  const double most = std::max({ring.bound_ms.value_or(0), ring.predicted_ms.value_or(0),
                                ring.measured_ms.value_or(0), 1e-9});
  canvas.text(kMargin, y + 8, "time", "bold");
  y += 16;
  const auto time = [&](const char* name, std::optional<double> ms, const char* style) {
    if (!ms) return;
    draw_bar(name, *ms, most, fmt::format("{:.4g} ms", *ms), style, y, longest, &canvas);
    y += 20;
  };
  time("bound", ring.bound_ms, "bound");
  time("predicted", ring.predicted_ms, "bound");
  time("measured", ring.measured_ms, "measured");
  return canvas.document();
}

}  // namespace keel::cli
