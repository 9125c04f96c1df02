#include "formats/folder_listing.h"

#include "formats/file_system.h"
#include "support.h"

namespace phasescope::formats {
namespace {

TEST(ListedEntries, AreFoldersFirstWithoutWhatIsHiddenOrNoText) {
  const TemporaryFolder folder;
  FileSystem& fs = real_file_system();
  for (const char* name : {"b.bin", "a.gguf", ".hidden", "half\xc3"}) {
    fs.create(folder / name)->write_text("x");
  }
  fs.make_directory(folder / "z");
  EXPECT_EQ(listed_entries(folder.path()),
            (std::vector<ListedEntry>{{"z", true}, {"a.gguf", false}, {"b.bin", false}}));
  EXPECT_EQ(listed_entries(folder.path(), ListedNames::of_bytes_too),
            (std::vector<ListedEntry>{
                {"z", true}, {"a.gguf", false}, {"b.bin", false}, {"half\xc3", false}}));
  EXPECT_THROW(listed_entries(folder / "nowhere"), FileError);
}

}  // namespace
}  // namespace phasescope::formats
