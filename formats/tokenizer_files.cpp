#include "formats/tokenizer_files.h"

#include <nlohmann/json.hpp>

#include "formats/error.h"
#include "formats/folder_listing.h"
#include "formats/json.h"
#include "formats/text_input.h"
#include "formats/tokenizers/hf_tokenizer.h"
#include "formats/tokenizers/json_fields.h"
#include "formats/tokenizers/sentence_piece.h"

namespace phasescope::formats {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNames[] = {"tokenizer.json", "tokenizer.model", "spiece.model",
                                  "sentencepiece.bpe.model"};

std::optional<SentencePieceTemplate> template_beside(const fs::path& model) {
  const fs::path path = model.parent_path() / "tokenizer_config.json";
  if (!is_file(path)) return std::nullopt;
  const Json config = json_from_file(path);
  const JsonFields fields(config, path.string(), "");
  if (!fields.has("add_bos_token") && !fields.has("add_eos_token")) return std::nullopt;
  return SentencePieceTemplate{fields.flag("add_bos_token", true),
                               fields.flag("add_eos_token", false)};
}

}  // namespace

std::optional<fs::path> find_tokenizer_file(const fs::path& path) {
  std::error_code error;
  fs::path folder = path;
  if (!fs::exists(path, error)) return std::nullopt;
  if (!fs::is_directory(path, error)) {
    const std::string name = path.filename().string();
    const bool is_tokenizer = name == "tokenizer.json" || name.ends_with(".model");
    if (is_tokenizer && is_file(path)) return path;
    folder = path.parent_path();
  }
  for (const char* name : kNames) {
    if (is_file(folder / name)) return folder / name;
  }
  return std::nullopt;
}

std::unique_ptr<Tokenizer> open_tokenizer(const fs::path& file,
                                          std::optional<std::int64_t> embedding_rows) {
  if (file.extension() == ".model") {
    return make_sentence_piece(read_text_file(file, std::uintmax_t{256} << 20), file.string(),
                               embedding_rows, template_beside(file));
  }
  return make_hf_tokenizer(json_from_file(file), file.string(), embedding_rows);
}

}  // namespace phasescope::formats
