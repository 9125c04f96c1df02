// Byte-pair encoding (Sennrich et al. 2016) as Hugging Face's tokenizers carries it out: the merge
// of the lowest rank first, the leftmost of equals. A queue and a linked list keep a piece of n
// characters at O(n log n).
#include <cstdint>
#include <nlohmann/json.hpp>
#include <queue>

#include "formats/error.h"
#include "formats/tokenizers/subword_model.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

struct Merge {
  std::uint32_t rank, id;
};

// (left id, right id) -> merge. Open addressing: most pairs that are asked for are not there.
class MergeTable {
 public:
  void reserve(std::size_t count) {
    std::size_t size = 16;
    while (size < 2 * count) size *= 2;
    slots_.assign(size, {kFree, {}});
  }

  void set(std::int64_t left, std::int64_t right, Merge merge) {
    const std::uint64_t pair = pair_of(left, right);
    std::size_t at = slot_of(pair);
    while (slots_[at].pair != kFree && slots_[at].pair != pair) at = (at + 1) % slots_.size();
    slots_[at] = {pair, merge};
  }

  const Merge* find(std::int64_t left, std::int64_t right) const {
    const std::uint64_t pair = pair_of(left, right);
    for (std::size_t at = slot_of(pair);; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at].pair == pair) return &slots_[at].merge;
      if (slots_[at].pair == kFree) return nullptr;
    }
  }

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t pair;
    Merge merge;
  };

  static std::uint64_t pair_of(std::int64_t left, std::int64_t right) {
    return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint64_t>(right);
  }
  std::size_t slot_of(std::uint64_t pair) const {
    return (pair * 0x9E3779B97F4A7C15u >> 20) & (slots_.size() - 1);
  }

  std::vector<Slot> slots_;
};

// The symbols of a piece, merged step by step.
class Merging {
 public:
  explicit Merging(const MergeTable& merges) : merges_(merges) {}

  void add(std::int64_t id, std::size_t begin, std::size_t end) {
    const int at = static_cast<int>(symbols_.size());
    symbols_.push_back({id, begin, end, at - 1, at + 1});
  }

  void run(std::vector<PieceToken>& tokens) {
    if (symbols_.empty()) return;
    symbols_.back().next = -1;
    for (std::size_t at = 0; at + 1 < symbols_.size(); ++at) offer(static_cast<int>(at));
    while (!queue_.empty()) {
      const Step step = queue_.top();
      queue_.pop();
      take(step);
    }
    for (int at = 0; at >= 0; at = symbol(at).next) {
      tokens.push_back({symbol(at).id, symbol(at).begin, symbol(at).end});
    }
  }

 private:
  struct Symbol {
    std::int64_t id;  // -1 once it has been merged into the one before
    std::size_t begin, end;
    int previous, next;
  };
  struct Step {
    Merge merge;
    int at;
    bool operator<(const Step& other) const {  // the queue's top is the greatest
      return merge.rank != other.merge.rank ? merge.rank > other.merge.rank : at > other.at;
    }
  };

  Symbol& symbol(int at) { return symbols_[static_cast<std::size_t>(at)]; }

  // Queues the merge of the symbol at `at` and the next one, where there is such a merge.
  void offer(int at) {
    if (at < 0 || symbol(at).next < 0) return;
    const Merge* merge = merges_.find(symbol(at).id, symbol(symbol(at).next).id);
    if (merge) queue_.push({*merge, at});
  }

  void take(const Step& step) {
    Symbol& left = symbol(step.at);
    if (left.id < 0 || left.next < 0) return;
    Symbol& right = symbol(left.next);
    const Merge* merge = merges_.find(left.id, right.id);
    if (!merge || merge->id != step.merge.id) return;  // out of date
    left.id = merge->id;
    left.end = right.end;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) symbol(left.next).previous = step.at;
    offer(left.previous);
    offer(step.at);
  }

  const MergeTable& merges_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Step> queue_;
};

class Bpe : public SubwordModel {
 public:
  explicit Bpe(const JsonFields& fields)
      : vocabulary_(Vocabulary::from_json(fields, "vocab")),
        prefix_(fields.short_text("continuing_subword_prefix", "")),
        suffix_(fields.short_text("end_of_word_suffix", "")),
        fuse_unknown_(fields.flag("fuse_unk", false)),
        byte_fallback_(fields.flag("byte_fallback", false)),
        ignore_merges_(fields.flag("ignore_merges", false)) {
    if (fields.has("unk_token")) {
      unknown_ = vocabulary_.id_of(fields.text("unk_token"));
      if (!unknown_) unknown_name_ = fields.text("unk_token");
    }
    where_ = fields.where("unk_token");
    read_merges(fields);
  }

  std::string name() const override { return "BPE"; }
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  bool has_byte_tokens() const override { return byte_fallback_; }

  void tokenize(std::string_view piece, std::vector<PieceToken>& tokens) const override {
    if (ignore_merges_) {
      if (const auto id = vocabulary_.id_of(piece)) {
        tokens.push_back({*id, 0, piece.size()});
        return;
      }
    }
    Merging merging(merges_);
    add_symbols(piece, merging);
    merging.run(tokens);
  }

 private:
  void read_merges(const JsonFields& fields) {
    const Json& list = fields.array("merges");
    merges_.reserve(list.size());
    std::uint32_t rank = 0;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string key = "merges[" + std::to_string(i) + ']';
      const auto pair = read_pair(fields, key, list[i]);
      if (pair) add_merge(fields, key, pair->first, pair->second, rank++);
    }
  }

  // ["a", "b"] or "a b"; nothing for a "#version" line.
  static std::optional<std::pair<std::string, std::string>> read_pair(const JsonFields& fields,
                                                                      const std::string& key,
                                                                      const Json& value) {
    if (value.is_array() && value.size() == 2 && value[0].is_string() && value[1].is_string()) {
      return std::pair(value[0].get<std::string>(), value[1].get<std::string>());
    }
    if (value.is_string()) {
      const auto text = value.get<std::string>();
      if (text.starts_with("#version")) return std::nullopt;
      const std::size_t space = text.find(' ');
      if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
        return std::pair(text.substr(0, space), text.substr(space + 1));
      }
    }
    fields.fail(key, "a merge must be \"a b\" or [\"a\", \"b\"]");
  }

  void add_merge(const JsonFields& fields, const std::string& key, const std::string& left,
                 const std::string& right, std::uint32_t rank) {
    const auto id = [&](const std::string& token) {
      const auto found = vocabulary_.id_of(token);
      if (!found) {
        fields.fail(key, "the merge of " + in_quotes(left) + " and " + in_quotes(right) +
                             " names " + in_quotes(token) + ", which is not in the vocabulary");
      }
      return *found;
    };
    const std::size_t skipped = right.starts_with(prefix_) ? prefix_.size() : 0;
    const std::int64_t left_id = id(left), right_id = id(right);
    const auto whole = static_cast<std::uint32_t>(id(left + right.substr(skipped)));
    merges_.set(left_id, right_id, {rank, whole});
  }

  void add_symbols(std::string_view piece, Merging& merging) const {
    std::size_t unknown_begin = 0, unknown_end = 0;  // a symbol not added yet; empty for none
    const auto flush = [&] {
      if (unknown_begin < unknown_end) merging.add(*unknown_, unknown_begin, unknown_end);
      unknown_begin = unknown_end = 0;
    };
    std::vector<PieceToken> bytes;
    std::string named;
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t end = at + utf8_char_at(piece, at).length;
      std::string_view name = piece.substr(at, end - at);
      const bool first = at == 0, last = end == piece.size();
      if ((!first && !prefix_.empty()) || (last && !suffix_.empty())) {
        named = (first ? "" : prefix_) + std::string(name) + (last ? suffix_ : "");
        name = named;
      }
      bytes.clear();
      if (const auto id = vocabulary_.id_of(name)) {
        flush();
        merging.add(*id, at, end);
      } else if (byte_fallback_ && append_byte_tokens(vocabulary_, name, at, end, bytes)) {
        // An unknown symbol from before stays open: so does the reference.
        for (const PieceToken& byte : bytes) merging.add(byte.id, byte.begin, byte.end);
      } else if (unknown_) {
        if (!fuse_unknown_) flush();
        if (unknown_begin == unknown_end) unknown_begin = at;
        unknown_end = end;
      } else if (!unknown_name_.empty()) {
        throw bad_input(
            "the unknown token " + in_quotes(unknown_name_) + " is not in the vocabulary", where_);
      }
      at = end;
    }
    flush();
  }

  Vocabulary vocabulary_;
  std::string prefix_, suffix_;
  bool fuse_unknown_, byte_fallback_, ignore_merges_;
  std::optional<std::int64_t> unknown_;
  std::string unknown_name_;  // where it is named but not there: an error once it is needed
  std::string where_;
  MergeTable merges_;
};

}  // namespace

std::unique_ptr<SubwordModel> make_bpe(const JsonFields& fields) {
  return std::make_unique<Bpe>(fields);
}

}  // namespace phasescope::formats
