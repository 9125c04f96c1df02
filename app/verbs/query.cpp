#include "protocol/messages/query.h"

#include "app/figures/query_figures.h"
#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"

namespace phasescope::app {

namespace {

class QueryVerb : public Verb {
 public:
  std::string name() const override { return "query"; }
  std::string help() const override { return "where one query looks in every head"; }
  std::string example() const override {
    return "phasescope query rope --prompt 'to be or not to be' --query 13";
  }
  void declare(Options& options) override { options.request(request_); }
  Output run(Run& run) override {
    auto [result, json, tensors] = run.ask<protocol::QueryResult>(request_);
    Output output{.result = std::move(json),
                  .provenance = provenance_of(result),
                  .tables = {query_table(result)},
                  .tensors = std::move(tensors)};
    if (const auto* weights = protocol::find_tensor(output.tensors, "weights")) {
      output.figures = {query_figure(result, grid_of(*weights), ModelNames({result.model}))};
    }
    return output;
  }

 private:
  protocol::QueryRequest request_;
};

}  // namespace

std::unique_ptr<Verb> query_verb() { return std::make_unique<QueryVerb>(); }

}  // namespace phasescope::app
