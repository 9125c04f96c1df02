#include "app/report/report.h"

#include <algorithm>
#include <cmath>

#include "app/cli/page.h"
#include "app/figures/eval_names.h"
#include "app/figures/figures.h"
#include "app/figures/intervention_figures.h"
#include "app/figures/published.h"
#include "app/figures/question_figures.h"
#include "app/outputs/eval_output.h"
#include "app/outputs/result_tables.h"
#include "protocol/error_info.h"
#include "protocol/head_name.h"
#include "protocol/messages/ablate.h"
#include "protocol/messages/cost.h"
#include "protocol/messages/eval.h"
#include "protocol/messages/map.h"
#include "protocol/messages/models.h"
#include "protocol/messages/patterns.h"
#include "protocol/messages/text.h"
#include "protocol/messages/theory.h"

namespace phasescope::app {

using nlohmann::json;

namespace {

// Texts of the loss by position: enough for a readable band, where all that are bundled take
// minutes on two cores.
constexpr int kPositionTexts = 24;
constexpr std::int64_t kThumbnailSide = 64;
// The texts of questions that run a model many times, so that all of them take a minute a model:
// of the bundled ones five, as an interval over two is thirteen standard errors wide.
constexpr const char* kQuestionTexts = "0:70:14";

template <class Result>
Grid grid_named(const Answered<Result>& answer, const char* name) {
  return grid_of(*protocol::find_tensor(answer.tensors, name));
}

class Report {
 public:
  Report(Run& run, const ReportRequest& request, const std::filesystem::path& folder)
      : run_(run),
        request_(request),
        names_(request.models),
        page_(folder, title(request.models)) {}

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
        {"Heads by distance, and beside each other", &Report::heads_more},
        {"Two heads of each model", &Report::maps},
        {"Without each head", &Report::ablations},
        {"Positions", &Report::patterns},
        {"Questions", &Report::questions},
        {"Theory", &Report::theory},
        {"Model against model", &Report::compare},
        {"The text", &Report::text},
        {"Cost", &Report::cost},
    };
    std::size_t done = 0;
    for (const Part& part : parts) {
      run_.show_progress(double(done++) / std::size(parts), part.name);
      or_refused(part.name, [&] { (this->*part.write)(); });
    }
    made();
    Output output{.result = {{"page", page_.finish().string()}, {"models", request_.models}}};
    output.result["refused"] = refused_;
    output.text = output.result["page"].get<std::string>() + "\n";
    return output;
  }

 private:
  static std::string title(const std::vector<std::string>& models) {
    std::string text = "Phasescope report: ";
    for (std::size_t i = 0; i < models.size(); ++i) text += (i ? ", " : "") + models[i];
    return text;
  }

  // What the models or the text do not allow is said where it would stand, and the rest goes on.
  template <class Measure>
  void or_refused(const char* name, Measure measure) {
    try {
      measure();
    } catch (const protocol::RequestError& error) {
      const std::string& code = error.info().code;
      const bool refused =
          code == protocol::error_code::bad_input || code == protocol::error_code::not_applicable;
      if (!refused) throw;
      page_.section(name);
      page_.paragraph("Not measured: " + protocol::describe(error.info()));
      refused_.push_back({{"part", name}, {"why", error.info().message}});
    }
  }

  // A request about `model` (with `models` of it, where it takes several), computed as all are.
  template <class Request>
  Request about(const std::string& model) const {
    Request request = computed<Request>();
    if constexpr (requires { request.model; }) {
      request.model = model;
    } else {
      request.models = {model};
    }
    return request;
  }

  // The same about all models.
  template <class Request>
  Request about_all() const {
    Request request = computed<Request>();
    request.models = request_.models;
    return request;
  }

  template <class Request>
  Request computed() const {
    Request request;
    if constexpr (requires { request.running; }) {
      protocol::Opening& running = request.running;
      const std::string dtype = running.dtype;
      running = request_.running;
      if constexpr (requires { request.running.backend; }) {
        request.running.backend = request_.running.backend;
      }
      // One that computes in several dtypes keeps doing so where none was asked for.
      if (running.dtype == protocol::Opening{}.dtype) running.dtype = dtype;
    }
    if (!request_.corpus.asked) return request;
    if constexpr (requires { request.reading.corpus; }) {
      request.reading.corpus = request_.corpus;
    } else if constexpr (requires { request.perplexity.corpus; }) {
      request.perplexity.corpus = request_.corpus;
    }
    return request;
  }

  // What the report was told to read.
  template <class Request>
  Request of_text(Request request) const {
    static_cast<protocol::Reading&>(request.reading) = request_.reading;
    if constexpr (requires { request.reading.corpus; }) request.reading.corpus = {};
    return request;
  }

  // The result also goes to data/NAME.json.
  template <class Result, class Request>
  Answered<Result> ask(const Request& request, const std::string& name) {
    Answered<Result> answer = run_.ask<Result>(request);
    page_.data(name, answer.json);
    const json provenance = provenance_of(answer.result);
    sidecar_ = run_.sidecar(provenance);
    for (const json& one : provenance) add_provenance(one);
    return answer;
  }

  void add_provenance(const json& one) {
    const json hashes = one.value("model_hashes", json::array());
    for (std::size_t i = 0; i < one.at("models").size(); ++i) {
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

  // A model in the name of a file.
  std::string file_name(const std::string& model) const { return names_.file_name(model); }

  std::string texts_name() const {
    const std::string& path = request_.corpus.path;
    return path.empty() ? "the bundled validation texts" : "the texts of " + path;
  }

  std::string text_name() const {
    const protocol::Input& input = request_.reading.input;
    if (input.prompt) return "the prompt";
    if (!input.name.empty()) return input.name == "-" ? "standard input" : input.name;
    if (!input.ids.is_null() || input.inputs) return "the ids given";
    return "the bundled text";
  }

  void models() {
    page_.section("Models", "Loss on " + text_name() + ".");
    Table table{.columns = {"model", "encoding", "parameters", "layers", "heads", "trained context",
                            "tokens", "loss (nats)", "bits per byte", "note"}};
    for (const std::string& model : request_.models) {
      protocol::InfoRequest info{.model = model, .opening = request_.running};
      const auto report = ask<protocol::LoadReport>(info, "info_" + file_name(model)).result;
      const auto text = ask<protocol::TextResult>(of_text(about<protocol::TextRequest>(model)),
                                                  "text_" + file_name(model))
                            .result;
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
    const widgets::PlotSpec losses = token_loss_figure(texts_, names_);
    if (!losses.series.empty()) page_.figure(losses, sidecar_);
  }

  void positions() {
    auto request = about_all<protocol::EvalRequest>();
    request.task = kPerplexity;
    request.perplexity.window = "per_position";
    request.perplexity.trials = kPositionTexts;
    const auto eval = ask<protocol::EvalResult>(request, "eval").result;
    std::int64_t longest = 0;
    for (const protocol::EvalRow& row : eval.rows) longest = std::max(longest, row.length);
    page_.section("Loss against position",
                  "On " + texts_name() +
                      " (a model without a tokenizer reads seeded random "
                      "ids), in windows of " +
                      std::to_string(longest) +
                      " tokens: past the trained length, what was learnt about positions has to "
                      "carry on by itself.");
    page_.begin_row();
    for (const widgets::PlotSpec& plot : plots_of(figures_of(eval, names_))) {
      page_.figure(plot, sidecar_);
    }
    page_.end_row();
    page_.paragraph(
        "value: of the last positions below the length; low, high: 95 % interval by text");
    for (const NamedTable& one : eval_tables(eval, names_)) {
      page_.table(one.table, sidecar_, one.name);
    }
  }

  // Over many texts: an interval clustered by text needs many of them.
  void distance() {
    auto request = about_all<protocol::DistanceRequest>();
    request.reading.corpus.asked = true;
    const auto result = ask<protocol::DistanceResult>(request, "distance").result;
    page_.section("Near minus far",
                  "One query, one near and one far key: the difference of their scores before "
                  "the softmax, on " +
                      texts_name() + " (TAPA, arXiv 2509.12635, Appendix I).");
    page_.begin_row();
    const auto figures = figures_of(measured(result), names_);
    for (const widgets::PlotSpec& plot : plots_of(without("intrinsic bias", figures))) {
      page_.figure(plot, sidecar_);
    }
    page_.end_row();
    page_.table(near_far_table(result), sidecar_, "near_far");
    page_.paragraph(kPublishedNearFar);
  }

  void shift() {
    const auto result =
        ask<protocol::ShiftResult>(of_text(about_all<protocol::ShiftRequest>()), "shift").result;
    page_.section("Shift stability",
                  "ids: position ids start at k. tokens: k [BOS] tokens stand before the text.");
    page_.begin_row();
    for (const widgets::PlotSpec& plot : shift_figures(result, names_)) {
      page_.figure(plot, sidecar_);
    }
    page_.end_row();
    page_.table(shift_table(result), sidecar_, "shift");
    page_.paragraph(kPublishedShift);
  }

  void heads() {
    page_.section("Every head",
                  "Weights over " + text_name() + "; under each head, its mean distance.");
    Table formulas{.columns = {"statistic", "formula", "note"}};
    for (const std::string& model : request_.models) {
      auto request = of_text(about<protocol::HeadsRequest>(model));
      request.thumbnails = kThumbnailSide;
      const auto answer = ask<protocol::HeadsResult>(request, "heads_" + file_name(model));
      const protocol::HeadsResult& heads = answer.result;
      page_.grid(head_grid_figure(heads, grid_named(answer, "thumbnails"), "mean_distance", names_),
                 sidecar_);
      Table table = heads_table(heads, answer.json["rows"]);
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

  void heads_more() {
    page_.section("Heads by distance, and beside each other",
                  "Weight by distance over " + text_name() +
                      ", and how far the rows of every two heads are from each other.");
    for (const std::string& model : request_.models) {
      auto request = of_text(about<protocol::HeadsRequest>(model));
      request.metrics = {"distance_profile", "js_divergence"};
      const auto answer = ask<protocol::HeadsResult>(request, "heads_more_" + file_name(model));
      page_.begin_row();
      for (const auto& plot : distance_profile_figures(answer.result, names_)) {
        page_.figure(plot, sidecar_);
      }
      // A model of very many heads has no matrix of them.
      if (const auto* matrix = protocol::find_tensor(answer.tensors, "js_divergence")) {
        page_.figure(heads_divergence_figure(answer.result, grid_of(*matrix), names_), sidecar_);
      }
      page_.end_row();
    }
  }

  // A few texts: every head is a pass of its own through each.
  void ablations() {
    page_.section("Without each head",
                  "What the loss rises by where a head's output is replaced by zeros, head by "
                  "head, on every 10th of " +
                      texts_name() + ".");
    for (const std::string& model : request_.models) {
      auto request = about<protocol::AblateRequest>(model);
      request.model = with_settings(model, request.running.set);  // they are not the change
      request.running.set = {};
      request.reading.texts = "0:70:10";
      or_refused("Without each head", [&] {
        const auto result =
            ask<protocol::AblateResult>(request, "ablate_" + file_name(model)).result;
        page_.begin_row();
        for (const auto& plot : ablate_figures(result, names_)) page_.figure(plot, sidecar_);
        page_.end_row();
        page_.table(titled(model, ablate_table(result)), sidecar_, "ablate_" + file_name(model));
      });
    }
  }

  // The most local head and the one that looks furthest back.
  void maps() {
    page_.section("Two heads of each model",
                  "The head with the smallest and the one with the largest mean distance; where a "
                  "model sees both ways, entropy.");
    for (const std::string& model : request_.models) {
      const auto& rows = heads_[model].rows;
      if (rows.empty()) continue;
      const char* metric = rows[0].values.contains("mean_distance") ? "mean_distance" : "entropy";
      const auto smaller = [metric](const protocol::HeadRow& a, const protocol::HeadRow& b) {
        return a.values.at(metric).mean < b.values.at(metric).mean;
      };
      const auto [near, far] = std::minmax_element(rows.begin(), rows.end(), smaller);
      page_.begin_row();
      for (const auto& row : {*near, *far}) {
        const std::string head = protocol::name_of_head(row.layer, row.head);
        auto request = of_text(about<protocol::MapRequest>(model));
        request.head = {head};
        request.pool = "max";
        const auto answer =
            ask<protocol::MapResult>(request, "map_" + file_name(model) + "_" + head);
        page_.figure(attention_map_figure(answer.result, grid_named(answer, "map"), names_),
                     sidecar_);
      }
      page_.end_row();
    }
  }

  void patterns() {
    page_.section("Positions");
    std::vector<protocol::PatternsResult> all;
    for (const std::string& model : request_.models) {
      const auto answer = ask<protocol::PatternsResult>(
          of_text(about<protocol::PatternsRequest>(model)), "patterns_" + file_name(model));
      const protocol::PatternsResult& result = answer.result;
      if (!result.why_empty.empty()) page_.paragraph(model + ": " + result.why_empty);
      page_.begin_row();
      // The drift of all models stands in one figure, below.
      const auto figures = figures_of(result, answer.tensors, names_);
      for (const widgets::PlotSpec& plot : plots_of(without(kDriftWithDepth, figures))) {
        page_.figure(plot, sidecar_);
      }
      const auto more = more_figures_of(result, answer.tensors, names_);
      for (const widgets::PlotSpec& plot : plots_of(without("rows of queries", more))) {
        page_.figure(plot, sidecar_);
      }
      page_.end_row();
      for (const widgets::GridSpec& grid : grids_of(result, answer.tensors, names_)) {
        page_.grid(grid, sidecar_);
      }
      const std::string name = "patterns_" + file_name(model);
      if (!result.layers.empty()) page_.table(titled(model, states_table(result)), sidecar_, name);
      if (!result.bias.empty()) {
        page_.table(titled(model, bias_table(result)), sidecar_, name + "_bias");
      }
      all.push_back(result);
    }
    if (const auto drift = state_drift_figure(all, names_)) page_.figure(*drift, sidecar_);
  }

  // Every question of all models that it is defined for, in one figure each.
  void questions() {
    using namespace protocol;
    page_.section("Questions", "What heads go by, want and need (docs/questions.md), on some of " +
                                   texts_name() +
                                   ". Intervals are of 95 %, over these few texts (Student's t); "
                                   "of acuity a text counts with one permutation, not three.");
    question<AddressingResult>("addressing", asked_of<AddressingRequest>(kQuestionTexts),
                               addressing_of_models);
    question<ProfileResult>("profile", asked_of<ProfileRequest>(kQuestionTexts), profile_of_models);
    question<DemandResult>("demand", asked_of<DemandRequest>(kQuestionTexts), demand_of_models);
    auto acuity = asked_of<AcuityRequest>(kQuestionTexts);
    acuity.seeds = {1};
    question<AcuityResult>("acuity", acuity, acuity_of_models);
    auto xray = asked_of<XrayRequest>(kQuestionTexts);
    xray.by = "layer";
    question<XrayResult>("xray", xray, xray_of_models);
    question<PairResult>("pair", of_text(computed<PairRequest>()), pair_of_models);
  }

  template <class Request>
  Request asked_of(const char* texts) const {
    Request request = computed<Request>();
    request.reading.texts = texts;
    return request;
  }

  template <class Result, class Request>
  void question(const char* name, Request request,
                widgets::PlotSpec (*figure)(const std::vector<Result>&, const ModelNames&)) {
    std::vector<Result> results;
    for (const std::string& model : request_.models) {
      request.model = model;
      or_refused((std::string(name) + ": " + model).c_str(), [&] {
        results.push_back(ask<Result>(request, name + ("_" + file_name(model))).result);
      });
    }
    if (!results.empty()) page_.figure(figure(results, names_), sidecar_);
  }

  static Table titled(const std::string& model, Table table) {
    table.title = model + (table.title.empty() ? "" : ": " + table.title);
    return table;
  }

  void theory() {
    const auto result =
        ask<protocol::TheoryResult>(about_all<protocol::TheoryRequest>(), "theory").result;
    page_.section("Theory", "What the papers' statements give on these models.");
    page_.table(table_of<protocol::CheckResult>(
                    "", protocol::to_json_form(result.checks),
                    {"id", "model", "verdict", "value", "bound", "noise", "samples", "seed"}),
                sidecar_, "theory");
    for (const protocol::CheckResult& check : result.checks) {
      page_.paragraph(check.id + " on " + check.model + ": " + check.verdict + ". " + check.detail +
                      " (" + check.source + ")");
    }
    page_.begin_row();
    for (const protocol::CheckResult& check : result.checks) {
      for (const widgets::PlotSpec& plot : check_figures(check, names_)) {
        page_.figure(plot, sidecar_);
      }
    }
    page_.end_row();
  }

  void compare() {
    if (request_.models.size() < 2) return;
    page_.section("Model against model",
                  "Jensen-Shannon divergence of the same head's rows on the same text, and the "
                  "difference of the head that differs most.");
    for (std::size_t i = 1; i < request_.models.size(); ++i) {
      or_refused("Model against model",
                 [&] { compare_two(request_.models[0], request_.models[i]); });
    }
  }

  void compare_two(const std::string& a, const std::string& b) {
    auto request = of_text(computed<protocol::CompareRequest>());
    request.a = a, request.b = b;
    const auto result =
        ask<protocol::CompareResult>(request, "compare_" + file_name(a) + "_" + file_name(b))
            .result;
    page_.begin_row();
    page_.figure(divergence_figure(result, names_), sidecar_);
    if (!result.positions.empty()) page_.figure(loss_change_figure(result, names_), sidecar_);
    const auto difference = largest_difference(run_, result, request);
    if (difference) page_.figure(*difference, sidecar_);
    page_.end_row();
    page_.table(losses_table(result), sidecar_, "losses_" + file_name(a) + "_" + file_name(b));
  }

  void cost() {
    page_.section("Cost", "Of one forward pass at 1024 tokens.");
    Table table{.columns = {"model", "count", "flops", "macs", "parameters"}};
    for (const std::string& model : request_.models) {
      const auto answer = ask<protocol::CostResult>(protocol::CostRequest{.model = model},
                                                    "cost_" + file_name(model));
      for (const char* count : {"published", "executed"}) {
        json row = answer.json[count];
        row["model"] = model;
        row["count"] = count;
        table.rows.push_back(std::move(row));
      }
      for (const std::string& line : answer.result.conventions) add_note(table, line);
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
  const ReportRequest& request_;
  ModelNames names_;
  Page page_;
  json sidecar_;
  json refused_ = json::array();
  json provenance_ = json::array();  // one row for each model and way of running it
  std::vector<protocol::TextResult> texts_;
  std::map<std::string, protocol::HeadsResult> heads_;
};

}  // namespace

Output make_report(Run& run, const ReportRequest& request, const std::filesystem::path& folder) {
  return Report(run, request, folder).write();
}

}  // namespace phasescope::app
