// Which training text is found, and that one that is not what it should be is not read in silence.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "formats/sha256.h"
#include "tests/temporary_folder.h"
#include "training/corpus.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;

// $PHASESCOPE_CORPUS is looked at first; in PATH stands a python3 that makes `made` of any text.
class FoundCorpus : public testing::Test {
 protected:
  void SetUp() override {
    write(folder_.path() / "bin/python3", "#!/bin/sh\nprintf made >\"$3/train.txt\"\n");
    fs::permissions(folder_.path() / "bin/python3", fs::perms::owner_all);
    path_ = std::getenv("PATH");
    ::setenv("PATH", ((folder_.path() / "bin").string() + ":" + path_).c_str(), 1);
    ::setenv("PHASESCOPE_CORPUS", place().c_str(), 1);
  }
  void TearDown() override {
    ::setenv("PATH", path_.c_str(), 1);
    ::unsetenv("PHASESCOPE_CORPUS");
  }
  fs::path place() const { return folder_.path() / "corpus"; }
  static void write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::string found() {
    said_.clear();
    return find_corpus("desk", [this](const std::string& line) { said_ += line + "\n"; }).string();
  }

  TemporaryFolder folder_;
  std::string path_, said_;
};

// A name that no file can have is none of a corpus; the other places are looked at.
TEST_F(FoundCorpus, APlaceThatCannotBeLookedAtIsNoError) {
  ::setenv("PHASESCOPE_CORPUS", std::string(5000, 'x').c_str(), 1);
  EXPECT_EQ(desk_corpus_places().front().filename(), "train.txt");
}

TEST_F(FoundCorpus, Row32AnotherTextIsToldOf) {
  write(place() / "train.txt", "a text of one's own");
  EXPECT_EQ(found(), place() / "train.txt");
  EXPECT_NE(said_.find("is not the text that the bundled models were trained on"),
            std::string::npos)
      << said_;
}

TEST_F(FoundCorpus, Risk21_AProgramThatOthersMayWriteIsNotRun) {
  const fs::path tool = folder_.path() / "tools/make.py";
  EXPECT_FALSE(is_safe_to_run(tool));  // it is not there
  write(tool, "print(1)");
  fs::permissions(tool.parent_path(), fs::perms::owner_all);
  EXPECT_TRUE(is_safe_to_run(tool));
  for (const fs::path& path : {tool, tool.parent_path()}) {
    fs::permissions(path, fs::perms::others_write, fs::perm_options::add);
    EXPECT_FALSE(is_safe_to_run(tool)) << path;
    fs::permissions(path, fs::perms::others_write, fs::perm_options::remove);
  }
}

// make_corpus.py says beside the text which one it has made.
TEST_F(FoundCorpus, Row32ATextThatWasCutIsMadeAnew_Risk3) {
  const std::string whole = "what was made, all of it";
  write(place() / "corpus.json",
        R"({"train": {"sha256": ")" + formats::sha256_hex(std::string_view(whole)) + "\"}}");
  write(place() / "train.txt", whole);
  EXPECT_EQ(found(), place() / "train.txt");
  EXPECT_EQ(said_.find("is cut or changed"), std::string::npos) << said_;
  write(place() / "train.txt", whole.substr(0, 8));
  const std::string other = found();
  EXPECT_NE(said_.find("train.txt is cut or changed"), std::string::npos) << said_;
  // That of the sources where it is there; otherwise what was made anew, in its place.
  std::ifstream file(other);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(text, whole.substr(0, 8));
  if (other == place() / "train.txt") {
    EXPECT_EQ(text, "made");
  }
}

}  // namespace
}  // namespace phasescope::training
