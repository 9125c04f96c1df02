// Unigram language model (Kudo 2018): the cheapest way through the piece by dynamic programming,
// as Hugging Face's tokenizers does it, scores in float64.
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "formats/error.h"
#include "formats/tokenizers/byte_trie.h"
#include "formats/tokenizers/subword_model.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

constexpr double kUnknownPenalty = 10;

class Unigram : public SubwordModel {
 public:
  explicit Unigram(const JsonFields& fields)
      : byte_fallback_(fields.flag("byte_fallback", false)), where_(fields.where("unk_id")) {
    read_pieces(fields);
    if (fields.has("unk_id")) {
      unknown_ = fields.integer("unk_id", 0, static_cast<std::int64_t>(scores_.size()) - 1);
    }
  }

  std::string name() const override { return "Unigram"; }
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  bool has_byte_tokens() const override { return byte_fallback_; }

  void tokenize(std::string_view piece, std::vector<PieceToken>& tokens) const override {
    const std::vector<Node> nodes = best_paths(piece);
    std::vector<PieceToken> path;  // from the end; neighbouring unknowns are one
    for (std::size_t end = piece.size(); end > 0; end = nodes[end].begin) {
      const Node& node = nodes[end];
      const bool unknown = unknown_ && node.id == *unknown_;
      if (unknown && !path.empty() && path.back().id == node.id) {
        path.back().begin = node.begin;
      } else {
        path.push_back({node.id, node.begin, end});
      }
    }
    std::reverse(path.begin(), path.end());
    for (const PieceToken& token : path) append(piece, token, tokens);
  }

 private:
  struct Node {
    double score = 0;
    std::size_t begin = 0;
    std::int64_t id = 0;
    bool reached = false;
  };

  void read_pieces(const JsonFields& fields) {
    const Json& list = fields.array("vocab");
    if (list.empty() || list.size() > static_cast<std::size_t>(kMaxVocabulary)) {
      fields.fail("vocab", "the vocabulary must have from 1 to " + std::to_string(kMaxVocabulary) +
                               " tokens");
    }
    std::vector<std::pair<std::string, std::int64_t>> entries;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Json& item = list[i];
      if (!item.is_array() || item.size() != 2 || !item[0].is_string() || !item[1].is_number()) {
        fields.fail("vocab[" + std::to_string(i) + ']', "a token must be [\"text\", score]");
      }
      const auto id = static_cast<std::int64_t>(i);
      entries.emplace_back(item[0].get<std::string>(), id);
      vocabulary_.add(item[0].get<std::string>(), id);
      scores_.push_back(item[1].get<double>());
      least_score_ = std::min(least_score_, scores_.back());
    }
    trie_ = ByteTrie(std::move(entries));
  }

  std::vector<Node> best_paths(std::string_view piece) const {
    std::vector<Node> nodes(piece.size() + 1);
    const auto reach = [&](std::size_t begin, std::size_t end, std::int64_t id, double score) {
      Node& node = nodes[end];
      const double candidate = score + nodes[begin].score;
      if (node.reached && candidate <= node.score) return;
      node = {candidate, begin, id, true};
    };
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t character = utf8_char_at(piece, at).length;
      bool has_character = false;
      trie_.each_prefix(piece.substr(at), [&](std::size_t length, std::int64_t id) {
        reach(at, at + length, id, scores_[static_cast<std::size_t>(id)]);
        has_character = has_character || length == character;
      });
      if (!has_character) {
        if (!unknown_) {
          throw bad_input("a character is not in the vocabulary, and there is no unknown token",
                          where_);
        }
        reach(at, at + character, *unknown_, least_score_ - kUnknownPenalty);
      }
      at += character;
    }
    return nodes;
  }

  void append(std::string_view piece, const PieceToken& token,
              std::vector<PieceToken>& tokens) const {
    const std::string_view text = piece.substr(token.begin, token.end - token.begin);
    if (const auto id = vocabulary_.id_of(text)) {
      tokens.push_back({*id, token.begin, token.end});
      return;
    }
    if (byte_fallback_ && append_byte_tokens(vocabulary_, text, token.begin, token.end, tokens)) {
      return;
    }
    tokens.push_back({*unknown_, token.begin, token.end});
  }

  Vocabulary vocabulary_;
  std::vector<double> scores_;
  double least_score_ = std::numeric_limits<double>::infinity();
  bool byte_fallback_;
  std::string where_;
  std::optional<std::int64_t> unknown_;
  ByteTrie trie_;
};

}  // namespace

std::unique_ptr<SubwordModel> make_unigram(const JsonFields& fields) {
  return std::make_unique<Unigram>(fields);
}

}  // namespace phasescope::formats
