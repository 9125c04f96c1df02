// Trainings that begin with a model: what is copied, what is trained, what resumes.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/error.h"
#include "formats/json.h"
#include "formats/tokenizer_files.h"
#include "model/checkpoints/open_model.h"
#include "tests/temporary_folder.h"
#include "tests/training/small_run.h"
#include "training/evals/task_answers.h"
#include "training/jobs/job.h"
#include "training/jobs/metrics_log.h"
#include "training/start/name_pattern.h"
#include "training/start/start_model.h"
#include "training/trainer.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

Trainer text_trainer(const RunConfig& config) {
  const auto from = opened_start(config);
  const auto tokenizer = text_tokenizer(config, from.get());
  auto corpus = std::make_shared<const Corpus>(
      Corpus::open(config.data.corpus, config.data, config.model.context, tokenizer.get()));
  return Trainer(config, corpus,
                 read_validation_texts(config.data.validation, config.model.context), from);
}

std::vector<double> losses_to(Trainer& trainer, std::int64_t until) {
  std::vector<double> losses;
  while (trainer.steps_done() < until) losses.push_back(trainer.step().loss);
  return losses;
}

using Tensors = std::map<std::string, at::Tensor>;

Tensors tensors_of(const model::Decoder& decoder) {
  Tensors tensors;
  for (const auto& [name, tensor] :
       model::named_tensors(decoder.config(), decoder.encoding(), decoder.weights())) {
    tensors[name] = tensor.detach().clone();
  }
  return tensors;
}

// A drawn model with a tokenizer of its own, from the job's start to the model that is read.
TEST(DrawnStart, ReadsTextsByTheTokenizerThatIsNamed) {
  const TemporaryFolder folder;
  setenv("XDG_CACHE_HOME", (folder.path() / "cache").c_str(), 1);
  const fs::path given = folder.path() / "tokenizer";
  fs::create_directory(given);
  fs::copy_file(
      fs::path(PHASESCOPE_SOURCE) / "tests/data/hf/tokenizers/llama3_bytelevel/tokenizer.json",
      given / "tokenizer.json");
  RunConfig config = small_run(folder.path(), 4);
  config.model.vocab_size = 600;
  config.data.tokenizer = given.string();
  config.train.dtype = "f32";
  const fs::path dir = folder.path() / "job";
  fs::create_directories(dir);
  std::ofstream(dir / "config.json") << to_json(config);
  ASSERT_EQ(run_job(dir), 0);
  const auto read = model::open_model((dir / "checkpoints/step-4").string());
  ASSERT_TRUE(read->tokenizer);
  const auto own = formats::open_tokenizer(given / "tokenizer.json");
  const std::string words = "the 7 men of house 3. ";
  EXPECT_EQ(read->tokenizer->encode(words).ids, own->encode(words).ids);
  EXPECT_LT(own->encode(words).ids.size(), words.size());
  // The losses are those of windows of its ids, with its own beginning.
  const auto tokenizer = text_tokenizer(config, nullptr);
  const Corpus corpus(small_text(), config.data, config.model.context, tokenizer.get());
  EXPECT_EQ(corpus.bos(), *own->bos_id());
  std::vector<std::int64_t> ids = tokens_of(small_text(), own.get());
  ids.resize(40);
  EXPECT_EQ(corpus.read(0, 40), ids);
  // Too few rows for its ids, and none at all.
  config.model.vocab_size = 300;
  EXPECT_THROW(text_tokenizer(config, nullptr), formats::Error);
  config.data.tokenizer = (folder.path() / "nothing").string();
  EXPECT_THROW(text_tokenizer(config, nullptr), formats::Error);
  // Another file in its place ends a resume with one sentence.
  const RunConfig noted = run_config_from_file(dir / "config.json");
  EXPECT_EQ(noted.data.tokenizer_sha256.size(), 64u);
  std::ofstream(given / "tokenizer.json", std::ios::app) << "\n";
  fs::remove_all(dir / "checkpoints/step-4");
  EXPECT_EQ(run_job(dir), 2);
  unsetenv("XDG_CACHE_HOME");
}

// Where documents are apart a token's logits are those of its document alone: distances and weights
// are the same, sums of float32 in another order.
TEST(DrawnStart, DocumentsApartAreReadAsIfAlone) {
  const TemporaryFolder folder;
  RunConfig config = small_run(folder.path(), 1, {{"key", "alibi"}});
  config.data.documents = "apart";
  std::string text = "one document" + std::string(1, '\0') + "and another one here";
  text.resize(32, 'x');
  const Corpus corpus(text, config.data, 32);
  TrainSection train;
  train.batch_tokens = 32;
  Batch batch = corpus.batch(train, 32, 0);
  ASSERT_FALSE(batch.documents.empty());
  const model::Decoder decoder = start_decoder(config, nullptr);
  std::optional<at::NoGradGuard> no_gradients(std::in_place);
  model::ForwardOptions options;
  add_to(options, batch);
  const at::Tensor ids = at::tensor(batch.inputs).view({1, 32});
  const auto second = std::find(batch.inputs.begin() + 1, batch.inputs.end(), 0);
  const auto begin = static_cast<std::int64_t>(second - batch.inputs.begin());
  const at::Tensor apart = decoder.forward(ids, options);
  const auto off = [&](std::int64_t from, std::int64_t to) {
    const at::Tensor alone = decoder.forward(ids.slice(1, from, to));
    return (apart.slice(1, from, to) - alone).abs().max().item<double>();
  };
  EXPECT_LT(off(0, begin), 1e-5);
  EXPECT_LT(off(begin, 32), 1e-5);
  EXPECT_GT((decoder.forward(ids) - apart).abs().max().item<double>(), 1e-3);
  no_gradients.reset();
  Trainer trainer(config, std::make_shared<const Corpus>(text, config.data, 32), {});
  EXPECT_TRUE(std::isfinite(trainer.step().loss));
}

class FromAModel : public testing::Test {
 protected:
  // A model of rope, some steps old.
  void SetUp() override {
    RunConfig config = small_run(folder_.path(), 40);
    config.train.dtype = "f32";
    Trainer trainer = text_trainer(config);
    losses_to(trainer, 20);
    fs::create_directory(base());
    trainer.write_files(formats::real_file_system(), base());
    before_ = tensors_of(trainer.decoder());
  }

  fs::path base() const { return folder_.path() / "base"; }

  // A configuration that begins with it, as a job reads it.
  RunConfig from_it(const json& changes) const {
    json config = to_json(small_run(folder_.path(), 8));
    for (const char* section : {"model", "encoding", "positions"}) config.erase(section);
    config["train"]["dtype"] = "f32";
    config["train"]["curriculum"] = json::array();
    config["start"] = {{"model", base().string()}};
    if (changes.is_object()) config.merge_patch(changes);
    return run_config_from_json(filled_in_from_model(config), "test");
  }

  at::Tensor logits_of(const model::Decoder& decoder) const {
    const at::NoGradGuard no_gradients;
    return decoder.forward(at::arange(24, at::kLong).view({1, 24}) + 97);
  }

  std::vector<std::string> changed(const Trainer& trainer) const {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : tensors_of(trainer.decoder())) {
      const auto found = before_.find(name);
      if (found == before_.end() || !found->second.equal(tensor)) names.push_back(name);
    }
    return names;
  }

  void resumes_bit_for_bit(const RunConfig& config) const {
    TemporaryFolder saves;
    Trainer unbroken = text_trainer(config);
    losses_to(unbroken, 4);
    const SaveOutcome saved = save_checkpoint(
        formats::real_file_system(), saves.path(), 4,
        [&](formats::FileSystem& files, const fs::path& to) { unbroken.write_files(files, to); },
        {2, {}, unbroken.state()});
    ASSERT_EQ(saved.message, "");
    const auto wanted = losses_to(unbroken, 8);
    Trainer resumed = text_trainer(config);
    resumed.load(*find_newest_checkpoint(formats::real_file_system(), saves.path()).newest);
    EXPECT_EQ(losses_to(resumed, 8), wanted);
  }

  TemporaryFolder folder_;
  Tensors before_;
};

// Without a word about it two encodings start with all that they have in common, and each seed with
// other weights; drawn one after the other, whatever stands behind an encoding's own is another's.
TEST(DrawnStart, SharesWhatTwoEncodingsHave) {
  const TemporaryFolder folder;
  const auto of = [&](const char* encoding, std::int64_t seed, const char* init = nullptr) {
    RunConfig config = small_run(folder.path(), 1, {{"key", encoding}});
    config.train.seed = seed;
    if (init != nullptr) config.train.init = init;
    return tensors_of(start_decoder(config, nullptr));
  };
  const auto shared = [](const Tensors& a, const Tensors& b) {
    std::size_t alike = 0, both = 0;
    for (const auto& [name, tensor] : a) {
      const auto found = b.find(name);
      if (found == b.end() || tensor.dim() < 2) continue;
      ++both, alike += tensor.equal(found->second) ? 1 : 0;
    }
    return std::pair(alike, both);
  };
  const auto [alike, both] = shared(of("fire", 1), of("rope", 1));
  EXPECT_EQ(both, 16u);  // two layers of seven matrices, the embedding and the head
  EXPECT_EQ(alike, both);
  EXPECT_EQ(shared(of("rope", 1), of("rope", 2)).first, 0u);
  EXPECT_LT(shared(of("fire", 1, "sequential"), of("rope", 1, "sequential")).first, both);
}

TEST_F(FromAModel, ItBeginsWithItsWeightsAndSizes) {
  const RunConfig config = from_it({{"model", {{"layers", 7}}}});
  EXPECT_EQ(config.model.layers, 2);  // the model's own
  EXPECT_EQ(config.model.context, 32);
  EXPECT_EQ(config.encoding.at("key"), "rope");
  Trainer trainer = text_trainer(config);
  EXPECT_EQ(changed(trainer), std::vector<std::string>());
  // The loss of a model that has learnt, not of a drawn one.
  EXPECT_LT(trainer.step().loss, 5);
  resumes_bit_for_bit(config);
}

TEST_F(FromAModel, PatternsSayWhatIsTrained) {
  Trainer some =
      text_trainer(from_it({{"start", {{"train", {"*.mlp.*"}}, {"freeze", {"*layers.1.*"}}}}}));
  losses_to(some, 2);
  const std::vector<std::string> names = changed(some);
  EXPECT_EQ(names.size(), 3u);
  for (const std::string& name : names) {
    EXPECT_TRUE(name.starts_with("model.layers.0.mlp.")) << name;
  }
  Trainer rest = text_trainer(from_it({{"start", {{"freeze", {"model.embed*", "lm_head.*"}}}}}));
  losses_to(rest, 2);
  EXPECT_EQ(changed(rest).size(), before_.size() - 2);
  EXPECT_THROW(text_trainer(from_it({{"start", {{"train", {"*.nothing"}}}}})), formats::Error);
  EXPECT_THROW(text_trainer(from_it({{"start", {{"freeze", {"*"}}}}})), formats::Error);
}

TEST(NamePattern, StarsStandForAnything) {
  EXPECT_TRUE(name_matches("*", ""));
  EXPECT_TRUE(name_matches("a*c*e", "abcde"));
  EXPECT_TRUE(name_matches("*.weight", "model.weight.weight"));
  EXPECT_TRUE(name_matches("model.norm", "model.norm"));
  EXPECT_FALSE(name_matches("a*c", "abcd"));
  EXPECT_FALSE(name_matches("", "a"));
  EXPECT_FALSE(name_matches("a?c", "abc"));
}

// TAPE's updates begin at zero, so that the first logits are RoPE's (encodings.md, Section 5); only
// what TAPE adds is trained.
TEST_F(FromAModel, RopeBecomesTapeWithTheRestFrozen) {
  const json tape = {{"key", "tape"}, {"train_shift", false}};
  const RunConfig config = from_it({{"encoding", tape}, {"start", {{"train", {"*.encoding.*"}}}}});
  Trainer rope = text_trainer(from_it({}));
  Trainer trainer = text_trainer(config);
  const at::Tensor before = logits_of(rope.decoder());
  // The same products by another kernel.
  EXPECT_LT((logits_of(trainer.decoder()) - before).abs().max().item<double>(), 1e-4);
  losses_to(trainer, 6);
  for (const std::string& name : changed(trainer)) {
    EXPECT_NE(name.find(".encoding."), name.npos) << name;
  }
  EXPECT_GT((logits_of(trainer.decoder()) - before).abs().max().item<double>(), 1e-4);
  resumes_bit_for_bit(config);
}

// Scalings that training changes: the first logits are those of the opened model read so.
TEST_F(FromAModel, ScalingsAreThoseOfTheReader) {
  const std::map<std::string, json> cases = {
      {"pi", {{"key", "rope"}, {"scaling", "linear"}, {"factor", 4.0}}},
      {"yarn", {{"key", "rope"}, {"scaling", "yarn"}, {"factor", 4.0}}},
      {"theta", {{"key", "rope"}, {"base", 500000.0}}}};
  for (const auto& [name, encoding] : cases) {
    const RunConfig config = from_it({{"encoding", encoding}, {"start", {{"context", 64}}}});
    EXPECT_EQ(config.model.context, 64) << name;
    Trainer trainer = text_trainer(config);
    std::vector<std::pair<std::string, std::string>> set = {{"context", "64"}};
    for (const auto& [option, value] : encoding.items()) {
      if (option == "key") continue;
      set.emplace_back("encoding." + option,
                       value.is_string() ? value.get<std::string>() : value.dump());
    }
    const auto read = model::open_model(base().string(), {.overrides = set});
    EXPECT_TRUE(logits_of(trainer.decoder()).equal(logits_of(read->decoder))) << name;
    EXPECT_FALSE(
        logits_of(trainer.decoder()).equal(logits_of(model::open_model(base().string())->decoder)))
        << name;
    EXPECT_EQ(trainer.step().length, 64) << name;
  }
}

// DroPE: rope is dropped, and all weights are trained on.
TEST_F(FromAModel, RopeIsDroppedAndTheRestRecalibrated) {
  const RunConfig config = from_it({{"encoding", {{"key", "none"}}}});
  Trainer trainer = text_trainer(config);
  EXPECT_EQ(changed(trainer), std::vector<std::string>());
  losses_to(trainer, 8);
  EXPECT_EQ(changed(trainer).size(), before_.size());
  resumes_bit_for_bit(config);
}

// W + alpha / r B A: the first logits are the model's, base matrices stay, and what is saved is the
// merged model, or an adapter that opens to the same.
TEST_F(FromAModel, LoraTrainsProductsBesideMatrices) {
  for (const char* save : {"merged", "adapter"}) {
    const RunConfig config =
        from_it({{"start", {{"lora_rank", 2}, {"lora_alpha", 3.0}, {"lora_save", save}}}});
    Trainer trainer = text_trainer(config);
    EXPECT_EQ(changed(trainer), std::vector<std::string>()) << save;
    losses_to(trainer, 4);
    std::vector<std::string> names;
    for (const char* layer : {"0", "1"}) {
      for (const char* matrix : {"q_proj", "v_proj"}) {
        names.push_back("model.layers." + std::string(layer) + ".self_attn." + matrix + ".weight");
      }
    }
    EXPECT_EQ(changed(trainer), names) << save;
    // The change has rank 2.
    const at::Tensor change =
        (tensors_of(trainer.decoder()).at(names[0]) - before_.at(names[0])).to(at::kDouble);
    const at::Tensor values = at::linalg_svdvals(change);
    EXPECT_LT((values[2] / values[1]).item<double>(), 1e-3) << save;
    TemporaryFolder saved;
    trainer.write_files(formats::real_file_system(), saved.path());
    EXPECT_EQ(fs::exists(saved.path() / "model.safetensors"), std::string(save) == "merged");
    const auto opened = model::open_model(saved.path().string());
    // The adapter's product is made again, in float32 (merged: the same bits).
    EXPECT_LT(
        (logits_of(opened->decoder) - logits_of(trainer.decoder())).abs().max().item<double>(),
        std::string(save) == "merged" ? 1e-9 : 1e-4);
    resumes_bit_for_bit(config);
    // Others are trained whole beside them.
    resumes_bit_for_bit(
        from_it({{"start", {{"lora_rank", 2}, {"lora_save", save}, {"train", {"*norm.weight"}}}}}));
  }
  EXPECT_THROW(text_trainer(from_it({{"encoding", {{"key", "none"}}},
                                     {"start", {{"lora_rank", 2}, {"lora_save", "adapter"}}}})),
               formats::Error);
  // Whichever of two patterns stands first, both name what they name.
  EXPECT_NO_THROW(text_trainer(
      from_it({{"start", {{"lora_rank", 2}, {"lora", {"*_proj.weight", "*.q_proj.weight"}}}}})));
  EXPECT_THROW(text_trainer(from_it({{"start", {{"lora_rank", 2}, {"lora", {"*.nothing"}}}}})),
               formats::Error);
}

TEST_F(FromAModel, AJobNotesWhichModelItBeganWith) {
  const fs::path dir = folder_.path() / "j";
  fs::create_directories(dir);
  std::ofstream(dir / "config.json") << to_json(from_it({}));
  ASSERT_EQ(run_job(dir), 0);
  const RunConfig noted = run_config_from_file(dir / "config.json");
  EXPECT_EQ(noted.start.model_sha256, model::open_model(base().string())->report.sha256);
  // Another model in its place is refused by a resume.
  fs::remove_all(dir / "checkpoints/step-8");
  Trainer other = text_trainer(from_it({}));
  losses_to(other, 1);
  other.write_files(formats::real_file_system(), base());
  EXPECT_EQ(run_job(dir), 2);
}

// Every file of sample_configs/tuning names a model that is there and tensors that it has.
TEST(TuningConfigs, BeginWithABundledModel) {
  int files = 0;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(fs::path(PHASESCOPE_SOURCE) / "sample_configs/tuning")) {
    const json given = formats::json_from_file(entry.path());
    RunConfig config = run_config_from_json(filled_in_from_model(given), entry.path().string());
    EXPECT_EQ(config.model.layers, 4) << entry.path();
    config.train.batch_tokens = config.model.context;
    config.train.curriculum = {{32, 1}};
    config.train.steps = 1;
    const auto corpus =
        std::make_shared<const Corpus>(small_text(), config.data, config.model.context);
    Trainer trainer(config, corpus, {});
    EXPECT_TRUE(std::isfinite(trainer.step().loss)) << entry.path();
    ++files;
  }
  EXPECT_EQ(files, 6);
}

TEST_F(FromAModel, KeysWithoutAModelAreRefused) {
  const auto refused = [](const json& start) {
    EXPECT_THROW(run_config_from_json({{"start", start}}, "test"), formats::Error) << start;
  };
  refused({{"context", 64}});
  refused({{"lora_rank", 4}});
  refused({{"model", 4}});
  refused({{"train", {1}}});
  EXPECT_THROW(filled_in_from_model({{"start", {{"model", "nothing-of-this-name"}}}}),
               formats::Error);
}

}  // namespace
}  // namespace phasescope::training
