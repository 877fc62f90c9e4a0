// SPDX-License-Identifier: Apache-2.0
// Training with --mesh: the library keel_parallel in the place of this sample's own trainer.
#ifndef KEEL_SAMPLES_TRAIN_GPT_MESH_TRAINING_H_
#define KEEL_SAMPLES_TRAIN_GPT_MESH_TRAINING_H_

#include <cstdint>
#include <functional>
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
};

// Trains on |devices|, one rank each: all of them are ranks of this process, or if |rank| is not
// negative, devices[rank] alone, of a job of processes. Begins with the weights of the trainer
// without a mesh, and sees its batches, so the losses are the same but for rounding. Fills |report|
// on rank 0, which also shows progress. Throws std::invalid_argument for a mesh that does not fit
// the model or the devices, std::runtime_error for a training that failed.
void train_on_mesh(const std::vector<keel::Device>& devices, int64_t rank, const Corpus& corpus,
                   const ParameterLayout& layout, const MeshSettings& mesh, int64_t report_every,
                   int64_t held_out_sequences, Report& report);

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_MESH_TRAINING_H_
