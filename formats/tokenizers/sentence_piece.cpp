#include "formats/tokenizers/sentence_piece.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <compare>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include "formats/error.h"
#include "formats/text_input.h"
#include "formats/tokenizers/byte_trie.h"
#include "formats/tokenizers/char_map.h"
#include "formats/tokenizers/growth.h"
#include "formats/tokenizers/hf_tokenizer.h"
#include "formats/tokenizers/sentence_piece_file.h"
#include "formats/tokenizers/space_mark.h"
#include "formats/tokenizers/subword_model.h"
#include "formats/tokenizers/token_decoders.h"
#include "formats/tokenizers/vocabulary.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

using Kind = SentencePieceFile::Kind;
using Piece = SentencePieceFile::Piece;

// A text as the model sees it; origins[i] is where byte i comes from, with one more for the end.
struct Normalized {
  std::string text;
  std::vector<std::uint32_t> origins;
};

// Unigram and BPE: bytes [begin, end) of the normalised text as pieces.
class Segmenter {
 public:
  virtual ~Segmenter() = default;
  virtual void segment(std::string_view text, std::vector<PieceToken>& pieces) const = 0;
};

// The pieces of a model by text. Control, unknown and byte pieces are not found in texts.
struct PieceTable {
  explicit PieceTable(const SentencePieceFile& file, const std::string& where)
      : pieces(file.pieces) {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const auto id = static_cast<std::int64_t>(i);
      if (!ids.emplace(pieces[i].text, id).second) {
        throw bad_input("the piece " + in_quotes(pieces[i].text) + " is there twice", where);
      }
      if (pieces[i].kind == Kind::unknown) {
        if (unknown >= 0) throw bad_input("the model has two unknown pieces", where);
        unknown = id;
      }
    }
    if (unknown < 0) throw bad_input("the model has no unknown piece", where);
  }

  const Piece& at(std::int64_t id) const { return pieces[static_cast<std::size_t>(id)]; }
  bool is_found(std::int64_t id) const {
    const Kind kind = at(id).kind;
    return kind == Kind::normal || kind == Kind::user_defined || kind == Kind::unused;
  }
  // Unused pieces only help BPE on its way to longer ones.
  bool is_written(std::int64_t id) const { return is_found(id) && at(id).kind != Kind::unused; }
  // -1 where there is none
  std::int64_t find(std::string_view text) const {
    const auto it = ids.find(text);
    return it == ids.end() ? -1 : it->second;
  }

  // (text, id) of the pieces that `chosen` holds for.
  template <typename Chosen>
  ByteTrie trie(Chosen chosen) const {
    std::vector<std::pair<std::string, std::int64_t>> entries;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const auto id = static_cast<std::int64_t>(i);
      if (chosen(id)) entries.emplace_back(pieces[i].text, id);
    }
    return ByteTrie(std::move(entries));
  }

  std::vector<Piece> pieces;
  TextMap<std::int64_t> ids;
  std::int64_t unknown = -1;
};

// unigram_model.cc, EncodeOptimized: scores are added and compared in float, which decides between
// segmentations that score (nearly) alike; of equal ones the first one found stays.
class UnigramSegmenter : public Segmenter {
 public:
  explicit UnigramSegmenter(const PieceTable& table)
      : table_(table), trie_(table.trie([&](std::int64_t id) { return table.is_written(id); })) {
    for (const Piece& piece : table.pieces) {
      if (piece.kind != Kind::normal) continue;
      least_ = std::min(least_, piece.score);
    }
  }

  void segment(std::string_view text, std::vector<PieceToken>& pieces) const override {
    std::vector<Node> nodes(text.size() + 1);
    std::size_t furthest = 0;  // the last node that was reached
    const auto reach = [&](std::size_t begin, std::size_t end, std::int64_t id, float score) {
      furthest = std::max(furthest, end);
      const float sum = score + nodes[begin].score;
      Node& node = nodes[end];
      if (node.id < 0 || sum > node.score) node = {id, sum, begin};
    };
    for (std::size_t at = 0; at < text.size();) {
      restart_sums(nodes, at, furthest);
      const std::size_t character = utf8_char_at(text, at).length;
      bool has_character = false;
      trie_.each_prefix(text.substr(at), [&](std::size_t length, std::int64_t id) {
        reach(at, at + length, id, score_of(id, length));
        has_character = has_character || length == character;
      });
      if (!has_character) reach(at, at + character, table_.unknown, least_ - kUnknownPenalty);
      at += character;
    }
    for (std::size_t end = text.size(); end > 0; end = nodes[end].begin) {
      pieces.push_back({nodes[end].id, nodes[end].begin, end});
    }
    std::reverse(pieces.begin(), pieces.end());
  }

 private:
  static constexpr float kUnknownPenalty = 10;
  static constexpr float kLargestSum = 100'000;
  struct Node {
    std::int64_t id = -1;
    float score = 0;
    std::size_t begin = 0;
  };

  // GetUserDefinedScore: one long piece before several short ones. The length is in bytes.
  float score_of(std::int64_t id, std::size_t length) const {
    const Piece& piece = table_.at(id);
    if (piece.kind != Kind::user_defined) return piece.score;
    return static_cast<float>(0.1 * (static_cast<double>(length) - 1));
  }

  // In a long text the sums are counted from node `at` again as they outgrow float's precision.
  static void restart_sums(std::vector<Node>& nodes, std::size_t at, std::size_t furthest) {
    const float base = nodes[at].score;
    if (!(std::abs(base) > kLargestSum)) return;
    for (std::size_t i = at; i <= furthest; ++i) {
      if (nodes[i].id >= 0) nodes[i].score -= base;
    }
    nodes[at].score = 0;  // not so where the sum was infinite
  }

  const PieceTable& table_;
  ByteTrie trie_;
  float least_ = FLT_MAX;
};

// bpe_model.cc: the pair whose union scores best first, the leftmost of equals.
class BpeSegmenter : public Segmenter {
 public:
  BpeSegmenter(const PieceTable& table, const ByteTrie& user_defined)
      : table_(table), user_defined_(user_defined) {}

  void segment(std::string_view text, std::vector<PieceToken>& pieces) const override {
    if (text.empty()) return;
    Merging(*this, text).run(pieces);
  }

 private:
  struct Symbol {
    std::size_t begin, end;  // equal once it has been merged into the one before
    int previous, next;
    bool frozen;
  };
  struct Pair {
    float score;
    int left, right;
    std::size_t size;
    bool operator<(const Pair& other) const {
      const auto order = std::strong_order(score, other.score);  // -0 before 0, as in the library
      return order != 0 ? order < 0 : left > other.left;
    }
  };

  class Merging {
   public:
    Merging(const BpeSegmenter& model, std::string_view text) : model_(model), text_(text) {
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t fixed = model.user_defined_.longest_prefix(text.substr(at)).first;
        const std::size_t length = fixed > 0 ? fixed : utf8_char_at(text, at).length;
        const int index = static_cast<int>(symbols_.size());
        symbols_.push_back({at, at + length, index - 1, index + 1, fixed > 0});
        at += length;
      }
      symbols_.back().next = -1;
    }

    void run(std::vector<PieceToken>& pieces) {
      for (int i = 1; i < static_cast<int>(symbols_.size()); ++i) offer(i - 1, i);
      while (!queue_.empty()) {
        const Pair pair = queue_.top();
        queue_.pop();
        merge(pair);
      }
      for (int i = 0; i >= 0; i = symbol(i).next) append(symbol(i).begin, symbol(i).end, pieces);
    }

   private:
    Symbol& symbol(int index) { return symbols_[static_cast<std::size_t>(index)]; }
    std::string_view text_of(std::size_t begin, std::size_t end) const {
      return text_.substr(begin, end - begin);
    }

    void offer(int left, int right) {
      if (left < 0 || right < 0 || symbol(left).frozen || symbol(right).frozen) return;
      const std::string_view whole = text_of(symbol(left).begin, symbol(right).end);
      const std::int64_t id = model_.table_.find(whole);
      if (id < 0 || !model_.table_.is_found(id)) return;
      const Piece& piece = model_.table_.at(id);
      queue_.push({piece.score, left, right, whole.size()});
      // An unused piece is taken apart again in the end, the way it was put together last.
      if (piece.kind == Kind::unused) halves_[id] = symbol(left).end - symbol(left).begin;
    }

    void merge(const Pair& pair) {
      Symbol &left = symbol(pair.left), &right = symbol(pair.right);
      const std::size_t left_size = left.end - left.begin, right_size = right.end - right.begin;
      if (left_size == 0 || right_size == 0 || left_size + right_size != pair.size) return;
      left.end = right.end;
      left.next = right.next;
      if (right.next >= 0) symbol(right.next).previous = pair.left;
      right.begin = right.end;
      offer(left.previous, pair.left);
      offer(pair.left, left.next);
    }

    void append(std::size_t begin, std::size_t end, std::vector<PieceToken>& pieces) const {
      std::vector<std::pair<std::size_t, std::size_t>> rest = {{begin, end}};  // last one next
      while (!rest.empty()) {
        const auto [first, last] = rest.back();
        rest.pop_back();
        const std::int64_t id = model_.table_.find(text_of(first, last));
        const auto half = halves_.find(id);
        if (half != halves_.end()) {
          rest.emplace_back(first + half->second, last);
          rest.emplace_back(first, first + half->second);
        } else {
          const bool written = id >= 0 && model_.table_.is_written(id);
          pieces.push_back({written ? id : model_.table_.unknown, first, last});
        }
      }
    }

    const BpeSegmenter& model_;
    std::string_view text_;
    std::vector<Symbol> symbols_;
    std::priority_queue<Pair> queue_;
    std::unordered_map<std::int64_t, std::size_t>
        halves_;  // unused piece -> bytes of its left half
  };

  const PieceTable& table_;
  const ByteTrie& user_defined_;
};

class SentencePiece : public Tokenizer {
 public:
  SentencePiece(SentencePieceFile file, const std::string& where,
                std::optional<std::int64_t> embedding_rows,
                std::optional<SentencePieceTemplate> wanted)
      : file_(std::move(file)),
        table_(file_, where),
        user_defined_(table_.trie(
            [this](std::int64_t id) { return table_.at(id).kind == Kind::user_defined; })),
        char_map_(file_.char_map, where),
        where_(where) {
    vocab_size_ = static_cast<std::int64_t>(table_.pieces.size());
    check_embedding(vocab_size_, embedding_rows, where);
    vocab_size_ = std::max(vocab_size_, embedding_rows.value_or(0));
    const auto bos = control_piece(file_.bos_piece), eos = control_piece(file_.eos_piece);
    if (!wanted) wanted = SentencePieceTemplate{bos.has_value(), !bos && eos};
    if (wanted->bos) bos_ = bos;
    if (wanted->eos) eos_ = eos;
    if (file_.model == SentencePieceFile::Model::bpe) {
      segmenter_ = std::make_unique<BpeSegmenter>(table_, user_defined_);
    } else {
      segmenter_ = std::make_unique<UnigramSegmenter>(table_);
    }
  }

  std::string name() const override {
    return file_.model == SentencePieceFile::Model::bpe ? "SentencePiece BPE"
                                                        : "SentencePiece Unigram";
  }
  std::int64_t vocab_size() const override { return vocab_size_; }
  std::optional<std::int64_t> bos_id() const override { return bos_; }

  TokenizedText encode(std::string_view text, Template use) const override {
    check_text(text);
    TokenizedText result;
    const auto put = [&result](std::int64_t id, std::size_t begin, std::size_t end) {
      result.ids.push_back(id);
      result.spans.push_back({begin, end});
    };
    if (use == Template::apply && bos_) put(*bos_, 0, 0);
    const Normalized normalized = normalize(text);
    std::vector<PieceToken> pieces;
    segmenter_->segment(normalized.text, pieces);
    bool after_unknown = false;
    for (const PieceToken& piece : pieces) {
      const bool unknown = piece.id == table_.unknown;
      const std::size_t begin = normalized.origins[piece.begin];
      const std::size_t end = normalized.origins[piece.end];
      if (unknown && file_.byte_fallback) {
        const auto bytes =
            std::string_view(normalized.text).substr(piece.begin, piece.end - piece.begin);
        put_bytes(bytes, begin, end, result);
      } else if (unknown && after_unknown) {
        result.spans.back().end = end;
      } else {
        put(piece.id, begin, end);
      }
      after_unknown = unknown;
    }
    if (use == Template::apply && eos_) put(*eos_, text.size(), text.size());
    return result;
  }

  std::string decode(std::span<const std::int64_t> ids, SpecialTokens) const override {
    return decoded(ids, BrokenBytes::keep);
  }
  std::string decode_text(std::span<const std::int64_t> ids, SpecialTokens) const override {
    return decoded(ids, BrokenBytes::replace);
  }

  std::string token_text(std::int64_t id) const override {
    if (const auto bytes = token_bytes(id)) return visible_text(*bytes);
    return id < end() ? visible_text(table_.at(id).text) : '[' + std::to_string(id) + ']';
  }

  std::optional<std::string> token_bytes(std::int64_t id) const override {
    check_id(id);
    if (id >= end()) return std::nullopt;
    const Piece& piece = table_.at(id);
    if (piece.kind == Kind::byte) return std::string(1, byte_of(piece));
    if (!table_.is_found(id)) return std::nullopt;
    return with_spaces(piece.text);
  }

 private:
  std::int64_t end() const { return static_cast<std::int64_t>(table_.pieces.size()); }
  void check_id(std::int64_t id) const { check_ids(std::span(&id, 1), vocab_size_, name()); }

  std::optional<std::int64_t> control_piece(const std::string& text) const {
    const std::int64_t id = table_.find(text);
    if (id < 0 || table_.at(id).kind != Kind::control) return std::nullopt;
    return id;
  }

  static char byte_of(const Piece& piece) {
    return static_cast<char>(std::max(0, byte_of_token(piece.text)));
  }

  // A byte piece the vocabulary lacks is unknown.
  void put_bytes(std::string_view bytes, std::size_t begin, std::size_t end,
                 TokenizedText& result) const {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      char name[8];
      std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned char>(bytes[i]));
      const std::int64_t id = table_.find(name);
      result.ids.push_back(id < 0 ? table_.unknown : id);
      const bool one_each = bytes.size() == end - begin;
      result.spans.push_back(one_each ? TextSpan{begin + i, begin + i + 1} : TextSpan{begin, end});
    }
  }

  // normalizer.cc, NormalizePrefix: how many bytes are read next, and as what.
  std::pair<std::string_view, std::size_t> next_piece(std::string_view text) const {
    const std::size_t fixed = user_defined_.longest_prefix(text).first;
    if (fixed > 0) return {text.substr(0, fixed), fixed};
    if (const auto rule = char_map_.longest(text)) return {rule->replacement, rule->length};
    const std::size_t length = utf8_char_at(text, 0).length;
    return {text.substr(0, length), length};
  }

  // normalizer.cc, Normalize.
  Normalized normalize(std::string_view text) const {
    Normalized out;
    std::size_t at = 0;
    if (file_.remove_extra_whitespace) {
      while (at < text.size()) {
        const auto [piece, length] = next_piece(text.substr(at));
        if (piece != " ") break;
        at += length;
      }
    }
    if (at >= text.size()) {
      out.origins.push_back(0);
      return out;
    }
    const auto put = [&out, &at](std::string_view bytes) {
      out.text += bytes;
      out.origins.insert(out.origins.end(), bytes.size(), static_cast<std::uint32_t>(at));
    };
    const std::string_view space = file_.escape_whitespace ? kSpaceMark : " ";
    if (file_.dummy_prefix && !file_.whitespace_is_suffix) put(space);
    bool after_space = file_.remove_extra_whitespace;
    while (at < text.size()) {
      auto [piece, length] = next_piece(text.substr(at));
      while (after_space && piece.starts_with(' ')) piece.remove_prefix(1);
      check_growth(out.text.size() + piece.size(), text.size(), where_);
      for (const char c : piece) put(c == ' ' ? space : std::string_view(&c, 1));
      if (!piece.empty()) after_space = piece.ends_with(' ');
      at += length;
      if (!file_.remove_extra_whitespace) after_space = false;
    }
    while (file_.remove_extra_whitespace && out.text.ends_with(space)) {
      const std::size_t length = out.text.size() - space.size();
      at = out.origins[length];
      out.text.resize(length);
      out.origins.resize(length);
    }
    if (file_.dummy_prefix && file_.whitespace_is_suffix) put(space);
    out.origins.push_back(static_cast<std::uint32_t>(at));
    return out;
  }

  // sentencepiece_processor.cc, Decode.
  std::string decoded(std::span<const std::int64_t> ids, BrokenBytes broken) const {
    std::string text, bytes;
    const auto flush = [&] {
      text += broken == BrokenBytes::keep ? bytes : each_byte_replaced(bytes);
      bytes.clear();
    };
    bool at_start = true, dropped = false;
    for (const std::int64_t id : ids) {
      check_id(id);
      if (id >= end()) continue;
      const Piece& piece = table_.at(id);
      if (piece.kind == Kind::byte) {
        bytes += byte_of(piece);
        continue;
      }
      flush();
      if (dropped || !text.empty()) at_start = false;
      dropped = false;
      if (piece.kind == Kind::control) continue;
      if (piece.kind == Kind::unknown) {
        text += file_.unknown_surface;
        continue;
      }
      std::string_view shown = piece.text;
      if (at_start && (file_.dummy_prefix || file_.remove_extra_whitespace) &&
          shown.starts_with(kSpaceMark)) {
        shown.remove_prefix(kSpaceMark.size());
        // Where extra white space goes, all at the beginning goes.
        dropped = !file_.remove_extra_whitespace;
      }
      text += with_spaces(std::string(shown));
    }
    flush();
    return text;
  }

  // One U+FFFD for every byte that begins no character.
  static std::string each_byte_replaced(std::string_view bytes) {
    std::string text;
    for (std::size_t at = 0; at < bytes.size();) {
      const Utf8Char character = utf8_char_at(bytes, at);
      text += character.valid ? bytes.substr(at, character.length) : "\xEF\xBF\xBD";
      at += character.length;
    }
    return text;
  }

  SentencePieceFile file_;
  PieceTable table_;
  ByteTrie user_defined_;
  CharMap char_map_;
  std::string where_;
  std::unique_ptr<Segmenter> segmenter_;
  std::int64_t vocab_size_ = 0;
  std::optional<std::int64_t> bos_, eos_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_sentence_piece(std::string_view bytes, const std::string& where,
                                               std::optional<std::int64_t> embedding_rows,
                                               std::optional<SentencePieceTemplate> wanted) {
  return make_sentence_piece(read_sentence_piece_file(bytes, where), where, embedding_rows, wanted);
}

std::unique_ptr<Tokenizer> make_sentence_piece(SentencePieceFile file, const std::string& where,
                                               std::optional<std::int64_t> embedding_rows,
                                               std::optional<SentencePieceTemplate> wanted) {
  return std::make_unique<SentencePiece>(std::move(file), where, embedding_rows, wanted);
}

}  // namespace phasescope::formats
