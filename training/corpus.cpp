#include "training/corpus.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>

#include "analysis/texts.h"
#include "formats/counter_random.h"
#include "formats/error.h"
#include "formats/file_system.h"
#include "formats/folder_listing.h"
#include "formats/json.h"
#include "formats/sha256.h"
#include "model/checkpoints/open_model.h"
#include "protocol/spawn.h"
#include "training/schedule.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kWindowStream = 1;
constexpr std::size_t kValidationBytes = 4096;

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? std::optional<std::string>(value) : std::nullopt;
}

fs::path user_cache() {
  if (const auto cache = environment("XDG_CACHE_HOME")) return *cache;
  const auto home = environment("HOME");
  return home ? fs::path(*home) / ".cache" : fs::temp_directory_path();
}

// The id at every window's start.
std::int64_t beginning_of(const DataSection& data, const formats::Tokenizer* tokenizer) {
  return tokenizer == nullptr ? data.bos : tokenizer->bos_id().value_or(data.bos);
}

bool writable(const fs::path& folder) {
  std::error_code ignored;
  fs::create_directories(folder, ignored);
  return access(folder.c_str(), W_OK) == 0;
}

formats::Error no_corpus(const std::string& why) {
  return formats::bad_input(
      "the training text \"desk\" is not there: " + why, "data.corpus",
      "apt-get install bible-kjv bible-kjv-text jargon-text fortunes fortunes-min, then python3 "
      "tools/make_corpus.py --out .cache/corpus; or name a text file with --set data.corpus=FILE");
}

fs::path make_desk_corpus(const std::function<void(const std::string&)>& notice) {
  fs::path tool = model::assets_folder() / "tools/make_corpus.py";  // where installed
  if (!fs::exists(tool)) tool = fs::path(PHASESCOPE_SOURCE) / "tools/make_corpus.py";
  if (!fs::exists(tool)) {
    throw no_corpus("tools/make_corpus.py, which makes it, is not there either");
  }
  if (!is_safe_to_run(tool)) {
    throw no_corpus(tool.string() + " is another user's, or others may write it, and is not run");
  }
  for (const fs::path& place : desk_corpus_places()) {
    const fs::path folder = place.parent_path();
    if (!writable(folder)) continue;
    if (notice) notice("making the training text in " + folder.string());
    try {
      const protocol::ProcessEnd end =
          protocol::run_program({"python3", tool.string(), "--out", folder.string()});
      if (end.exit_status == 0 && fs::exists(place)) return place;
    } catch (const std::system_error&) {
      throw no_corpus("python3 cannot be started");
    }
    throw no_corpus("tools/make_corpus.py failed; it says why above");
  }
  throw no_corpus("no folder for it can be written to");
}

// What tools/make_corpus.py has made stands beside it; nothing beside other texts.
bool is_what_was_made(const fs::path& text, const std::function<void(const std::string&)>& notice) {
  const fs::path made = text.parent_path() / "corpus.json";
  if (text.filename() != "train.txt" || !fs::exists(made)) return true;
  const auto about = formats::json_from_file(made);
  // Another program's file of that name says nothing of the text.
  if (!about.contains("train") || !about.at("train").contains("sha256")) return true;
  if (about.at("train").at("sha256") == formats::sha256_of_file(text)) return true;
  if (notice) notice(text.string() + " is cut or changed since it was made; it is made anew");
  return false;
}

// Other versions of the packages make another text, which trains other models than the bundled
// ones.
void compare_with_pinned(const fs::path& text,
                         const std::function<void(const std::string&)>& notice) {
  const auto pinned =
      formats::json_from_file(model::assets_folder() / "texts/corpus.json").at("train");
  if (formats::sha256_of_file(text) == pinned.at("sha256") || !notice) return;
  notice("warning: " + text.string() +
         " is not the text that the bundled models were trained on (its SHA-256 differs from that "
         "in assets/texts/corpus.json)");
}

}  // namespace

bool is_safe_to_run(const fs::path& program) {
  struct stat own {};
  if (::stat("/proc/self/exe", &own) != 0) own.st_uid = ::geteuid();
  for (const fs::path& path : {program, program.parent_path()}) {
    struct stat found {};
    if (::stat(path.c_str(), &found) != 0) return false;
    const bool ours =
        found.st_uid == ::geteuid() || found.st_uid == own.st_uid || found.st_uid == 0;
    if (!ours || (found.st_mode & S_IWOTH) != 0) return false;
  }
  return true;
}

std::vector<fs::path> desk_corpus_places() {
  std::vector<fs::path> places;
  if (const auto given = environment("PHASESCOPE_CORPUS")) {
    const fs::path path(*given);
    places.push_back(formats::is_file(path) ? path : path / "train.txt");
  }
  const fs::path source(PHASESCOPE_SOURCE);
  if (fs::exists(source / "CMakeLists.txt")) places.push_back(source / ".cache/corpus/train.txt");
  places.push_back(user_cache() / "phasescope/corpus/train.txt");
  return places;
}

fs::path find_corpus(const std::string& corpus,
                     const std::function<void(const std::string&)>& notice) {
  if (corpus != "desk") return corpus;
  for (const fs::path& place : desk_corpus_places()) {
    if (!formats::is_file(place) || !is_what_was_made(place, notice)) continue;
    compare_with_pinned(place, notice);
    return place;
  }
  const fs::path made = make_desk_corpus(notice);
  compare_with_pinned(made, notice);
  return made;
}

std::vector<formats::NamedText> read_validation_texts(const std::string& validation,
                                                      std::int64_t window) {
  if (validation == "desk") {
    const auto bytes = [](const std::string& text) {
      return static_cast<std::int64_t>(text.size());
    };
    return analysis::bundled_texts(bytes, window).texts;
  }
  const fs::path path = validation;
  if (path.extension() == ".jsonl") return formats::read_text_collection(path);
  const std::string text = formats::read_text_file(path);
  const std::size_t piece = std::max(kValidationBytes, static_cast<std::size_t>(window));
  std::vector<formats::NamedText> texts;
  for (std::size_t at = 0; at < text.size(); at += piece) {
    texts.push_back({path.filename().string() + ":" + std::to_string(at), text.substr(at, piece)});
  }
  return texts;
}

std::vector<std::int64_t> tokens_of(const std::string& text, const formats::Tokenizer* tokenizer) {
  if (tokenizer != nullptr) return tokenizer->encode(text, formats::Template::leave_out).ids;
  std::vector<std::int64_t> ids;
  ids.reserve(text.size());
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

Corpus::Corpus(std::string text, const DataSection& data, std::int64_t context,
               const formats::Tokenizer* tokenizer)
    : ids_(tokens_of(text, tokenizer)),
      by_bytes_(tokenizer == nullptr),
      bytes_(static_cast<std::int64_t>(text.size())),
      sha256_(formats::sha256_hex(std::string_view(text))),
      bos_(beginning_of(data, tokenizer)),
      apart_(data.documents == "apart") {
  require_a_window(data, context);
}

Corpus::Corpus(PreparedCorpus prepared, std::int64_t bos, const DataSection& data)
    : file_(std::move(prepared.ids)),
      bytes_(prepared.bytes),
      sha256_(std::move(prepared.sha256)),
      bos_(bos),
      apart_(data.documents == "apart") {}

void Corpus::require_a_window(const DataSection& data, std::int64_t context) const {
  if (tokens() >= context) return;
  throw formats::bad_input("the training text has " + std::to_string(tokens()) +
                               (by_bytes_ ? " bytes" : " tokens") + ", less than one window of " +
                               std::to_string(context),
                           data.corpus);
}

Corpus Corpus::open(const fs::path& path, const DataSection& data, std::int64_t context,
                    const formats::Tokenizer* tokenizer,
                    const std::function<void(const std::string&)>& notice,
                    const std::function<void()>& look_up) {
  const std::int64_t bos = beginning_of(data, tokenizer);
  PrepareOptions options;
  options.tokenizer = tokenizer;
  options.between = bos;
  options.cache = user_cache() / "phasescope/tokens";
  options.notice = notice, options.look_up = look_up;
  Corpus corpus(prepare_corpus(path, options), bos, data);
  corpus.by_bytes_ = tokenizer == nullptr;
  corpus.require_a_window(data, context);
  return corpus;
}

std::vector<std::int64_t> Corpus::read(std::int64_t begin, std::int64_t count) const {
  if (file_) return file_->read(begin, count);
  const auto first = ids_.begin() + begin;
  return {first, first + count};
}

Batch Corpus::batch(const TrainSection& train, std::int64_t context, std::int64_t step) const {
  Batch batch;
  batch.length = window_length_at(train, context, step);
  batch.windows = windows_at(train, context, step);
  const formats::CounterRandom random(static_cast<std::uint64_t>(train.seed), kWindowStream);
  const auto starts = static_cast<std::uint64_t>(tokens() - batch.length + 1);
  // No step has more than batch_tokens windows, so the draws of different steps never overlap.
  const auto first = static_cast<std::uint64_t>(step * (train.batch_tokens + 1));
  for (std::int64_t row = 0; row < batch.windows; ++row) {
    const auto start =
        static_cast<std::int64_t>(random.below(starts, first + static_cast<std::uint64_t>(row)));
    const std::vector<std::int64_t> window = read(start, batch.length);
    batch.inputs.push_back(bos_);
    batch.inputs.insert(batch.inputs.end(), window.begin(), window.end() - 1);
    batch.targets.insert(batch.targets.end(), window.begin(), window.end());
  }
  if (apart_) batch.documents = documents_of(batch);
  return batch;
}

std::vector<std::int64_t> Corpus::documents_of(const Batch& batch) const {
  std::vector<std::int64_t> documents;
  documents.reserve(batch.inputs.size());
  std::int64_t most = 0;
  for (std::size_t n = 0; n < batch.inputs.size(); ++n) {
    const bool first = n % static_cast<std::size_t>(batch.length) == 0;
    const std::int64_t before = first ? 0 : documents.back();
    documents.push_back(!first && batch.inputs[n] == bos_ ? before + 1 : before);
    most = std::max(most, documents.back());
  }
  return most > 0 ? documents : std::vector<std::int64_t>();
}

}  // namespace phasescope::training
