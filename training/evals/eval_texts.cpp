#include "training/evals/eval_texts.h"

#include <algorithm>
#include <utility>

#include "analysis/texts.h"
#include "formats/error.h"

namespace phasescope::training {
namespace {

std::vector<EvalText> tokenised(const formats::Tokenizer& tokenizer,
                                const std::vector<formats::NamedText>& texts) {
  std::vector<EvalText> read;
  for (const formats::NamedText& named : texts) {
    formats::TokenizedText tokens = tokenizer.encode(named.text, formats::Template::leave_out);
    EvalText text{named.name, std::move(tokens.ids), {}};
    for (const formats::TextSpan& span : tokens.spans) {
      text.bytes.push_back(static_cast<double>(span.end - span.begin));
    }
    read.push_back(std::move(text));
  }
  return read;
}

std::int64_t tokens_of(const EvalText& text) { return static_cast<std::int64_t>(text.ids.size()); }

std::int64_t longest_of(const std::vector<EvalText>& texts) {
  std::int64_t longest = 0;
  for (const EvalText& text : texts) longest = std::max(longest, tokens_of(text));
  return longest;
}

std::string joined(const std::vector<std::int64_t>& numbers) {
  std::string words;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const char* between = i == 0 ? "" : i + 1 == numbers.size() ? " and " : ", ";
    words += between + std::to_string(numbers[i]);
  }
  return words;
}

void add(std::string& note, const std::string& more) {
  if (!more.empty()) note += (note.empty() ? "" : "; ") + more;
}

std::int64_t reaching(const std::vector<EvalText>& texts, std::int64_t length) {
  return std::ranges::count_if(texts, [&](const EvalText& t) { return tokens_of(t) >= length; });
}

formats::Error too_short(const std::string& source, std::int64_t window,
                         std::int64_t longest_text) {
  return formats::bad_input("no text has the " + std::to_string(window) + " tokens of one window",
                            source,
                            "the longest has " + std::to_string(longest_text) +
                                ": ask for a smaller length or give longer texts");
}

// Leaves the lengths that a text reaches, and the texts that reach the shortest of these.
void keep_what_reaches(EvalTexts& read) {
  const std::int64_t longest_text = longest_of(read.items);
  const auto beyond = std::upper_bound(read.lengths.begin(), read.lengths.end(), longest_text);
  const std::vector<std::int64_t> left_out(beyond, read.lengths.end());
  if (beyond == read.lengths.begin()) {
    throw too_short(read.source, read.lengths.front(), longest_text);
  }
  read.lengths.erase(beyond, read.lengths.end());
  if (!left_out.empty()) {
    add(read.note, "left out is a length of " + joined(left_out) + ": the longest text has " +
                       std::to_string(longest_text) + " tokens");
  }
  const auto all = static_cast<std::int64_t>(read.items.size());
  for (const std::int64_t length : read.lengths) {
    const std::int64_t there = reaching(read.items, length);
    if (there == all) continue;
    add(read.note, std::to_string(there) + " of " + std::to_string(all) + " texts have the " +
                       std::to_string(length) + " tokens of a window of that length");
  }
  const std::int64_t shortest = read.lengths.front();
  std::erase_if(read.items, [&](const EvalText& text) { return tokens_of(text) < shortest; });
}

// `texts` of them, evenly spread; all where that is 0. Where so many reach the longest length it is
// those, so that all lengths are read from the same ones.
void choose(EvalTexts& read, std::int64_t texts) {
  std::vector<EvalText>& items = read.items;
  if (texts == 0 || texts >= static_cast<std::int64_t>(items.size())) return;
  const std::int64_t longest = read.lengths.back();
  if (reaching(items, longest) >= texts) {
    std::erase_if(items, [&](const EvalText& text) { return tokens_of(text) < longest; });
  }
  const std::size_t all = items.size();
  const auto wanted = static_cast<std::size_t>(texts);
  std::vector<EvalText> chosen;
  for (std::size_t i = 0; i < wanted; ++i) chosen.push_back(std::move(items[i * all / wanted]));
  items = std::move(chosen);
}

// One window of the largest length each.
EvalTexts drawn_texts(const model::ModelConfig& config, const EvalSource& source,
                      const std::vector<std::int64_t>& lengths) {
  const std::int64_t count = source.texts > 0 ? source.texts : analysis::kRandomTexts;
  EvalTexts read{{}, lengths, "texts of seeded random ids", "", true};
  for (analysis::Text& text :
       analysis::random_texts(count, lengths.back(), config.vocab_size, source.seed).items) {
    read.items.push_back({text.name, std::move(text.ids), {}});
  }
  add(read.note, "the model has no tokenizer, so that its ids have no bytes");
  return read;
}

// Throws where a model without a tokenizer cannot read it.
void require_no_text(const EvalSource& source, const std::string& model) {
  if (!source.given && (source.corpus == true || source.corpus == "desk")) return;
  throw formats::bad_input("the model has no tokenizer, so it cannot read a text", model,
                           "leave the text out, and it reads seeded random ids");
}

analysis::Collection collection_of(const formats::Tokenizer& tokenizer, const EvalSource& source,
                                   std::int64_t longest) {
  if (source.given) return {{*source.given}, "given text", ""};
  const auto tokens = analysis::counted_by(tokenizer, formats::Template::leave_out);
  return analysis::corpus_texts(source.corpus, tokens, longest);
}

}  // namespace

EvalSource source_of(const protocol::EvalRequest& request, std::int64_t texts) {
  EvalSource source;
  source.texts = texts;
  source.seed = static_cast<std::uint64_t>(request.seed);
  const protocol::Input& input = request.perplexity.input;
  source.given = analysis::given_text(input);
  if (!input.corpus.is_null()) {
    source.corpus = input.corpus;
  } else if (request.perplexity.corpus.asked) {
    source.corpus = request.perplexity.corpus.form();
  } else if (!source.given && !input.empty()) {
    throw formats::bad_usage("an eval reads a text or a corpus, no ids", "input",
                             "give --text, --prompt or --corpus");
  }
  return source;
}

EvalTexts eval_texts(const EvalModel& entry, const EvalSource& source,
                     const std::vector<std::int64_t>& lengths) {
  const formats::Tokenizer* tokenizer = entry.model->tokenizer.get();
  if (tokenizer == nullptr) {
    require_no_text(source, entry.name);
    return drawn_texts(entry.model->config(), source, lengths);
  }
  const analysis::Collection collection = collection_of(*tokenizer, source, lengths.back());
  EvalTexts read{tokenised(*tokenizer, collection.texts), lengths, collection.source,
                 collection.note, false};
  keep_what_reaches(read);
  choose(read, source.texts);
  return read;
}

// One text that is long enough will do, and no other is looked at.
void check_eval_texts(const std::string& model, const formats::Tokenizer* tokenizer,
                      const EvalSource& source, const std::vector<std::int64_t>& lengths) {
  if (tokenizer == nullptr) return require_no_text(source, model);
  const analysis::Collection collection = collection_of(*tokenizer, source, lengths.back());
  const auto tokens = analysis::counted_by(*tokenizer, formats::Template::leave_out);
  std::int64_t longest = 0;
  for (const formats::NamedText& text : collection.texts) {
    longest = std::max(longest, tokens(text.text));
    if (longest >= lengths.front()) return;
  }
  throw too_short(collection.source, lengths.front(), longest);
}

}  // namespace phasescope::training
