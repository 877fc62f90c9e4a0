// SPDX-License-Identifier: Apache-2.0
#include "tools/keel/topo.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tools/command.h"
#include "tools/keel/topo_svg.h"
#include "tools/output_file.h"

namespace keel::cli {
namespace {

struct TopoOptions {
  std::vector<std::string> plugins;
  std::string synthetic;
  bool is_synthetic = false;
  std::string svg;
  bool json = false;
};

// A line of the tree, with its subtrees.
struct Branch {
  std::string text;
  std::vector<Branch> below;
};

void render(const Branch& branch, const std::string& margin, std::string* text) {
  for (size_t i = 0; i < branch.below.size(); ++i) {
    const bool is_last = i + 1 == branch.below.size();
    *text += margin + (is_last ? "└─ " : "├─ ") + branch.below[i].text + '\n';
    render(branch.below[i], margin + (is_last ? "   " : "│  "), text);
  }
}

std::string count_text(const Json& object) {
  return fmt::format("{} cores, {} PUs", object.at("cores").get<int>(),
                     object.at("pus").get<int>());
}

std::string via_text(const Json& device) {
  const std::vector<std::string> path = device.at("pci_path");
  if (path.empty()) {
    const Json& address = device.at("pci_address");
    return address.is_null() ? std::string() : address.get<std::string>();
  }
  return fmt::format("{}", fmt::join(path, " > "));
}

// Returns the branches of |node|, or of no node if null. A chip with several devices appears once.
std::vector<Branch> placed_branches(const Json& topology, const Json& node) {
  std::vector<Branch> branches;
  std::map<int, size_t> of_chip;
  for (const Json& device : topology.at("devices")) {
    if (device.at("numa_node") != node) continue;
    const std::string name = device.at("name");
    const auto [found, is_new] = of_chip.try_emplace(device.at("chip"), branches.size());
    if (!is_new) {
      branches[found->second].below.push_back({"also " + name, {}});
      continue;
    }
    std::string text = fmt::format("{:<12} {}", name, device.at("description").get<std::string>());
    if (const std::string via = via_text(device); !via.empty()) text += "  at " + via;
    branches.push_back({text, {}});
  }
  for (const Json& nic : topology.at("nics")) {
    if (nic.at("numa_node") != node) continue;
    std::string text =
        fmt::format("{:<12} {}", nic.at("name").get<std::string>(),
                    nic.at("kind") == "network" ? "network interface" : "OpenFabrics interface");
    if (!nic.at("pci_address").is_null()) {
      text += "  at " + nic.at("pci_address").get<std::string>();
    }
    branches.push_back({text, {}});
  }
  return branches;
}

Branch node_branch(const Json& topology, const Json& node) {
  return {fmt::format("NUMA node {}  {}, {}, CPUs {}", node.at("index").get<int>(),
                      size_text(node.at("memory_bytes")), count_text(node),
                      node.at("cpus").get<std::string>()),
          placed_branches(topology, node.at("index"))};
}

std::string tree_text(const Json& topology) {
  static const std::map<std::string, std::string> kSources = {
      {"machine", "this machine"}, {"synthetic", "synthetic"}, {"file", "read from a file"}};
  Branch machine;
  machine.text = fmt::format("{}  {}, {}", kSources.at(topology.at("source")),
                             size_text(topology.at("memory_bytes")), count_text(topology));
  for (const Json& package : topology.at("packages")) {
    Branch branch{
        fmt::format("package {}  {}{}", package.at("index").get<int>(),
                    package.at("model").is_null() ? std::string()
                                                  : package.at("model").get<std::string>() + ", ",
                    count_text(package)),
        {}};
    for (const Json& node : topology.at("numa_nodes")) {
      if (node.at("packages") == Json::array({package.at("index")})) {
        branch.below.push_back(node_branch(topology, node));
      }
    }
    machine.below.push_back(std::move(branch));
  }
  // Nodes that belong to no package, or to several.
  for (const Json& node : topology.at("numa_nodes")) {
    if (node.at("packages").size() != 1) machine.below.push_back(node_branch(topology, node));
  }
  for (Branch& branch : placed_branches(topology, nullptr)) {
    branch.text += "  (NUMA node unknown)";
    machine.below.push_back(std::move(branch));
  }
  std::string text = machine.text + '\n';
  render(machine, "", &text);
  return text;
}

// One row per device, one column per device or network interface.
std::string distance_table(const Json& topology) {
  if (topology.at("distances").empty()) return {};
  std::map<std::pair<std::string, std::string>, std::string> codes;
  for (const Json& entry : topology.at("distances")) {
    const std::string from = entry.at("from");
    const std::string to = entry.at("to");
    codes[{from, to}] = codes[{to, from}] = distance_code(entry.at("distance"));
  }
  std::vector<std::string> rows;
  for (const Json& device : topology.at("devices")) rows.push_back(device.at("name"));
  std::vector<std::string> columns = rows;
  for (const Json& nic : topology.at("nics")) columns.push_back(nic.at("name"));
  const auto width = [](const std::string& name) { return std::max<size_t>(name.size(), 6); };
  std::string text = fmt::format("\n{:<12}", "distance");
  for (const std::string& column : columns) text += fmt::format("  {:<{}}", column, width(column));
  for (const std::string& row : rows) {
    text.erase(text.find_last_not_of(' ') + 1);
    text += fmt::format("\n{:<12}", row);
    for (const std::string& column : columns) {
      const auto code = codes.find({row, column});
      text += fmt::format("  {:<{}}", code == codes.end() ? "-" : code->second, width(column));
    }
  }
  text.erase(text.find_last_not_of(' ') + 1);
  text +=
      "\nchip: the same one; switch: below one PCI bridge; bridge: below one host bridge;\n"
      "node: on one NUMA node; across: on two; ?: unknown\n";
  return text;
}

void print_topology(const Json& topology) {
  std::string text = tree_text(topology) + distance_table(topology);
  const Json& staging = topology.at("staging");
  text += fmt::format("\nstaging buffers  {}: {}\n",
                      staging.at("binds").get<bool>() ? "bound" : "not bound",
                      staging.at("reason").get<std::string>());
  for (const Json& note : topology.at("notes")) text += "note  " + note.get<std::string>() + '\n';
  print(text);
}

void run(const TopoOptions& options) {
  const OutputFile svg("--svg", options.svg);
  const Session session(options.plugins);
  Json topology;
  try {
    topology = json_of(keel::topology(options.is_synthetic ? options.synthetic.c_str() : nullptr));
  } catch (const Error& error) {
    if (error.status() != KEEL_INVALID_ARGUMENT || !options.is_synthetic) throw;
    throw UsageError(fmt::format("--synthetic: {}", error.what()));
  }
  if (!options.svg.empty()) svg.write(draw_topology(topology));
  if (options.json) return print_json(topology);
  if (options.svg.empty()) print_topology(topology);
}

}  // namespace

void add_topo_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("topo", "Show where devices and network interfaces lie in the machine");
  command->footer(
      "Examples:\n"
      "  keel topo\n"
      "  keel topo --svg machine.svg\n"
      "  keel topo --json | jq '.distances[]'\n"
      "  keel topo --synthetic \"pack:2 numa:2 core:4 pu:2\"");
  auto options = std::make_shared<TopoOptions>();
  add_plugin_option(*command, &options->plugins);
  command->add_flag("--json", options->json, "Print JSON");
  command->add_option("--svg", options->svg, "Draw it into this file")->type_name("FILE");
  const CLI::Option* synthetic = command->add_option(
      "--synthetic", options->synthetic, "Another machine, in hwloc's words, without devices");
  command->callback([options, synthetic] {
    options->is_synthetic = synthetic->count() != 0;
    run(*options);
  });
}

}  // namespace keel::cli
