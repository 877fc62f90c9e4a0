// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/perf_ring.h"

#include <gtest/gtest.h>

namespace keel::cli {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const std::vector<std::string> kDevices = {"cuda:0", "cpu:0", "cuda:1", "cuda:2", "ascend<0>"};

// An island of three, one of one, and a CPU, with rates and shares by island.
constexpr const char* kNative = R"({"path": "bridge",
  "islands": [{"ranks": [0], "reach": "staged"}],
  "native": {"islands": [{"ranks": "ranks 0, 2-3", "library": "NCCL 2.28.9"}],
             "alone": [{"ranks": "ranks 1, 4", "why": "no native library"}], "lanes": 1},
  "last": {"operation": "all_reduce", "bytes": 4194304, "path": "native", "algorithm": "native",
    "lane": {"path": "bridge", "algorithm": "direct",
      "links_gb_per_s": [{"out": 12.5, "in": 10}, null, {"out": 3, "in": null}],
      "shares": [0.5, 0.375, 0.125], "bound_ms": 2.5, "predicted_ms": 3},
    "measured_ms": 3.25}})";

TEST(PerfRing, IslandsOfALibraryWithLinksAndShares) {
  const PerfRing ring = perf_ring(Json::parse(kNative), kDevices);
  EXPECT_EQ(perf_ring_text(ring),
            "# all_reduce of 4194304 bytes: native, between islands bridge by direct\n"
            "#   NCCL 2.28.9: rank 0 cuda:0, rank 2 cuda:1, rank 3 cuda:2, out 12.5 GB/s, in 10 "
            "GB/s, share 50%\n"
            "#   no native library: rank 1 cpu:0, share 38%\n"
            "#   no native library: rank 4 ascend<0>, out 3 GB/s, share 12%\n"
            "#   bound 2.5 ms, predicted 3 ms, measured 3.25 ms\n");
}

TEST(PerfRing, IslandsByReachSumTheSharesOfTheirRanks) {
  const PerfRing ring = perf_ring(Json::parse(R"({"path": "bridge",
    "islands": [{"ranks": [0, 2], "reach": "alias"}, {"ranks": [1], "reach": "staged"}],
    "native": {"islands": [], "alone": [], "lanes": 0},
    "last": {"operation": "broadcast", "bytes": 8, "path": "bridge", "algorithm": "ring",
      "links_gb_per_s": [null, {"out": 2, "in": 1}, null], "shares": [0.25, 0.25, 0.5],
      "bound_ms": null, "measured_ms": 1}})"),
                                  kDevices);
  EXPECT_EQ(perf_ring_text(ring),
            "# broadcast of 8 bytes: bridge by ring\n"
            "#   reach alias: rank 0 cuda:0, rank 2 cuda:1, share 75%\n"
            "#   reach staged: rank 1 cpu:0, out 2 GB/s, in 1 GB/s, share 25%\n"
            "#   measured 1 ms\n");
}

TEST(PerfRing, HostsAndTheirWire) {
  const PerfRing ring = perf_ring(
      Json::parse(R"({"path": "hosts", "hosts": [{"name": "a", "ranks": [0, 2]}, {"name": "b",
        "ranks": [1]}], "wire": "tcp", "last": null})"),
      kDevices);
  ASSERT_EQ(ring.islands.size(), 2u);
  EXPECT_EQ(ring.islands[0].name, "host a");
  EXPECT_EQ(ring.islands[1].ranks[0].device, "cpu:0");
  EXPECT_EQ(ring.between, "tcp");
  EXPECT_EQ(perf_ring_text(ring), "") << "no operation yet";
  EXPECT_TRUE(contains(draw_perf_ring(ring), "no operation yet"));
}

TEST(PerfRing, LanesHaveTheirPartsAndRates) {
  Json explained = Json::parse(R"({"path": "hosts", "hosts": [{"name": "a", "ranks": [0, 1]},
        {"name": "b", "ranks": [2, 3]}], "wire": "tcp", "lane_shares": [0.6667, 0.3333],
        "lane_shares_from": "measured", "lane_rates": [250.2, 125],
        "last": {"operation": "all_reduce", "path": "lanes", "algorithm": "direct"}})");
  EXPECT_TRUE(contains(perf_ring_text(perf_ring(explained, kDevices)),
                       "#   lanes 66.7%, 33.3%, measured at 250, 125 MB/s\n"));
  explained["lane_shares_from"] = "set";
  EXPECT_EQ(perf_ring(explained, kDevices).lanes, "lanes 66.7%, 33.3%, set");
  explained["last"]["path"] = "flat";
  EXPECT_EQ(perf_ring(explained, kDevices).lanes, "");
}

TEST(PerfRing, InterfaceAndItsReasonAreShown) {
  Json explained = Json::parse(R"({"path": "hosts", "hosts": [{"name": "a", "ranks": [0, 1]}],
        "wire": "tcp", "interface": {"name": "ib1", "address": "10.0.1.3", "chosen": "nearest",
        "distance": "same_switch"},
        "last": {"operation": "all_reduce", "path": "flat", "algorithm": "direct"}})");
  EXPECT_TRUE(contains(perf_ring_text(perf_ring(explained, kDevices)),
                       "#   this rank over ib1 (10.0.1.3), nearest: same_switch\n"));
  explained["interface"]["chosen"] = "local_rank";
  EXPECT_EQ(perf_ring(explained, kDevices).interface,
            "this rank over ib1 (10.0.1.3), by local rank among equally near ones");
  explained["interface"] = {
      {"name", nullptr}, {"address", "10.0.1.3"}, {"chosen", "route"}, {"distance", nullptr}};
  EXPECT_EQ(perf_ring(explained, kDevices).interface,
            "this rank over 10.0.1.3, by the route to the server");
}

TEST(PerfRing, LongListsOfRanksAreCounted) {
  std::string text = "ranks 0-9";
  const Json explained = {{"native",
                           {{"islands", {{{"ranks", text + " and 40 more"}, {"library", "RCCL"}}}},
                            {"alone", Json::array()}}}};
  const PerfRing ring = perf_ring(explained, {});
  ASSERT_EQ(ring.islands.size(), 1u);
  EXPECT_EQ(ring.islands[0].ranks.size(), 10u);
  EXPECT_TRUE(contains(draw_perf_ring(ring), "and 2 more"));
}

TEST(PerfRing, PictureHasEveryIslandEscaped) {
  const std::string picture = draw_perf_ring(perf_ring(Json::parse(kNative), kDevices));
  for (const char* part : {"<svg ", "NCCL 2.28.9", "out 12.5 GB/s", "ascend&lt;0&gt;", "50%",
                           "bound", "3.25 ms", ">bridge<", "</svg>"}) {
    EXPECT_TRUE(contains(picture, part)) << part;
  }
  EXPECT_FALSE(contains(picture, "ascend<0>"));
}

}  // namespace
}  // namespace keel::cli
