#include "training/prepared_corpus.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "formats/error.h"
#include "formats/json.h"
#include "formats/read_only_file.h"
#include "formats/sha256.h"
#include "formats/text_input.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;

// Another way of writing or cutting gets another number.
constexpr const char* kForm = "ids 1";
constexpr std::size_t kRead = std::size_t{1} << 20;

bool of_lines(const fs::path& path) { return path.extension() == ".jsonl"; }

std::string sha256_of(const fs::path& file, const PrepareOptions& options) {
  return formats::sha256_of_file(file, [&](auto) { options.look_up(); });
}

// The hash of the one file, or of the list of the hashes of several.
std::string sha256_of(const std::vector<fs::path>& files, const PrepareOptions& options) {
  if (files.size() == 1) return sha256_of(files[0], options);
  std::string list;
  for (const fs::path& file : files) list += sha256_of(file, options) + "\n";
  return formats::sha256_hex(std::string_view(list));
}

// Throws for what is no file, or cannot be opened.
std::int64_t size_of(const std::vector<fs::path>& files) {
  std::int64_t bytes = 0;
  for (const fs::path& file : files) {
    bytes += static_cast<std::int64_t>(formats::ReadOnlyFile(file).size());
  }
  return bytes;
}

// Where the first piece of a text ends that is longer than one.
std::size_t end_of_piece(std::string_view text, std::size_t piece) {
  const std::string_view first = text.substr(0, piece);
  if (const std::size_t line = first.rfind('\n'); line != first.npos) return line + 1;
  if (const std::size_t blank = first.rfind(' '); blank != first.npos && blank > 0) return blank;
  std::size_t end = piece;
  while (end > 1 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return end;
}

// Takes documents piece by piece, and writes their ids.
class IdsOfDocuments {
 public:
  IdsOfDocuments(TokenWriter& writer, const PrepareOptions& options)
      : writer_(writer), options_(options) {}

  void begin_document() {
    if (writer_.count() > 0) writer_.add({&options_.between, 1});
  }
  void add(std::string_view text) {
    options_.look_up();
    waiting_ += text;
    while (waiting_.size() > options_.piece) {
      const std::size_t end = end_of_piece(waiting_, options_.piece);
      write(std::string_view(waiting_).substr(0, end));
      waiting_.erase(0, end);
    }
  }
  void end_document() {
    if (!waiting_.empty()) write(waiting_);
    waiting_.clear();
  }

 private:
  void write(std::string_view text) {
    if (options_.tokenizer != nullptr) {
      writer_.add(options_.tokenizer->encode(text, formats::Template::leave_out).ids);
      return;
    }
    std::vector<std::int64_t> ids;
    ids.reserve(text.size());
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    writer_.add(ids);
  }

  TokenWriter& writer_;
  const PrepareOptions& options_;
  std::string waiting_;
};

void add_text_file(const fs::path& path, IdsOfDocuments& ids) {
  const formats::ReadOnlyFile file(path);
  ids.begin_document();
  std::string piece;
  for (std::uint64_t at = 0; at < file.size(); at += piece.size()) {
    piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kRead, file.size() - at)));
    file.read(at, std::as_writable_bytes(std::span(piece)));
    ids.add(piece);
  }
  ids.end_document();
  file.check_unchanged();
}

std::string text_of_line(const std::string& line, const std::string& where) {
  const formats::Json record = formats::parse_json(line, where);
  if (record.is_object() && record.contains("text") && record["text"].is_string()) {
    return record["text"].get<std::string>();
  }
  throw formats::bad_input("a line must be an object with a string \"text\"", where);
}

void add_lines(const fs::path& path, IdsOfDocuments& ids) {
  std::ifstream file(path, std::ios::binary);
  std::size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    ids.begin_document();
    ids.add(text_of_line(line, path.string() + ", line " + std::to_string(number)));
    ids.end_document();
  }
  if (file.bad()) throw formats::bad_input("the file cannot be read to its end", path.string());
}

// Two tokenizers with the same words that cut the beginning of a text alike are taken for one.
std::string identity_of(const formats::Tokenizer* tokenizer, const fs::path& first) {
  if (tokenizer == nullptr) return "bytes";
  std::string text = tokenizer->name();
  for (std::int64_t id = 0; id < tokenizer->vocab_size(); ++id) {
    text += '\n' + tokenizer->token_bytes(id).value_or(" " + tokenizer->token_text(id));
  }
  const formats::ReadOnlyFile file(first);
  std::string beginning(std::min<std::uint64_t>(kRead, file.size()), ' ');
  file.read(0, std::as_writable_bytes(std::span(beginning)));
  if (beginning.size() == kRead) beginning.resize(end_of_piece(beginning, kRead - 1));
  for (const std::int64_t id : tokenizer->encode(beginning, formats::Template::leave_out).ids) {
    text += ' ' + std::to_string(id);
  }
  return formats::sha256_hex(std::string_view(text));
}

// The ids that lie there, if they are the ones that were written.
std::optional<TokenFile> kept_ids(const fs::path& ids, const fs::path& about, int width,
                                  const PrepareOptions& options) {
  std::error_code error;
  if (!fs::exists(ids, error) || !fs::exists(about, error)) return std::nullopt;
  try {
    const std::string sha256 = formats::json_from_file(about).value("sha256", "");
    if (sha256_of(ids, options) == sha256) return TokenFile(ids, width);
  } catch (const std::exception&) {
    // One of them cannot be read, or is not what was written: both are made anew.
  }
  return std::nullopt;
}

// What writers that were killed left behind; one that is alive has written lately.
void remove_litter(formats::FileSystem& system, const fs::path& folder) {
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for (const std::string& name : system.list(folder)) {
    std::error_code error;
    const fs::path file = folder / name;
    if (file.extension() != ".tmp" || fs::last_write_time(file, error) > old || error) continue;
    try {
      system.remove(file);
    } catch (const formats::FileError&) {
      // It is another user's, in a folder that is shared: it stays.
    }
  }
}

// The ids stand for files of this hash from then on, so that these must not have changed since.
void require_unchanged(const std::vector<fs::path>& files, const std::string& sha256,
                       const PrepareOptions& options) {
  if (sha256_of(files, options) == sha256) return;
  throw formats::bad_input("the text changed while it was read", files[0].string(),
                           "start again when nobody writes to it");
}

// `of`: the hash of the files.
void write_ids(const std::vector<fs::path>& files, const std::string& of, const fs::path& ids,
               const fs::path& about, int width, const PrepareOptions& options) {
  formats::FileSystem& system = formats::real_file_system();
  formats::make_directories(system, ids.parent_path());
  remove_litter(system, ids.parent_path());
  std::string sha256;
  std::int64_t count = 0;
  formats::write_file_atomically_with(system, ids, [&](formats::WritableFile& file) {
    TokenWriter writer(file, width);
    IdsOfDocuments documents(writer, options);
    for (const fs::path& one : files) {
      if (of_lines(one)) {
        add_lines(one, documents);
      } else {
        add_text_file(one, documents);
      }
    }
    count = writer.count();
    sha256 = writer.finish();
    require_unchanged(files, of, options);
  });
  const nlohmann::json text{{"sha256", sha256}, {"ids", count}, {"bytes_an_id", width}};
  formats::write_file_atomically(system, about, text.dump(1) + "\n");
}

}  // namespace

PreparedCorpus prepare_corpus(const fs::path& path, const PrepareOptions& options) {
  const std::vector<fs::path> files = formats::files_of_corpus(path);
  const std::int64_t bytes = size_of(files);
  const bool as_it_stands = options.tokenizer == nullptr && files.size() == 1 && files[0] == path;
  if (as_it_stands && !of_lines(path)) {
    TokenFile text(path, 1);  // before it is hashed: what changes later is noticed when it is read
    return {std::move(text), sha256_of(files, options), bytes};
  }
  std::string sha256 = sha256_of(files, options);
  const std::int64_t known = options.tokenizer ? options.tokenizer->vocab_size() : 256;
  const int width = token_width(std::max(known, options.between + 1));
  std::string key = std::string(kForm) + "\n" + sha256 + "\n";
  // The same bytes are other documents as lines of JSON than as a text.
  for (const fs::path& file : files) key += of_lines(file) ? 'l' : 't';
  key += "\n" + identity_of(options.tokenizer, files[0]) + "\n" + std::to_string(options.between) +
         " " + std::to_string(options.piece);
  key = formats::sha256_hex(std::string_view(key));
  const fs::path ids = options.cache / (key + ".ids"), about = options.cache / (key + ".json");
  if (auto kept = kept_ids(ids, about, width, options)) {
    return {std::move(*kept), std::move(sha256), bytes};
  }
  if (options.notice) {
    options.notice("putting the ids of " + path.string() + ", " + std::to_string(bytes) +
                   " bytes, into " + ids.string());
  }
  write_ids(files, sha256, ids, about, width, options);
  return {TokenFile(ids, width), std::move(sha256), bytes};
}

void check_corpus(const fs::path& path, std::int64_t least) {
  const std::vector<fs::path> files = formats::files_of_corpus(path);
  const std::int64_t bytes = size_of(files);
  const bool text = !of_lines(files[0]);
  if (bytes > 0 && (!text || bytes >= least)) return;
  throw formats::bad_input("the training text has " + std::to_string(bytes) +
                               " bytes, less than one window of " + std::to_string(least),
                           path.string());
}

}  // namespace phasescope::training
