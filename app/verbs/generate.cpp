#include "protocol/messages/generate.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <utility>
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
    if (written.seconds.size() > kParts) run.say(times_by_token(written));
    return output;
  }

 private:
  static constexpr std::size_t kParts = 10;

  static std::string words_of(double seconds) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g ms", 1e3 * seconds);
    return text;
  }

  // "1.9 ms a token (median), 20 ms the first one with the prompt; cache: yes". With a cache,
  // tokens for which a full context began anew have a median of their own: each is a pass over
  // many.
  static std::string times_of(const protocol::GenerateResult& written) {
    const std::string first = words_of(written.seconds.front());
    const std::string cache = "; cache: " + written.cache;
    const auto [alone, anew] = by_reading(written);
    if (written.seconds.size() == 1) return first + " for the token, with the prompt" + cache;
    std::string medians;
    if (!alone.empty()) medians = words_of(median_of(alone)) + " a token (median), ";
    if (!anew.empty()) {
      medians += words_of(median_of(anew)) + " each of " + std::to_string(anew.size()) +
                 " for which the last tokens of a full context were read again, ";
    }
    return medians + first + " the first one with the prompt" + cache;
  }

  // The times of the tokens behind the first: of those that read what the cache has not, or a whole
  // text each where there is none, and of those that had a cache to fill again.
  static std::pair<std::vector<double>, std::vector<double>> by_reading(
      const protocol::GenerateResult& written) {
    std::pair<std::vector<double>, std::vector<double>> times;
    for (std::size_t n = 1; n < written.seconds.size(); ++n) {
      const auto token = static_cast<std::int64_t>(n);
      const bool anew = written.cached > 0 && std::ranges::binary_search(written.begun_at, token);
      (anew ? times.second : times.first).push_back(written.seconds[n]);
    }
    return times;
  }

  // "by token: 1.2 ms in the first tenth of them, 1.3 ms in the middle one, 1.3 ms in the last
  // (medians)", without the first token, which comes with the prompt.
  static std::string times_by_token(const protocol::GenerateResult& written) {
    const std::span<const double> later = std::span(written.seconds).subspan(1);
    const std::size_t part = later.size() / kParts;
    return "by token: " + words_of(median_of(later.first(part))) + " in the first tenth of them, " +
           words_of(median_of(later.subspan((later.size() - part) / 2, part))) +
           " in the middle one, " + words_of(median_of(later.last(part))) +
           " in the last (medians)";
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
    for (const std::int64_t id : written.ids) {
      line += (line.empty() ? "" : " ") + std::to_string(id);
    }
    return line;
  }

  protocol::GenerateRequest request_;
};

}  // namespace

std::unique_ptr<Verb> generate_verb() { return std::make_unique<GenerateVerb>(); }

}  // namespace phasescope::app
