// SPDX-License-Identifier: Apache-2.0
// Tests the keel command as a user sees it: output, errors, exit codes. Runs the built binary.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tools/testing/keel_command.h"

namespace {

using keel::cli::testing::contains;
using keel::cli::testing::keel;
using keel::cli::testing::Result;
using nlohmann::json;

const json* find_named(const json& list, const std::string& key, const std::string& value) {
  for (const json& each : list) {
    if (each.at(key) == value) return &each;
  }
  return nullptr;
}

// ---- help and mistakes -------------------------------------------------------------

TEST(Cli, EveryHelpSucceedsAndShowsAnExample) {
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"compare"},
                                             {"devices"},
                                             {"flight"},
                                             {"new-plugin"},
                                             {"ops"},
                                             {"ops", "list"},
                                             {"ops", "explain"},
                                             {"perf"},
                                             {"ping"},
                                             {"run"},
                                             {"topo"}}) {
    std::vector<std::string> arguments = command;
    arguments.emplace_back("--help");
    const Result result = keel(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.error;
    EXPECT_TRUE(contains(result.out, "  keel " + command[0])) << result.out;
  }
}

TEST(Cli, NoCommandIsAMistake) {
  EXPECT_EQ(keel({}).exit_code, 2);
}

TEST(Cli, UnknownCommandIsNamed) {
  const Result result = keel({"divices"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(contains(result.error, "divices")) << result.error;
}

TEST(Cli, UnknownOptionIsNamed) {
  const Result result = keel({"devices", "--jsonn"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(contains(result.error, "--jsonn")) << result.error;
}

TEST(Cli, OutputThatCannotBeWrittenIsAFailure) {
  const std::string command =
      std::string(std::getenv("KEEL_TEST_BIN")) + "/keel ops list --markdown > /dev/full 2>&1";
  const int status = std::system(command.c_str());  // NOLINT(cert-env33-c)
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

// ---- devices -----------------------------------------------------------------------

TEST(CliDevices, JsonHasTheCpuAndItsClaims) {
  const Result result = keel({"devices", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const json out = json::parse(result.out);
  const json* cpu = find_named(out.at("devices"), "name", "cpu:0");
  ASSERT_NE(cpu, nullptr) << result.out;
  EXPECT_EQ(cpu->at("type"), "cpu");
  EXPECT_GT(cpu->at("memory_bytes"), 0u);
  EXPECT_NE(std::find(cpu->at("capabilities").begin(), cpu->at("capabilities").end(), "ops"),
            cpu->at("capabilities").end());
  const json* backend = find_named(out.at("backends"), "name", "cpu");
  ASSERT_NE(backend, nullptr);
  EXPECT_EQ(backend->at("status"), "KEEL_OK");
}

TEST(CliDevices, BackendWithoutDeviceSaysWhy) {
  const Result result = keel({"devices"}, {"KEEL_BACKENDS=skeleton"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  EXPECT_TRUE(contains(result.out, "no device: ")) << result.out;
  EXPECT_TRUE(contains(result.out, "template")) << result.out;
}

TEST(CliDevices, PluginThatDoesNotLoadIsListedWithTheReason) {
  char folder[] = "/tmp/keel_cli_test_XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string file = std::string(folder) + "/libkeel_broken.so";
  std::ofstream(file) << "no library";
  const Result result = keel({"devices", "--json"},
                             {std::string("KEEL_PLUGIN_PATH=") + folder, "KEEL_BACKENDS=broken"});
  std::remove(file.c_str());
  rmdir(folder);
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const json out = json::parse(result.out);
  EXPECT_TRUE(out.at("devices").empty());
  const json* broken = find_named(out.at("backends"), "name", "broken");
  ASSERT_NE(broken, nullptr) << result.out;
  EXPECT_NE(broken->at("status"), "KEEL_OK");
  EXPECT_NE(broken->at("reason"), "");
}

TEST(CliDevices, PluginOptionLoadsOneMore) {
  const std::string skeleton =
      std::string(std::getenv("KEEL_PLUGIN_PATH")) + "/libkeel_skeleton.so";
  const Result result = keel({"devices", "--json", "--plugin", skeleton}, {"KEEL_BACKENDS=cpu"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const json out = json::parse(result.out);
  EXPECT_NE(find_named(out.at("backends"), "name", "skeleton"), nullptr) << result.out;
}

TEST(CliDevices, PluginFileThatIsNotThereIsAMistake) {
  const Result result = keel({"devices", "--plugin", "/nowhere/libkeel_x.so"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(contains(result.error, "/nowhere/libkeel_x.so")) << result.error;
}

TEST(CliDevices, EmulatedLibrariesAreLookedForBesideKeel) {
  const std::string chips = "KEEL_EMULATED_CUDA=devices=3 faults=2/slow=2";
  const Result result = keel({"devices", "--json", "--emulated"}, {chips});
  const auto folder = std::filesystem::path(std::getenv("KEEL_PLUGIN_PATH")) / "../emulated";
  if (!std::filesystem::exists(folder)) {
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_TRUE(contains(result.error, "there are no emulated libraries")) << result.error;
    return;
  }
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const json out = json::parse(result.out);
  const json* third = find_named(out.at("devices"), "name", "cuda:2");
  ASSERT_NE(third, nullptr) << result.out;
  EXPECT_EQ(third->at("description"), "Emulated GPU");
  EXPECT_TRUE(contains(third->at("driver"), "keel/emulated/cuda/libcuda.so.1")) << result.out;
  EXPECT_EQ(third->at("health").at("ok"), true);
  EXPECT_EQ(third->at("health").at("throttled"), true);
  const json* first = find_named(out.at("devices"), "name", "cuda:0");
  ASSERT_NE(first, nullptr) << result.out;
  EXPECT_EQ(first->at("health").at("throttled"), false);
  const std::string text = keel({"devices", "--emulated"}, {chips}).out;
  EXPECT_TRUE(contains(text, "health  ok\n")) << text;
  EXPECT_TRUE(contains(text, "health  throttled (clocks are held down by heat")) << text;
}

// One Vulkan device, opened by two instances of the plugin, has one UUID.
TEST(CliDevices, AChipWithTwoWaysInIsListedOnce) {
  const json before = json::parse(keel({"devices", "--json"}).out);
  if (find_named(before.at("devices"), "name", "vulkan:0") == nullptr) {
    GTEST_SKIP() << "there is no Vulkan device";
  }
  const std::string plugin = find_named(before.at("backends"), "name", "vulkan")->at("path");
  const Result result = keel({"devices", "--json", "--plugin", plugin});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const json out = json::parse(result.out);
  const json* one = find_named(out.at("devices"), "name", "vulkan:0");
  const json* two = find_named(out.at("devices"), "name", "vulkan#2:0");
  ASSERT_NE(two, nullptr) << result.out;
  EXPECT_EQ(one->at("chip"), two->at("chip"));
  EXPECT_NE(one->at("chip"), find_named(out.at("devices"), "name", "cpu:0")->at("chip"));
  const std::string text = keel({"devices", "--plugin", plugin}).out;
  EXPECT_TRUE(contains(text, "\n  also    vulkan#2:0, ")) << text;
  EXPECT_FALSE(contains(text, "\nvulkan#2:0")) << text;
}

// ---- topo --------------------------------------------------------------------------

bool has_topology() {
  return !contains(keel({"topo"}).error, "built without hwloc");
}

TEST(CliTopo, TheTreeHasNodesDevicesAndDistances) {
  if (!has_topology()) GTEST_SKIP() << "built without hwloc";
  const Result result = keel({"topo"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  for (const char* part : {"this machine", "NUMA node 0", "cpu:0", "\ndistance", "staging"}) {
    EXPECT_TRUE(contains(result.out, part)) << part << " in:\n" << result.out;
  }
}

TEST(CliTopo, SyntheticMachines) {
  if (!has_topology()) GTEST_SKIP() << "built without hwloc";
  const Result tree = keel({"topo", "--synthetic", "pack:2 numa:2 core:4 pu:2"});
  ASSERT_EQ(tree.exit_code, 0) << tree.error;
  EXPECT_TRUE(contains(tree.out, "16 cores, 32 PUs")) << tree.out;
  EXPECT_TRUE(contains(tree.out, "   └─ NUMA node 3")) << tree.out;
  EXPECT_FALSE(contains(tree.out, "cpu:0")) << tree.out;
  const Result data = keel({"topo", "--json", "--synthetic", "pack:1 core:3 pu:1"});
  EXPECT_EQ(json::parse(data.out).at("cores"), 3);
  for (const char* bad : {"", "nonsense", "pack:", "pack:9999 core:9999 pu:9999"}) {
    const Result result = keel({"topo", "--synthetic", bad});
    EXPECT_EQ(result.exit_code, 2) << bad;
    EXPECT_TRUE(contains(result.error, "--synthetic")) << result.error;
    EXPECT_EQ(result.out, "");
  }
}

TEST(CliTopo, ThePictureIsMarkupWithEveryNode) {
  if (!has_topology()) GTEST_SKIP() << "built without hwloc";
  char folder[] = "/tmp/keel-topo-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string picture = std::string(folder) + "/machine.svg";
  const Result result =
      keel({"topo", "--svg", picture, "--synthetic", "pack:2 numa:2 core:4 pu:1"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  std::ifstream file(picture);
  const std::string svg((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_TRUE(svg.starts_with("<svg ")) << svg;
  EXPECT_TRUE(svg.ends_with("</svg>\n")) << svg;
  for (const char* part : {"package 1", "NUMA node 3"}) EXPECT_TRUE(contains(svg, part)) << svg;
  std::remove(picture.c_str());
  rmdir(folder);
}

TEST(CliTopo, PictureThatCannotBeWrittenNamesTheFile) {
  if (!has_topology()) GTEST_SKIP() << "built without hwloc";
  for (const char* path : {"/nonexistent/machine.svg", "/dev/full"}) {
    const Result result = keel({"topo", "--svg", path});
    // A missing folder is detected before any work.
    EXPECT_EQ(result.exit_code, std::string(path) == "/dev/full" ? 1 : 2) << path;
    EXPECT_TRUE(contains(result.error, std::string("--svg ") + path)) << result.error;
  }
}

TEST(CliTopo, FileOfHwlocThatCannotBeReadIsNamed) {
  if (!has_topology()) GTEST_SKIP() << "built without hwloc";
  const Result result = keel({"topo"}, {"HWLOC_XMLFILE=/nonexistent.xml"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(contains(result.error, "HWLOC_XMLFILE=/nonexistent.xml: cannot be read"))
      << result.error;
  const Result synthetic = keel({"topo"}, {"HWLOC_SYNTHETIC=nonsense"});
  EXPECT_EQ(synthetic.exit_code, 1);
  EXPECT_TRUE(contains(synthetic.error, "HWLOC_SYNTHETIC")) << synthetic.error;
  EXPECT_FALSE(contains(synthetic.error, "--synthetic")) << synthetic.error;
}

// ---- perf --------------------------------------------------------------------------

// The libraries of several vendors in one communicator: in one process, and with one for each rank.
TEST(CliPerf, EmulatedMakesAreIslandsOfTheirLibraries) {
  const auto lib = std::filesystem::path(std::getenv("KEEL_PLUGIN_PATH")) / "..";
  std::string backends = "cpu";
  std::string devices = "cpu:0";
  std::vector<std::string> libraries;
  std::vector<std::string> environment;
  const struct {
    const char* plugin;
    const char* library;
    const char* settings;
  } kMakes[] = {{"cuda", "NCCL", "CUDA"}, {"ascend", "HCCL", "ASCEND"}, {"kunlun", "BKCL", "XRE"}};
  for (const auto& [plugin, library, settings] : kMakes) {
    if (!std::filesystem::exists(lib / "emulated" / plugin) ||
        !std::filesystem::exists(lib / "plugins" / (std::string("libkeel_") + plugin + ".so"))) {
      continue;
    }
    backends += std::string(",") + plugin;
    devices += std::string(",") + plugin + ":0," + plugin + ":1";
    libraries.emplace_back(library);
    environment.push_back(std::string("KEEL_EMULATED_") + settings + "=devices=2 memory_mib=64");
  }
  if (libraries.size() < 2) GTEST_SKIP() << "this build has no emulated libraries of two vendors";
  environment.push_back("KEEL_BACKENDS=" + backends);
  const auto ranks = std::to_string(1 + 2 * libraries.size());
  const std::string picture = ::testing::TempDir() + "makes" + std::to_string(getpid()) + ".svg";
  for (const char* const processes : {"1", ranks.c_str()}) {
    const Result result =
        keel({"perf", "all_reduce", "--emulated", "--devices", devices, "--procs", processes, "-b",
              "64K", "-e", "64K", "-n", "1", "-w", "0", "--explain", "--svg", picture},
             environment);
    ASSERT_EQ(result.exit_code, 0) << result.error << result.out;
    std::stringstream drawn;
    drawn << std::ifstream(picture).rdbuf();
    std::filesystem::remove(picture);
    for (const std::string& library : libraries) {
      EXPECT_TRUE(contains(result.out, R"("library": ")" + library)) << result.out;
      EXPECT_TRUE(contains(drawn.str(), library)) << drawn.str();
    }
    EXPECT_TRUE(contains(drawn.str(), "all_reduce of 65536 bytes")) << drawn.str();
  }
}

// ---- output files ------------------------------------------------------------------

TEST(Cli, OutputFilesThatCannotBeWrittenAreMistakesBeforeTheRun) {
  const std::string file = "/nonexistent/out";
  for (std::vector<std::string> command :
       {std::vector<std::string>{"compare", "a", "b", "--json"},
        {"topo", "--svg"},
        {"perf", "all_reduce", "--output_file"},
        {"conform", "run", "--backend", "cpu", "--json"},
        {"conform", "run", "--backend", "cpu", "--junit"},
        {"conform", "run", "--backend", "cpu", "--certificate"}}) {
    const std::string shown = command[0] + " " + command.back();
    command.push_back(file);
    const Result result = keel(command);
    EXPECT_EQ(result.exit_code, 2) << shown << ": " << result.error;
    EXPECT_TRUE(contains(result.error, file)) << shown << ": " << result.error;
    EXPECT_EQ(result.out, "") << shown;
  }
}

// ---- ops explain -------------------------------------------------------------------

TEST(CliOpsExplain, NamesTheKernelThatWouldRun) {
  const Result text = keel({"ops", "explain", "matmul", "--device", "cpu:0"});
  ASSERT_EQ(text.exit_code, 0) << text.error;
  const Result result = keel({"ops", "explain", "matmul", "--device", "cpu:0", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const json out = json::parse(result.out);
  EXPECT_EQ(out.at("device"), "cpu:0");
  EXPECT_EQ(out.at("text"), text.out);
  const std::string kernel = out.at("plan").at("kernel");
  EXPECT_FALSE(kernel.empty());
  EXPECT_TRUE(contains(text.out, kernel)) << text.out;
  EXPECT_EQ(out.at("plan").at("fallback"), false);
}

TEST(CliOpsExplain, AsksAboutTheGivenShapes) {
  const Result result =
      keel({"ops", "explain", "matmul", "--device", "cpu", "--dtype", "f32", "--set", "trans_b=1",
            "--json", "--shape", "64x128", "32x128", "none", "64x32"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const json out = json::parse(result.out);
  EXPECT_EQ(out.at("inputs").at(0).at("shape"), json::array({64, 128}));
  EXPECT_TRUE(out.at("inputs").at(2).is_null());
  EXPECT_EQ(out.at("outputs").at(0).at("shape"), json::array({64, 32}));
}

struct Mistake {
  std::vector<std::string> arguments;
  std::vector<std::string> named;  // in the error
};

TEST(CliOpsExplain, MistakesAreNamedAndWhatThereIsIsListed) {
  const std::vector<Mistake> mistakes = {
      {{"matmull", "--device", "cpu"}, {"'matmull'", "matmul", "adamw"}},
      {{"matmul", "--device", "tpu:0"}, {"'tpu:0'", "cpu:0"}},
      {{"matmul"}, {"--device"}},
      {{"matmul", "--device", "cpu", "--dtype", "f65"}, {"'f65'", "bf16_f32"}},
      {{"matmul", "--device", "cpu", "--shape", "2x2"}, {"1 shapes", "bias"}},
      {{"add", "--device", "cpu", "--shape", "2y2", "2x2", "2x2"}, {"'2y2'"}},
      {{"add", "--device", "cpu", "--shape", "77777777777777777x777", "2", "2"}, {"x777'"}},
      {{"add", "--device", "cpu", "--shape", "1x1x1x1x1x1x1x1x1", "2", "2"}, {"x1'"}},
      {{"add", "--device", "cpu", "--shape", "2x2", "2x3", "2x2"}, {"add", "b"}},
      {{"matmul", "--device", "cpu", "--set", "trans=1"}, {"'trans=1'", "trans_a"}},
      {{"matmul", "--device", "cpu", "--set", "trans_a=yes"}, {"trans_a=yes"}},
  };
  for (const Mistake& mistake : mistakes) {
    std::vector<std::string> arguments = {"ops", "explain"};
    arguments.insert(arguments.end(), mistake.arguments.begin(), mistake.arguments.end());
    const Result result = keel(arguments);
    EXPECT_EQ(result.exit_code, 2) << mistake.named[0] << ": " << result.error;
    EXPECT_EQ(result.out, "");
    for (const std::string& name : mistake.named) {
      EXPECT_TRUE(contains(result.error, name)) << name << " in: " << result.error;
    }
  }
}

}  // namespace
