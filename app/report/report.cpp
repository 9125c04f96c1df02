#include "app/report/report.h"

#include <algorithm>
#include <cmath>

#include "app/figures/figures.h"
#include "app/figures/published.h"
#include "app/report/page.h"
#include "app/verbs/verb_tools.h"
#include "protocol/error_info.h"
#include "protocol/messages/models.h"

namespace phasescope::app {

using nlohmann::json;

namespace {

// Enough for a readable band; all of them take minutes on two cores.
constexpr int kPositionTexts = 24;

class Report {
 public:
  Report(Run& run, const ReportOptions& options)
      : run_(run), options_(options), page_(options.folder, title(options.models)) {}

  Output write() {
    struct Part {
      const char* name;
      void (Report::*write)();
    };
    const Part parts[] = {
        {"Models", &Report::models},
        {"Loss against position", &Report::positions},
        {"Near minus far", &Report::distance},
        {"Shift stability", &Report::shift},
        {"Every head", &Report::heads},
        {"Two heads of each model", &Report::maps},
        {"Positions", &Report::patterns},
        {"Theory", &Report::theory},
        {"Model against model", &Report::compare},
        {"The text", &Report::text},
        {"Cost", &Report::cost},
    };
    size_t done = 0;
    for (const Part& part : parts) {
      run_.show_progress(double(done++) / std::size(parts), part.name);
      or_refused(part.name, [&] { (this->*part.write)(); });
    }
    made();
    Output output{.result = {{"page", page_.finish().string()}, {"models", options_.models}}};
    output.result["refused"] = refused_;
    output.text = output.result["page"].get<std::string>() + "\n";
    return output;
  }

 private:
  static std::string title(const std::vector<std::string>& models) {
    std::string text = "Phasescope report: ";
    for (size_t i = 0; i < models.size(); ++i) text += (i ? ", " : "") + models[i];
    return text;
  }

  // What the models or the text do not allow is said where it would stand, and the rest goes on.
  template <class Measure>
  void or_refused(const char* name, Measure measure) {
    try {
      measure();
    } catch (const protocol::RequestError& error) {
      if (error.info().code != protocol::error_code::bad_input) throw;
      page_.section(name);
      page_.paragraph("Not measured: " + protocol::describe(error.info()));
      refused_.push_back({{"part", name}, {"why", error.info().message}});
    }
  }

  // The reply also goes to data/NAME.json.
  protocol::Reply ask(const std::string& method, json params, const std::string& name) {
    protocol::Reply reply = run_.call(method, std::move(params));
    page_.data(name, reply.result);
    sidecar_ = run_.sidecar(reply.result);
    for (const json& one : sidecar_["provenance"]) add_provenance(one);
    return reply;
  }

  protocol::Reply ask_of_text(const std::string& method, json params, const std::string& name) {
    params.update(options_.input);
    return ask(method, std::move(params), name);
  }

  void add_provenance(const json& one) {
    const json hashes = one.value("model_hashes", json::array());
    for (size_t i = 0; i < one.at("models").size(); ++i) {
      json row{{"model", one["models"][i]}};
      row["weights SHA-256"] = i < hashes.size() ? hashes[i] : json();
      for (const char* key : {"version", "device", "dtype", "kernel", "seed"}) {
        row[key] = one.value(key, json());
      }
      if (row["kernel"] == "") continue;  // nothing was run
      if (std::find(provenance_.begin(), provenance_.end(), row) == provenance_.end()) {
        provenance_.push_back(std::move(row));
      }
    }
  }

  // A model that is named by its path or with settings: "models/rope" -> "models_rope", "rope (yarn
  // x2)" -> "rope_yarn_x2".
  static std::string file_name(const std::string& model) {
    std::string name;
    for (const char c : model) {
      const bool plain = std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.';
      if (plain) {
        name += c;
      } else if (c != ')' && !name.ends_with('_')) {
        name += '_';
      }
    }
    return name;
  }

  std::string text_name() const {
    const json input = options_.input.value("input", json::object());
    const std::string name = input.value("name", "");
    if (!name.empty()) return name == "-" ? "standard input" : name;
    if (input.contains("prompt")) return "the prompt";
    if (input.contains("ids") || input.contains("inputs")) return "the ids given";
    return "the bundled text";
  }

  json many() const { return {{"models", options_.models}}; }

  void models() {
    page_.section("Models", "Loss on " + text_name() + ".");
    Table table{.columns = {"model", "encoding", "parameters", "layers", "heads", "trained context",
                            "tokens", "loss (nats)", "bits per byte", "note"}};
    for (const std::string& model : options_.models) {
      const auto report = result_of<protocol::LoadReport>(
          ask("model.info", {{"model", model}}, "info_" + file_name(model)));
      const auto text = result_of<protocol::TextResult>(
          ask_of_text("text.read", {{"model", model}}, "text_" + file_name(model)));
      table.rows.push_back(
          {{"model", model},
           {"encoding", report.encoding_title.empty() ? report.encoding : report.encoding_title},
           {"parameters", report.model.parameters},
           {"layers", report.model.layers},
           {"heads", report.model.heads},
           {"trained context", report.model.context},
           {"tokens", text.tokens.size()},
           {"loss (nats)", protocol::detail::write_double(text.loss)},
           {"bits per byte", protocol::detail::write_double(text.bits_per_byte)},
           {"note", report.model.note}});
      add_note(table, text.provenance.note);
      texts_.push_back(text);
    }
    page_.table(table, sidecar_, "models");
  }

  static void add_note(Table& table, const std::string& note) {
    const auto& notes = table.notes;
    if (std::find(notes.begin(), notes.end(), note) == notes.end()) table.notes.push_back(note);
  }

  void text() {
    if (texts_.empty()) return;
    page_.section("The text", "What was read of " + text_name() + ", and the loss at each token.");
    std::string read;
    for (const protocol::TokenReading& token : texts_.front().tokens) {
      read += token.text;
      if (token.text.ends_with("\u23CE")) read += "\n";  // a line break, shown and made
    }
    page_.verbatim(read);
    const widgets::PlotSpec losses = token_loss_figure(texts_);
    if (!losses.series.empty()) page_.figure(losses, sidecar_);
  }

  void positions() {
    json params = many();
    params.update({{"task", "perplexity"}, {"window", "per_position"}, {"trials", kPositionTexts}});
    const auto eval = result_of<protocol::EvalResult>(ask("eval", std::move(params), "eval"));
    int64_t longest = 0;
    for (const protocol::EvalRow& row : eval.rows) longest = std::max(longest, row.length);
    page_.section(
        "Loss against position",
        "On the bundled validation texts (a model without a tokenizer reads seeded random "
        "ids), in windows of " +
            std::to_string(longest) +
            " tokens: past the trained length, what was learnt about positions has to "
            "carry on by itself.");
    page_.begin_row();
    if (!eval.positions.empty()) page_.figure(position_loss_figure(eval), sidecar_);
    page_.figure(eval_figure(eval), sidecar_);
    page_.end_row();
    Table table = table_of("", protocol::to_json_form(eval)["rows"],
                           {"model", "metric", "length", "value", "low", "high", "n", "window"});
    table.notes.push_back(
        "value: of the last positions below the length; low, high: 95 % interval by text "
        "bootstrap; n: texts");
    add_notes(table.notes, eval.provenance);
    page_.table(table, sidecar_, "eval");
  }

  // Over the bundled texts: an interval clustered by text needs many of them.
  void distance() {
    json params = many();
    params["corpus"] = true;
    const auto result =
        result_of<protocol::DistanceResult>(ask("distance", std::move(params), "distance"));
    page_.section("Near minus far",
                  "One query, one near and one far key: the difference of their scores before "
                  "the softmax, on the bundled validation texts (TAPA, arXiv 2509.12635, "
                  "Appendix I).");
    page_.begin_row();
    page_.figure(near_far_figure(result.models), sidecar_);
    page_.figure(near_far_by_layer_figure(result.models), sidecar_);
    page_.figure(score_profile_figure(result.models), sidecar_);
    page_.figure(weight_profile_figure(result.models), sidecar_);
    page_.end_row();
    page_.table(near_far_table(result), sidecar_, "near_far");
    page_.paragraph(kPublishedNearFar);
  }

  void shift() {
    json params = many();
    params.update({{"by", {1, 3, 16}}, {"method", {"ids", "tokens"}}});
    const auto result =
        result_of<protocol::ShiftResult>(ask_of_text("shift", std::move(params), "shift"));
    page_.section("Shift stability",
                  "ids: position ids start at k. tokens: k [BOS] tokens stand before the text.");
    page_.figure(shift_figure(result), sidecar_);
    page_.table(shift_table(result), sidecar_, "shift");
    page_.paragraph(kPublishedShift);
  }

  void heads() {
    page_.section("Every head",
                  "Weights over " + text_name() + "; under each head, its mean distance.");
    Table formulas{.columns = {"statistic", "formula", "note"}};
    for (const std::string& model : options_.models) {
      protocol::Reply reply = ask_of_text("heads", {{"model", model}, {"thumbnails", true}},
                                          "heads_" + file_name(model));
      const auto heads = result_of<protocol::HeadsResult>(reply);
      page_.grid(head_grid_figure(heads, grid_of(reply.tensor("thumbnails")), "mean_distance"),
                 sidecar_);
      Table table = heads_table(heads, reply.result["rows"]);
      table.title = model;
      page_.table(table, sidecar_, "heads_" + file_name(model));
      heads_[model] = heads;
      formulas.rows = json::array();
      for (const protocol::MetricInfo& metric : heads.metrics) {
        formulas.rows.push_back(
            {{"statistic", metric.key}, {"formula", metric.formula}, {"note", metric.note}});
      }
    }
    page_.table(formulas);
  }

  // The most local head and the one that looks furthest back.
  void maps() {
    page_.section("Two heads of each model",
                  "The head with the smallest and the one with the largest mean distance; where a "
                  "model sees both ways, entropy.");
    for (const std::string& model : options_.models) {
      const auto& rows = heads_[model].rows;
      if (rows.empty()) continue;
      const char* metric = rows[0].values.contains("mean_distance") ? "mean_distance" : "entropy";
      const auto smaller = [metric](const protocol::HeadRow& a, const protocol::HeadRow& b) {
        return a.values.at(metric).mean < b.values.at(metric).mean;
      };
      const auto [near, far] = std::minmax_element(rows.begin(), rows.end(), smaller);
      page_.begin_row();
      for (const auto& row : {*near, *far}) {
        const std::string head = "L" + std::to_string(row.layer) + "H" + std::to_string(row.head);
        protocol::Reply reply = ask_of_text("map",
                                            {{"model", model},
                                             {"head", head},
                                             {"size", {256, 256}},
                                             {"of", "weight"},
                                             {"pool", "max"}},
                                            "map_" + file_name(model) + "_" + head);
        page_.figure(attention_map_figure(result_of<protocol::MapResult>(reply),
                                          grid_of(reply.tensor("map"))),
                     sidecar_);
      }
      page_.end_row();
    }
  }

  void patterns() {
    page_.section("Positions");
    std::vector<protocol::PatternsResult> all;
    for (const std::string& model : options_.models) {
      protocol::Reply reply =
          ask_of_text("patterns", {{"model", model}}, "patterns_" + file_name(model));
      const auto result = result_of<protocol::PatternsResult>(reply);
      if (!result.why_empty.empty()) page_.paragraph(model + ": " + result.why_empty);
      page_.begin_row();
      for (const protocol::PatternsLayer& layer : result.layers) {
        const auto* grid =
            protocol::find_tensor(reply.tensors, "pe_dot." + std::to_string(layer.layer));
        if (grid) page_.figure(pe_dot_figure(result, layer.layer, grid_of(*grid)), sidecar_);
      }
      int64_t last = -1;
      for (const protocol::BiasCurve& curve : result.bias) {
        if (curve.layer != last) {
          last = curve.layer;
          page_.figure(bias_curves_figure(result, last), sidecar_);
        }
      }
      page_.end_row();
      if (result.layers.size() > 1) all.push_back(result);  // fixed positions do not drift
    }
    if (!all.empty()) page_.figure(state_drift_figure(all), sidecar_);
  }

  void theory() {
    const auto result = result_of<protocol::TheoryResult>(ask("theory", many(), "theory"));
    page_.section("Theory", "What the papers' statements give on these models.");
    page_.table(table_of("", protocol::to_json_form(result)["checks"],
                         {"id", "model", "verdict", "value", "bound", "noise", "samples", "seed"}),
                sidecar_, "theory");
    for (const protocol::CheckResult& check : result.checks) {
      page_.paragraph(check.id + " on " + check.model + ": " + check.verdict + ". " + check.detail +
                      " (" + check.source + ")");
    }
    page_.begin_row();
    for (const protocol::CheckResult& check : result.checks) {
      for (const widgets::PlotSpec& plot : check_figures(check)) page_.figure(plot, sidecar_);
    }
    page_.end_row();
  }

  void compare() {
    if (options_.models.size() < 2) return;
    page_.section("Model against model",
                  "Jensen-Shannon divergence of the same head's rows on the same text, and the "
                  "difference of the head that differs most.");
    for (size_t i = 1; i < options_.models.size(); ++i) {
      or_refused("Model against model",
                 [&] { compare_two(options_.models[0], options_.models[i]); });
    }
  }

  void compare_two(const std::string& a, const std::string& b) {
    const auto result = result_of<protocol::CompareResult>(
        ask_of_text("compare", {{"a", a}, {"b", b}, {"models", {a, b}}},
                    "compare_" + file_name(a) + "_" + file_name(b)));
    page_.begin_row();
    page_.figure(divergence_figure(result), sidecar_);
    const auto difference = largest_difference(run_, result, {a, b}, options_.input);
    if (difference) page_.figure(*difference, sidecar_);
    page_.end_row();
  }

  void cost() {
    page_.section("Cost", "Of one forward pass at 1024 tokens.");
    Table table{.columns = {"model", "count", "flops", "macs", "parameters"}};
    for (const std::string& model : options_.models) {
      protocol::Reply reply =
          ask("cost", {{"model", model}, {"length", 1024}}, "cost_" + file_name(model));
      for (const char* count : {"published", "executed"}) {
        json row = reply.result[count];
        row["model"] = model;
        row["count"] = count;
        table.rows.push_back(std::move(row));
      }
      for (const auto& line : reply.result.value("conventions", json::array())) {
        add_note(table, line.get<std::string>());
      }
    }
    page_.table(table, sidecar_, "cost");
  }

  void made() {
    page_.section("How this page was made");
    page_.verbatim(run_.command());
    page_.table(
        {.columns = {"model", "weights SHA-256", "version", "device", "dtype", "kernel", "seed"},
         .rows = provenance_});
    if (texts_.empty()) return;
    page_.paragraph("SHA-256 of the token ids of " + text_name() + ": " +
                    texts_.front().provenance.text_hash);
  }

  Run& run_;
  const ReportOptions& options_;
  Page page_;
  json sidecar_;
  json refused_ = json::array();
  json provenance_ = json::array();  // one row for each model and way of running it
  std::vector<protocol::TextResult> texts_;
  std::map<std::string, protocol::HeadsResult> heads_;
};

}  // namespace

Output make_report(Run& run, const ReportOptions& options) { return Report(run, options).write(); }

}  // namespace phasescope::app
