// SPDX-License-Identifier: Apache-2.0
// The contenders of the collectives comparison: the programs of bench/peers/, and how to start
// each.
#ifndef KEEL_BENCH_COLLECTIVES_CONTENDERS_H_
#define KEEL_BENCH_COLLECTIVES_CONTENDERS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace keel::bench {

enum class Side { kKeel, kPeer, kBound };

// Whether ranks are threads or processes, and who allocates their buffers. Keel is measured in all
// three settings; a peer that runs processes is compared with both process settings of Keel.
enum class Setting { kProcesses, kForeign, kThreads };
inline constexpr Setting kSettings[] = {Setting::kProcesses, Setting::kForeign, Setting::kThreads};
// "processes, Keel's buffers".
const char* name_of(Setting setting);

struct LaunchedContender {
  std::string name;
  Side side;
  Setting setting;
  std::string missing;  // why it cannot start here; else empty

  // Returns the command line for |ranks| ranks; the caller appends options of
  // bench/peers/options.h.
  std::vector<std::string> command(uint32_t ranks) const;

  std::vector<std::string> launcher;  // "%" stands for the number of ranks
  std::vector<std::string> program;   // likewise
  // The library, whatever the launcher: "keel", "openmpi", "mpich", "gloo"; empty for the bound.
  std::string library = "";
};

// Libraries that Keel is compared with.
inline constexpr const char* kPeerLibraries[] = {"openmpi", "mpich", "gloo"};

// Returns the contenders in the order of their turns, Keel between the peers. |folder| holds the
// programs.
std::vector<LaunchedContender> find_contenders(const std::string& folder);

}  // namespace keel::bench

#endif  // KEEL_BENCH_COLLECTIVES_CONTENDERS_H_
