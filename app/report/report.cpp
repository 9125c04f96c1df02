#include "app/report/report.h"

#include <algorithm>
#include <cmath>

#include "app/figures/figures.h"
#include "app/report/page.h"
#include "app/verbs/verb_tools.h"
#include "protocol/error_info.h"

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
        {"Models and text", &Report::models},
        {"Loss against position", &Report::positions},
        {"Near minus far", &Report::distance},
        {"Shift stability", &Report::shift},
        {"Every head", &Report::heads},
        {"Two heads of each model", &Report::maps},
        {"Positions", &Report::patterns},
        {"Theory", &Report::theory},
        {"Model against model", &Report::compare},
        {"Cost", &Report::cost},
    };
    size_t done = 0;
    for (const Part& part : parts) {
      run_.show_progress(double(done++) / std::size(parts), part.name);
      write_part(part.name, part.write);
    }
    page_.section("How this page was made");
    page_.verbatim(run_.command());
    Output output{.result = {{"page", page_.finish().string()}, {"models", options_.models}}};
    output.result["refused"] = refused_;
    output.text = output.result["page"].get<std::string>() + "\n";
    output.wrote_files = true;
    return output;
  }

 private:
  static std::string title(const std::vector<std::string>& models) {
    std::string text = "Phasescope report: ";
    for (size_t i = 0; i < models.size(); ++i) text += (i ? ", " : "") + models[i];
    return text;
  }

  void write_part(const char* name, void (Report::*write)()) {
    try {
      (this->*write)();
    } catch (const protocol::RequestError& error) {
      if (error.info().code != protocol::error_code::bad_input) throw;
      page_.section(name);
      page_.paragraph("Not measured: " + protocol::describe(error.info()));
      refused_.push_back({{"part", name}, {"why", error.info().message}});
    }
  }

  protocol::Reply ask(const std::string& method, json params, bool with_input = true) {
    if (with_input) params.update(options_.input);
    protocol::Reply reply = run_.call(method, std::move(params));
    std::string name = method;
    std::replace(name.begin(), name.end(), '.', '_');
    page_.data(name + (files_[name]++ ? "_" + std::to_string(files_[name] - 1) : ""), reply.result);
    sidecar_ = run_.sidecar(reply.result);
    return reply;
  }

  json many() const { return {{"models", options_.models}}; }

  void models() {
    page_.section("Models and text");
    Table table{.columns = {"model", "encoding", "parameters", "layers", "heads", "trained context",
                            "loss (nats)", "bits per byte", "note"}};
    std::vector<protocol::TextResult> texts;
    for (const std::string& model : options_.models) {
      const auto report =
          result_of<protocol::LoadReport>(ask("model.info", {{"model", model}}, false));
      const auto text = result_of<protocol::TextResult>(ask("text.read", {{"model", model}}));
      table.rows.push_back(
          {{"model", model},
           {"encoding", report.encoding_title.empty() ? report.encoding : report.encoding_title},
           {"parameters", report.model.parameters},
           {"layers", report.model.layers},
           {"heads", report.model.heads},
           {"trained context", report.model.context},
           {"loss (nats)", text.loss},
           {"bits per byte", protocol::detail::write_double(text.bits_per_byte)},
           {"note", report.model.note}});
      if (!text.provenance.note.empty()) table.notes.push_back(text.provenance.note);
      texts.push_back(text);
    }
    std::sort(table.notes.begin(), table.notes.end());
    table.notes.erase(std::unique(table.notes.begin(), table.notes.end()), table.notes.end());
    page_.table(table);
    if (texts.empty()) return;
    std::string read;
    for (const protocol::TokenReading& token : texts.front().tokens) read += token.text;
    page_.verbatim(read);
    page_.figure(token_loss_figure(texts), sidecar_);
  }

  void positions() {
    json params = many();
    params.update({{"task", "perplexity"},
                   {"lengths", {256, 512, 1024}},
                   {"window", "per_position"},
                   {"trials", kPositionTexts}});
    const auto eval = result_of<protocol::EvalResult>(ask("eval", std::move(params), false));
    page_.section("Loss against position",
                  "On the bundled validation texts, to four times the trained length.");
    page_.begin_row();
    if (!eval.positions.empty()) page_.figure(position_loss_figure(eval), sidecar_);
    page_.figure(eval_figure(eval), sidecar_);
    page_.end_row();
    page_.table(table_of("", protocol::to_json_form(eval)["rows"],
                         {"model", "length", "value", "low", "high", "n", "window"}));
  }

  // Over the bundled texts: an interval clustered by text needs many of them.
  void distance() {
    json params = many();
    params["corpus"] = true;
    const auto result =
        result_of<protocol::DistanceResult>(ask("distance", std::move(params), false));
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
    page_.table(near_far_table(result));
  }

  void shift() {
    json params = many();
    params.update({{"by", {1, 3, 16}}, {"method", {"ids", "tokens"}}});
    const auto result = result_of<protocol::ShiftResult>(ask("shift", std::move(params)));
    page_.section("Shift stability",
                  "ids: position ids start at k. tokens: k [BOS] tokens stand before the text.");
    page_.figure(shift_figure(result), sidecar_);
    page_.table(table_of("", protocol::to_json_form(result)["rows"],
                         {"model", "method", "by", "layer", "attention_difference",
                          "position_difference", "logits_difference", "dtype"}));
  }

  void heads() {
    page_.section("Every head");
    for (const std::string& model : options_.models) {
      protocol::Reply reply = ask("heads", {{"model", model}, {"thumbnails", true}});
      const auto heads = result_of<protocol::HeadsResult>(reply);
      page_.grid(head_grid_figure(heads, grid_of(reply.tensor("thumbnails")), "mean_distance"),
                 sidecar_);
      page_.table(table_of("", reply.result["rows"], {"layer", "head"}, true));
      heads_[model] = heads;
    }
  }

  // The most local head and the one that looks furthest back.
  void maps() {
    page_.section("Two heads of each model",
                  "The head with the smallest and the one with the largest mean distance.");
    for (const std::string& model : options_.models) {
      const auto& rows = heads_[model].rows;
      if (rows.empty()) continue;
      const auto by_distance = [](const protocol::HeadRow& a, const protocol::HeadRow& b) {
        return a.values.at("mean_distance").mean < b.values.at("mean_distance").mean;
      };
      const auto [near, far] = std::minmax_element(rows.begin(), rows.end(), by_distance);
      page_.begin_row();
      for (const auto& row : {*near, *far}) {
        const std::string head = "L" + std::to_string(row.layer) + "H" + std::to_string(row.head);
        protocol::Reply reply = ask("map", {{"model", model},
                                            {"head", head},
                                            {"size", {256, 256}},
                                            {"of", "weight"},
                                            {"pool", "max"}});
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
      protocol::Reply reply = ask("patterns", {{"model", model}});
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
      if (!result.layers.empty()) all.push_back(result);
    }
    if (!all.empty()) page_.figure(state_drift_figure(all), sidecar_);
  }

  void theory() {
    const auto result = result_of<protocol::TheoryResult>(ask("theory", many(), false));
    page_.section("Theory");
    page_.table(table_of(
        "", protocol::to_json_form(result)["checks"],
        {"id", "model", "verdict", "value", "bound", "noise", "samples", "detail", "source"}));
    page_.begin_row();
    for (const protocol::CheckResult& check : result.checks) {
      for (size_t i = 0; i < check.curves.size(); ++i) {
        widgets::PlotSpec plot = check_figure(check, check.curves[i]);
        if (i > 0) plot.id += "_" + std::to_string(i);
        page_.figure(plot, sidecar_);
      }
    }
    page_.end_row();
  }

  void compare() {
    if (options_.models.size() < 2) return;
    page_.section("Model against model",
                  "Jensen-Shannon divergence of the same head's rows on the same text.");
    page_.begin_row();
    for (size_t i = 1; i < options_.models.size(); ++i) {
      const std::string& a = options_.models[0];
      const std::string& b = options_.models[i];
      const auto result = result_of<protocol::CompareResult>(
          ask("compare", {{"a", a}, {"b", b}, {"models", {a, b}}}));
      page_.figure(divergence_figure(result), sidecar_);
    }
    page_.end_row();
  }

  void cost() {
    page_.section("Cost", "Of one forward pass at 1024 tokens.");
    Table table{.columns = {"model", "count", "flops", "macs", "parameters"}};
    for (const std::string& model : options_.models) {
      protocol::Reply reply = ask("cost", {{"model", model}, {"length", 1024}}, false);
      for (const char* count : {"published", "executed"}) {
        json row = reply.result[count];
        row["model"] = model;
        row["count"] = count;
        table.rows.push_back(std::move(row));
      }
      for (const auto& line : reply.result.value("conventions", json::array())) {
        const std::string note = line.get<std::string>();
        const auto& notes = table.notes;
        if (std::find(notes.begin(), notes.end(), note) == notes.end()) {
          table.notes.push_back(note);
        }
      }
    }
    page_.table(table);
  }

  Run& run_;
  const ReportOptions& options_;
  Page page_;
  json sidecar_;
  json refused_ = json::array();
  std::map<std::string, int> files_;
  std::map<std::string, protocol::HeadsResult> heads_;
};

}  // namespace

Output make_report(Run& run, const ReportOptions& options) { return Report(run, options).write(); }

}  // namespace phasescope::app
