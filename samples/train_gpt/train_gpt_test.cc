// Trainings: what they learn, that they go on where they stopped, and the program itself.
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <keel/keel.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "samples/train_gpt/chart.h"
#include "samples/train_gpt/checkpoint.h"
#include "samples/train_gpt/generate.h"
#include "samples/train_gpt/hugging_face.h"
#include "samples/train_gpt/test_fixture.h"
#include "samples/train_gpt/trainer.h"
#include "tensorfile/safetensors.h"

namespace train_gpt {
namespace {

namespace fs = std::filesystem;
using keel::tensorfile::FileError;
using keel::tensorfile::SafetensorsFile;
using keel::tensorfile::TensorSource;
using keel::tensorfile::write_safetensors;

// ---- data

struct HostBatch {
  HostBatch(int64_t sequences, int64_t context)
      : tokens(static_cast<size_t>(sequences * context)), labels(tokens.size()) {}
  Batch view() { return {tokens, labels}; }
  std::vector<int32_t> tokens, labels;
};

// Bytes 0 to 250 and again: a token tells where it stands.
std::string counting_text(int64_t size) {
  std::string text;
  for (int64_t i = 0; i < size; ++i) text.push_back(static_cast<char>(i % 251));
  return text;
}

TEST(Corpus, SequenceIsTheSameHoweverTheBatchIsSharedOut) {
  const Corpus corpus(counting_text(3000), 8);
  HostBatch whole(6, 8);
  HostBatch part(2, 8);
  corpus.sequences(/*seed=*/7, /*first=*/20, whole.view());
  corpus.sequences(7, 24, part.view());
  EXPECT_TRUE(std::equal(part.tokens.begin(), part.tokens.end(), whole.tokens.begin() + 4 * 8));
  EXPECT_TRUE(std::equal(part.labels.begin(), part.labels.end(), whole.labels.begin() + 4 * 8));
  HostBatch other(6, 8);
  corpus.sequences(8, 20, other.view());
  EXPECT_NE(other.tokens, whole.tokens);
}

TEST(Corpus, LabelIsTheNextToken) {
  const Corpus corpus(counting_text(3000), 8);
  HostBatch batch(40, 8);
  corpus.sequences(1, 0, batch.view());
  for (size_t i = 0; i < batch.tokens.size(); ++i) {
    EXPECT_EQ(batch.labels[i], (batch.tokens[i] + 1) % 251);
  }
}

TEST(Corpus, EpochHasEveryBlockOnceInAnOrderOfItsOwn) {
  const Corpus corpus(counting_text(251), 8);  // each byte stands in one place
  const int64_t blocks = corpus.sequences_of_epoch();
  std::vector<std::vector<int32_t>> orders;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    HostBatch batch(blocks, 8);
    corpus.sequences(1, epoch * blocks, batch.view());
    std::vector<int32_t> beginnings;
    for (size_t i = 0; i < batch.tokens.size(); i += 8) beginnings.push_back(batch.tokens[i]);
    orders.push_back(beginnings);
    std::sort(beginnings.begin(), beginnings.end());
    for (size_t i = 1; i < beginnings.size(); ++i) {
      EXPECT_EQ(beginnings[i], beginnings[i - 1] + 8);
    }
  }
  EXPECT_NE(orders[0], orders[1]);
}

TEST(Corpus, NeverTrainsOnHeldOutBytes) {
  std::string text(1000, 'a');
  std::fill(text.begin() + 900, text.end(), 'b');
  const Corpus corpus(text, 8);
  HostBatch batch(500, 8);
  corpus.sequences(1, 0, batch.view());
  EXPECT_EQ(std::set<int32_t>(batch.labels.begin(), batch.labels.end()), std::set<int32_t>{'a'});
  HostBatch held_out(corpus.held_out_sequences() + 1, 8);
  corpus.held_out(0, held_out.view());
  EXPECT_EQ(std::set<int32_t>(held_out.labels.begin(), held_out.labels.end()),
            (std::set<int32_t>{-1, 'b'}));
}

// ---- trainings

class TrainerTest : public ArchitectureTest {
 protected:
  TrainerTest() : layout_(tiny_config(GetParam())), corpus_(lines_of_text(300), 8) {
    settings_.steps = 60;
    settings_.batch = 8;
    settings_.optimizer.learning_rate = 1e-2;
    settings_.optimizer.warmup = 5;
  }
  Trainer trainer(size_t devices = 1) const {
    const std::vector<keel::Device> all(devices, test_device());
    return Trainer(all, corpus_, layout_, settings_);
  }

  keel::Runtime runtime_;
  ParameterLayout layout_;
  Corpus corpus_;
  TrainingSettings settings_;
  Folder folder_;
};

TEST_P(TrainerTest, LossFalls) {
  for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
    settings_.precision = precision;
    Trainer learner = trainer();
    const double first = learner.train_step().loss;
    EXPECT_NEAR(first, std::log(256), 0.3) << "of knowing nothing";
    double last = 0;
    while (learner.step() < settings_.steps) last = learner.train_step().loss;
    EXPECT_LT(last, 0.75 * first) << name(precision);
    EXPECT_LT(learner.held_out_bits_per_byte(16), 0.75 * 8);
  }
}

TEST_P(TrainerTest, ClipsTheGradient) {
  settings_.optimizer.clip = 0.01;
  Trainer learner = trainer();
  const double norm_before = learner.train_step().gradient_norm;
  std::vector<float> gradient(static_cast<size_t>(layout_.size()));
  learner.weights().download_gradient(gradient);
  learner.stream().synchronize();
  double sum = 0;
  for (const float value : gradient) sum += static_cast<double>(value) * value;
  EXPECT_GT(norm_before, 0.01);
  EXPECT_NEAR(std::sqrt(sum), 0.01, 1e-4);
}

TEST_P(TrainerTest, ResumesToTheBit) {
  const fs::path path = folder_ / "run.safetensors";
  for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
    settings_.precision = precision;
    Trainer whole = trainer();
    for (int i = 0; i < 3; ++i) whole.train_step();
    save_checkpoint(path, layout_, whole.state());
    std::vector<double> losses;
    for (int i = 0; i < 3; ++i) losses.push_back(whole.train_step().loss);

    settings_.seed = 99;  // the checkpoint's counts
    Trainer resumed = trainer();
    settings_.seed = 1;
    resumed.restore(load_checkpoint(path, layout_));
    EXPECT_EQ(resumed.step(), 3);
    for (const double loss : losses) EXPECT_EQ(resumed.train_step().loss, loss);
    const TrainingState want = whole.state();
    const TrainingState got = resumed.state();
    EXPECT_EQ(got.step, want.step);
    EXPECT_EQ(got.next_sequence, want.next_sequence);
    EXPECT_EQ(got.seed, want.seed);
    EXPECT_TRUE(same_bits(got.values, want.values));
    EXPECT_TRUE(same_bits(got.first_moment, want.first_moment));
    EXPECT_TRUE(same_bits(got.second_moment, want.second_moment));
  }
}

TEST_P(TrainerTest, TwoRanksDoWhatOneDoesWithTheBatchOfBoth) {
  settings_.optimizer.clip = 0;  // it would overwrite the gradient
  Trainer one = trainer();
  Trainer two = trainer(2);
  const auto gradient_of = [&](Trainer& trainer, size_t rank) {
    std::vector<float> gradient(static_cast<size_t>(layout_.size()));
    trainer.weights(rank).download_gradient(gradient);
    trainer.stream(rank).synchronize();
    return gradient;
  };
  EXPECT_NEAR(two.train_step().loss, one.train_step().loss, 1e-5);
  const std::vector<float> want = gradient_of(one, 0);
  const std::vector<float> got = gradient_of(two, 0);
  EXPECT_TRUE(same_bits(got, gradient_of(two, 1))) << "ranks have one gradient";
  double difference = 0;
  double size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    difference += std::pow(static_cast<double>(got[i]) - want[i], 2);
    size += std::pow(static_cast<double>(want[i]), 2);
  }
  EXPECT_LT(std::sqrt(difference), 1e-4 * std::sqrt(size)) << "a lost sequence is 1e-1";
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(two.train_step().loss, one.train_step().loss, 2e-3);
}

TEST_P(TrainerTest, GeneratesTheSameTextForTheSameSeed) {
  Trainer learner = trainer();
  const auto text = [&](uint64_t seed) {
    return generate(learner.stream(), learner.weights(), "line ", 20, 1.0, seed);
  };
  EXPECT_EQ(text(1).size(), 20U);
  EXPECT_EQ(text(1), text(1));
  EXPECT_NE(text(1), text(2));
}

TEST_P(TrainerTest, RefusesBatchesThatCannotBeShared) {
  settings_.batch = 3;
  EXPECT_NE(message_of<std::invalid_argument>([&] { trainer(2); }).find("--batch 3"),
            std::string::npos);
}

// ---- checkpoints

TEST_P(TrainerTest, RefusesCheckpointsOfOthers) {
  const fs::path path = folder_ / "run.safetensors";
  save_checkpoint(path, layout_, trainer().state());
  ModelConfig config = layout_.config();
  config.layers = 3;
  const ParameterLayout other(config);
  std::string message = message_of<FileError>([&] { load_checkpoint(path, other); });
  EXPECT_NE(message.find(path.string() + ": is a checkpoint of another model"), std::string::npos)
      << message;

  const Corpus other_text(lines_of_text(299), 8);
  const std::vector<keel::Device> devices = {test_device()};
  Trainer of_other_text(devices, other_text, layout_, settings_);
  EXPECT_THROW(of_other_text.restore(load_checkpoint(path, layout_)), std::invalid_argument);

  fs::resize_file(path, fs::file_size(path) - 1);
  message = message_of<FileError>([&] { load_checkpoint(path, layout_); });
  EXPECT_NE(message.find(path.string()), std::string::npos) << message;
  EXPECT_NE(message.find("tensor adamw.second."), std::string::npos) << message;

  write_safetensors(path, {}, {{"format", "pt"}});
  message = message_of<FileError>([&] { load_checkpoint(path, layout_); });
  EXPECT_NE(message.find("not a checkpoint of train_gpt"), std::string::npos) << message;
}

TEST_P(TrainerTest, NamesTheTensorThatACheckpointLacks) {
  const fs::path path = folder_ / "run.safetensors";
  write_safetensors(path, {},
                    {{"format", "keel train_gpt 1"},
                     {"model", to_json(layout_.config())},
                     {"step", "1"},
                     {"next_sequence", "8"},
                     {"seed", "1"},
                     {"text", "0"}});
  const std::string message = message_of<FileError>([&] { load_checkpoint(path, layout_); });
  EXPECT_NE(message.find("tensor tokens.weight: is not in it"), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(All, TrainerTest,
                         testing::Values(Architecture::kGpt2, Architecture::kLlama),
                         architecture_name);

// ---- the Hugging Face layout

class HuggingFaceTest : public ArchitectureTest {
 protected:
  HuggingFaceTest()
      : layout_(tiny_config(GetParam())), values_(static_cast<size_t>(layout_.size()), 0.0F) {
    float next = 1;  // another one for each element, exact in float32
    for (const Parameter& each : layout_.all()) {
      for (int64_t i = 0; i < each.size; ++i) {
        values_[static_cast<size_t>(each.offset + i)] = next++;
      }
    }
    export_weights(folder_ / "out", layout_, values_);
  }
  const Parameter& parameter(const std::string& name) const {
    return *std::find_if(layout_.all().begin(), layout_.all().end(),
                         [&](const Parameter& each) { return each.name == name; });
  }
  float at(const std::string& name, int64_t row, int64_t column) const {
    const Parameter& each = parameter(name);
    return values_[static_cast<size_t>(each.offset + row * each.shape[1] + column)];
  }

  ParameterLayout layout_;
  std::vector<float> values_;
  Folder folder_;
};

TEST_P(HuggingFaceTest, ComesBackToTheBit) {
  EXPECT_TRUE(same_bits(import_weights(folder_ / "out/model.safetensors", layout_), values_));
}

TEST_P(HuggingFaceTest, HasTheirShapes) {
  const SafetensorsFile file(folder_ / "out/model.safetensors");
  std::ifstream config_file(folder_ / "out/config.json");
  const nlohmann::json config = nlohmann::json::parse(config_file);
  if (GetParam() == Architecture::kGpt2) {
    EXPECT_EQ(config["model_type"], "gpt2");
    EXPECT_EQ(file.tensors().size(), 2U + 2 * 12 + 2);
    EXPECT_FALSE(file.has("lm_head.weight"));
    // [inputs, outputs]: the query's, the key's and the value's outputs side by side.
    const std::vector<float> weight =
        file.read_floats("h.1.attn.c_attn.weight", std::vector<int64_t>{16, 48});
    EXPECT_EQ(weight[3 * 48 + 2], at("layers.1.query.weight", 2, 3));
    EXPECT_EQ(weight[3 * 48 + 16 + 2], at("layers.1.key.weight", 2, 3));
    EXPECT_EQ(weight[15 * 48 + 47], at("layers.1.value.weight", 15, 15));
    EXPECT_EQ(file.read_floats("h.0.mlp.c_fc.weight", std::vector<int64_t>{16, 24})[24 + 5],
              at("layers.0.up.weight", 5, 1));
    EXPECT_EQ(file.read_floats("wpe.weight", std::vector<int64_t>{8, 16})[17],
              at("positions.weight", 1, 1));
  } else {
    EXPECT_EQ(config["num_key_value_heads"], 2);
    EXPECT_EQ(file.tensors().size(), 1U + 2 * 9 + 2);
    // [outputs, inputs], as ours.
    EXPECT_EQ(file.read_floats("model.layers.1.self_attn.k_proj.weight",
                               std::vector<int64_t>{8, 16})[2 * 16 + 3],
              at("layers.1.key.weight", 2, 3));
    EXPECT_EQ(file.read_floats("model.layers.0.mlp.gate_proj.weight",
                               std::vector<int64_t>{24, 16})[5 * 16 + 1],
              at("layers.0.up.weight", 5, 1));
    EXPECT_EQ(file.read_floats("model.layers.0.mlp.up_proj.weight",
                               std::vector<int64_t>{24, 16})[5 * 16 + 1],
              at("layers.0.up.weight", 24 + 5, 1));
  }
}

TEST_P(HuggingFaceTest, NamesTheTensorOfAnotherShape) {
  ModelConfig config = layout_.config();
  config.mlp_width = 32;
  const ParameterLayout other(config);
  const std::string message =
      message_of<FileError>([&] { import_weights(folder_ / "out/model.safetensors", other); });
  const char* tensor = GetParam() == Architecture::kGpt2 ? "tensor h.0.mlp.c_fc.weight: its shape"
                                                         : "tensor model.layers.0.mlp.gate_proj";
  EXPECT_NE(message.find(tensor), std::string::npos) << message;
}

// As GPT2LMHeadModel saves them, and as a Llama whose head is its embedding does.
TEST_P(HuggingFaceTest, TakesTheOtherNames) {
  const SafetensorsFile file(folder_ / "out/model.safetensors");
  std::vector<std::vector<float>> data;
  std::vector<TensorSource> tensors;
  for (const auto& [name, tensor] : file.tensors()) {
    if (name == "lm_head.weight") continue;
    data.push_back(file.read_floats(name, tensor.shape));
  }
  size_t next = 0;
  for (const auto& [name, tensor] : file.tensors()) {
    if (name == "lm_head.weight") continue;
    tensors.push_back({GetParam() == Architecture::kGpt2 ? "transformer." + name : name, "F32",
                       tensor.shape, std::as_bytes(std::span<const float>(data[next++]))});
  }
  write_safetensors(folder_ / "other", tensors, {});
  const std::vector<float> values = import_weights(folder_ / "other", layout_);
  if (GetParam() == Architecture::kGpt2) {
    EXPECT_TRUE(same_bits(values, values_));
    return;
  }
  const Parameter& tokens = parameter("tokens.weight");
  const Parameter& head = parameter("head.weight");
  EXPECT_TRUE(std::equal(values.begin() + head.offset, values.begin() + head.offset + head.size,
                         values.begin() + tokens.offset));
}

INSTANTIATE_TEST_SUITE_P(All, HuggingFaceTest,
                         testing::Values(Architecture::kGpt2, Architecture::kLlama),
                         architecture_name);

// ---- config and chart

TEST(Config, ComesBackFromJson) {
  const ModelConfig config = tiny_config(Architecture::kLlama);
  EXPECT_EQ(config_from_json(to_json(config)), config);
  EXPECT_THROW(config_from_json("{}"), std::runtime_error);
  EXPECT_THROW(config_from_json("["), std::runtime_error);
}

TEST(Config, CountsOperations) {
  ModelConfig config = tiny_config(Architecture::kGpt2);
  config.layers = 1;
  // Four matrices of 16 x 16, two of 16 x 24, a head of 16 x 256; 4.5 keys a query.
  const double forward = 2.0 * (4 * 16 * 16 + 2 * 16 * 24 + 16 * 256) + 4 * 16 * 4.5;
  EXPECT_DOUBLE_EQ(training_flops_per_token(config), 3 * forward);
}

TEST(Chart, DrawsWhatIsThere) {
  const std::vector<double> losses = {8, 7, 6, 5.5};
  const std::string svg = loss_chart(losses, 1, "a & b");
  EXPECT_EQ(svg.find("<svg"), 0U);
  EXPECT_NE(svg.find("a &amp; b"), std::string::npos);
  EXPECT_NE(svg.find("<polyline"), std::string::npos);
  EXPECT_NE(loss_chart({}, 1, "nothing").find("</svg>"), std::string::npos);
}

// ---- the program

struct Outcome {
  int exit_code;
  std::string output;  // both streams
};

Outcome run_program(const std::string& arguments) {
  const char* folder = std::getenv("KEEL_TEST_BIN");
  const std::string command =
      std::string(folder == nullptr ? "." : folder) + "/train_gpt " + arguments + " 2>&1";
  Outcome outcome{-1, {}};
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> chunk;
  size_t count = 0;
  while ((count = fread(chunk.data(), 1, chunk.size(), pipe)) > 0) {
    outcome.output.append(chunk.data(), count);
  }
  const int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  return outcome;
}

class ProgramTest : public testing::Test {
 protected:
  ProgramTest() { std::ofstream(folder_ / "text", std::ios::binary) << lines_of_text(300); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  // A training of a moment.
  std::string quick(const std::string& more) const {
    return "--text " + path("text") +
           " --layers 1 --width 16 --heads 2 --context 16 --batch 4 --warmup 2 --report-every 5 "
           "--sample-length 10 " +
           more;
  }
  Folder folder_;
};

TEST_F(ProgramTest, TrainsStopsAndGoesOn) {
  const std::string checkpoint = " --model llama --checkpoint " + path("run.safetensors");
  Outcome outcome = run_program(quick("--steps 10 --json " + path("run.json") + " --svg " +
                                      path("run.svg") + " --export " + path("out") + checkpoint));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  std::ifstream file(path("run.json"));
  const nlohmann::json run = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(run.is_object()) << outcome.output;
  EXPECT_EQ(run["losses_nats_per_byte"].size(), 10U);
  EXPECT_EQ(run["intervals"].size(), 2U);
  EXPECT_GT(run["mfu"].get<double>(), 0);
  EXPECT_EQ(run["sample"].get<std::string>().size(), 10U);
  EXPECT_TRUE(fs::exists(path("run.svg")));
  EXPECT_TRUE(fs::exists(path("out/model.safetensors")));

  outcome = run_program(
      quick("--steps 12 --resume --devices cpu:0,cpu:0 --json " + path("more.json") + checkpoint));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  std::ifstream more_file(path("more.json"));
  const nlohmann::json more = nlohmann::json::parse(more_file, nullptr, false);
  ASSERT_TRUE(more.is_object()) << outcome.output;
  EXPECT_EQ(more["first_step"], 11);
  EXPECT_EQ(more["losses_nats_per_byte"].size(), 2U);

  outcome =
      run_program(quick("--steps 1 --model llama --import " + path("out") + "/model.safetensors"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST_F(ProgramTest, DumpsItsFirstSteps) {
  const Outcome outcome = run_program(quick("--steps 3 --dump-steps 2 --dump " + path("steps")));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_TRUE(fs::exists(path("steps/step_000001.safetensors")));
  EXPECT_TRUE(fs::exists(path("steps/step_000002.safetensors")));
  EXPECT_FALSE(fs::exists(path("steps/step_000003.safetensors")));
  const Outcome again = run_program(quick("--steps 1 --dump " + path("steps")));
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_NE(again.output.find("is there already"), std::string::npos) << again.output;
}

TEST_F(ProgramTest, RefusesBadInputAndNamesTheArgument) {
  if (std::getenv("KEEL_CPU_GUARD") != nullptr || std::getenv("KEEL_VALIDATE") != nullptr) {
    GTEST_SKIP() << "it is refused before anything runs; once is enough";
  }
  struct Case {
    std::string arguments;
    int exit_code;
    std::string expected;
  };
  const std::string text = "--text " + path("text") + " ";
  const std::vector<Case> cases = {
      {"--text " + path("missing"), 2, "there is no such file"},
      {text + "--context 100000", 2, "too few for --context 100000"},
      {text + "--width 15", 2, "--width 15"},
      {quick("--kv-heads 1"), 2, "--kv-heads"},
      {quick("--model mamba"), 2, "--model"},
      {quick("--precision fp8"), 2, "--precision"},
      {quick("--devices abacus:0"), 2, "--devices abacus:0"},
      {text + "--devices cpu:0,cpu:0 --batch 3", 2, "--batch 3"},
      {quick("--learning-rate nan"), 2, "--learning-rate"},
      {quick("--resume"), 2, "--checkpoint"},
      {quick("--checkpoint " + path("text")), 2, "is there already"},
      {quick("--resume --checkpoint " + path("none")), 1, "cannot be opened"},
      {quick("--import " + path("text")), 1, "its header claims"},
      {quick("--json " + path("no/such/folder")), 2, "--json"},
      {quick("--frobnicate"), 2, "--frobnicate"},
  };
  for (const Case& bad : cases) {
    const Outcome outcome = run_program(bad.arguments);
    EXPECT_EQ(outcome.exit_code, bad.exit_code) << bad.arguments << outcome.output;
    EXPECT_NE(outcome.output.find(bad.expected), std::string::npos)
        << bad.arguments << " should say " << bad.expected << ", said\n"
        << outcome.output;
  }
}

}  // namespace
}  // namespace train_gpt
