// SPDX-License-Identifier: Apache-2.0
// Who is compared in collectives: the programs of bench/peers/, and how each is started.
#ifndef KEEL_BENCH_COLLECTIVES_CONTENDERS_H_
#define KEEL_BENCH_COLLECTIVES_CONTENDERS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace keel::bench {

enum class Side { kKeel, kPeer, kBound };

// What ranks are, and whose memory they use. Keel is measured in all three; a peer's
// processes stand against both kinds of Keel's.
enum class Setting { kProcesses, kForeign, kThreads };
inline constexpr Setting kSettings[] = {Setting::kProcesses, Setting::kForeign, Setting::kThreads};
// "processes, Keel's buffers".
const char* name_of(Setting setting);

struct LaunchedContender {
  std::string name;
  Side side;
  Setting setting;
  std::string missing;  // why it cannot be started here; else empty

  // Of |ranks| ranks; the options of bench/peers/options.h come behind.
  std::vector<std::string> command(uint32_t ranks) const;

  std::vector<std::string> launcher;  // "%" stands for the number of ranks
  std::vector<std::string> program;   // likewise
  // What is measured, whichever way: "keel", "openmpi", "mpich", "gloo"; empty for the bound.
  std::string library = "";
};

// Those that Keel is compared with.
inline constexpr const char* kPeerLibraries[] = {"openmpi", "mpich", "gloo"};

// In the order of their turns: Keel between the peers. |folder| holds the programs.
std::vector<LaunchedContender> find_contenders(const std::string& folder);

}  // namespace keel::bench

#endif  // KEEL_BENCH_COLLECTIVES_CONTENDERS_H_
