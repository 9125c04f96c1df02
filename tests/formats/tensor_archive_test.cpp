// Checkpoints in one file or in shards: rows 9 and 10 of the table of faults.

#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "formats/json.h"
#include "formats/tensors/safetensors.h"
#include "support.h"
#include "torch_writer.h"

namespace phasescope::formats {
namespace {

void write_file(const std::filesystem::path& path, const std::vector<std::string>& names) {
  const std::vector<float> values(4, 1.5f);
  std::vector<TensorToWrite> tensors;
  for (const std::string& name : names) {
    tensors.push_back({name, DType::f32, {4}, std::as_bytes(std::span(values))});
  }
  write_safetensors(real_file_system(), path, tensors);
}

// A folder with two shards, a and b in one, c in two, and an index to be changed by each test.
class Sharded : public ::testing::Test {
 protected:
  Sharded() {
    write_file(folder_ / "one.safetensors", {"a", "b"});
    write_file(folder_ / "two.safetensors", {"c"});
    index_ = {{"metadata", {{"total_size", 48}}},
              {"weight_map",
               {{"a", "one.safetensors"}, {"b", "one.safetensors"}, {"c", "two.safetensors"}}}};
  }

  TensorArchive open() {
    folder_.file("model.safetensors.index.json", index_.dump());
    return TensorArchive::open(folder_.path());
  }
  Error refused() {
    const Error error = error_of([&] { open(); });
    EXPECT_EQ(error.code(), "bad_input");
    return error;
  }

  TemporaryFolder folder_;
  Json index_;
};

TEST_F(Sharded, ReadsFromEveryShard) {
  const TensorArchive archive = open();
  EXPECT_EQ(archive.tensors().size(), 3u);
  EXPECT_EQ(archive.files().size(), 2u);
  EXPECT_TRUE(archive.warnings().empty());
  for (const std::string name : {"a", "b", "c"}) {
    std::vector<float> values(4);
    archive.read(*archive.find(name), std::as_writable_bytes(std::span(values)));
    EXPECT_EQ(values, std::vector<float>(4, 1.5f));
  }
  EXPECT_EQ(archive.find("d"), nullptr);
}

TEST_F(Sharded, Row9_MissingShard) {
  std::filesystem::remove(folder_ / "two.safetensors");
  const Error error = refused();
  EXPECT_TRUE(tells(error, "two.safetensors"));
  EXPECT_TRUE(tells(error, "missing"));
}

TEST_F(Sharded, Row9_UnlistedTensor) {
  index_["weight_map"].erase("b");
  const Error error = refused();
  EXPECT_TRUE(tells(error, "\"b\""));
  EXPECT_TRUE(tells(error, "not in the index"));
}

TEST_F(Sharded, Row9_ListedTensorThatIsNotThere) {
  index_["weight_map"]["ghost"] = "one.safetensors";
  EXPECT_TRUE(tells(refused(), "\"ghost\" is not in the shard"));
}

TEST_F(Sharded, Row9_TensorListedInTheWrongShard) {
  index_["weight_map"]["b"] = "two.safetensors";
  EXPECT_TRUE(tells(refused(), "\"b\" is not in the shard \"two.safetensors\""));
}

TEST_F(Sharded, Row9_TensorInTwoShards) {
  write_file(folder_ / "two.safetensors", {"c", "a"});
  const Error error = refused();
  EXPECT_TRUE(tells(error, "\"a\" is in two shards"));
  EXPECT_TRUE(tells(error, "one.safetensors"));
  EXPECT_TRUE(tells(error, "two.safetensors"));
}

TEST_F(Sharded, Row9_KeyTwiceInTheIndex) {
  folder_.file("model.safetensors.index.json",
               R"({"weight_map": {"a": "one.safetensors", "a": "two.safetensors"}})");
  EXPECT_TRUE(
      tells(error_of([&] { TensorArchive::open(folder_.path()); }), "\"a\" is there twice"));
}

TEST_F(Sharded, Row9_ValueThatIsNoString) {
  for (const Json& value : {Json(3), Json(nullptr), Json::array({"one.safetensors"})}) {
    index_["weight_map"]["b"] = value;
    const Error error = refused();
    EXPECT_TRUE(tells(error, "not a string"));
    EXPECT_TRUE(tells(error, "weight_map.b"));
  }
}

TEST_F(Sharded, Row9_NoWeightMap) {
  for (const Json& index : {Json::object(), Json::array(), Json{{"weight_map", 3}},
                            Json{{"weight_map", Json::object()}}}) {
    index_ = index;
    EXPECT_TRUE(tells(refused(), "index.json"));
  }
}

TEST_F(Sharded, Row9_PathsOutOfTheFolder) {
  const TemporaryFolder outside;
  write_file(outside / "c.safetensors", {"c"});
  const std::string name = outside.path().filename().string();
  for (const std::string& path :
       {"../" + name + "/c.safetensors", (outside / "c.safetensors").string(),
        "x/../../" + name + "/c.safetensors", std::string(),
        std::string("two.safetensors\0x", 17)}) {
    index_["weight_map"]["c"] = path;
    EXPECT_TRUE(tells(refused(), "outside the model's folder")) << path;
  }
}

TEST_F(Sharded, Row9_LinkOutOfTheFolder) {
  const TemporaryFolder outside;
  write_file(outside / "c.safetensors", {"c"});
  std::filesystem::remove(folder_ / "two.safetensors");
  std::filesystem::create_symlink(outside / "c.safetensors", folder_ / "two.safetensors");
  EXPECT_TRUE(tells(refused(), "link out of the model's folder"));
}

TEST_F(Sharded, LinksInsideTheFolderAndSubfoldersAreFine) {
  std::filesystem::create_directory(folder_ / "sub");
  std::filesystem::rename(folder_ / "two.safetensors", folder_ / "sub/real.safetensors");
  std::filesystem::create_symlink("sub/real.safetensors", folder_ / "two.safetensors");
  EXPECT_EQ(open().tensors().size(), 3u);
  index_["weight_map"]["c"] = "sub/real.safetensors";
  EXPECT_EQ(open().tensors().size(), 3u);
}

TEST_F(Sharded, LinksOfTheHubsCacheAreFollowed) {
  const auto snapshot = folder_ / "models/snapshots/0123";
  std::filesystem::create_directories(snapshot);
  std::filesystem::create_directories(folder_ / "models/blobs");
  for (const std::string name : {"one.safetensors", "two.safetensors"}) {
    std::filesystem::rename(folder_ / name, folder_ / ("models/blobs/" + name + "-hash"));
    std::filesystem::create_symlink("../../blobs/" + name + "-hash", snapshot / name);
  }
  folder_.file("models/snapshots/0123/model.safetensors.index.json", index_.dump());
  EXPECT_EQ(TensorArchive::open(snapshot).tensors().size(), 3u);
}

TEST_F(Sharded, Row10_WrongTotalSizeIsAWarning) {
  index_["metadata"]["total_size"] = 47;
  const TensorArchive archive = open();
  ASSERT_EQ(archive.warnings().size(), 1u);
  EXPECT_NE(archive.warnings()[0].find("47"), std::string::npos);
  EXPECT_NE(archive.warnings()[0].find("48"), std::string::npos);
}

TEST_F(Sharded, Row10_TotalSizeOfAnotherTypeIsAWarningAndItsAbsenceNone) {
  index_["metadata"]["total_size"] = "big";
  EXPECT_EQ(open().warnings().size(), 1u);
  index_["metadata"]["total_size"] = 48.0;
  EXPECT_TRUE(open().warnings().empty());
  index_.erase("metadata");
  EXPECT_TRUE(open().warnings().empty());
}

TEST(TensorArchive, HoldsTheSameTensorsShardedByTransformers) {
  const auto folder = test_data("hf/models/llama_sharded");
  const TensorArchive archive = TensorArchive::open(folder);
  EXPECT_EQ(archive.files().size(), 3u);
  EXPECT_EQ(archive.tensors().size(), 21u);
  EXPECT_TRUE(archive.warnings().empty());
  const TensorArchive by_index = TensorArchive::open(folder / "model.safetensors.index.json");
  EXPECT_EQ(by_index.tensors().size(), archive.tensors().size());
  // 15768 parameters, by the index that transformers wrote.
  std::int64_t parameters = 0;
  for (const TensorEntry& entry : archive.tensors()) parameters += entry.element_count();
  EXPECT_EQ(parameters, 15768);
}

TEST(TensorArchive, OpensFoldersAndSingleFiles) {
  const TemporaryFolder folder;
  write_file(folder / "weights.safetensors", {"w"});
  EXPECT_NE(TensorArchive::open(folder.path()).find("w"), nullptr);
  EXPECT_NE(TensorArchive::open(folder / "weights.safetensors").find("w"), nullptr);
  write_file(folder / "more.safetensors", {"m"});
  EXPECT_TRUE(tells(error_of([&] { TensorArchive::open(folder.path()); }), "several"));
  write_file(folder / "model.safetensors", {"main"});
  EXPECT_NE(TensorArchive::open(folder.path()).find("main"), nullptr);
}

TEST(TensorArchive, SaysWhatIsMissing) {
  const TemporaryFolder folder;
  EXPECT_TRUE(tells(error_of([&] { TensorArchive::open(folder / "nowhere"); }), "nowhere"));
  EXPECT_TRUE(tells(error_of([&] { TensorArchive::open(folder.path()); }), "no file of weights"));
  folder.file("training_args.bin", "PK");
  EXPECT_TRUE(tells(error_of([&] { TensorArchive::open(folder.path()); }), "no file of weights"));
  folder.file("pytorch_model.bin", "PK");
  EXPECT_TRUE(tells(error_of([&] { TensorArchive::open(folder.path()); }), "torch.save"));
}

// A .bin file with one tensor of three floats for each name, all of them the same storage.
std::string pickled_file(const std::vector<std::string>& names) {
  std::vector<std::pair<std::string, std::string>> items;
  for (const std::string& name : names) {
    items.emplace_back(name, pickled::tensor(pickled::storage(3), 0, {3}, {1}));
  }
  return zip_form(pickled::dict(items), {std::string(12, '\1')});
}

TEST(TensorArchive, PrefersSafetensorsToPickles) {
  const TemporaryFolder folder;
  folder.file("weights.pt", pickled_file({"last"}));
  folder.file("optimizer.pt", "not looked at");
  EXPECT_NE(TensorArchive::open(folder.path()).find("last"), nullptr);
  folder.file("more.pt", pickled_file({"x"}));
  EXPECT_TRUE(tells(error_of([&] { TensorArchive::open(folder.path()); }), "several"));
  write_file(folder / "weights.safetensors", {"lone"});
  EXPECT_NE(TensorArchive::open(folder.path()).find("lone"), nullptr);
  folder.file("pytorch_model.bin.index.json", R"({"weight_map": {"s": "shard.bin"}})");
  folder.file("shard.bin", pickled_file({"s"}));
  EXPECT_NE(TensorArchive::open(folder.path()).find("s"), nullptr);
  folder.file("pytorch_model.bin", pickled_file({"b"}));
  EXPECT_NE(TensorArchive::open(folder.path()).find("b"), nullptr);
  write_file(folder / "model.safetensors", {"main"});
  EXPECT_NE(TensorArchive::open(folder.path()).find("main"), nullptr);
}

TEST(TensorArchive, Row9And10_ShardsOfPickles) {
  const TemporaryFolder folder;
  folder.file("one.bin", pickled_file({"a", "b"}));
  folder.file("two.bin", pickled_file({"c"}));
  Json index = {{"metadata", {{"total_size", 36}}},
                {"weight_map", {{"a", "one.bin"}, {"b", "one.bin"}, {"c", "two.bin"}}}};
  const auto open = [&] {
    folder.file("pytorch_model.bin.index.json", index.dump());
    return TensorArchive::open(folder.path());
  };
  EXPECT_EQ(open().tensors().size(), 3u);
  EXPECT_TRUE(open().warnings().empty());
  EXPECT_EQ(open().tied(), (std::vector<std::vector<std::string>>{{"a", "b"}}));
  // Tools that count a shared storage once are right too.
  index["metadata"]["total_size"] = 24;
  EXPECT_TRUE(open().warnings().empty());
  index["metadata"]["total_size"] = 12;
  EXPECT_EQ(open().warnings().size(), 1u);
  index["weight_map"]["c"] = "one.bin";
  EXPECT_TRUE(tells(error_of(open), "\"c\" is not in the shard"));
  index["weight_map"]["c"] = "../two.bin";
  EXPECT_TRUE(tells(error_of(open), "outside the model's folder"));
  index["weight_map"]["c"] = "two.bin";
  folder.file("two.bin", pickled_file({"c", "a"}));
  EXPECT_TRUE(tells(error_of(open), "in two shards"));
  folder.file("two.bin", "not one");
  EXPECT_TRUE(tells(error_of(open), "two.bin"));
}

}  // namespace
}  // namespace phasescope::formats
