#include "protocol/messages/generate.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"
#include "widgets/plot_spec.h"

namespace phasescope::app {

namespace {

class GenerateVerb : public Verb {
 public:
  std::string name() const override { return "generate"; }
  std::string help() const override { return "continue a text, greedy or sampled with a seed"; }
  std::string example() const override {
    return "phasescope generate rope --prompt 'And it came to pass' --tokens 80";
  }
  // The table is of a head.
  std::string missing_forms() const override {
    return request_.head.empty() ? kDocumentAlone : kTablesAlone;
  }
  void declare(Options& options) override { options.request(request_); }
  Output run(Run& run) override {
    auto [written, json, tensors] = run.ask<protocol::GenerateResult>(request_);
    Output output{.result = std::move(json), .provenance = provenance_of(written)};
    output.text = (written.text.empty() ? ids_of(written) : written.text) + "\n";
    if (!written.tokens.empty()) output.tables.push_back(looks_of(written));
    if (!written.provenance.note.empty()) run.say(written.provenance.note);
    if (!written.seconds.empty()) run.say(times_of(written));
    return output;
  }

 private:
  // "1.9 ms a token (median), 20 ms the first one with the prompt; cache: yes". Those with and
  // without a cache have a median each: a whole pass for each of the latter takes many times as
  // long.
  static std::string times_of(const protocol::GenerateResult& written) {
    const auto words = [](double seconds) {
      char text[32];
      std::snprintf(text, sizeof text, "%.3g ms", 1e3 * seconds);
      return std::string(text);
    };
    const std::string first = words(written.seconds.front());
    const std::span<const double> later = std::span(written.seconds).subspan(1);
    const std::string cache = "; cache: " + written.cache;
    if (later.empty()) return first + " for the token, with the prompt" + cache;
    const auto kept = static_cast<std::size_t>(std::max<std::int64_t>(written.cached - 1, 0));
    const bool both = kept > 0 && kept < later.size();
    const std::string median = both ? words(median_of(later.first(kept))) +
                                          " a token (median) with the cache, " +
                                          words(median_of(later.subspan(kept))) + " without, "
                                    : words(median_of(later)) + " a token (median), ";
    return median + first + " the first one with the prompt" + cache;
  }

  static double median_of(std::span<const double> values) {
    std::vector<double> sorted(values.begin(), values.end());
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    return *middle;
  }

  // Where the head looked as each token was written.
  static Table looks_of(const protocol::GenerateResult& written) {
    Table table{.title = "where " + written.head + " looked as each token was written",
                .columns = {"token", "key", "weight", "further"}};
    bool sinks = false;
    for (const protocol::WrittenToken& token : written.tokens) {
      nlohmann::json row{{"token", token.text}, {"further", further(token)}};
      if (!token.keys.empty()) row["key"] = key_of(token, 0), row["weight"] = token.weights[0];
      if (token.sink) row["sink"] = *token.sink, sinks = true;
      table.rows.push_back(std::move(row));
    }
    if (sinks) table.columns.push_back("sink");
    return table;
  }
  // "12 the"
  static std::string key_of(const protocol::WrittenToken& token, std::size_t n) {
    return std::to_string(token.keys[n]) + " " + token.words[n];
  }
  static std::string further(const protocol::WrittenToken& token) {
    std::string words;
    for (std::size_t n = 1; n < token.keys.size(); ++n) {
      words += (n > 1 ? ", " : "") + key_of(token, n) + " (" +
               widgets::short_number(token.weights[n]) + ")";
    }
    return words;
  }

  // Without a tokenizer there is no text.
  static std::string ids_of(const protocol::GenerateResult& written) {
    std::string line;
    for (const std::int64_t id : written.ids)
      line += (line.empty() ? "" : " ") + std::to_string(id);
    return line;
  }

  protocol::GenerateRequest request_;
};

}  // namespace

std::unique_ptr<Verb> generate_verb() { return std::make_unique<GenerateVerb>(); }

}  // namespace phasescope::app
