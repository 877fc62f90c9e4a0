// SPDX-License-Identifier: Apache-2.0
#include "tools/keel/topo_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tools/svg_canvas.h"

namespace keel::cli {
namespace {

// Pixels.
constexpr int kGap = 12;
constexpr int kLine = 18;
constexpr int kCore = 14;  // a core's square with gap
constexpr int kCoresAcross = 16;
constexpr int kNodeWidth = 2 * kGap + kCoresAcross * kCore;
constexpr int kTile = 38;  // height of a device or an interface
constexpr int kCell = 64;  // in the table of distances
constexpr int kRowName = 110;

// A device or an interface in a node's box, with two lines of text.
struct Tile {
  std::string title;
  std::string detail;
  const char* style;
};

// Returns the tiles of |node|, or of no node if null. A chip with several devices is one tile.
std::vector<Tile> tiles_on(const Json& topology, const Json& node) {
  std::vector<Tile> tiles;
  std::map<int, size_t> of_chip;
  for (const Json& device : topology.at("devices")) {
    if (device.at("numa_node") != node) continue;
    const std::string name = device.at("name");
    const auto [found, is_new] = of_chip.try_emplace(device.at("chip"), tiles.size());
    if (!is_new) {
      tiles[found->second].title += ", " + name;
      continue;
    }
    const Json& address = device.at("pci_address");
    tiles.push_back({name,
                     (address.is_null() ? std::string() : address.get<std::string>() + " ") +
                         device.at("description").get<std::string>(),
                     "device"});
  }
  for (const Json& nic : topology.at("nics")) {
    if (nic.at("numa_node") != node) continue;
    const Json& address = nic.at("pci_address");
    tiles.push_back({nic.at("name"), address.is_null() ? nic.at("kind") : address, "nic"});
  }
  return tiles;
}

// A box with |cores| squares above |tiles|.
struct Node {
  std::string title;
  std::string detail;
  int cores = 0;
  std::vector<Tile> tiles;

  int height() const {
    const int rows = (cores + kCoresAcross - 1) / kCoresAcross;
    return kGap + 2 * kLine + rows * kCore + static_cast<int>(tiles.size()) * (kTile + 6) + kGap;
  }
};

Node node_of(const Json& topology, const Json& node) {
  return {fmt::format("NUMA node {}", node.at("index").get<int>()),
          fmt::format("{}, {} cores, {} PUs", size_text(node.at("memory_bytes")),
                      node.at("cores").get<int>(), node.at("pus").get<int>()),
          node.at("cores"), tiles_on(topology, node.at("index"))};
}

void draw_node(const Node& node, int x, int y, int height, SvgCanvas* canvas) {
  canvas->box(x, y, kNodeWidth, height, "node");
  int at = y + kGap + 6;
  canvas->text(x + kGap, at, node.title, "bold");
  at += kLine - 2;
  canvas->text(x + kGap, at, node.detail, "small");
  at += 8;
  for (int core = 0; core < node.cores; ++core) {
    canvas->box(x + kGap + core % kCoresAcross * kCore, at + core / kCoresAcross * kCore, kCore - 3,
                kCore - 3, "core");
  }
  at += (node.cores + kCoresAcross - 1) / kCoresAcross * kCore + 4;
  for (const Tile& tile : node.tiles) {
    canvas->box(x + kGap, at, kNodeWidth - 2 * kGap, kTile, tile.style);
    canvas->text(x + kGap + 8, at + 16, shorten_text(tile.title, 30), "bold");
    canvas->text(x + kGap + 8, at + 30, shorten_text(tile.detail, 34), "small");
    at += kTile + 6;
  }
}

// A package, or the nodes without a package, side by side.
struct Group {
  std::string title;
  std::vector<Node> nodes;
};

std::vector<Group> groups_of(const Json& topology) {
  std::vector<Group> groups;
  for (const Json& package : topology.at("packages")) {
    Group group{fmt::format("package {}", package.at("index").get<int>()), {}};
    if (!package.at("model").is_null()) {
      group.title += "  " + package.at("model").get<std::string>();
    }
    for (const Json& node : topology.at("numa_nodes")) {
      if (node.at("packages") == Json::array({package.at("index")})) {
        group.nodes.push_back(node_of(topology, node));
      }
    }
    groups.push_back(std::move(group));
  }
  Group shared{"outside the packages", {}};
  for (const Json& node : topology.at("numa_nodes")) {
    if (node.at("packages").size() != 1) shared.nodes.push_back(node_of(topology, node));
  }
  std::vector<Tile> lost = tiles_on(topology, nullptr);
  if (!lost.empty()) shared.nodes.push_back({"NUMA node unknown", "", 0, std::move(lost)});
  if (!shared.nodes.empty()) groups.push_back(std::move(shared));
  return groups;
}

const char* distance_style(const std::string& code) {
  static const std::map<std::string, const char*> kStyles = {{"chip", "chip"},
                                                             {"switch", "switch"},
                                                             {"bridge", "bridge"},
                                                             {"node", "same"},
                                                             {"across", "across"}};
  const auto found = kStyles.find(code);
  return found == kStyles.end() ? "unknown" : found->second;
}

void draw_distances(const Json& topology, int y, SvgCanvas* canvas) {
  if (topology.at("distances").empty()) return;
  std::map<std::string, int> places;
  std::vector<std::string> columns;
  const size_t rows = topology.at("devices").size();
  for (const char* list : {"devices", "nics"}) {
    for (const Json& each : topology.at(list)) columns.push_back(each.at("name"));
  }
  canvas->text(kGap, y + kLine, "distances", "head");
  y += kLine + 10;
  for (size_t i = 0; i < columns.size(); ++i) {
    const int at = static_cast<int>(i);
    places[columns[i]] = at;
    canvas->text(kGap + kRowName + at * kCell, y + kLine - 4, shorten_text(columns[i], 9), "small");
    if (i < rows) {
      canvas->text(kGap, y + kLine + at * 24 + 14, shorten_text(columns[i], 15), "bold");
    }
  }
  y += kLine;
  const auto draw_cell = [&](int row, int column, const std::string& code) {
    if (row >= static_cast<int>(rows)) return;
    const int x = kGap + kRowName + column * kCell;
    canvas->box(x, y + row * 24, kCell - 4, 20, distance_style(code));
    canvas->text(x + 6, y + row * 24 + 14, code, "small");
  };
  for (const Json& entry : topology.at("distances")) {
    const int from = places.at(entry.at("from"));
    const int to = places.at(entry.at("to"));
    const std::string code = distance_code(entry.at("distance"));
    draw_cell(from, to, code);
    draw_cell(to, from, code);
  }
}

}  // namespace

std::string size_text(const Json& bytes) {
  if (bytes.is_null()) return "unknown memory";
  return fmt::format("{:.1f} GiB", bytes.get<double>() / (1 << 30));
}

std::string distance_code(const std::string& distance) {
  static const std::map<std::string, std::string> kCodes = {{"same_chip", "chip"},
                                                            {"same_switch", "switch"},
                                                            {"same_host_bridge", "bridge"},
                                                            {"same_numa_node", "node"},
                                                            {"across_numa_nodes", "across"}};
  const auto found = kCodes.find(distance);
  return found == kCodes.end() ? "?" : found->second;
}

std::string draw_topology(const Json& topology) {
  SvgCanvas canvas;
  canvas.text(kGap, kGap + 12,
              fmt::format("{}, {} cores, {} PUs", size_text(topology.at("memory_bytes")),
                          topology.at("cores").get<int>(), topology.at("pus").get<int>()),
              "head");
  const std::vector<Group> groups = groups_of(topology);
  int tallest = 0;
  for (const Group& group : groups) {
    for (const Node& node : group.nodes) tallest = std::max(tallest, node.height());
  }
  const int top = kGap + 12 + kGap;
  int x = kGap;
  for (const Group& group : groups) {
    const int nodes = std::max(1, static_cast<int>(group.nodes.size()));
    const int width = kGap + nodes * (kNodeWidth + kGap);
    canvas.box(x, top, width, tallest + kLine + 3 * kGap, "package");
    canvas.text(x + kGap, top + kGap + 8, shorten_text(group.title, static_cast<size_t>(width / 8)),
                "bold");
    int at = x + kGap;
    for (const Node& node : group.nodes) {
      draw_node(node, at, top + kGap + kLine, tallest, &canvas);
      at += kNodeWidth + kGap;
    }
    x += width + kGap;
  }
  draw_distances(topology, top + tallest + kLine + 5 * kGap, &canvas);
  return canvas.document();
}

}  // namespace keel::cli
