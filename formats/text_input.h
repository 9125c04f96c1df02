#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace phasescope::formats {

// A text file as bytes, "-" being standard input. Throws Error "bad_input" that says whether it is
// missing, a folder, not readable, empty or above `max_bytes`.
std::string read_text_file(const std::filesystem::path& path,
                           std::uintmax_t max_bytes = std::uintmax_t{1} << 30);

struct NamedText {
  std::string name;
  std::string text;
};

// A .jsonl file of {"name": ..., "text": ...} lines, as the bundled validation texts are. Errors
// name the line.
std::vector<NamedText> read_text_collection(const std::filesystem::path& path);

// The files of a corpus: of a folder those in it, in the order of their names, with those of the
// folders in it; what is hidden is left out, and so is a link to a folder on the way. Of a file
// itself. Throws Error "bad_input" where there is none.
std::vector<std::filesystem::path> files_of_corpus(const std::filesystem::path& path);

// The texts of a corpus: of a .jsonl file its lines, of any other file the whole, of a folder those
// of all its files, which are named by their way from it. Throws Error "bad_input".
std::vector<NamedText> read_corpus(const std::filesystem::path& path);

// A text in pieces of at least `bytes` each, which end with a line, or with a word where lines are
// longer than that; a shorter rest belongs to the last piece. Names are NAME:OFFSET.
std::vector<NamedText> cut_at_lines(const NamedText& text, std::size_t bytes);

// The byte offset of the first byte that is not valid UTF-8; text.size() where all is.
std::size_t first_invalid_utf8(std::string_view text);

}  // namespace phasescope::formats
