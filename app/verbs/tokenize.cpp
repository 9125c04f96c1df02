#include "protocol/messages/tokenize.h"

#include <iostream>

#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"
#include "formats/error.h"
#include "formats/text_input.h"

namespace phasescope::app {

namespace {

// Texts of one request; answers come as they are made.
constexpr std::size_t kBytesOfARequest = 1 << 20;

class TokenizeVerb : public Verb {
 public:
  std::string name() const override { return "tokenize"; }
  std::string help() const override { return "text to ids and back"; }
  std::string example() const override { return "phasescope tokenize rope --prompt 'a text'"; }
  std::string missing_forms() const override { return kDocumentAlone; }
  void declare(Options& options) override {
    options.request(request_);
    options.flag(
        "--jsonl", lines_,
        "read a {\"text\"} a line from standard input, write {\"ids\", \"decoded\"} a line");
    options.flag("--pre-tokens", pre_tokens_, "with --jsonl: also what the text was cut into");
  }
  Output run(Run& run) override {
    if (pre_tokens_ && !lines_) {
      throw formats::bad_usage("what texts are cut into is written only for --jsonl",
                               "--pre-tokens", "add --jsonl");
    }
    if (lines_ && !request_.input.empty()) {
      throw formats::bad_usage("it reads texts from standard input, and no others", "--jsonl");
    }
    if (lines_) return run_lines(run);
    Output output{.result = run.call(request_).result};
    const nlohmann::json& result = output.result;
    const nlohmann::json one = nlohmann::json::array({result});
    for (const nlohmann::json& item : result.contains("items") ? result["items"] : one) {
      output.text += item["ids"].dump() + "\n";
    }
    return output;
  }

 private:
  Output run_lines(Run& run) {
    Output output{.result = nlohmann::json::array()};
    std::vector<std::string> texts;
    std::size_t bytes = 0, lines = 0;
    for (std::string line; std::getline(std::cin, line);) {
      ++lines;
      if (const auto broken = formats::first_invalid_utf8(line); broken < line.size()) {
        throw formats::bad_input(
            "the line is not UTF-8 from its byte " + std::to_string(broken) + " on",
            "line " + std::to_string(lines), "convert it to UTF-8");
      }
      const auto item = nlohmann::json::parse(line, nullptr, false);
      if (!item.is_object() || !item.contains("text") || !item["text"].is_string()) {
        throw formats::bad_input("a line is not {\"text\": ...}", "line " + std::to_string(lines));
      }
      texts.push_back(item["text"]);
      bytes += line.size();
      if (bytes < kBytesOfARequest) continue;
      answer(run, texts, output);
      texts.clear();
      bytes = 0;
    }
    if (!texts.empty()) answer(run, texts, output);
    return output;
  }

  void answer(Run& run, const std::vector<std::string>& texts, Output& output) {
    request_.texts = texts;
    const auto reply = run.call(request_);
    for (const nlohmann::json& item : reply.result["items"]) {
      nlohmann::json line{{"ids", item["ids"]}, {"decoded", item["decoded"]}};
      if (pre_tokens_) line["pre_tokens"] = item["pre_tokens"];
      output.text += line.dump() + "\n";
      output.result.push_back(std::move(line));
    }
  }

  protocol::TokenizeRequest request_;
  bool lines_ = false, pre_tokens_ = false;
};

}  // namespace

std::unique_ptr<Verb> tokenize_verb() { return std::make_unique<TokenizeVerb>(); }

}  // namespace phasescope::app
