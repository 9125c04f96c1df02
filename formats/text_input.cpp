#include "formats/text_input.h"

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>

#include "formats/error.h"
#include "formats/file_system.h"
#include "formats/json.h"

namespace phasescope::formats {
namespace {

Error longer_than(std::uintmax_t max_bytes, const std::string& where) {
  return bad_input("the text is longer than " + std::to_string(max_bytes) + " bytes", where,
                   "give a shorter one");
}

// What says no length of its own is read as far as `max_bytes`: a pipe may never end.
std::string read_stream(std::istream& stream, const std::string& where, std::uintmax_t max_bytes) {
  std::string text;
  std::vector<char> piece(1 << 16);
  while (stream) {
    stream.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    text.append(piece.data(), static_cast<std::size_t>(stream.gcount()));
    if (text.size() > max_bytes) throw longer_than(max_bytes, where);
  }
  return text;
}

std::string read_pipe(const std::filesystem::path& path, std::uintmax_t max_bytes) {
  std::string text;
  real_file_system().read_pieces(path, [&](std::span<const std::byte> piece) {
    text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    if (text.size() > max_bytes) throw longer_than(max_bytes, path.string());
  });
  return text;
}

std::string read_file_text(const std::filesystem::path& path, std::uintmax_t max_bytes) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    throw bad_input("there is no such file", path.string(), "check the path");
  }
  if (std::filesystem::is_directory(status)) {
    throw bad_input("this is a folder, and a file is needed", path.string());
  }
  if (std::filesystem::is_character_file(status) || std::filesystem::is_block_file(status)) {
    throw bad_input("this is a device, and a file is needed", path.string(),
                    "- reads standard input");
  }
  if (!std::filesystem::is_regular_file(status)) return read_pipe(path, max_bytes);
  const auto size = std::filesystem::file_size(path, error);
  if (!error && size > max_bytes) {
    throw bad_input("the file has " + std::to_string(size) + " bytes, and at most " +
                        std::to_string(max_bytes) + " are read",
                    path.string());
  }
  return real_file_system().read(path);
}

// Where a piece ends that shall have the bytes before `least_end`: after a line, or a word where
// the line goes on for `reach` bytes, or between two characters.
std::size_t end_of_piece(std::string_view all, std::size_t least_end, std::size_t reach) {
  if (least_end >= all.size()) return all.size();
  const std::string_view near = all.substr(least_end - 1, reach);
  for (const char boundary : {'\n', ' '}) {
    if (const std::size_t at = near.find(boundary); at != near.npos) return least_end + at;
  }
  std::size_t end = least_end;
  while (end < all.size() && (static_cast<unsigned char>(all[end]) & 0xC0) == 0x80) ++end;
  return end;
}

// Folder by folder, in the order of the names. `above`: the folders on the way, which a link in
// them may lead back to.
void add_files(const std::filesystem::path& folder, std::vector<std::filesystem::path> above,
               std::vector<std::filesystem::path>& files) {
  std::error_code error;
  const std::filesystem::path own = std::filesystem::canonical(folder, error);
  if (std::ranges::find(above, own) != above.end()) return;
  above.push_back(own);
  for (const std::string& name : real_file_system().list(folder)) {
    if (name.starts_with('.')) continue;
    if (std::filesystem::is_directory(folder / name, error)) {
      add_files(folder / name, above, files);
    } else {
      files.push_back(folder / name);
    }
  }
}

}  // namespace

std::string read_text_file(const std::filesystem::path& path, std::uintmax_t max_bytes) {
  const bool standard_input = path == "-";
  std::string text = standard_input ? read_stream(std::cin, "standard input", max_bytes)
                                    : read_file_text(path, max_bytes);
  if (text.empty()) {
    throw bad_input("the file is empty", standard_input ? "standard input" : path.string());
  }
  return text;
}

std::vector<NamedText> read_text_collection(const std::filesystem::path& path) {
  const std::string all = read_text_file(path);
  std::vector<NamedText> texts;
  std::size_t line_number = 0;
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = std::min(all.find('\n', begin), all.size());
    const std::string_view line = std::string_view(all).substr(begin, end - begin);
    begin = end + 1;
    ++line_number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = path.string() + ", line " + std::to_string(line_number);
    const Json record = parse_json(line, where);
    if (!record.is_object() || !record.contains("text") || !record["text"].is_string()) {
      throw bad_input("a line must be an object with a string \"text\"", where);
    }
    if (record["text"].get_ref<const std::string&>().empty()) {
      throw bad_input("the text is empty", where, "leave the line out");
    }
    const bool named = record.contains("name") && record["name"].is_string();
    texts.push_back({named ? record["name"].get<std::string>() : std::to_string(line_number),
                     record["text"].get<std::string>()});
  }
  if (texts.empty()) throw bad_input("the file holds no text", path.string());
  return texts;
}

std::vector<std::filesystem::path> files_of_corpus(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    throw bad_input("there is no such file", path.string(), "check the path");
  }
  if (!std::filesystem::is_directory(path, error)) return {path};
  std::vector<std::filesystem::path> files;
  add_files(path, {}, files);
  if (files.empty()) throw bad_input("the folder holds no text", path.string());
  return files;
}

std::vector<NamedText> read_corpus(const std::filesystem::path& path) {
  if (path.extension() == ".jsonl") return read_text_collection(path);
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    return {{path.filename().string(), read_text_file(path)}};
  }
  std::vector<NamedText> texts;
  for (const std::filesystem::path& file : files_of_corpus(path)) {
    const std::string name = file.lexically_relative(path).generic_string();
    if (file.extension() != ".jsonl") {
      texts.push_back({name, read_text_file(file)});
      continue;
    }
    for (NamedText& line : read_text_collection(file)) {
      texts.push_back({name + ":" + line.name, std::move(line.text)});
    }
  }
  return texts;
}

std::vector<NamedText> cut_at_lines(const NamedText& text, std::size_t bytes) {
  std::vector<NamedText> pieces;
  const std::string_view all = text.text;
  const std::size_t least = std::max<std::size_t>(bytes, 1);
  for (std::size_t begin = 0; begin < all.size();) {
    std::size_t end = end_of_piece(all, begin + least, least);
    if (all.size() - end < least) end = all.size();
    pieces.push_back(
        {text.name + ":" + std::to_string(begin), std::string(all.substr(begin, end - begin))});
    begin = end;
  }
  return pieces;
}

}  // namespace phasescope::formats
