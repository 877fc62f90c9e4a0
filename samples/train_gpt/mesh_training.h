// SPDX-License-Identifier: Apache-2.0
// Training with --mesh: the library keel_parallel in the place of this sample's own trainer.
#ifndef KEEL_SAMPLES_TRAIN_GPT_MESH_TRAINING_H_
#define KEEL_SAMPLES_TRAIN_GPT_MESH_TRAINING_H_

#include <cstdint>
#include <filesystem>
#include <keel/keel.hpp>
#include <string>
#include <vector>

#include "samples/train_gpt/data.h"
#include "samples/train_gpt/parameters.h"
#include "samples/train_gpt/report.h"

namespace train_gpt {

// How the ranks of a mesh share the work.
struct MeshSettings {
  std::string mesh;  // "pp=2,dp=2,tp=2"; empty: no mesh
  int64_t micro_batches = 1;
  int64_t sharding = 0;            // level of ZeRO
  std::string recompute = "none";  // or "selective", "full"
  bool sequence_parallel = false;
  int64_t chunks = 1;                   // of products beside communication
  std::string schedule = "fill-drain";  // of axis pp; or a name of make_schedule()
  int64_t balance_every = 0;            // steps between measured shares of axis dp; 0: equal shares
  // Token files in the place of a text, read ahead by threads, each rank its share; empty: a text.
  std::vector<std::filesystem::path> tokens;
  int64_t token_bytes = 2;
  int64_t vocabulary = kVocabulary;
};

// One training with --mesh. References outlive the call.
struct MeshRun {
  const MeshSettings& mesh;
  const Corpus* corpus;  // NULL with token files
  const ParameterLayout& layout;
  std::vector<float> initial;  // in the layout's order; empty: the library's own
  // Folder of checkpoint sets; empty: none. A set is written each |checkpoint_every| steps, at the
  // end, and on SIGUSR1 to any rank's process, while the training goes on.
  std::filesystem::path checkpoint;
  int64_t checkpoint_every = 500;
  bool resume = false;       // from the latest set, of any mesh
  std::string loader_state;  // of that set, with token files
  int64_t report_every = 20;
  int64_t held_out_sequences = 64;
  bool timeline = false;  // records the last step
};

// Trains on |devices|, one rank each: all of them are ranks of this process, or if |rank| is not
// negative, devices[rank] alone, of a job of processes. With the initial weights of the trainer
// without a mesh and a text, the losses are those of the trainer but for rounding. Fills |report|
// on rank 0, which also shows progress; MFU of the timeline takes the roofs of its devices. Throws
// std::invalid_argument for a mesh that does not fit the model or the devices, std::runtime_error
// for a training that failed.
void train_on_mesh(const std::vector<keel::Device>& devices, int64_t rank, const MeshRun& run,
                   Report& report);

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_MESH_TRAINING_H_
