// Attention computed elsewhere, imported and opened: its maps are those that were given.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <fstream>

#include "attention_keeper.h"
#include "formats/error.h"
#include "formats/tensors/npy.h"
#include "golden.h"
#include "model/checkpoints/import_tensors.h"
#include "model/checkpoints/open_model.h"
#include "model/checkpoints/tensor_io.h"

namespace phasescope::model {
namespace {

namespace fs = std::filesystem;

at::Tensor drawn(std::vector<std::int64_t> shape, std::uint64_t seed) {
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed));
}

at::Tensor causal_maps(std::vector<std::int64_t> shape) {
  const at::Tensor scores = drawn(std::move(shape), 3);
  const at::Tensor later = at::ones_like(scores).triu(1) > 0;
  return at::softmax(scores.masked_fill(later, -INFINITY), -1);
}

void write(const fs::path& path, const at::Tensor& x) {
  const at::Tensor values = x.contiguous();
  formats::write_npy(formats::real_file_system(), path,
                     std::span(values.const_data_ptr<float>(), std::size_t(values.numel())),
                     x.sizes().vec());
}

Imported imported(const std::vector<fs::path>& files, const fs::path& out,
                  const ImportOptions& options = {}) {
  return import_tensors(formats::real_file_system(), files, out, options);
}

// (heads, N, N) of every layer of a text of `tokens` tokens.
std::vector<at::Tensor> maps_of(const fs::path& folder, std::int64_t tokens) {
  const at::NoGradGuard no_grad;
  const auto model = open_model(folder.string());
  AttentionKeeper keeper;
  model->decoder.hidden(random_ids(1, tokens, 256), {}, &keeper);
  std::vector<at::Tensor> maps;
  for (const auto& layer : keeper.layers) maps.push_back(layer->weights(layer->whole())[0]);
  return maps;
}

std::string fault_of(const std::vector<fs::path>& files, const fs::path& out,
                     const ImportOptions& options = {}) {
  try {
    imported(files, out, options);
  } catch (const formats::Error& error) {
    EXPECT_EQ(error.code(), "bad_input");
    return error.message();
  }
  return "";
}

TEST(ImportedMaps, AreTheMapsOfTheModel) {
  const TemporaryFolder folder;
  const at::Tensor maps = causal_maps({2, 3, 11, 11});
  write(folder.path() / "attn.npy", maps);
  const Imported done = imported({folder.path() / "attn.npy"}, folder.path() / "m");
  EXPECT_TRUE(done.config.attention.causal);
  const auto found = maps_of(folder.path() / "m", 11);
  ASSERT_EQ(found.size(), 2U);
  // Float32: a logarithm and its exponential.
  for (std::size_t n = 0; n < 2; ++n) {
    EXPECT_LT((found[n] - maps[n]).abs().max().item<float>(), 1e-5);
  }
  EXPECT_THROW(maps_of(folder.path() / "m", 12), formats::Error);
}

// As `map --out x.npy` writes it.
TEST(ImportedMaps, OfThisProgramHaveNoNumberWhereAPairIsHidden) {
  const TemporaryFolder folder;
  const at::Tensor map = causal_maps({1, 1, 7, 7});
  const at::Tensor hidden = at::ones({7, 7}, at::kBool).triu(1);
  for (const float none : {-INFINITY, NAN}) {
    write(folder.path() / "map.npy", map[0][0].masked_fill(hidden, none));
    const fs::path out = folder.path() / std::to_string(none);
    const Imported done = imported({folder.path() / "map.npy"}, out);
    EXPECT_TRUE(done.config.attention.causal);
    EXPECT_EQ(done.notes, std::vector<std::string>{"what is no number in a map is a pair that is "
                                                   "hidden, and weighs 0"});
    EXPECT_LT((maps_of(out, 7)[0][0] - map[0][0]).abs().max().item<float>(), 1e-5);
  }
}

TEST(ImportedMaps, OfSeveralFilesAreALayerEach) {
  const TemporaryFolder folder;
  const at::Tensor maps = at::softmax(drawn({2, 2, 5, 5}, 4), -1);
  write(folder.path() / "a.npy", maps[1]);
  write(folder.path() / "b.npy", maps[0]);
  const Imported done =
      imported({folder.path() / "a.npy", folder.path() / "b.npy"}, folder.path() / "m");
  EXPECT_FALSE(done.config.attention.causal);
  const auto found = maps_of(folder.path() / "m", 5);
  EXPECT_LT((found[0] - maps[1]).abs().max().item<float>(), 1e-5);
  EXPECT_LT((found[1] - maps[0]).abs().max().item<float>(), 1e-5);
  // Nothing in the names says which is which.
  EXPECT_EQ(done.notes, std::vector<std::string>{"names without layer numbers are layers in the "
                                                 "order in which they were given"});
}

// The order of the arguments is that of no number: 10 comes before 2 in a shell's list of files.
TEST(ImportedMaps, OfNumberedFilesGoByTheirNumbers) {
  const TemporaryFolder folder;
  const at::Tensor maps = at::softmax(drawn({3, 2, 5, 5}, 4), -1);
  const std::vector<std::vector<std::string>> named = {
      {"layer2.npy", "layer0.npy", "layer1.npy"},
      {"gpt2-L02_attn.npy", "gpt2-L00_attn.npy", "gpt2-L01_attn.npy"},
      {"run7_2.npy", "run7_0.npy", "run7_1.npy"}};
  for (const auto& names : named) {
    std::vector<fs::path> files;
    for (const std::string& name : names) files.push_back(folder.path() / name);
    write(files[0], maps[2]), write(files[1], maps[0]), write(files[2], maps[1]);
    EXPECT_EQ(imported(files, folder.path() / "m").notes.size(), 0U) << names[0];
    const auto found = maps_of(folder.path() / "m", 5);
    ASSERT_EQ(found.size(), 3U);
    for (std::size_t n = 0; n < 3; ++n) {
      const at::Tensor off = found[n] - maps[static_cast<std::int64_t>(n)];
      EXPECT_LT(off.abs().max().item<float>(), 1e-5) << names[0] << ", layer " << n;
    }
  }
}

TEST(ImportedMaps, OfAbsentLayersAreRefusedOrCounted) {
  const TemporaryFolder folder;
  const at::Tensor maps = at::softmax(drawn({2, 2, 5, 5}, 4), -1);
  const fs::path out = folder.path() / "m", safe = folder.path() / "attn.safetensors";
  const std::vector<fs::path> arrays = {folder.path() / "layer5.npy", folder.path() / "layer3.npy"};
  write(arrays[0], maps[1]), write(arrays[1], maps[0]);
  write_tensors(formats::real_file_system(), safe, {{"attn.3", maps[0]}, {"attn.5", maps[1]}});
  for (const std::vector<fs::path>& files : {arrays, std::vector<fs::path>{safe}}) {
    EXPECT_EQ(fault_of(files, out), "attn has layers 3, 5 and none of 0, 1, 2, 4");
    const Imported done = imported(files, out, {.renumber = true});
    EXPECT_EQ(done.notes, std::vector<std::string>{
                              "layers 0, 1, .. of the model are layers 3, 5 of the files"});
    const auto found = maps_of(out, 5);
    ASSERT_EQ(found.size(), 2U);
    EXPECT_LT((found[0] - maps[0]).abs().max().item<float>(), 1e-5);
    EXPECT_LT((found[1] - maps[1]).abs().max().item<float>(), 1e-5);
  }
}

TEST(Import, SaysWhichLayersDoNotFitTogether) {
  const TemporaryFolder folder;
  const at::Tensor maps = at::softmax(drawn({2, 5, 5}, 4), -1);
  const fs::path out = folder.path() / "m";
  const auto array = [&](const std::string& name) {
    write(folder.path() / name, maps);
    return folder.path() / name;
  };
  EXPECT_EQ(
      fault_of({array("a_layer0.npy"), array("b_layer0.npy")}, out),
      (folder.path() / "b_layer0.npy").string() + " is layer 0 of attn, and there is one already");
  EXPECT_EQ(fault_of({array("layer0.npy"), array("last.npy")}, out),
            "the names of other files say their layers, and this one's does not");
  EXPECT_EQ(fault_of({array("layer0_q.npy"), array("layer1_k.npy")}, out, {.as = "qk"}),
            "queries are of layers 0 and keys of layers 1");
}

TEST(ImportedProducts, GiveSoftmaxOfTheirScores) {
  const TemporaryFolder folder;
  const at::Tensor q = drawn({2, 4, 9, 6}, 5), k = drawn({2, 2, 9, 6}, 6);
  write_tensors(formats::real_file_system(), folder.path() / "qk.safetensors",
                {{"q.0", q[0].unsqueeze(0)},
                 {"q.1", q[1].unsqueeze(0)},
                 {"k.0", k[0].unsqueeze(0)},
                 {"k.1", k[1].unsqueeze(0)},
                 {"v.0", k[1].unsqueeze(0)}});
  const Imported done = imported({folder.path() / "qk.safetensors"}, folder.path() / "m",
                                 {.causal = "no", .scale = 0.25});
  EXPECT_EQ(done.config.kv_heads, 2);
  EXPECT_EQ(done.notes.size(), 1U);  // v
  const auto found = maps_of(folder.path() / "m", 9);
  const at::Tensor truth = at::softmax(
      at::matmul(q, k.repeat_interleave(2, 1).transpose(-1, -2)).to(at::kDouble) * 0.25, -1);
  for (std::size_t n = 0; n < 2; ++n) {
    EXPECT_LT((found[n] - truth[n]).abs().max().item<double>(), 1e-5);
  }
}

// What the view would show is the map, whatever was asked for: the option is refused, and what is
// left of the file is told.
TEST(ImportedMaps, HaveNoScale) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "m", file = folder.path() / "all.safetensors";
  const at::Tensor q = drawn({2, 5, 4}, 7);
  write_tensors(formats::real_file_system(), file,
                {{"attn", causal_maps({2, 5, 5})}, {"q", q}, {"k", q}});
  for (const char* as : {"auto", "maps"}) {
    try {
      imported({file}, out, {.as = as, .scale = 0.25});
      ADD_FAILURE() << as;
    } catch (const formats::Error& error) {
      EXPECT_EQ(error.code(), "bad_usage");
      EXPECT_EQ(error.message(), "these are maps, and a scale is of queries and keys");
    }
    EXPECT_FALSE(fs::exists(out));
  }
  EXPECT_EQ(imported({file}, out, {.as = "qk", .scale = 0.25}).config.attention.scale, 0.25);
  EXPECT_EQ(imported({file}, out).notes,
            (std::vector<std::string>{"q was left out: the maps are there",
                                      "k was left out: the maps are there"}));
}

TEST(Import, SaysWhatDoesNotFit) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "attn.npy", out = folder.path() / "m";
  at::Tensor maps = causal_maps({1, 2, 6, 6});
  maps[0][1][3][2] += 0.5;
  write(file, maps);
  EXPECT_EQ(fault_of({file}, out),
            "the map of layer 0 does not sum to 1 in head 1, row 3: 1.500000");
  write(file, at::softmax(drawn({2, 6, 5}, 1), -1));
  EXPECT_EQ(fault_of({file}, out),
            "the map of layer 0 has the shape (2, 6, 5), and a map has as many keys as queries");
  write(file, at::softmax(drawn({2, 6, 6}, 1), -1));
  EXPECT_EQ(fault_of({file}, out, {.causal = "yes"}),
            "some weight lies on a later key, so the maps are not causal");
  EXPECT_EQ(fault_of({file}, out, {.as = "qk"}), "there is no tensor called q");
  maps[0][0][0][0] = NAN;
  write(file, maps);
  EXPECT_EQ(fault_of({file}, out),
            "the map of layer 0 does not sum to 1 in head 0, row 0: 0.000000");
  EXPECT_EQ(fault_of({folder.path() / "a.txt"}, out), ".npy and .safetensors files are imported");
  EXPECT_FALSE(fs::exists(out));
}

// An import may be made again; another model would be lost.
TEST(Import, WritesOverNoOtherModel) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "attn.npy", out = folder.path() / "m";
  write(file, causal_maps({1, 2, 6, 6}));
  imported({file}, out);
  EXPECT_NO_THROW(imported({file}, out));
  const auto refused = [&](const fs::path& left) {
    try {
      imported({file}, out);
      FAIL() << left << " was written over";
    } catch (const formats::Error& error) {
      EXPECT_EQ(error.code(), "bad_usage");
      EXPECT_NE(error.message().find("another model is in"), std::string::npos) << error.message();
    }
    EXPECT_EQ(fs::file_size(left), 2U);
  };
  std::ofstream(out / "config.json") << "{}";
  refused(out / "config.json");
  fs::remove(out / "config.json");
  std::ofstream(out / "model.safetensors") << "{}";
  refused(out / "model.safetensors");
}

}  // namespace
}  // namespace phasescope::model
