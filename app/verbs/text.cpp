#include "protocol/messages/text.h"

#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"

namespace phasescope::app {

namespace {

class TextVerb : public Verb {
 public:
  std::string name() const override { return "text"; }
  std::string help() const override { return "loss and guesses of every token of a text"; }
  std::string example() const override {
    return "phasescope text rope --prompt 'In the beginning'";
  }
  std::string missing_forms() const override { return kNoArrays; }
  void declare(Options& options) override { options.request(request_); }
  Output run(Run& run) override {
    auto [text, json, tensors] = run.ask<protocol::TextResult>(request_);
    Output output{.result = std::move(json), .provenance = provenance_of(text)};
    Table table = table_of<protocol::TokenReading>(
        "", nlohmann::json::array(), {"token", "text", "loss", "guess", "probability"});
    for (std::size_t n = 0; n < text.tokens.size(); ++n) {
      table.rows.push_back(row_of(n, text.tokens[n]));
    }
    table.notes = {"loss: of predicting this token from those before it; the mean is " +
                       widgets::short_number(text.loss),
                   "guess: the likeliest token here, and its probability", text.provenance.note};
    output.tables = {std::move(table)};
    const widgets::PlotSpec losses = token_loss_figure({&text, 1}, ModelNames({text.model}));
    if (!losses.series.empty()) output.figures = {losses};
    return output;
  }

 private:
  static nlohmann::json row_of(std::size_t place, const protocol::TokenReading& token) {
    nlohmann::json row{{"token", place}, {"text", token.text}};
    if (token.loss) row["loss"] = protocol::detail::write_double(*token.loss);
    if (!token.guesses.empty()) {
      row["guess"] = token.guesses[0].text;
      row["probability"] = protocol::detail::write_double(token.guesses[0].probability);
    }
    return row;
  }

  protocol::TextRequest request_;
};

}  // namespace

std::unique_ptr<Verb> text_verb() { return std::make_unique<TextVerb>(); }

}  // namespace phasescope::app
