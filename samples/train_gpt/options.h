// SPDX-License-Identifier: Apache-2.0
// The command line.
#ifndef KEEL_SAMPLES_TRAIN_GPT_OPTIONS_H_
#define KEEL_SAMPLES_TRAIN_GPT_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "samples/train_gpt/config.h"
#include "samples/train_gpt/mesh_training.h"
#include "samples/train_gpt/trainer.h"

namespace train_gpt {

struct Options {
  ModelConfig model;
  TrainingSettings training;
  MeshSettings mesh;
  std::vector<std::string> devices = {"cpu:0"};
  std::filesystem::path text;         // empty: kDefaultText
  std::filesystem::path checkpoint;   // empty, like the following: none
  std::filesystem::path import_file;  // weights in the Hugging Face layout
  std::filesystem::path export_folder;
  std::filesystem::path json, svg, timeline;
  std::filesystem::path dump;  // a folder
  int64_t dump_steps = 1;
  bool resume = false;
  int64_t checkpoint_every = 500;
  int64_t report_every = 20;
  int64_t sample_length = 300;
  std::set<std::string> given;  // names of the options on the command line
};

void declare_options(CLI::App& app, Options& options);
// Fills in options that depend on others. Throws std::invalid_argument for combinations that are
// not allowed.
void complete(const CLI::App& app, Options& options);
// Sets the options not given on the command line from |state|, the checkpoint that --resume
// continues. Returns the differences of the given options from |state|, as text for the user; empty
// if none.
std::string take_settings(Options& options, const TrainingState& state);

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_OPTIONS_H_
