// Files are hashed while they are written: their digests are those of the files.
#include "formats/hashing_file_system.h"

#include <gtest/gtest.h>

#include "formats/sha256.h"
#include "support.h"

namespace phasescope::formats {
namespace {

void write(FileSystem& fs, const std::filesystem::path& path, int pieces) {
  const auto file = fs.create(path);
  for (int n = 0; n < pieces; ++n) file->write_text("piece " + std::to_string(n));
  file->close();
}

TEST(HashingFileSystem, Risk5_KnowsWhatItsFilesHold) {
  TemporaryFolder folder;
  const auto root = folder.path();
  HashingFileSystem fs(real_file_system());
  write(fs, root / "one", 3);
  write(fs, root / "two.tmp", 5000);
  fs.rename(root / "two.tmp", root / "two");
  write(fs, root / "gone", 1);
  fs.remove(root / "gone");
  const auto open = fs.create(root / "open");  // not closed: nobody knows yet
  const auto written = fs.written_in(root);
  ASSERT_EQ(written.size(), 2u);
  for (const char* name : {"one", "two"}) {
    EXPECT_EQ(written.at(name).sha256, sha256_of_file(root / name));
    EXPECT_EQ(written.at(name).size, std::filesystem::file_size(root / name));
  }
  write(fs, root / "one", 1);
  EXPECT_EQ(fs.written_in(root).at("one").sha256, sha256_of_file(root / "one"));
  EXPECT_TRUE(fs.written_in(root / "elsewhere").empty());
}

TEST(RealFileSystem, ReadsInPieces) {
  TemporaryFolder folder;
  const std::string text(700'000, 'x');
  write_file_atomically(real_file_system(), folder.path() / "a", text);
  std::size_t size = 0;
  int pieces = 0;
  real_file_system().read_pieces(folder.path() / "a", [&](std::span<const std::byte> piece) {
    size += piece.size(), ++pieces;
  });
  EXPECT_EQ(size, text.size());
  EXPECT_GT(pieces, 1);
  EXPECT_EQ(real_file_system().read(folder.path() / "a"), text);
}

}  // namespace
}  // namespace phasescope::formats
