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
#include "samples/train_gpt/trainer.h"

namespace train_gpt {

struct Options {
  ModelConfig model;
  TrainingSettings training;
  std::vector<std::string> devices = {"cpu:0"};
  std::filesystem::path text;         // empty: kDefaultText
  std::filesystem::path checkpoint;   // empty, as the following: none
  std::filesystem::path import_file;  // weights of the Hugging Face layout
  std::filesystem::path export_folder;
  std::filesystem::path json, svg;
  std::filesystem::path dump;  // a folder
  int64_t dump_steps = 1;
  bool resume = false;
  int64_t checkpoint_every = 500;
  int64_t report_every = 20;
  int64_t sample_length = 300;
  std::set<std::string> given;  // the names of those that are on the command line
};

void declare_options(CLI::App& app, Options& options);
// Fills in what follows from other options. Throws std::invalid_argument for options that do
// not go together.
void complete(const CLI::App& app, Options& options);
// What the command line has not given becomes |state|'s, of the training that --resume goes on
// with. What differs from there, in words for the user; empty: nothing.
std::string take_settings(Options& options, const TrainingState& state);

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_OPTIONS_H_
