// SPDX-License-Identifier: Apache-2.0
// Tests trainings: learning, and resuming after a stop.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <keel/keel.hpp>
#include <set>

#include "samples/train_gpt/chart.h"
#include "samples/train_gpt/checkpoint.h"
#include "samples/train_gpt/generate.h"
#include "samples/train_gpt/test_fixture.h"
#include "samples/train_gpt/trainer.h"
#include "tensorfile/safetensors.h"

namespace train_gpt {
namespace {

namespace fs = std::filesystem;
using keel::tensorfile::FileError;
using keel::tensorfile::Metadata;
using keel::tensorfile::write_safetensors;

// ---- data

struct HostBatch {
  HostBatch(int64_t sequences, int64_t context)
      : tokens(static_cast<size_t>(sequences * context)), labels(tokens.size()) {}
  Batch view() { return {tokens, labels}; }
  std::vector<int32_t> tokens, labels;
};

// Bytes 0 to 250, repeated: a token shows its position.
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
  const Corpus corpus(counting_text(251), 8);  // each byte is at one position
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
  // Adds the emulated chip to the CPU.
  static void SetUpTestSuite() { setenv("KEEL_SIM_DEVICES", "1", /*overwrite=*/0); }

  Trainer trainer(const std::vector<keel::Device>& devices) const {
    return Trainer(devices, corpus_, layout_, settings_);
  }
  Trainer trainer(size_t devices = 1) const {
    return trainer(std::vector<keel::Device>(devices, test_device()));
  }
  void expect_resumes_to_the_bit(const std::vector<keel::Device>& devices) {
    const fs::path path = folder_ / "run.safetensors";
    settings_.seed = 1;
    Trainer whole = trainer(devices);
    for (int i = 0; i < 3; ++i) whole.train_step();
    save_checkpoint(path, layout_, whole.state());
    std::vector<double> losses;
    for (int i = 0; i < 3; ++i) losses.push_back(whole.train_step().loss);

    settings_.seed = 99;  // the checkpoint's seed is used
    Trainer resumed = trainer(devices);
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
  // Returns the message for a checkpoint without tensors and with |changes| in its metadata.
  std::string refusal(const Metadata& changes) const {
    Metadata metadata = {{"format", "keel train_gpt 1"},
                         {"model", to_json(layout_.config())},
                         {"step", "1"},
                         {"next_sequence", "8"},
                         {"seed", "1"},
                         {"text", "0"}};
    for (const auto& [key, value] : changes) metadata[key] = value;
    const fs::path path = folder_ / "refused.safetensors";
    write_safetensors(path, {}, metadata);
    return message_of<FileError>([&] { load_checkpoint(path, layout_); });
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

// The backward pass of a finite loss may produce such a gradient.
TEST_P(TrainerTest, StopsAtAGradientThatIsNotFinite) {
  const float nan = std::nanf("");
  const Trainer::Observer poison = [&](Trainer& trainer) {
    trainer.stream().copy(trainer.stream().device(), trainer.weights().gradient().data(),
                          keel::Device(), &nan, sizeof(nan));
  };
  for (const double clip : {0.0, 1.0}) {
    settings_.optimizer.clip = clip;
    Trainer learner = trainer();
    EXPECT_GT(learner.train_step().gradient_norm, 0) << "also where nothing clips";
    const std::string message = message_of<std::runtime_error>([&] { learner.train_step(poison); });
    EXPECT_NE(message.find("the gradient is not finite in step 2"), std::string::npos) << message;
    EXPECT_THROW(learner.state(), std::runtime_error) << "for no checkpoint to have it";
  }
}

// NaN in the row of a byte that is not in the text: no loss or gradient of a Llama depends on this
// row.
TEST_P(TrainerTest, HasNoStateThatIsNotFinite) {
  Trainer learner = trainer();
  const Parameter& tokens = layout_.all()[layout_.ids().tokens];
  std::vector<float> values = layout_.initial_values(1);
  values[static_cast<size_t>(tokens.offset + tokens.size - 1)] = std::nanf("");
  learner.set_values(values);
  if (layout_.config().is_llama()) learner.train_step();
  const std::string message = message_of<std::runtime_error>([&] { learner.state(); });
  EXPECT_NE(message.find(tokens.name + " is not finite"), std::string::npos) << message;
}

TEST_P(TrainerTest, ResumesToTheBit) {
  for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
    settings_.precision = precision;
    expect_resumes_to_the_bit({test_device()});
    expect_resumes_to_the_bit({test_device(), test_device()});
    expect_resumes_to_the_bit({keel::Device::find("cpu"), keel::Device::find("sim")});
  }
}

// Gradients are exchanged through the host.
TEST_P(TrainerTest, ChipsOfTwoVendorsDoWhatOneDoes) {
  Trainer one = trainer();
  Trainer two = trainer({keel::Device::find("cpu"), keel::Device::find("sim")});
  EXPECT_NEAR(two.train_step().loss, one.train_step().loss, 1e-5);
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(two.train_step().loss, one.train_step().loss, 2e-3);
}

TEST_P(TrainerTest, TwoRanksDoWhatOneDoesWithTheBatchOfBoth) {
  settings_.optimizer.clip = 0;  // clipping would overwrite the gradient
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

// The other device may still read memory that the caller is about to free.
TEST_P(TrainerTest, WaitsForAllDevicesWhenOneFails) {
  Trainer learner = trainer(2);
  keel::Gate failed;
  keel::Gate slow;
  learner.stream(0).wait(failed);
  learner.stream(1).wait(slow);
  failed.fail(KEEL_RANK_FAILED, "the first rank is gone");
  const std::vector<float> values = layout_.initial_values(2);
  std::future<void> upload = std::async(std::launch::async, [&] { learner.set_values(values); });
  EXPECT_EQ(upload.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout);
  slow.open();
  const std::string message = message_of<keel::Error>([&] { upload.get(); });
  EXPECT_NE(message.find("the first rank is gone"), std::string::npos) << message;
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

TEST_P(TrainerTest, GoesOnWithoutACheckpointThatOthersFollow) {
  const TrainingState state = trainer().state();
  const fs::path path = folder_ / "gone/run.safetensors";
  testing::internal::CaptureStderr();
  EXPECT_FALSE(try_save_checkpoint(path, layout_, state));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find(path.string() + ": cannot be written"), std::string::npos) << said;
  fs::create_directory(folder_ / "gone");
  EXPECT_TRUE(try_save_checkpoint(path, layout_, state));
  EXPECT_TRUE(same_bits(load_checkpoint(path, layout_).values, state.values));
}

TEST_P(TrainerTest, NamesTheTensorThatACheckpointLacks) {
  const std::string message = refusal({});
  EXPECT_NE(message.find("tensor tokens.weight: is not in it"), std::string::npos) << message;
}

TEST_P(TrainerTest, CheckpointsHaveTheSettings) {
  settings_.precision = Precision::kBFloat16;
  settings_.optimizer.weight_decay = 0.3;
  settings_.seed = UINT64_MAX;
  const fs::path path = folder_ / "run.safetensors";
  save_checkpoint(path, layout_, trainer(2).state());
  const TrainingState state = load_checkpoint(path, layout_);
  ASSERT_TRUE(state.settings.has_value());
  EXPECT_EQ(to_json(*state.settings), to_json(settings_));
  EXPECT_EQ(state.devices, 2);

  const std::string text = to_json(settings_);
  const auto refusal_of = [&](const std::string& right, const std::string& wrong) {
    std::string lie = text;
    lie.replace(lie.find(right), right.size(), wrong);
    return refusal({{"settings", lie}, {"devices", "2"}});
  };
  EXPECT_NE(refusal_of("\"batch\":8", "\"batch\":0").find("batch 0 is not"), std::string::npos);
  EXPECT_NE(refusal_of("\"steps\":60", "\"steps\":6.5").find("steps"), std::string::npos);
  EXPECT_NE(refusal_of("bf16", "fp8").find("unknown precision fp8"), std::string::npos);
}

// Accepting such a position made the search for its place in the data endless.
TEST_P(TrainerTest, RefusesPositionsThatNoTrainingReaches) {
  for (const char* key : {"step", "next_sequence"}) {
    for (const char* lie : {"-1", "9223372036854775807", "9007199254740993", "1e3"}) {
      const std::string message = refusal({{key, lie}});
      EXPECT_NE(message.find("metadata " + std::string(key)), std::string::npos) << message;
      EXPECT_NE(message.find(lie), std::string::npos) << message;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, TrainerTest,
                         testing::Values(Architecture::kGpt2, Architecture::kLlama),
                         architecture_name);

// ---- config and chart

TEST(Config, ComesBackFromJson) {
  const ModelConfig config = tiny_config(Architecture::kLlama);
  EXPECT_EQ(config_from_json(to_json(config)), config);
  EXPECT_THROW(config_from_json("{}"), std::runtime_error);
  EXPECT_THROW(config_from_json("["), std::runtime_error);
}

TEST(Config, SaysInPlainWordsWhatIsWrong) {
  const auto message = [](const std::string& text) {
    return message_of<std::runtime_error>([&] { config_from_json(text); });
  };
  EXPECT_EQ(message("{}"), "not a model's config: architecture is missing");
  EXPECT_EQ(message("["), "not a model's config: it ends too early, at line 1, column 2");
  EXPECT_EQ(message("7"), "not a model's config: it is 7, not an object");
  EXPECT_EQ(message(R"({"layers": 1, "layers": 2})"),
            "not a model's config: the key 'layers' is there twice");
  EXPECT_EQ(message_of<std::runtime_error>([] { settings_from_json(R"({"steps": "3"})"); }),
            "not a training's settings: steps is a string, not a whole number of 64 bits");
}

TEST(Config, RefusesWhatIsNoNumber) {
  for (const auto& [right, wrong] :
       {std::pair("\"layers\":2", "\"layers\":2.7"), std::pair("\"layers\":2", "\"layers\":true"),
        std::pair("\"layers\":2", "\"layers\":18446744073709551615"),
        std::pair("\"context\":8", "\"context\":8.0"),
        std::pair("\"rope_theta\":10000.0", "\"rope_theta\":true")}) {
    std::string text = to_json(tiny_config(Architecture::kLlama));
    ASSERT_NE(text.find(right), std::string::npos) << text;
    text.replace(text.find(right), std::string(right).size(), wrong);
    const std::string message = message_of<std::runtime_error>([&] { config_from_json(text); });
    EXPECT_NE(message.find(", not a"), std::string::npos) << wrong << ": " << message;
  }
}

TEST(Config, CountsOperations) {
  ModelConfig config = tiny_config(Architecture::kGpt2);
  config.layers = 1;
  // Four matrices of 16 x 16, two of 16 x 24, a head of 16 x 256; 4.5 keys per query.
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

}  // namespace
}  // namespace train_gpt
